"""Rewards of the prefixes of a rollout (paper, Algorithm 1, lines 12-17).

A reward is a function from a `Rollout` to its `Rewards`. A rollout carries its case, so that a reward may look at
paraphrases and neighbours too. Rewards are numbers; whether each answer was right is recorded beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from drike.edits import rewrite_probe
from drike.errors import ReplayError
from drike.evaluation.judge import Judge, Rule, Verdict, ask_probes, is_right
from drike.models.protocols import LanguageModel
from drike.training.rollouts import Rollout


@dataclass(frozen=True)
class Rewards:
    """The rewards of a rollout's prefixes, shortest first; fewer than k where a limit ended it early.

    rewards: one per prefix. correct: whether the edit's own query was answered right under it. prompt_tokens: read by
    the model as if prompts shared nothing; None if it does not count them. seconds: wall clock. probes: the reward of
    each probe of the case under each prefix, [prefixes, probes]; None where only the edit's own query was asked.
    """

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]
    prompt_tokens: int | None
    seconds: float
    probes: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class RecordedRollout:
    """An episode of a stopped run: its edit, the retains in the order tried, their rewards; the rest is recomputed."""

    case_id: str
    order: tuple[int, ...]
    rewards: Rewards


Reward = Callable[[Rollout], Rewards]


def rewrite_reward(model: LanguageModel, *, rule: Rule | None = None) -> Reward:
    """The paper's reward: +1 where the model answers the edit's own query with the new object, else -1.

    The prompts of all prefixes are sent at once, since none depends on another's answer. rule: by which answers are
    right; default: as in `drike.evaluate`. Raises UsageError for a rule that the model cannot be judged by, the reward
    for such an edit.
    """
    judge = Judge(model, rule)

    def reward(rollout: Rollout) -> Rewards:
        began = time.perf_counter()
        probe = rewrite_probe(rollout.case.edit)
        verdicts = [*chain(*ask_probes(judge, [probe], rollout.prompts([probe.query])))]
        correct = tuple(map(is_right, verdicts))
        rewards = tuple(1.0 if right else -1.0 for right in correct)
        return Rewards(rewards, correct, count_tokens(verdicts), time.perf_counter() - began)

    return reward


def count_tokens(verdicts: Iterable[Verdict]) -> int | None:
    """The prompt tokens of all questions; None if the model does not count them."""
    counts = [verdict.prompt_tokens for verdict in verdicts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def replayed(records: Sequence[RecordedRollout], reward: Reward) -> Reward:
    """The recorded rewards of the first episodes, then `reward`: how a stopped training run is resumed.

    Everything else about the recorded episodes is computed again, so that head, optimiser, sigma and every draw become
    what they were, bit for bit, without calling the model. Raises ReplayError for records of another training.
    """

    def replay(rollout: Rollout) -> Rewards:
        if rollout.number >= len(records):
            return reward(rollout)
        record, case_id = records[rollout.number], rollout.case.case_id
        if record.case_id != case_id:
            raise ReplayError(
                f"the recorded episode of edit {record.case_id} stands where edit {case_id} comes: start a new run"
            )
        if record.order != rollout.order or len(record.rewards.rewards) > rollout.k:
            raise ReplayError(f"the recorded episode of edit {case_id} tried other retains: start a new run")
        if any(len(row) != len(rollout.case.probes) for row in record.rewards.probes or ()):
            raise ReplayError(f"the recorded episode of edit {case_id} asked other probes: start a new run")
        return record.rewards

    return replay
