"""Evaluation: an editor, a model and cases in; one outcome per probe out (paper, section 5.1).

All probes of a case go to the model in one call, under the same demonstrations (chosen once per edit). A model that
takes several calls at once gets several cases at once. Nothing is printed or saved: outcomes are yielded as they come.
`answers_under` asks the probes of a case under every mix in one call, for training.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from drike.editors.budgets import TokenLimit
from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool, rotations
from drike.editors.selectors import Selector
from drike.edits import EditCase, trained_on
from drike.errors import UsageError
from drike.evaluation.judge import Judge, Question, Rule, ask_probes, is_right
from drike.evaluation.metrics import Outcome
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.support.parallel import in_order


def evaluate(
    editor: Editor, model: LanguageModel, cases: Iterable[EditCase], *, rule: Rule | None = None, write: bool = False,
    parallel: int | None = None, allow_trained: bool = False,
) -> Generator[Outcome]:  # fmt: skip
    """Yield the outcomes of all probes, case by case. With `write=True` a model that scores also writes its answers.

    rule: by which answers are right; default: greedy, or generate for a model without scores. parallel: cases evaluated
    at once, each in a thread, which also calls the editor; only `seconds` then differ; default: `info.calls_at_once`,
    beyond which ValueError is raised. allow_trained: also evaluate edits that the editor was trained on, which flatters
    it. Raises UsageError for such edits otherwise, and for a rule that the model cannot be judged by, before the model
    is asked.
    """
    cases, judge = list(cases), Judge(model, rule)
    trained = trained_on(editor)
    known = sum(any(edit.key in trained for edit in case.edits) for case in cases)
    if known and not allow_trained:
        raise UsageError(
            f"{editor.name} was trained on {known} of these {len(cases)} edits: leave them out, as "
            "data.split(exclude=retriever.trained_on) does, or pass allow_trained=True"
        )
    limit = model.info.calls_at_once
    if parallel is not None and not 1 <= parallel <= limit:
        raise ValueError(f"{model.info.name} takes 1 to {limit} edits at once, not {parallel}")
    with closing(in_order(partial(_answer, editor, judge, write), cases, parallel or limit)) as answered:
        for outcomes in answered:
            yield from outcomes


def _answer(editor: Editor, judge: Judge, write: bool, case: EditCase) -> list[Outcome]:
    began = time.perf_counter()
    queries = list(dict.fromkeys(probe.query for probe in case.asked))  # two aspects may share a question
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
        prob, logprob = (
            (score.mean_probability - wrong.mean_probability, score.logprob - wrong.logprob)
            if score is not None and wrong is not None
            else (None, None)
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
    """Whether the answers to a case's probes were right under each choice of demonstrations, such as a mix.

    correct: [probes, choices]. prompt_tokens: read, as if prompts shared nothing, [probes, choices]; None if unknown.
    """

    case_id: str
    correct: tuple[tuple[bool, ...], ...]
    prompt_tokens: tuple[tuple[int | None, ...], ...]


def answers_under(
    choices: Sequence[Selector], model: LanguageModel, pool: Pool, cases: Sequence[EditCase], *,
    style: PromptStyle = PromptStyle(), limit: TokenLimit | None = None, rule: Rule | None = None,
) -> Generator[CaseAnswers]:  # fmt: skip
    """Ask the probes of every case under each choice, several cases at once where the model takes several calls.

    limit: prompts that are longer lose demonstrations from their end. rule: as in `evaluate`. Raises PoolError,
    UsageError for a rule that the model or a probe cannot be judged by, and the ModelErrors of the model.
    """
    pool.for_groups([edits for case in cases for edits in rotations(case.edits)])  # all in one search
    editors = [InContextEditor("", pool, choice, style, limit) for choice in choices]
    ask = partial(answers_to, editors=editors, judge=Judge(model, rule))
    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered


def answers_to(case: EditCase, editors: Sequence[InContextEditor[Selector]], judge: Judge) -> CaseAnswers:
    """The answers of one case, in one call; each probe is asked under the prompt of every editor."""
    queries = [probe.query for probe in case.asked]
    verdicts = ask_probes(judge, case.asked, [editor.prompts(case.edits, queries) for editor in editors])
    rows = list(zip(*verdicts, strict=True))  # [probes, editors]
    correct = tuple(tuple(map(is_right, row)) for row in rows)
    return CaseAnswers(case.case_id, correct, tuple(tuple(verdict.prompt_tokens for verdict in row) for row in rows))
