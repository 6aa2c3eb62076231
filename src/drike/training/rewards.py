"""Rewards: what the prefixes of an attempt earn (paper, Algorithm 1, lines 12-17).

A reward is a function from an `Rollout` to what it `Rewards`. An attempt carries its case, so that a reward may look at
paraphrases and neighbours too. Rewards are numbers; whether each answer was right is recorded beside them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.editors.budgets import TokenLimit
from drike.edits import Aspect, EditCase, Probe, rewrite_probe
from drike.errors import ReplayError, UsageError
from drike.evaluation.judge import Judge, Question, Rule, Verdict, is_right
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt, PromptStyle

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rollout:
    """The retains that an episode tries for an edit, best first.

    pool: the edit's demonstrations, n retains among them. order: indices of the retains as tried, [n]. probs: p of each
    in that order, [n]. log_p: log p of each in that order, [n], differentiable in the policy that chose them. kept: how
    many the budget keeps. k: how many prefixes are evaluated, at least `kept`. number: of the episode, from 0.
    """

    case: EditCase
    pool: DemonstrationSet
    order: tuple[int, ...]
    probs: tuple[float, ...]
    log_p: Tensor
    kept: int
    k: int
    number: int = 0

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The k retains whose prefixes are evaluated."""
        retains = self.pool.retains
        return tuple(retains[i] for i in self.order[: self.k])


@dataclass(frozen=True)
class Rewards:
    """What the prefixes of an attempt earned, shortest first; fewer than k where a limit or a flip ended it early.

    rewards: one per prefix. correct: whether the edit's own query was answered right under it. prompt_tokens: read by
    the model as if prompts shared nothing; None if it does not count them. seconds: wall clock. probes: what each probe
    of the case earned under each prefix, [prefixes, probes]; None where only the edit's own query was asked.
    """

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    prompt_tokens: int | None
    seconds: float
    probes: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class RecordedRollout:
    """An episode of a stopped run: its edit, the retains as tried and what they earned; the rest is computed again."""

    case_id: str
    order: tuple[int, ...]
    earned: Rewards


Reward = Callable[[Rollout], Rewards]


def rewrite_reward(
    model: LanguageModel,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
    *,
    stop_on_flip: bool = False,
    rule: Rule | None = None,
) -> Reward:
    """The paper's reward: +1 where the model answers the edit's own query with the new object, else -1.

    The prompts of all prefixes are sent at once, since none depends on another's answer. limit: prefixes whose prompt
    is longer are not evaluated. stop_on_flip: evaluate one by one, and end where an added retain breaks the answer.
    rule: the rule by which answers are right; default: as in `drike.evaluate`. Raises UsageError for a rule that the
    model cannot be judged by; the reward does so for an edit that the rule cannot judge.
    """
    judge = Judge(model, rule)

    def reward(attempt: Rollout) -> Rewards:
        began = time.perf_counter()
        probe, retains = rewrite_probe(attempt.case.edit), attempt.retains
        prefixes = [retains[:j] for j in range(1, len(retains) + 1)]
        prompts = [style.show(attempt.pool, prefix, [probe.query])[0] for prefix in prefixes]
        if limit is not None:
            prompts = prompts[: limit.fitting(len(prompts), lambda j: prompts[j - 1 : j])]
        questions = [
            Question(prompt, probe.target, probe.distractor if judge.rule.compares else None) for prompt in prompts
        ]
        verdicts: list[Verdict] = []
        for batch in [[question] for question in questions] if stop_on_flip else [questions]:
            verdicts += judge.ask(batch)
            if stop_on_flip and [verdict.correct for verdict in verdicts[-2:]] == [True, False]:
                break
        correct = tuple(map(is_right, verdicts))
        rewards = tuple(1.0 if right else -1.0 for right in correct)
        return Rewards(rewards, correct, _tokens(verdicts), time.perf_counter() - began)

    return reward


