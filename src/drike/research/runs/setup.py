"""What a run works on: a data set, its split, and a pool over the demonstrations of the split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drike.edits.edit import EditCase
from drike.research.datasets import Dataset
from drike.research.datasets.dataset import Split
from drike.research.editors.pool import Pool, rotations
from drike.research.editors.rankings import Ranker
from drike.research.editors.retriever import Retriever


@dataclass(frozen=True)
class Setup:
    """A data set, its split, and a pool over the demonstrations of the split."""

    dataset: Dataset
    split: Split
    pool: Pool

    def prepare(self, cases: Sequence[EditCase], rankers: Iterable[Ranker]) -> list[str]:
        """Encode the texts that retrievers will read for these cases, before any is timed.

        Returns notes for people.
        """
        rotated = [edits for case in cases for edits in rotations(case.edits)]
        candidate_groups = self.pool.for_groups(rotated)
        for ranker in rankers:
            if isinstance(ranker, Retriever):
                texts = {text for group in candidate_groups for text in ranker.texts(group)}
                ranker.encoder.encode(sorted(texts))

        notes = list(self.pool.fallbacks)
        excluded = [group.excluded for group in candidate_groups if group.excluded]
        if excluded:
            notes.append(
                f"Excluded {sum(excluded)} records that share subject and relation with the edit, "
                f"at {len(excluded)} edits"
            )
        return notes
