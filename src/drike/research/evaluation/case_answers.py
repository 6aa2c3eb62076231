"""Answers to the probes of cases under several choices of demonstrations, to train on."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from drike.edits.edit import EditCase
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool, rotations
from drike.research.editors.selectors import Selector
from drike.research.evaluation.judge import Judge, Rule, ask_cases, is_right
from drike.support.parallel import in_groups, in_order


@dataclass(frozen=True)
class CaseAnswers:
    """Whether the answers to a case were right: [probes, choices of demonstrations].

    prompt_tokens: what the model read, if known, of the same shape.
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
    """Ask the probes of every case under each choice, for training.

    Raises PoolError, and UsageError as `is_right`.
    """
    # All demonstrations are found in one search; the editors then get them from the pool's cache.
    pool.for_groups([edits for case in cases for edits in rotations(case.edits)])
    editors = [InContextEditor("", pool, choice, style, limit) for choice in choices]
    answer = partial(_answers_to_all, editors=editors, judge=Judge(model, rule))
    groups = in_groups(cases, model.info.edits_per_call)
    with closing(in_order(answer, groups, model.info.calls_at_once)) as answered:
        for of_group in answered:
            yield from of_group


def answers_to(
    case: EditCase, editors: Sequence[InContextEditor[Selector]], judge: Judge
) -> CaseAnswers:
    """The answers of a case, in one call; each probe is asked under the prompt of every editor."""
    [answers] = _answers_to_all([case], editors, judge)
    return answers


def _answers_to_all(
    cases: Sequence[EditCase], editors: Sequence[InContextEditor[Selector]], judge: Judge
) -> list[CaseAnswers]:
    """The answers of several cases, in one call."""
    probes_by_case = [case.asked for case in cases]
    prompts_by_case = []
    for case in cases:
        queries = [probe.query for probe in case.asked]
        prompts_by_case.append([editor.prompts(case.edits, queries) for editor in editors])

    answers = []
    verdicts_by_case = ask_cases(judge, probes_by_case, prompts_by_case)
    for case, verdicts_by_editor in zip(cases, verdicts_by_case, strict=True):
        correct = []
        prompt_tokens = []
        for verdicts in zip(*verdicts_by_editor, strict=True):  # of a probe
            correct.append(tuple(is_right(verdict) for verdict in verdicts))
            prompt_tokens.append(tuple(verdict.prompt_tokens for verdict in verdicts))
        answers.append(CaseAnswers(case.case_id, tuple(correct), tuple(prompt_tokens)))
    return answers
