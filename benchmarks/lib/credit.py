"""Rewards of all probes, and what the learner gets for them: weights from the gradient of S, and marginal credit.

The latter two wrap another channel. They read the rewards as they are recorded, so that a resumed training repeats
them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from statistics import fmean

from drike.edits.edit import Aspect, Probe
from drike.errors import UsageError
from drike.models.protocols import LanguageModel
from drike.research.evaluation.judge import Judge, Rule, ask_probes, is_right
from drike.research.training.algorithm1 import (
    Arrival,
    Reward,
    RewardChannel,
    Rewards,
    Rollout,
    at_once,
    count_tokens,
)

_FLOOR = 0.1  # no aspect weighs more than 100 times another


def every_probe(model: LanguageModel, *, rule: Rule | None = None) -> Reward:
    """The mean over aspects of the rewards of a case's probes (+1 if right, else -1). rule: as in `rewrite_reward`."""
    judge = Judge(model, rule)

    def reward(rollout: Rollout) -> Rewards:
        began = time.perf_counter()
        probes = rollout.case.probes
        verdicts = ask_probes(judge, probes, rollout.prompts([probe.query for probe in probes]))
        rows = tuple(
            tuple(1.0 if is_right(verdict) else -1.0 for verdict in row) for row in verdicts
        )
        correct = tuple(row[0] > 0 for row in rows)  # the rewrite probe comes first
        rewards = tuple(mean_of_aspects(probes, row) for row in rows)
        return Rewards(
            rewards, correct, count_tokens(chain(*verdicts)), time.perf_counter() - began, rows
        )

    return reward


def mean_of_aspects(probes: Sequence[Probe], values: Sequence[float]) -> float:
    """The mean over the aspects of the probes of the mean within each."""
    by_aspect: dict[Aspect, list[float]] = {}
    for probe, value in zip(probes, values, strict=True):
        by_aspect.setdefault(probe.aspect, []).append(value)
    return fmean(map(fmean, by_aspect.values()))


def s_weighted(per_epoch: int, channel: RewardChannel = at_once) -> RewardChannel:
    """Weight each aspect by the gradient of S, 1 / m^2, m being the share of right answers to its probes.

    m is measured in the last epoch of `per_epoch` episodes, under the prompts that the budget kept; in the first epoch
    all aspects weigh the same. An aspect that a case lacks counts for nothing. Raises UsageError for rewards of another
    kind than `every_probe`.
    """
    seen: dict[Aspect, list[float]] = {}
    weights = dict.fromkeys(Aspect, 1.0)
    count = 0

    def weighted(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
        nonlocal count
        probes, rows = rollout.case.probes, rewards.probes
        if rows is None:
            raise UsageError(
                "weights of aspects need the rewards of all probes: use the reward every_probe"
            )
        weighed = replace(
            rewards, rewards=tuple(weighted_mean(probes, row, weights) for row in rows)
        )
        for probe, value in zip(probes, rows[min(rollout.kept, len(rows)) - 1], strict=True):
            seen.setdefault(probe.aspect, []).append((1 + value) / 2)
        count += 1
        if count % per_epoch == 0:
            weights.update(
                {aspect: max(fmean(values), _FLOOR) ** -2 for aspect, values in seen.items()}
            )
            seen.clear()
        return channel(rollout, weighed)

    return weighted


def marginal(channel: RewardChannel = at_once) -> RewardChannel:
    """Give each retain the reward of its prefix minus that of the prefix before; the first all of it."""

    def differences(rollout: Rollout, rewards: Rewards) -> Iterable[Arrival]:
        r = rewards.rewards
        return channel(
            rollout,
            replace(rewards, rewards=(r[0], *(after - before for before, after in pairwise(r)))),
        )

    return differences


def weighted_mean(
    probes: Sequence[Probe], values: Sequence[float], weights: Mapping[Aspect, float]
) -> float:
    """The weighted mean over the aspects of the probes of the mean within each."""
    by_aspect: dict[Aspect, list[float]] = {}
    for probe, value in zip(probes, values, strict=True):
        by_aspect.setdefault(probe.aspect, []).append(value)
    total = math.fsum(weights[aspect] for aspect in by_aspect)
    return (
        math.fsum(weights[aspect] * fmean(of_aspect) for aspect, of_aspect in by_aspect.items())
        / total
    )