def every_probe(
    model: LanguageModel,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
    *,
    soft: bool = False,
    rule: Rule | None = None,
) -> Reward:
    """The mean over aspects of what the case's probes earn: +1 for a right answer, else -1.

    All probes under all prefixes are asked in one call. soft: a probe earns sigma(m) - sigma(-m), m being the
    log-probability of its target minus that of its distractor; without a distractor 2 P(target) - 1.
    rule: as in `rewrite_reward`. Raises UsageError if soft and the model gives no log-probabilities, or if they are
    not asked for by the rule.
    """
    judge = Judge(model, rule)
    _require_scores(judge, soft=soft)

    def reward(attempt: Rollout) -> Rewards:
        began = time.perf_counter()
        probes, retains = attempt.case.probes, attempt.retains
        queries = [probe.query for probe in probes]
        prompts = [style.show(attempt.pool, retains[:j], queries) for j in range(1, len(retains) + 1)]
        if limit is not None:
            prompts = prompts[: limit.fitting(len(prompts), lambda j: prompts[j - 1])]
        rows, verdicts = ask_probes(judge, probes, prompts, soft=soft)
        correct = tuple(map(is_right, verdicts[:: len(probes)]))  # the rewrite probe comes first
        rewards = tuple(mean_of_aspects(probes, row) for row in rows)
        return Rewards(rewards, correct, _tokens(verdicts), time.perf_counter() - began, rows)

    return reward


def ask_probes(
    judge: Judge, probes: Sequence[Probe], prompts: Sequence[Sequence[Prompt]], *, soft: bool
) -> tuple[tuple[tuple[float, ...], ...], list[Verdict]]:
    """What each probe earns under each choice of demonstrations, [choices, probes], and the verdicts in that order.

    prompts: one for each probe, under each choice. soft: see `every_probe`.
    """
    _require_scores(judge, soft=soft)
    verdicts = judge.ask(
        [
            Question(prompt, probe.target, probe.distractor if soft or judge.rule.compares else None)
            for under_choice in prompts
            for prompt, probe in zip(under_choice, probes, strict=True)
        ]
    )
    earned = [_margin(verdict) if soft else 1.0 if is_right(verdict) else -1.0 for verdict in verdicts]
    return tuple(tuple(earned[i : i + len(probes)]) for i in range(0, len(earned), len(probes))), verdicts


def _require_scores(judge: Judge, *, soft: bool) -> None:
    if soft and judge.model.score is None:
        raise UsageError(
            f"soft rewards need log-probabilities, and {judge.model.info.name} gives none: leave --soft out"
        )
    if soft and not judge.rule.by_scores:
        raise UsageError(
            f"soft rewards are log-probabilities, which the rule {judge.rule.name} does not read: leave --soft out"
        )


def mean_of_aspects(
    probes: Sequence[Probe], earned: Sequence[float], weights: Mapping[Aspect, float] | None = None
) -> float:
    """The weighted mean over the aspects of the probes of the mean within each; by default with equal weights."""
    by_aspect: dict[Aspect, list[float]] = {}
    for probe, value in zip(probes, earned, strict=True):
        by_aspect.setdefault(probe.aspect, []).append(value)
    weight = {aspect: 1.0 if weights is None else weights[aspect] for aspect in by_aspect}
    return math.fsum(weight[a] * fmean(values) for a, values in by_aspect.items()) / math.fsum(weight.values())


def _margin(verdict: Verdict) -> float:
    assert verdict.score is not None  # noqa: S101 - the model scores
    if verdict.distractor is None:
        return 2 * math.exp(verdict.score.logprob) - 1
    return math.tanh((verdict.score.logprob - verdict.distractor.logprob) / 2)


def _tokens(verdicts: Sequence[Verdict]) -> int | None:
    counts = [verdict.prompt_tokens for verdict in verdicts if verdict.prompt_tokens is not None]
    return sum(counts) if len(counts) == len(verdicts) else None


def replayed(records: Sequence[RecordedRollout], reward: Reward) -> Reward:
    """The recorded results of the first episodes, then `reward`: how a stopped training run is resumed.

    Everything else about the recorded episodes is computed again, so that head, optimiser, sigma and every draw become
    what they were, bit for bit, without calling the model. Raises ReplayError for records of another training.
    """

    def replay(attempt: Rollout) -> Rewards:
        if attempt.number >= len(records):
            return reward(attempt)
        record, case_id = records[attempt.number], attempt.case.case_id
        if record.case_id != case_id:
            raise ReplayError(
                f"the recorded episode of edit {record.case_id} stands where edit {case_id} comes: start a new run"
            )
        if record.order != attempt.order or len(record.earned.rewards) > attempt.k:
            raise ReplayError(f"the recorded episode of edit {case_id} tried other retains: start a new run")
        if any(len(row) != len(attempt.case.probes) for row in record.earned.probes or ()):
            raise ReplayError(f"the recorded episode of edit {case_id} asked other probes: start a new run")
        return record.earned

    return replay
