"""Training runs, epoch by epoch, from the lines of episodes.jsonl: for the terminal, tables and figures alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from drike.editors.budgets import Threshold
from drike.runs.folder import EpisodeRecord
from drike.support.table import Cell, Number, Table, as_text
from drike.training.algorithm1 import Episode


@dataclass(frozen=True)
class Step:
    """What the curves need of one episode.

    evaluated: number of prefixes. kept: how many of these the budget keeps. correct: whether the answer was right with
    the retains it keeps. reward: mean over the prefixes. sigma, share: of the budget after the episode; None where it
    has none. prompt_tokens: as if nothing were shared; None if not counted.
    """

    epoch: int
    evaluated: int
    kept: int
    correct: bool
    reward: float
    sigma: float | None
    share: float | None
    prompt_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, or as much of it as was done.

    esr, reward, mean_k: means of `correct`, `reward` and `kept` over the episodes. sigma: at the end of the epoch, or
    the mean if every edit has its own. calls: prompts sent to the model. seconds: wall time of the episodes.
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

    @property
    def threshold(self) -> Number:
        """What the budget cuts by: its fixed share, or its sigma, where it has one."""
        return Number(self.sigma, ".4f") if self.share is None else Number(self.share, ".0%")


def step_of(record: EpisodeRecord) -> Step:
    """What the curves need of the record of an episode."""
    kept = min(record.kept, record.k)
    return Step(
        epoch=record.epoch,
        evaluated=record.k,
        kept=kept,
        correct=record.correct[kept - 1],
        reward=fmean(record.rewards),
        sigma=record.sigma,
        share=record.share,
        prompt_tokens=record.prompt_tokens,
        seconds=record.seconds,
    )


def by_epoch(episodes: Sequence[Episode]) -> tuple[Epoch, ...]:
    """Summarise the episodes of one training run, given in order."""
    own_sigma = any(not isinstance(episode.budget, Threshold) for episode in episodes)
    return epochs_of([step_of(EpisodeRecord.of(episode)) for episode in episodes], own_sigma=own_sigma)


def epochs_of(steps: Sequence[Step], *, own_sigma: bool = False) -> tuple[Epoch, ...]:
    """Summarise steps in order; own_sigma: whether the budget gives every edit a sigma of its own."""
    return tuple(_epoch(list(group), own_sigma) for _, group in groupby(steps, key=lambda step: step.epoch))


def _epoch(steps: Sequence[Step], own_sigma: bool) -> Epoch:
    sigmas = [step.sigma for step in (steps if own_sigma else steps[-1:]) if step.sigma is not None]
    tokens = [step.prompt_tokens for step in steps if step.prompt_tokens is not None]
    return Epoch(
        epoch=steps[0].epoch,
        episodes=len(steps),
        esr=fmean(step.correct for step in steps),
        reward=fmean(step.reward for step in steps),
        mean_k=fmean(step.kept for step in steps),
        sigma=fmean(sigmas) if sigmas else None,
        share=steps[-1].share,
        calls=sum(step.evaluated for step in steps),
        prompt_tokens=sum(tokens) if len(tokens) == len(steps) else None,
        seconds=sum(step.seconds for step in steps),
    )


def epochs_table(runs: Mapping[str, Sequence[Epoch]]) -> Table:
    """Training by epoch, a block of rows for each run."""
    rows: list[tuple[Cell, ...]] = []
    for name, epochs in runs.items():
        rows.append((name,))
        rows += [
            (
                str(epoch.epoch), Number(epoch.esr, ".3f"), Number(epoch.reward, "+.3f"), Number(epoch.mean_k, ".2f"),
                sigma, Number(epoch.calls), Number(epoch.prompt_tokens), Number(epoch.seconds, ".1f"),
            )
            for epoch in epochs
            for sigma in [epoch.threshold if epoch.share is None else f"share {as_text(epoch.threshold)}"]
        ]  # fmt: skip
    header = ("epoch", "ESR", "mean reward", "mean k", "sigma", "calls", "prompt tokens", "seconds")
    notes = (
        "ESR: training edits answered right under the prompt the budget gives. reward: over all evaluated prefixes. k: "
        "retains kept. sigma: at the end of the epoch, or the mean if every edit has its own. prompt tokens: as if "
        "every prompt were read by itself.",
    )
    return Table("Training by epoch", header, tuple(rows), notes)
