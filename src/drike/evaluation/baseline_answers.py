"""Questions that the unedited model is asked first: its answer becomes the right one, or shows what it knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.edits import EditCase, Probe
from drike.evaluation.judge import Judge, Question, Rule, complete
from drike.matching import first_line, matches, normalise
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt

_CLAUSE_END = re.compile(r"[.,;:!?](?=\s|$)")


@dataclass(frozen=True)
class AnsweredCases:
    """Cases whose baseline questions became probes, and how many of the `asked` questions did not.

    unusable: without an answer that can be judged. unknown: the model does not know the facts that the question rests
    on. new: the answer is an edit's new object, so that the question cannot show damage.
    """

    cases: tuple[EditCase, ...]
    asked: int
    unusable: int
    unknown: int
    new: int


def baseline_answers(model: LanguageModel, cases: Iterable[EditCase], rule: Rule | None = None) -> dict[str, str]:
    """The first clause of the unedited model's answer to each baseline question, by query; "" if it cannot be judged.

    It must be right by the rule of the evaluation when the same model is judged by it, if need be without its last
    word, which the limit on tokens may have cut off. Raises UsageError for a rule that the model cannot be judged by.
    """
    judge = Judge(model, rule)
    prompts = {question.query: Prompt(question.query) for case in cases for question in case.baseline_questions}
    texts = complete(model, list(prompts.values())) if prompts else []
    answers = {query: _first_clause(text) for query, text in zip(prompts, texts, strict=True)}
    if model.score is None or judge.rule.compares:  # a text starts with its own beginning; nothing to compare with
        return answers
    tried = [(query, text) for query, said in answers.items() for text in (said, said.rpartition(" ")[0]) if text]
    verdicts = judge.ask([Question(prompts[query], text) for query, text in tried]) if tried else []
    judged = zip(tried[::-1], verdicts[::-1], strict=True)
    right = {query: text for (query, text), verdict in judged if verdict.correct}
    return {query: right.get(query, "") for query in answers}


def with_baseline_answers(cases: Sequence[EditCase], answers: Mapping[str, str]) -> AnsweredCases:
    """Make probes of baseline questions. Raises KeyError for a question that is not in `answers`, by query."""
    answered, asked, unusable, unknown, new = [], 0, 0, 0, 0
    for case in cases:
        probes = []
        for question in case.baseline_questions:
            answer = answers[question.query]
            asked += 1
            if not answer:
                unusable += 1
            elif question.choices and not any(matches(answer, known) for known in question.choices):
                unknown += 1
            elif question.target is not None:
                probes.append(Probe(question.aspect, question.query, question.target, answer))
            elif any(matches(answer, edit.target_new) for edit in case.edits):
                new += 1
            else:
                probes.append(Probe(question.aspect, question.query, answer, case.edit.target_new))
        answered.append(replace(case, further=(*case.further, *probes), baseline_questions=()))
    return AnsweredCases(tuple(answered), asked, unusable, unknown, new)


def _first_clause(text: str) -> str:
    clause = _CLAUSE_END.split(first_line(text), maxsplit=1)[0].strip()
    return clause if normalise(clause) else ""
