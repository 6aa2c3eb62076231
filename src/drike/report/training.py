"""Training runs, epoch by epoch, from the lines of episodes.jsonl: for the terminal, tables and figures alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from drike.support.table import Cell, Number, Table, as_text
from drike.training.algorithm1 import Episode
from drike.training.rewards import EpisodeRecord


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, or as much of it as was done.

    Means over the episodes: esr, whether the answer was right with the retains that the budget kept; reward, over all
    prefixes; mean_k, of the retains kept. sigma: at the end of the epoch.
    calls: prompts sent to the model. prompt_tokens: as if nothing were shared; None if not counted. seconds: wall time.
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


def by_epoch(episodes: Sequence[Episode]) -> tuple[Epoch, ...]:
    """Summarise the episodes of one training run, given in order."""
    return epochs_of(episodes)


def epochs_of(episodes: Sequence[EpisodeRecord]) -> tuple[Epoch, ...]:
    """Summarise episodes in order."""
    return tuple(_epoch(list(group)) for _, group in groupby(episodes, key=lambda episode: episode.epoch))


def _epoch(episodes: Sequence[EpisodeRecord]) -> Epoch:
    kept = [min(episode.kept, episode.k) for episode in episodes]
    tokens = [episode.prompt_tokens for episode in episodes if episode.prompt_tokens is not None]
    last = episodes[-1]
    esr = fmean(episode.correct[k - 1] for episode, k in zip(episodes, kept, strict=True))
    reward = fmean(fmean(episode.rewards) for episode in episodes)
    read = sum(tokens) if len(tokens) == len(episodes) else None
    calls, seconds = sum(episode.k for episode in episodes), sum(episode.seconds for episode in episodes)
    return Epoch(last.epoch, len(episodes), esr, reward, fmean(kept), last.sigma, last.share, calls, read, seconds)


def epochs_table(runs: Mapping[str, Sequence[Epoch]]) -> Table:
    """Training by epoch, a block of rows for each run."""
    rows: list[tuple[Cell, ...]] = []
    for name, epochs in runs.items():
        rows.append((name,))
        for epoch in epochs:
            means = (Number(epoch.esr, ".3f"), Number(epoch.reward, "+.3f"), Number(epoch.mean_k, ".2f"))
            cut = epoch.threshold if epoch.share is None else f"share {as_text(epoch.threshold)}"
            work = (Number(epoch.calls), Number(epoch.prompt_tokens), Number(epoch.seconds, ".1f"))
            rows.append((str(epoch.epoch), *means, cut, *work))
    header = ("epoch", "ESR", "mean reward", "mean k", "sigma", "calls", "prompt tokens", "seconds")
    notes = (
        "ESR: training edits answered right under the prompt the budget gives. reward: over all evaluated prefixes. k: "
        "retains kept. sigma: at the end of the epoch. prompt tokens: as if every prompt were read by itself.",
    )
    return Table("Training by epoch", header, tuple(rows), notes)
