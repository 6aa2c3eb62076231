"""A model's answers to all probes of an edit under every mix, for training.

Model and demonstrations do not change, so each answer is asked for once. All prompts of an edit go to the model in one
call: they share most of their text.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from drike.editors.budgets import TokenLimit
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool, rotations
from drike.editors.selectors import Selector
from drike.edits import EditCase
from drike.evaluation.judge import Judge, Rule, ask_probes, is_right
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.support.parallel import in_order


@dataclass(frozen=True)
class CaseAnswers:
    """Whether the answers to a case's probes were right under each choice of demonstrations, such as a mix.

    correct: [probes, choices]. prompt_tokens: read, as if prompts shared nothing, [probes, choices]; None if unknown.
    """

    case_id: str
    correct: tuple[tuple[bool, ...], ...]
    prompt_tokens: tuple[tuple[int | None, ...], ...]


def answers_under(
    choices: Sequence[Selector],
    model: LanguageModel,
    pool: Pool,
    cases: Sequence[EditCase],
    *,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
    rule: Rule | None = None,
) -> Generator[CaseAnswers]:
    """Ask the probes of every case under each choice, several cases at once where the model takes several calls.

    limit: prompts that are longer lose demonstrations from their end. rule: as in `drike.evaluate`. Raises PoolError,
    UsageError for a rule that the model or a probe cannot be judged by, and the ModelErrors of the model.
    """
    pool.for_groups([edits for case in cases for edits in rotations(case.edits)])  # all in one search
    editors = [InContextEditor("", pool, choice, style, limit) for choice in choices]
    ask = partial(answers_to, editors=editors, judge=Judge(model, rule))
    with closing(in_order(ask, cases, model.info.calls_at_once)) as answered:
        yield from answered


def answers_to(case: EditCase, editors: Sequence[InContextEditor[Selector]], judge: Judge) -> CaseAnswers:
    """Ask the probes of one case in one call, each under the prompt of every editor."""
    queries = [probe.query for probe in case.asked]
    verdicts = ask_probes(judge, case.asked, [editor.prompts(case.edits, queries) for editor in editors])
    rows = list(zip(*verdicts, strict=True))  # [probes, editors]
    correct = tuple(tuple(map(is_right, row)) for row in rows)
    return CaseAnswers(case.case_id, correct, tuple(tuple(verdict.prompt_tokens for verdict in row) for row in rows))
