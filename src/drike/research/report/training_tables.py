"""Training runs, summarised by epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from drike.research.training.algorithm1 import EpisodeRecord, count_tokens
from drike.support.table import Cell, Number, Table, as_text


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, or as much of it as was done.

    esr, reward and mean_k are means over its episodes.
    """

    epoch: int
    episodes: int
    esr: float  # whether the answer was right with the retains that the budget kept
    reward: float  # over all prefixes
    mean_k: float  # of the retains kept
    sigma: float | None  # of the budget at the end of the epoch
    share: float | None
    calls: int  # prompts sent to the model
    prompt_tokens: int | None  # as if nothing were shared; None if not counted
    seconds: float  # wall time

    @property
    def threshold(self) -> Number:
        """What the budget cuts by: its fixed share, or its sigma, where it has one."""
        if self.share is None:
            return Number(self.sigma, ".4f")
        return Number(self.share, ".0%")


def by_epoch(episodes: Sequence[EpisodeRecord]) -> tuple[Epoch, ...]:
    """Summarise the episodes of one training run, given in order."""
    epochs = []
    for number, group in groupby(episodes, key=lambda episode: episode.epoch):
        of_epoch = list(group)
        last = of_epoch[-1]
        epoch = Epoch(
            epoch=number,
            episodes=len(of_epoch),
            esr=fmean(episode.success for episode in of_epoch),
            reward=fmean(fmean(episode.rewards) for episode in of_epoch),
            mean_k=fmean(min(episode.kept, episode.k) for episode in of_epoch),
            sigma=last.sigma,
            share=last.share,
            calls=sum(episode.k for episode in of_epoch),
            prompt_tokens=count_tokens(of_epoch),
            seconds=sum(episode.seconds for episode in of_epoch),
        )
        epochs.append(epoch)
    return tuple(epochs)


def epochs_table(runs: Mapping[str, Sequence[Epoch]]) -> Table:
    """Training by epoch, a block of rows for each run."""
    header = ("epoch", "ESR", "mean reward", "mean k", "sigma", "calls", "prompt tokens", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for name, epochs in runs.items():
        rows.append((name,))
        rows += map(_epoch_row, epochs)
    note = (
        "ESR: training edits answered right under the prompt the budget gives. "
        "reward: over all evaluated prefixes. k: retains kept. sigma: at the end of the epoch. "
        "prompt tokens: as if every prompt were read by itself."
    )
    return Table("Training by epoch", header, tuple(rows), (note,))


def _epoch_row(epoch: Epoch) -> tuple[Cell, ...]:
    threshold: Cell = epoch.threshold
    if epoch.share is not None:
        threshold = f"share {as_text(epoch.threshold)}"
    return (
        str(epoch.epoch),
        Number(epoch.esr, ".3f"),
        Number(epoch.reward, "+.3f"),
        Number(epoch.mean_k, ".2f"),
        threshold,
        Number(epoch.calls),
        Number(epoch.prompt_tokens),
        Number(epoch.seconds, ".1f"),
    )
