"""What the paper looks at besides its main table, as pure functions from episodes to tables.

by_epoch, epochs_table     what training did, epoch by epoch: ESR, mean k, sigma, calls, prompt tokens, seconds
efficiency_table           what an epoch costs with and without the budget (section 5.3)
verdict                    whether a measured difference agrees with the direction the paper reports
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Literal

from drike.metrics import Estimate
from drike.report import Table
from drike.retrieval.budget import Fraction, Threshold
from drike.training.reinforce import Episode

Direction = Literal["up", "down", "same"]

MARGIN = 0.05  # of a share that counts as effectively unchanged


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, or what there is of it.

    esr: share of episodes answered right under the prompt the budget gives. reward: mean over episodes of their mean
    reward. mean_k: retains the budget keeps. sigma: the last one where edits share it, the mean where each has its own,
    None for a budget without one. share: of a fixed fraction. calls: prompts put to the model. prompt_tokens: read as
    if nothing were shared; None if the model does not count them. seconds: of the rollouts, wall clock.
    """

    epoch: int
    episodes: int
    esr: float
    reward: float
    mean_k: float
    sigma: float | None
    share: float | None
    calls: int
    prompt_tokens: int | None
    seconds: float


def by_epoch(episodes: Sequence[Episode]) -> tuple[Epoch, ...]:
    """Figures of every epoch of one training, whose episodes stand in their order."""
    return tuple(_epoch(list(group)) for _, group in groupby(episodes, key=lambda episode: episode.epoch))


def _epoch(episodes: Sequence[Episode]) -> Epoch:
    budget = episodes[-1].budget
    told = episodes[-1:] if isinstance(budget, Threshold) else episodes
    sigmas = [episode.sigma for episode in told if episode.sigma is not None]
    tokens = [episode.prompt_tokens for episode in episodes if episode.prompt_tokens is not None]
    return Epoch(
        epoch=episodes[-1].epoch,
        episodes=len(episodes),
        esr=fmean(episode.success for episode in episodes),
        reward=fmean(fmean(episode.rewards) for episode in episodes),
        mean_k=fmean(min(episode.kept, episode.k) for episode in episodes),
        sigma=fmean(sigmas) if sigmas else None,
        share=budget.share if isinstance(budget, Fraction) else None,
        calls=sum(episode.k for episode in episodes),
        prompt_tokens=sum(tokens) if len(tokens) == len(episodes) else None,
        seconds=sum(episode.seconds for episode in episodes),
    )


def cut_of(epoch: Epoch) -> str:
    """Where the budget cuts, in words: its sigma, or its share."""
    if epoch.share is not None:
        return f"share {epoch.share:.0%}"
    return "sigma n/a" if epoch.sigma is None else f"sigma {epoch.sigma:.4f}"


def epochs_table(runs: Mapping[str, Sequence[Episode]]) -> Table:
    """Training by epoch, a block of lines a run: the paper's epoch-wise ESR with what goes with it."""
    rows = tuple(
        (
            name,
            str(one.epoch),
            f"{one.esr:.3f}",
            f"{one.reward:+.3f}",
            f"{one.mean_k:.2f}",
            cut_of(one).removeprefix("sigma "),
        )
        for name, episodes in runs.items()
        for one in by_epoch(episodes)
    )
    header = ("Training", "epoch", "ESR", "mean reward", "mean k", "sigma")
    return Table("Training, epoch by epoch", header, rows, ("ESR: under the prompt the budget gives.",))


@dataclass(frozen=True)
class Cost:
    """What an epoch of a training cost on the mean; prompt_tokens None if the model does not count them."""

    mean_k: float
    calls: float
    prompt_tokens: float | None
    seconds: float


def cost_of(episodes: Sequence[Episode]) -> Cost:
    """Means over the epochs of one training."""
    epochs = by_epoch(episodes)
    tokens = [epoch.prompt_tokens for epoch in epochs if epoch.prompt_tokens is not None]
    return Cost(
        mean_k=fmean(epoch.mean_k for epoch in epochs),
        calls=fmean(epoch.calls for epoch in epochs),
        prompt_tokens=fmean(tokens) if len(tokens) == len(epochs) else None,
        seconds=fmean(epoch.seconds for epoch in epochs),
    )


def saved(cost: float | None, of: float | None) -> float | None:
    """The share of `of` that is spared by paying `cost`; None where either is unknown or nothing was paid."""
    return None if cost is None or not of else 1 - cost / of


def efficiency_table(runs: Mapping[str, Sequence[Episode]]) -> Table:
    """The mean cost of an epoch of each training by its name, and what each saves against the first."""
    costs = {name: cost_of(episodes) for name, episodes in runs.items()}
    first = next(iter(costs.values()))
    rows = tuple(
        (
            name,
            f"{cost.mean_k:.2f}",
            f"{cost.calls:,.0f}",
            "n/a" if cost.prompt_tokens is None else f"{cost.prompt_tokens:,.0f}",
            f"{cost.seconds:.1f}",
            percent(saved(cost.prompt_tokens, first.prompt_tokens)),
            percent(saved(cost.seconds, first.seconds)),
        )
        for name, cost in costs.items()
    )
    header = ("Training", "mean k", "calls/epoch", "tokens/epoch", "s/epoch", "tokens saved", "s saved")
    notes = (
        "tokens: as if every prompt were read by itself. s: as measured, with shared beginnings read once and "
        "answers to known prompts remembered.",
    )
    return Table("Cost of an epoch of training", header, rows, notes)


def percent(share: float | None) -> str:
    """A share as the paper prints it, or n/a."""
    return "n/a" if share is None else f"{100 * share:.1f} %"


def verdict(difference: Estimate, reported: Direction, *, margin: float = MARGIN) -> str:
    """A measured difference beside the direction the paper reports: agrees, does not, within noise, or n/a.

    "up", "down": agrees if the interval lies on that side of 0, does not if on the other. "same": agrees if the
    interval lies within `margin` of 0, does not if it reaches beyond and excludes 0. All else is within noise.
    """
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "n/a"
    if reported == "same":
        if max(abs(low), abs(high)) <= margin:
            return "agrees"
        return "does not" if low > 0 or high < 0 else "within noise"
    if reported == "down":
        low, high = -high, -low
    return "agrees" if low > 0 else "does not" if high < 0 else "within noise"
