"""Evaluation: an editor, a model and cases in; one outcome per probe out (paper, section 5.1)."""

import re
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from drike.answers.matching import first_line, matches, normalise
from drike.edits.edit import EditCase, Probe, trained_on
from drike.errors import UsageError
from drike.models.answers import complete
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt, PromptStyle
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool, rotations
from drike.research.editors.selectors import Selector
from drike.research.evaluation.judge import Judge, Question, Rule, ask_probes, is_right
from drike.research.evaluation.metrics import Outcome
from drike.support.parallel import in_order

_CLAUSE_END = re.compile(r"[.,;:!?](?=\s|$)")


def evaluate(
    editor: Editor, model: LanguageModel, cases: Iterable[EditCase], *, rule: Rule | None = None, write: bool = False,
    parallel: int | None = None, allow_trained: bool = False,
) -> Generator[Outcome]:  # fmt: skip
    """Yield the outcomes of all probes, case by case; those of a case go to the model in one call.

    rule: by which answers are right; default: greedy, or generate for a model without scores. write: a model that
    scores also writes its answers. parallel: cases evaluated at once, each in a thread, which also calls the editor;
    only `seconds` then differ; default: `info.calls_at_once`, beyond which ValueError is raised. allow_trained: also
    evaluate edits that the editor was trained on, which flatters it. Raises UsageError for such edits otherwise, and
    for a rule that the model cannot be judged by, before the model is asked.
    """
    cases, judge = list(cases), Judge(model, rule)
    trained = trained_on(editor)
    known = sum(any(edit.key in trained for edit in case.edits) for case in cases)
    if known and not allow_trained:
        remedy = "leave them out, as data.split(exclude=retriever.trained_on) does, or pass allow_trained=True"
        raise UsageError(
            f"{editor.name} was trained on {known} of these {len(cases)} edits: {remedy}"
        )
    limit = model.info.calls_at_once
    if parallel is not None and not 1 <= parallel <= limit:
        raise ValueError(f"{model.info.name} takes 1 to {limit} edits at once, not {parallel}")
    with closing(
        in_order(partial(_answer, editor, judge, write), cases, parallel or limit)
    ) as answered:
        for outcomes in answered:
            yield from outcomes


def _answer(editor: Editor, judge: Judge, write: bool, case: EditCase) -> list[Outcome]:
    began = time.perf_counter()
    queries = list(
        dict.fromkeys(probe.query for probe in case.asked)
    )  # two aspects may share a question
    by_query = dict(zip(queries, editor.prompts(case.edits, queries), strict=True))
    prompts = [by_query[probe.query] for probe in case.asked]
    questions = [
        Question(prompt, probe.target, probe.distractor, probe.also, probe.challenges)
        for prompt, probe in zip(prompts, case.asked, strict=True)
    ]
    verdicts = judge.ask(questions, write=write)
    share = (time.perf_counter() - began) / len(verdicts)
    outcomes = []
    for probe, prompt, verdict in zip(case.asked, prompts, verdicts, strict=True):
        score, wrong = verdict.score, verdict.distractor
        prob, logprob = None, None
        if score is not None and wrong is not None:
            prob, logprob = (
                score.mean_probability - wrong.mean_probability,
                score.logprob - wrong.logprob,
            )
        outcomes.append(Outcome(
            editor=editor.name, case_id=case.case_id, aspect=probe.aspect, query=probe.asked, target=probe.target,
            distractor=probe.distractor, correct=verdict.correct, answer=verdict.text, matched=verdict.matched,
            exact=verdict.exact, prefers=verdict.prefers, prob_margin=prob, logprob_margin=logprob,
            logit_gap=None if score is None else score.logit_gap, shots=prompt.shots, pruned=prompt.pruned,
            prompt_tokens=verdict.prompt_tokens, calls=prompt.calls + len(probe.challenges), seconds=share,
            hops=probe.hops,
        ))  # fmt: skip
    return outcomes


