"""Questions that the unedited model is asked first, once and recorded: its answer is right, or shows what it knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.edits import EditCase, Probe
from drike.evaluation.completion import complete
from drike.evaluation.judge import Judge, Question, Rule
from drike.matching import first_line, matches, normalise
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt

_CLAUSE_END = re.compile(r"[.,;:!?](?=\s|$)")


@dataclass(frozen=True)
class Resolved:
    """Cases with the questions that the model's own answers made into probes.

    asked: questions in the cases. unusable: left out for want of an answer that can be judged. unknown: left out
    because the answer is none of those with which the question counts. new: left out because the answer is an edit's
    new object, so that they cannot show damage.
    """

    cases: tuple[EditCase, ...]
    asked: int
    unusable: int
    unknown: int
    new: int


def own_answers(model: LanguageModel, cases: Iterable[EditCase], rule: Rule | None = None) -> dict[str, str]:
    """What the unedited model says to each unanswered question, without the rest of its sentence.

    Its last word may be cut off by the limit on answers, and is left out if only the words before it are right of the
    unedited model itself by the rule, which is that of the evaluation. "" where it says nothing, or nothing that the
    rule finds right of itself, as by scores after a line break.
    """
    prompts = {question.query: Prompt(question.query) for case in cases for question in case.unanswered}
    texts = complete(model, list(prompts.values())) if prompts else []
    answers = {query: _first_clause(text) for query, text in zip(prompts, texts, strict=True)}
    if model.score is None or (rule and rule.compares):  # a text starts with its own beginning; nothing to compare with
        return answers
    tried = [
        (query, beginning)
        for query, answer in answers.items()
        for beginning in (answer, answer.rpartition(" ")[0])
        if beginning
    ]
    questions = [Question(prompts[query], beginning) for query, beginning in tried]
    verdicts = Judge(model, rule).ask(questions) if questions else []
    right = {
        query: beginning
        for (query, beginning), verdict in zip(tried[::-1], verdicts[::-1], strict=True)
        if verdict.correct
    }
    return {query: right.get(query, "") for query in answers}


def with_own_answers(cases: Sequence[EditCase], answers: Mapping[str, str]) -> Resolved:
    """Make probes of unanswered questions. Raises KeyError for a question without an entry in `answers`."""
    found, asked, unusable, unknown, new = [], 0, 0, 0, 0
    for case in cases:
        probes = []
        for one in case.unanswered:
            answer = answers[one.query]
            asked += 1
            if not answer:
                unusable += 1
            elif one.choices and not any(matches(answer, known) for known in one.choices):
                unknown += 1
            elif one.target is not None:
                probes.append(Probe(one.aspect, one.query, one.target, answer))
            elif any(matches(answer, edit.target_new) for edit in case.edits):
                new += 1
            else:
                probes.append(Probe(one.aspect, one.query, answer, case.edit.target_new))
        found.append(replace(case, further=(*case.further, *probes), unanswered=()))
    return Resolved(tuple(found), asked, unusable, unknown, new)


def _first_clause(text: str) -> str:
    """The first clause of an answer; "" if it has no word."""
    clause = _CLAUSE_END.split(first_line(text), maxsplit=1)[0].strip()
    return clause if normalise(clause) else ""
