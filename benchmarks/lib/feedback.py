"""Channels of rewards for a robustness study (paper, appendix "Sensitivity of Reward Function"; Table 7).

Rewards are applied `late`, or the sign of some is flipped (`noisy`). A late update is exactly the one that would have
been made at once: log p_j keeps the graph of the policy that acted (docs/design/method.md, row 33). A channel keeps
state: one for each training.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from drike.research.training.algorithm1 import Arrival, RewardChannel, Rewards, Rollout, at_once


def late(
    delay: int, episodes: int, rng: random.Random, channel: RewardChannel = at_once
) -> RewardChannel:
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
