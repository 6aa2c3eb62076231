"""Schedules and channels: when edits are tried, and when and how their rewards reach the learner.

Schedule: `one_by_one` is Algorithm 1; `in_blocks` tries several edits under the same theta and sigma.

Channel (paper, appendix "Sensitivity of Reward Function"): rewards arrive `at_once`, unless a robustness study applies
them `late` or flips the sign of some (`noisy`). A late update is exactly the one that would have been made at once: log
p_j keeps the graph of the policy that acted (docs/method.md, row 33). A channel keeps state: one for each training.
"""

from __future__ import annotations

import random
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


def late(delay: int, episodes: int, rng: random.Random, channel: RewardChannel = at_once) -> RewardChannel:
    """Deliver what `channel` delivers 0 to `delay` episodes later, uniformly drawn, and the rest with the last episode.

    episodes: how many the training has. Raises ValueError for a negative delay.
    """
    if type(delay) is not int or delay < 0:
        raise ValueError(f"delay must be a whole number of episodes, 0 or more, not {delay!r}")
    waiting: list[tuple[int, Arrival]] = []
    now = 0

    def delayed(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
        nonlocal now
        now += 1
        due = min(now + rng.randint(0, delay), episodes)
        waiting.extend((due, update) for update in channel(rollout, rewards))
        arriving = [update for due, update in waiting if due <= now]
        waiting[:] = [(due, update) for due, update in waiting if due > now]
        return arriving

    return delayed


def noisy(probability: float, rng: random.Random) -> RewardChannel:
    """Flip the sign of each reward with this probability, independently. Raises ValueError for no probability."""
    if type(probability) not in (int, float) or not 0.0 <= probability <= 1.0:
        raise ValueError(f"noise is a probability; {probability!r} is not")

    def flipped(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
        return [(rollout, tuple(-r if rng.random() < probability else r for r in rewards.rewards))]

    return flipped


def disturbed(delay: int, noise: float, *, episodes: int, seed: int) -> RewardChannel:
    """Late and noisy rewards of a robustness study, drawn from `seed`; `at_once` where both are 0."""
    if not delay and not noise:
        return at_once
    rng = random.Random(f"{seed}|feedback")
    return late(delay, episodes, rng, noisy(noise, rng))
