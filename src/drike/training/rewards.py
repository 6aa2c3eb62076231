"""Rewards of a rollout's prefixes (paper, Algorithm 1, lines 12-17), when edits are tried, and when rewards arrive.

A reward is a function from a `Rollout`, which carries its case, to its `Rewards`. Schedule: `one_by_one` is Algorithm
1, `in_blocks` tries several edits under the same theta and sigma. Channel: rewards arrive `at_once`, or as you like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from drike.edits import EditCase, rewrite_probe
from drike.errors import ReplayError
from drike.evaluation.judge import Judge, Rule, Verdict, ask_probes, is_right
from drike.models.protocols import LanguageModel
from drike.support.parallel import in_order
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
RollOut = Callable[[EditCase], Rollout]  # under theta and sigma as they are
Schedule = Callable[[Sequence[EditCase], RollOut, Reward], Generator[tuple[Rollout, Rewards]]]
Arrival = tuple[Rollout, tuple[float, ...]]  # a rollout and the rewards it is learned with
RewardChannel = Callable[[Rollout, Rewards], Iterable[Arrival]]


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


def in_blocks(size: int, threads: int = 1) -> Schedule:
    """Blocks of edits under the theta and sigma from before the block, rewards computed by up to `threads` at once.

    The updates follow one edit after the other, as in Algorithm 1. Threads and their timing do not change the result.
    Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"parallel_edits must be at least 1, not {size}")

    def schedule(cases: Sequence[EditCase], roll_out: RollOut, reward: Reward) -> Generator[tuple[Rollout, Rewards]]:
        for start in range(0, len(cases), size):
            block = [roll_out(case) for case in cases[start : start + size]]
            with closing(in_order(reward, block, min(len(block), threads))) as rewards:
                yield from zip(block, rewards, strict=True)

    return schedule


one_by_one = in_blocks(1)  # each edit under the theta and sigma that the one before it left


def at_once(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
    """An episode's rewards in that episode."""
    return [(rollout, rewards.rewards)]
