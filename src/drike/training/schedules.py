"""Schedules and channels: when edits are tried, and when and how their rewards reach the learner.

Schedule: `one_by_one` is Algorithm 1; `in_blocks` tries several edits under the same theta and sigma. Channel: rewards
arrive `at_once`; a robustness study may hand them on later, or others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from drike.edits import EditCase
from drike.support.parallel import in_order
from drike.training.rewards import Reward, Rewards
from drike.training.rollouts import Rollout

RollOut = Callable[[EditCase], Rollout]  # under theta and sigma as they are
Schedule = Callable[[Sequence[EditCase], RollOut, Reward], Generator[tuple[Rollout, Rewards]]]
Arrival = tuple[Rollout, tuple[float, ...]]  # a rollout and the rewards it is learned with
RewardChannel = Callable[[Rollout, Rewards], Iterable[Arrival]]


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
