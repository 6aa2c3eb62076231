"""Single cases: every outcome packed for the page's case viewer.

`viewer.js` reads the packed form: `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes
is a flat list of (aspect, query, target, distractor), answers a flat list of (editor, correct, logprob margins, texts,
retains, tokens, prompts). correct has a character for each probe: 1 right, 0 wrong, - not judged. Margins, texts and
prompts have an entry for each probe, or are 0 where there is none; retains are a number if all probes have as many.
Texts are indices into `strings`, -1 for none; a prompt is its index in `prompts`: [demonstrations, last text], and
demonstrations their index in `shown`: a flat list of (role, text). Cases with prompts come first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from drike.edits import Aspect
from drike.evaluation.metrics import Outcome
from drike.prompts import Role
from drike.report.groups import Group, ReportedRun
from drike.runs.run import CasePrompts

ASPECTS = tuple(aspect.value for aspect in Aspect)
ROLES = (*(role.value for role in Role), "edit")
_ANSWER = 7


def packed(groups: Sequence[Group]) -> dict[str, object]:
    """Pack all cases of all groups."""
    packing = _Packing(list(dict.fromkeys(editor for group in groups for editor in group.outcomes)))
    numbered = ((number, run) for number, group in enumerate(groups) for run in group.runs)
    cases = [case for number, run in numbered for case in packing.cases(number, run)]
    return {
        "aspects": ASPECTS,
        "roles": ROLES,
        "editors": packing.editors,
        "groups": [group.label for group in groups],
        "strings": list(packing.strings),
        "shown": list(packing.shown),
        "prompts": list(packing.prompts),
        "cases": sorted(cases, key=lambda case: not any(case[4][_ANSWER - 1 :: _ANSWER])),
    }


def as_script(data: object) -> str:
    """Write JSON that is safe inside a script element: none of its characters can end the element or start another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@dataclass(frozen=True)
class _Packing:
    """Packs the cases of runs; what cases share is collected in the three dicts."""

    editors: Sequence[str]
    strings: dict[str, int] = field(default_factory=dict)
    shown: dict[tuple[int, ...], int] = field(default_factory=dict)
    prompts: dict[tuple[int, int], int] = field(default_factory=dict)

    def cases(self, group: int, run: ReportedRun) -> Iterator[list[Any]]:
        """The run's cases, in the order they were tested."""
        by_case: dict[str, list[list[Outcome]]] = {}
        for editor in sorted(run.outcomes, key=self.editors.index):
            for case_id, of_case in groupby(run.outcomes[editor], key=lambda outcome: outcome.case_id):
                by_case.setdefault(case_id, []).append(list(of_case))
        for case_id, parts in by_case.items():
            probes = [
                number for o in parts[0]
                for number in (ASPECTS.index(o.aspect), self.at(o.query), self.at(o.target), self.at(o.distractor))
            ]  # fmt: skip
            answers = [value for of_editor in parts for value in self.answers(run, of_editor)]
            yield [group, run.seed, self.at(case_id), probes, answers]

    def at(self, text: str | None) -> int:
        """The index of a text, which is added if it is new."""
        return -1 if text is None else self.strings.setdefault(text, len(self.strings))

    def answers(self, run: ReportedRun, outcomes: Sequence[Outcome]) -> list[object]:
        """An editor's answers to a case."""
        name = outcomes[0].editor
        texts = [self.at(text) for text in run.written.get(name, {}).get(outcomes[0].case_id, ())]
        nats = [None if o.logprob_margin is None else round(o.logprob_margin, 2) for o in outcomes]
        tokens = [o.prompt_tokens for o in outcomes if o.prompt_tokens is not None]
        shots = [o.shots for o in outcomes]
        saved = run.prompts.get(name, {}).get(outcomes[0].case_id)
        return [
            self.editors.index(name),
            "".join("-" if o.correct is None else "01"[o.correct] for o in outcomes),
            nats if any(value is not None for value in nats) else 0,
            texts if any(text >= 0 for text in texts) else 0,
            shots if len({*shots}) > 1 else shots[0],
            round(sum(tokens) / len(tokens)) if tokens else None,
            [self.prompt(saved, o.query) for o in outcomes] if saved else 0,
        ]

    def prompt(self, saved: CasePrompts, query: str) -> int:
        """The index of a query's prompt; -1 if it was not saved."""
        if not (numbers := saved.prompts.get(query)):
            return -1
        *blocks, (_, last) = (saved.blocks[i] for i in numbers)
        flat = tuple(number for role, text in blocks for number in (ROLES.index(role), self.at(text)))
        pair = (self.shown.setdefault(flat, len(self.shown)), self.at(last))
        return self.prompts.setdefault(pair, len(self.prompts))
