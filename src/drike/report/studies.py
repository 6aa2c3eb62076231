"""Case studies as tables and prompts as labelled blocks, for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator

from drike.casestudy import CaseStudy, Effect, Reply, Retain, Side
from drike.edits import Aspect
from drike.prompts import Prompt
from drike.report.tables import Table

RIGHT, WRONG = "\N{CHECK MARK}", "\N{BALLOT X}"
_NOTES = (
    "near: rank by similarity. rewrite, paraphr., neighb.: what having the retain changes in the log-probability of "
    "the right answer (nats, mean over probes); measured by leaving out what was kept and putting in what was cut.",
    "pruned: wanted, but too long for --prompt-tokens. flips: rewrite, paraphrase and neighbour probes that are right "
    "only with it (+) or only without it (-).",
)
_SHORT = {Aspect.REWRITE: "rewrite", Aspect.PARAPHRASE: "paraphr.", Aspect.NEIGHBORHOOD: "neighb."}


def title(study: CaseStudy) -> str:
    """The edit a study is about."""
    edit = study.case.edit
    was = "" if edit.target_true is None else f" (was {edit.target_true})"
    return f"Case {study.case.case_id}: {edit.query} -> {edit.target_new}{was}"


def tables(study: CaseStudy) -> Iterator[Table]:
    """The answers, then every editor's retains."""
    yield _answers(study)
    for side in study.sides:
        yield _retains(study, side)


def prompt_blocks(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """A prompt's text in its blocks, each with its role; the edit's own lines at the end have the role "edit"."""
    texts = prompt.text.split("\n\n")
    roles = [demonstration.role.value for demonstration in prompt.demonstrations]
    return tuple((roles[i] if i < len(roles) else "edit", text) for i, text in enumerate(texts))


def _answers(study: CaseStudy) -> Table:
    rows = tuple(
        (
            probe.query,
            probe.aspect.value,
            probe.target,
            _said(study.before[i]),
            *(_said(side.replies[i]) for side in study.sides),
        )
        for i, probe in enumerate(study.case.probes)
    )
    header = ("query", "aspect", "right answer", "before", *(side.editor for side in study.sides))
    note = f"{RIGHT} right, {WRONG} wrong; in brackets the log-probability of the right answer, in nats."
    return Table(f"Answers of {study.model}", header, rows, (note,), wide=True)


def _said(reply: Reply) -> str:
    sure = "" if reply.logprob is None else f" [{reply.logprob:.2f}]"
    return f"{RIGHT if reply.correct else WRONG} {reply.text or '(nothing)'}{sure}"


def _retains(study: CaseStudy, side: Side) -> Table:
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
    rule = "" if side.sigma is None else f", kept where p > sigma = {side.sigma:.4f}"
    if side.sigma is not None:
        above = sum(one.probability > side.sigma for one in side.retains)
        rule += " (none is: the best one is kept)" if not above else f" (at most {shown})" if above > shown else ""
    header = ("retain", "", "rank", "near", "p", *(_SHORT[aspect] for aspect in present), "flips")
    return Table(f"{side.editor}: {kept} of {len(side.retains)} retains{rule}", header, rows, _NOTES)


def _mean(effect: Effect | None, which: tuple[bool, ...]) -> str:
    mean = None if effect is None else effect.mean(which)
    return "n/a" if mean is None else f"{mean:+.2f}"


def _flips(study: CaseStudy, retain: Retain) -> str:
    """Which aspects' probes a retain turns right or wrong."""
    if retain.effect is None:
        return "n/a"
    told = []
    for sign, flipped in (("+", retain.effect.gained), ("-", retain.effect.lost)):
        for aspect in Aspect:
            count = sum(yes and of for yes, of in zip(flipped, study.of(aspect), strict=True))
            if count:
                told.append(f"{sign}{count}{aspect.value[0]}")
    return " ".join(told) or "-"
