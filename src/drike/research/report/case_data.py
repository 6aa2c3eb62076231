"""All cases of a report as JSON, which `viewer.js` reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from drike.edits.edit import Aspect
from drike.prompts import Role
from drike.research.evaluation.metrics import Outcome
from drike.research.report.groups import Group
from drike.research.report.reported_runs import ReportedRun
from drike.research.runs.files import CasePrompts

_ASPECTS = tuple(aspect.value for aspect in Aspect)
_ROLES = (*(role.value for role in Role), "edit")
_ANSWER_LENGTH = 7  # values of an editor's answers to a case
_NONE = -1  # in place of an index


def packed(groups: Sequence[Group]) -> dict[str, object]:
    """All cases of all groups as `viewer.js` reads them.

    `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes is a flat
    list of (aspect, query, target, distractor), answers a flat list of (editor, correct, logprob
    margins, texts, retains, tokens, prompts). correct has a character for each probe: 1 right,
    0 wrong, - not judged. Margins, texts and prompts have an entry for each probe, or are 0 where
    there is none; retains are a number if all probes have as many. Texts are indices into
    `strings`, -1 for none; a prompt is its index in `prompts`: [demonstrations, last text], and
    demonstrations their index in `shown`: a flat list of (role, text). Cases with prompts come
    first.
    """
    editors = dict.fromkeys(editor for group in groups for editor in group.outcomes)
    packing = _Packing(list(editors))
    cases: list[list[Any]] = []
    for number, group in enumerate(groups):
        for run in group.runs:
            cases += packing.cases(number, run)
    cases.sort(key=lambda case: not _has_prompts(case))
    return {
        "aspects": _ASPECTS,
        "roles": _ROLES,
        "editors": packing.editors,
        "groups": [group.label for group in groups],
        "strings": list(packing.strings),
        "shown": list(packing.shown),
        "prompts": list(packing.prompts),
        "cases": cases,
    }


def _has_prompts(case: Sequence[Any]) -> bool:
    answers = case[-1]
    prompts_by_editor = answers[_ANSWER_LENGTH - 1 :: _ANSWER_LENGTH]
    return any(prompts_by_editor)


def as_script(data: object) -> str:
    """Write JSON that is safe inside a script element.

    None of its characters can end the element or start another.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    escapes = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
    return text.translate(escapes)


@dataclass(frozen=True)
class _Packing:
    """Packs the cases of runs; what cases share is collected in the three dicts."""

    editors: Sequence[str]
    strings: dict[str, int] = field(default_factory=dict)
    shown: dict[tuple[int, ...], int] = field(default_factory=dict)
    prompts: dict[tuple[int, int], int] = field(default_factory=dict)

    def cases(self, group: int, run: ReportedRun) -> Iterator[list[Any]]:
        """The run's cases, in the order they were tested."""
        for case_id, outcomes_of_editors in self._outcomes_by_case(run).items():
            probes: list[int] = []
            for outcome in outcomes_of_editors[0]:
                probes.append(_ASPECTS.index(outcome.aspect))
                probes.append(self._string(outcome.query))
                probes.append(self._string(outcome.target))
                probes.append(self._string(outcome.distractor))
            answers: list[object] = []
            for outcomes in outcomes_of_editors:
                answers += self._answers(run, outcomes)
            yield [group, run.seed, self._string(case_id), probes, answers]

    def _outcomes_by_case(self, run: ReportedRun) -> Mapping[str, list[list[Outcome]]]:
        """The run's outcomes by case id, a list for each editor that answered the case."""
        by_case: dict[str, list[list[Outcome]]] = {}
        for editor in sorted(run.outcomes, key=self.editors.index):
            for case_id, of_case in groupby(run.outcomes[editor], lambda outcome: outcome.case_id):
                by_case.setdefault(case_id, []).append(list(of_case))
        return by_case

    def _answers(self, run: ReportedRun, outcomes: Sequence[Outcome]) -> list[object]:
        """An editor's answers to the probes of a case."""
        editor = outcomes[0].editor
        case_id = outcomes[0].case_id
        texts = [self._string(text) for text in run.written.get(editor, {}).get(case_id, ())]
        margins = [_rounded(outcome.logprob_margin) for outcome in outcomes]
        retains = [outcome.shots for outcome in outcomes]
        tokens = [
            outcome.prompt_tokens for outcome in outcomes if outcome.prompt_tokens is not None
        ]
        prompts: list[int] | int = 0
        case_prompts = run.prompts.get(editor, {}).get(case_id)
        if case_prompts is not None:
            prompts = [self._prompt(case_prompts, outcome.query) for outcome in outcomes]

        has_margins = any(margin is not None for margin in margins)
        has_texts = any(text != _NONE for text in texts)
        varies = len(set(retains)) > 1
        return [
            self.editors.index(editor),
            "".join(_mark(outcome.correct) for outcome in outcomes),
            margins if has_margins else 0,
            texts if has_texts else 0,
            retains if varies else retains[0],
            round(sum(tokens) / len(tokens)) if tokens else None,
            prompts,
        ]

    def _string(self, text: str | None) -> int:
        """The index of a text, which is added if it is new."""
        if text is None:
            return _NONE
        return self.strings.setdefault(text, len(self.strings))

    def _prompt(self, case_prompts: CasePrompts, query: str) -> int:
        """The index of a query's prompt, which is added if it is new; -1 if it was not saved."""
        numbers = case_prompts.prompts.get(query)
        if not numbers:
            return _NONE
        *demonstrations, last = [case_prompts.blocks[number] for number in numbers]
        flat: list[int] = []
        for role, text in demonstrations:
            flat.append(_ROLES.index(role))
            flat.append(self._string(text))
        shown = self.shown.setdefault(tuple(flat), len(self.shown))
        _, last_text = last
        prompt = (shown, self._string(last_text))
        return self.prompts.setdefault(prompt, len(self.prompts))


def _mark(correct: bool | None) -> str:
    """A verdict as a character."""
    if correct is None:
        return "-"
    return "1" if correct else "0"


def _rounded(margin: float | None) -> float | None:
    return None if margin is None else round(margin, 2)
