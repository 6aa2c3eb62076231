"""What a run works on: a data set, its split, and the pool of its demonstrations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drike.datasets import Dataset
from drike.datasets.splits import Split
from drike.edits import EditCase
from drike.retrieval.learned_budget import Controller
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    def prepare(self, cases: Sequence[EditCase], parts: Iterable[object]) -> list[str]:
        """Encode at once all texts that the retrievers and learned budgets among `parts` read for these edits.

        Batches are faster than pool by pool, and seconds per edit are then not the first look-up's. Returns notes on
        the demonstrations: synthetic ones, and records that share subject and relation with an edit.
        """
        candidates = self.pool.candidates([case.edit for case in cases])
        for part in parts:
            if isinstance(part, Retriever | Controller) and part.encoder is not None:
                part.encoder.encode(sorted({text for one in candidates for text in part.texts(one)}))
        excluded = [one.excluded for one in candidates if one.excluded]
        return [
            *self.pool.fallbacks,
            *([f"Excluded {sum(excluded)} records that share subject and relation with the edit, at {len(excluded)} "
               "edits"] if excluded else []),
        ]  # fmt: skip
