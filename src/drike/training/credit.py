"""Credit: what the learner gets for what the probes of an episode earned (docs/method.md, "Past the paper").

Both parts are channels around another one. They read what was earned as it is recorded, so that a resumed training
repeats them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from drike.edits import Aspect
from drike.errors import UsageError
from drike.training.rewards import Rewards, Rollout, mean_of_aspects
from drike.training.schedules import Arrival, RewardChannel, at_once

_FLOOR = 0.1  # no aspect weighs more than 100 times another


def balanced(per_epoch: int, channel: RewardChannel = at_once) -> RewardChannel:
    """Weight each aspect by the gradient of S, 1 / m^2, m being the share of right answers to its probes.

    m is measured in the last epoch of `per_epoch` episodes, under the prompts that the budget kept; in the first epoch
    all aspects weigh the same. An aspect that a case lacks counts for nothing. Raises UsageError for rewards of another
    kind than `every_probe`.
    """
    seen: dict[Aspect, list[float]] = {}
    weights = dict.fromkeys(Aspect, 1.0)
    count = 0

    def weighted(tried: Rollout, earned: Rewards) -> Iterable[Arrival]:
        nonlocal count
        probes, rows = tried.case.probes, earned.probes
        if rows is None:
            raise UsageError("weights of aspects need what all probes earned: use the reward every_probe")
        rewards = tuple(mean_of_aspects(probes, row, weights) for row in rows)
        for probe, value in zip(probes, rows[min(tried.kept, len(rows)) - 1], strict=True):
            seen.setdefault(probe.aspect, []).append((1 + value) / 2)
        count += 1
        if count % per_epoch == 0:
            weights.update({aspect: max(fmean(values), _FLOOR) ** -2 for aspect, values in seen.items()})
            seen.clear()
        return channel(tried, replace(earned, rewards=rewards))

    return weighted


def marginal(channel: RewardChannel = at_once) -> RewardChannel:
    """Give each retain what its prefix earned more than the one before it; the first keeps what its prefix earned."""

    def differences(tried: Rollout, earned: Rewards) -> Iterable[Arrival]:
        r = earned.rewards
        return channel(tried, replace(earned, rewards=(r[0], *(b - a for a, b in pairwise(r)))))

    return differences