@dataclass(frozen=True)
class CaseAnswers:
    """Whether answers were right under each choice of demonstrations, and tokens read, if known: [probes, choices]."""

    case_id: str
    correct: tuple[tuple[bool, ...], ...]
    prompt_tokens: tuple[tuple[int | None, ...], ...]


def answers_under(
    choices: Sequence[Selector], model: LanguageModel, pool: Pool, cases: Sequence[EditCase], *,
    style: PromptStyle = PromptStyle(), limit: TokenLimit | None = None, rule: Rule | None = None,
) -> Generator[CaseAnswers]:  # fmt: skip
    """Ask the probes of every case under each choice, for training. Raises PoolError, and UsageError as `is_right`."""
    pool.for_groups(
        [edits for case in cases for edits in rotations(case.edits)]
    )  # all in one search
    editors = [InContextEditor("", pool, choice, style, limit) for choice in choices]
    ask = partial(answers_to, editors=editors, judge=Judge(model, rule))
    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered


def answers_to(
    case: EditCase, editors: Sequence[InContextEditor[Selector]], judge: Judge
) -> CaseAnswers:
    """The answers of one case, in one call; each probe is asked under the prompt of every editor."""
    queries = [probe.query for probe in case.asked]
    verdicts = ask_probes(
        judge, case.asked, [editor.prompts(case.edits, queries) for editor in editors]
    )
    rows = list(zip(*verdicts, strict=True))  # [probes, editors]
    correct = tuple(tuple(map(is_right, row)) for row in rows)
    return CaseAnswers(
        case.case_id,
        correct,
        tuple(tuple(verdict.prompt_tokens for verdict in row) for row in rows),
    )


@dataclass(frozen=True)
class AnsweredCases:
    """Cases whose baseline questions became probes, and how many of the `asked` questions did not."""

    cases: tuple[EditCase, ...]
    asked: int
    unusable: int  # no answer that can be judged
    unknown: int  # the model does not know the facts that the question rests on
    new: int  # the answer is an edit's new object, so that the question cannot show damage


def baseline_answers(
    model: LanguageModel, cases: Iterable[EditCase], rule: Rule | None = None
) -> dict[str, str]:
    """The first clause of the unedited model's answer to each baseline question, by query; "" if it cannot be judged.

    It must be right by the rule of the evaluation, if need be without its last word, which the limit on tokens may have
    cut off. Raises UsageError for a rule that the model cannot be judged by.
    """
    judge = Judge(model, rule)
    prompts = {
        question.query: Prompt(question.query)
        for case in cases
        for question in case.baseline_questions
    }
    texts = complete(model, list(prompts.values())) if prompts else []
    clauses = (_CLAUSE_END.split(first_line(text), maxsplit=1)[0].strip() for text in texts)
    answers = {
        query: clause if normalise(clause) else ""
        for query, clause in zip(prompts, clauses, strict=True)
    }
    if (
        model.score is None or judge.rule.compares
    ):  # a text starts with its own beginning; nothing to compare with
        return answers
    tried = [
        (query, text)
        for query, said in answers.items()
        for text in (said, said.rpartition(" ")[0])
        if text
    ]
    verdicts = judge.ask([Question(prompts[query], text) for query, text in tried]) if tried else []
    right = {
        query: text
        for (query, text), verdict in zip(tried[::-1], verdicts[::-1], strict=True)
        if verdict.correct
    }
    return {query: right.get(query, "") for query in answers}


def with_baseline_answers(cases: Sequence[EditCase], answers: Mapping[str, str]) -> AnsweredCases:
    """Make probes of baseline questions. Raises KeyError for a question that is not in `answers`, by query."""
    answered, unusable, unknown, new = [], 0, 0, 0
    for case in cases:
        probes = []
        for question in case.baseline_questions:
            answer = answers[question.query]
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
    return AnsweredCases(
        tuple(answered), sum(len(case.baseline_questions) for case in cases), unusable, unknown, new
    )
