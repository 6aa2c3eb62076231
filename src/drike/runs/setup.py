"""What a run works on: a data set, its split, and the pool of its demonstrations."""

from __future__ import annotations

from dataclasses import dataclass

from drike.datasets import Dataset
from drike.datasets.splits import Split
from drike.encoders import TextEncoder
from drike.retrieval.pool import Pool


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    @property
    def title(self) -> str:
        """The data set, and the subset of it that is edited if there is one."""
        return self.split.ids.title


def open_setup(dataset: Dataset, split: Split, encoder: TextEncoder, *, seed: int = 0) -> Setup:
    """Embed the demonstrations of a split; `seed` assigns the roles. Raises PoolError if there are too few."""
    return Setup(dataset, split, Pool(split.demonstrations, encoder, seed=seed))
