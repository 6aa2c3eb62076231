"""Every outcome of a report, packed for the case viewer: each text once, each case a few short lists.

The form, which `viewer.js` reads: `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes
are flat runs of (aspect, query, target, distractor), answers flat runs of (editor, right, nats, texts, shots, tokens)
with one character or number a probe. Texts are numbers into `strings`, -1 for none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from drike.edits import Aspect
from drike.metrics import Outcome
from drike.report.measured import Group, Run

ASPECTS = tuple(aspect.value for aspect in Aspect)


def packed(groups: Sequence[Group]) -> dict[str, object]:
    """All cases of all groups."""
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
    """JSON that can stand in a script element: no character of it can end the element or start another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _cases(group: int, run: Run, editors: dict[str, int], strings: dict[str, int]) -> list[list[object]]:
    """A run's cases, in the order they were tested."""
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
