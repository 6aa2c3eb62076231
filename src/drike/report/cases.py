"""Single cases: every outcome packed for the page's case viewer, and case studies as tables and labelled prompts.

`viewer.js` reads the packed form: `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes
is a flat list of (aspect, query, target, distractor), answers a flat list of (editor, correct, logprob margins, texts,
retains, tokens) with one character or number per probe. Texts are indices into `strings`, -1 for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from drike.casestudy import CaseStudy, Effect, Reply, Retain, Side
from drike.edits import Aspect
from drike.metrics import Outcome
from drike.prompts import Prompt
from drike.report.groups import Group, ReportedRun
from drike.report.tables import Table

ASPECTS = tuple(aspect.value for aspect in Aspect)
RIGHT, WRONG = "\N{CHECK MARK}", "\N{BALLOT X}"
_SHORT = {Aspect.REWRITE: "rewrite", Aspect.PARAPHRASE: "paraphr.", Aspect.NEIGHBORHOOD: "neighb."}


def packed(groups: Sequence[Group]) -> dict[str, object]:
    """Pack all cases of all groups."""
    strings: dict[str, int] = {}
    editors = list(dict.fromkeys(editor for group in groups for editor in group.outcomes))
    cases = [
        case
        for number, group in enumerate(groups)
        for run in group.runs
        for case in _cases(number, run, {name: editors.index(name) for name in run.outcomes}, strings)
    ]
    return {
        "aspects": list(ASPECTS),
        "editors": editors,
        "groups": [group.label for group in groups],
        "strings": list(strings),
        "cases": cases,
    }


def as_script(data: object) -> str:
    """Write JSON that is safe inside a script element: none of its characters can end the element or start another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _cases(group: int, run: ReportedRun, editors: dict[str, int], strings: dict[str, int]) -> list[list[object]]:
    """Pack a run's cases, in the order they were tested."""
    by_case: dict[str, list[list[Outcome]]] = {}
    for editor in sorted(run.outcomes, key=editors.__getitem__):
        for case_id, of_case in groupby(run.outcomes[editor], key=lambda outcome: outcome.case_id):
            by_case.setdefault(case_id, []).append(list(of_case))

    def at(text: str | None) -> int:
        return -1 if text is None else strings.setdefault(text, len(strings))

    cases: list[list[object]] = []
    for case_id, parts in by_case.items():
        probes = [
            number
            for o in parts[0]
            for number in (ASPECTS.index(o.aspect), at(o.query), at(o.target), at(o.distractor))
        ]
        answers: list[object] = []
        for of_editor in parts:
            answers += _answers(editors[of_editor[0].editor], of_editor, [at(o.answer) for o in of_editor])
        cases.append([group, run.seed, at(case_id), probes, answers])
    return cases


def _answers(editor: int, outcomes: Sequence[Outcome], texts: list[int]) -> list[object]:
    nats = [None if o.logprob_margin is None else round(o.logprob_margin, 2) for o in outcomes]
    tokens = [o.prompt_tokens for o in outcomes if o.prompt_tokens is not None]
    return [
        editor,
        "".join("1" if o.correct else "0" for o in outcomes),
        nats if any(value is not None for value in nats) else 0,
        texts if any(text >= 0 for text in texts) else 0,
        outcomes[0].shots,
        round(sum(tokens) / len(tokens)) if tokens else None,
    ]


def title(study: CaseStudy) -> str:
    """The edit that a case study is about."""
    edit = study.case.edit
    was = "" if edit.target_true is None else f" (was {edit.target_true})"
    return f"Case {study.case.case_id}: {edit.query} -> {edit.target_new}{was}"


def tables(study: CaseStudy) -> Iterator[Table]:
    """The answers, then the retains of every editor."""
    yield _answers_table(study)
    for side in study.sides:
        yield _retains_table(study, side)


def prompt_blocks(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """Split a prompt into its blocks, each with its role; the edit's own lines at the end have the role "edit"."""
    texts = prompt.text.split("\n\n")
    roles = [demonstration.role.value for demonstration in prompt.demonstrations]
    return tuple((roles[i] if i < len(roles) else "edit", text) for i, text in enumerate(texts))


def _answers_table(study: CaseStudy) -> Table:
    rows = tuple(
        (
            probe.query,
            probe.aspect.value,
            probe.target,
            _reply_text(study.before[i]),
            *(_reply_text(side.replies[i]) for side in study.sides),
        )
        for i, probe in enumerate(study.case.probes)
    )
    header = ("query", "aspect", "right answer", "before", *(side.editor for side in study.sides))
    note = f"{RIGHT} right, {WRONG} wrong; in brackets: log-probability of the right answer, in nats."
    return Table(f"Answers of {study.model}", header, rows, (note,), wide=True)


def _reply_text(reply: Reply) -> str:
    sure = "" if reply.logprob is None else f" [{reply.logprob:.2f}]"
    return f"{RIGHT if reply.correct else WRONG} {reply.text or '(nothing)'}{sure}"


def _retains_table(study: CaseStudy, side: Side) -> Table:
    kept = sum(one.kept for one in side.retains)
    shown = kept + side.prompt.pruned
    present = [aspect for aspect in Aspect if any(study.of(aspect))]
    rows = tuple(
        (
            f"{one.demonstration.query} {one.demonstration.answer}",
            "kept" if one.kept else "pruned" if one.rank <= shown else "cut",
            str(one.rank),
            str(one.nearness),
            f"{one.probability:.4f}",
            *(_mean(one.effect, study.of(aspect)) for aspect in present),
            _flips(study, one),
        )
        for one in side.retains
    )
    rule = ""
    if side.sigma is not None:
        above = sum(one.probability > side.sigma for one in side.retains)
        rule = f", kept where p > sigma = {side.sigma:.4f}"
        rule += f" (at most {shown})" if above > shown else ""
        rule += "" if above else " (none exceeds it, so the best one is kept)"
    header = ("retain", "", "rank", "near", "p", *(_SHORT[aspect] for aspect in present), "flips")
    notes = (
        "near: rank by similarity. rewrite, paraphr., neighb.: how much this retain changes the log-probability of the "
        "right answer (nats, mean over the probes), measured by removing a kept retain or adding a cut one.",
        "pruned: chosen, but dropped to respect --prompt-tokens. flips: how many rewrite (r), paraphrase (p) and "
        "neighbourhood (n) probes are right only with this retain (+) or only without it (-).",
    )
    return Table(f"{side.editor}: {kept} of {len(side.retains)} retains{rule}", header, rows, notes)


def _mean(effect: Effect | None, which: tuple[bool, ...]) -> str:
    mean = None if effect is None else effect.mean(which)
    return "n/a" if mean is None else f"{mean:+.2f}"


def _flips(study: CaseStudy, retain: Retain) -> str:
    """Count the probes of each aspect that a retain turns right or wrong."""
    if retain.effect is None:
        return "n/a"
    counts = []
    for sign, flipped in (("+", retain.effect.gained), ("-", retain.effect.lost)):
        for aspect in Aspect:
            count = sum(yes and of for yes, of in zip(flipped, study.of(aspect), strict=True))
            if count:
                counts.append(f"{sign}{count}{aspect.value[0]}")
    return " ".join(counts) or "-"
