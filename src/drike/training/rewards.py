"""Rewards: what the prefixes of an attempt earn (paper, Algorithm 1, lines 12-17).

A reward is a function from an `Attempt` to what it `Earned`. An attempt carries its case, so that a reward may look at
paraphrases and neighbours too. Rewards are numbers; whether each answer was right is recorded beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.edits import EditCase, rewrite_probe
from drike.errors import ReplayError
from drike.judging import Question, Verdict, judge
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.retrieval.budget import TokenLimit

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Attempt:
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
class Earned:
    """What the prefixes of an attempt earned, shortest first; fewer than k where a limit or a flip ended it early.

    rewards: one per prefix. correct: whether the model's answer was right under it. prompt_tokens: read by the model as
    if prompts shared nothing; None if it does not count them. seconds: wall clock.
    """

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    prompt_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class RecordedRollout:
    """An episode of a stopped run: its edit, the retains as tried and what they earned; the rest is computed again."""

    case_id: str
    order: tuple[int, ...]
    earned: Earned


Reward = Callable[[Attempt], Earned]


def edit_takes(
    model: LanguageModel,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
    *,
    stop_on_flip: bool = False,
) -> Reward:
    """The paper's reward: +1 where the model answers the edit's own query with the new object, else -1.

    The prompts of all prefixes are sent at once, since none depends on another's answer. limit: prefixes whose prompt
    is longer are not evaluated. stop_on_flip: evaluate one by one, and end where an added retain breaks the answer.
    """

    def reward(attempt: Attempt) -> Earned:
        began = time.perf_counter()
        probe, retains = rewrite_probe(attempt.case.edit), attempt.retains
        prefixes = [retains[:j] for j in range(1, len(retains) + 1)]
        prompts = [style.show(attempt.pool, prefix, [probe.query])[0] for prefix in prefixes]
        if limit is not None:
            prompts = prompts[: limit.fitting(len(prompts), lambda j: prompts[j - 1 : j])]
        questions = [Question(prompt, probe.target) for prompt in prompts]
        verdicts: list[Verdict] = []
        for batch in [[question] for question in questions] if stop_on_flip else [questions]:
            verdicts += judge(model, batch)
            if stop_on_flip and [verdict.correct for verdict in verdicts[-2:]] == [True, False]:
                break
        correct = tuple(verdict.correct for verdict in verdicts)
        counts = [verdict.prompt_tokens for verdict in verdicts if verdict.prompt_tokens is not None]
        tokens = sum(counts) if len(counts) == len(verdicts) else None
        return Earned(tuple(1.0 if right else -1.0 for right in correct), correct, tokens, time.perf_counter() - began)

    return reward


def replayed(records: Sequence[RecordedRollout], reward: Reward) -> Reward:
    """The recorded results of the first episodes, then `reward`: how a stopped training run is resumed.

    Everything else about the recorded episodes is computed again, so that head, optimiser, sigma and every draw become
    what they were, bit for bit, without calling the model. Raises ReplayError for records of another training.
    """

    def replay(attempt: Attempt) -> Earned:
        if attempt.number >= len(records):
            return reward(attempt)
        record, case_id = records[attempt.number], attempt.case.case_id
        if record.case_id != case_id:
            raise ReplayError(
                f"the recorded episode of edit {record.case_id} stands where edit {case_id} comes: start a new run"
            )
        if record.order != attempt.order or len(record.earned.rewards) > attempt.k:
            raise ReplayError(f"the recorded episode of edit {case_id} tried other retains: start a new run")
        return record.earned

    return replay
