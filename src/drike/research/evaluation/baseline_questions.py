"""Questions without a published answer: right is what the unedited model says."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.answers.matching import first_line, matches, normalise
from drike.edits.edit import BaselineQuestion, EditCase, Probe
from drike.models.answers import complete
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt
from drike.research.evaluation.judge import Judge, Question, Rule

_CLAUSE_END = re.compile(r"[.,;:!?](?=\s|$)")


@dataclass(frozen=True)
class AnsweredCases:
    """Cases whose baseline questions became probes, and how many of the `asked` ones did not.

    unusable: no answer that can be judged. unknown: the model does not know the facts that the
    question rests on. new: the answer is an edit's new object, so that the question cannot show
    damage.
    """

    cases: tuple[EditCase, ...]
    asked: int
    unusable: int
    unknown: int
    new: int


def baseline_answers(
    model: LanguageModel, cases: Iterable[EditCase], rule: Rule | None = None
) -> dict[str, str]:
    """The first clause of the unedited model's answer to each baseline question, by query.

    "" if it cannot be judged: it must be right by the rule of the evaluation, if need be without
    its last word, which the limit on tokens may have cut off. Raises UsageError for a rule that the
    model cannot be judged by.
    """
    judge = Judge(model, rule)
    prompts = {
        question.query: Prompt(question.query)
        for case in cases
        for question in case.baseline_questions
    }
    texts = complete(model, list(prompts.values())) if prompts else []
    answers = {}
    for query, text in zip(prompts, texts, strict=True):
        answers[query] = _first_clause(text)

    # A text starts with its own beginning, and a rule that compares has nothing to compare with.
    if model.score is None or judge.rule.compares:
        return answers
    return _confirmed(answers, prompts, judge)


def _first_clause(text: str) -> str:
    """The first clause of an answer; "" if nothing of it could be compared."""
    [clause, *_] = _CLAUSE_END.split(first_line(text), maxsplit=1)
    clause = clause.strip()
    return clause if normalise(clause) else ""


def _confirmed(
    answers: Mapping[str, str], prompts: Mapping[str, Prompt], judge: Judge
) -> dict[str, str]:
    """The answers that the judge finds right, whole or without their last word; "" for others."""
    queries = []
    candidates = []
    for query, answer in answers.items():
        without_last_word, _, _ = answer.rpartition(" ")
        for candidate in (answer, without_last_word):
            if candidate:
                queries.append(query)
                candidates.append(candidate)
    if not candidates:
        return dict.fromkeys(answers, "")

    questions = [
        Question(prompts[query], candidate)
        for query, candidate in zip(queries, candidates, strict=True)
    ]
    confirmed = dict.fromkeys(answers, "")
    for query, candidate, verdict in zip(queries, candidates, judge.ask(questions), strict=True):
        if verdict.correct and not confirmed[query]:  # the whole answer comes first
            confirmed[query] = candidate
    return confirmed


def with_baseline_answers(cases: Sequence[EditCase], answers: Mapping[str, str]) -> AnsweredCases:
    """Make probes of baseline questions.

    answers: by query. Raises KeyError for a question that is not in them.
    """
    answered = []
    asked = unusable = unknown = new = 0
    for case in cases:
        probes = []
        for question in case.baseline_questions:
            asked += 1
            answer = answers[question.query]
            if not answer:
                unusable += 1
            elif not _is_known(question, answer):
                unknown += 1
            elif question.target is not None:
                probes.append(Probe(question.aspect, question.query, question.target, answer))
            elif any(matches(answer, edit.target_new) for edit in case.edits):
                new += 1
            else:
                probes.append(Probe(question.aspect, question.query, answer, case.edit.target_new))
        further = (*case.further, *probes)
        answered.append(replace(case, further=further, baseline_questions=()))
    return AnsweredCases(tuple(answered), asked, unusable, unknown, new)


def _is_known(question: BaselineQuestion, answer: str) -> bool:
    """Whether the answer shows that the model knows the facts that the question rests on."""
    if not question.choices:
        return True
    return any(matches(answer, choice) for choice in question.choices)
