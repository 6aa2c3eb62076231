"""Single cases: every outcome packed for the page's case viewer, and prompts split into labelled blocks.

`viewer.js` reads the packed form: `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes
is a flat list of (aspect, query, target, distractor), answers a flat list of (editor, correct, logprob margins, texts,
retains, tokens) with one character or number per probe. Texts are indices into `strings`, -1 for none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from drike.edits import Aspect
from drike.metrics import Outcome
from drike.prompts import Prompt
from drike.report.groups import Group, ReportedRun

ASPECTS = tuple(aspect.value for aspect in Aspect)


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
        probes: list[int] = []
        for o in parts[0]:
            probes += [ASPECTS.index(o.aspect), at(o.query), at(o.target), at(o.distractor)]
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


def prompt_blocks(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """Split a prompt into its blocks, each with its role; the edit's own lines at the end have the role "edit"."""
    texts = prompt.text.split("\n\n")
    roles = [demonstration.role.value for demonstration in prompt.demonstrations]
    return tuple((roles[i] if i < len(roles) else "edit", text) for i, text in enumerate(texts))
