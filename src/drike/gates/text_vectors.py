"""Texts of edits with their vectors, among which those near to a question's are found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drike.encoders.base import FloatArray
from drike.gates.overlay import InvertedIndex, OverlayDict

_ROUNDING = 1e-5  # more than what the order of sums changes in a cosine of single precision
_NO_ROWS: FloatArray = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class TextVectors:
    """Texts by edit, with their edits and a unit vector [d] each.

    rows: the texts of the rows of `matrix` [n, d]; its rows are the vectors in `vectors.base`.
    """

    texts: OverlayDict[int, tuple[str, ...]] = field(default_factory=OverlayDict)
    edits: InvertedIndex[str, int] = field(default_factory=InvertedIndex)
    vectors: OverlayDict[str, FloatArray] = field(default_factory=OverlayDict)
    rows: Sequence[str] = ()
    matrix: FloatArray = field(default_factory=lambda: _NO_ROWS)

    def replace(
        self,
        *,
        gone: Collection[int],
        new: Mapping[int, tuple[str, ...]],
        vectors_of: Mapping[str, FloatArray],
    ) -> TextVectors:
        """A copy without the texts of some edits and with those of others, by id.

        vectors_of: the vectors of the new texts.
        """
        texts_gone = {edit_id: self.texts[edit_id] for edit_id in gone}
        texts = self.texts.changed({**dict.fromkeys(gone), **new})
        edits = self.edits.replace(gone=texts_gone, new=new)

        vector_changes: dict[str, FloatArray | None] = {}
        for texts_of_edit in texts_gone.values():
            vector_changes |= {text: None for text in texts_of_edit if text not in edits}
        for texts_of_edit in new.values():
            vector_changes |= {
                text: vectors_of[text] for text in texts_of_edit if text not in self.vectors
            }
        vectors = self.vectors.changed(vector_changes)
        if vectors.base is self.vectors.base:
            return TextVectors(texts, edits, vectors, self.rows, self.matrix)

        rows = tuple(vectors.base)
        matrix = np.stack(list(vectors.base.values())) if rows else _NO_ROWS
        # The rows of the matrix themselves, so that no vector is kept twice.
        row_vectors = OverlayDict(dict(zip(rows, matrix, strict=True)))
        return TextVectors(texts, edits, row_vectors, rows, matrix)

    def closest(self, edit_ids: Iterable[int], vector: FloatArray) -> dict[int, float]:
        """For each edit the largest cosine of a unit vector [d] and the vectors of its texts."""
        texts_by_edit = {edit_id: self.texts[edit_id] for edit_id in edit_ids}
        all_texts = dict.fromkeys(text for texts in texts_by_edit.values() for text in texts)
        cosines = self._cosines(list(all_texts), vector)
        return {
            edit_id: max(map(cosines.__getitem__, texts))
            for edit_id, texts in texts_by_edit.items()
        }

    def nearest(self, vector: FloatArray, count: int) -> dict[str, float]:
        """The `count` texts with the largest cosines, the largest first.

        Texts that tie with the last of them are returned, too.
        """
        changes = self.vectors.changes
        # As many more as there are changes, as the texts of so many rows may be gone.
        near_texts = self._texts_of_near_rows(vector, count + len(changes))
        unchanged = [text for text in near_texts if text not in changes]
        added = [text for text, added_vector in changes.items() if added_vector is not None]
        cosines = self._cosines([*unchanged, *added], vector)

        ranked = sorted(cosines, key=lambda text: (-cosines[text], text))
        if not ranked:
            return {}
        last_ranked = ranked[:count][-1]
        least = cosines[last_ranked]
        return {text: cosines[text] for text in ranked if cosines[text] >= least}

    def _texts_of_near_rows(self, vector: FloatArray, count: int) -> Sequence[str]:
        """The texts of the `count` rows with the largest cosines, and those that may tie."""
        if len(self.rows) <= count:
            return self.rows
        cosines_by_row = self.matrix @ vector
        least = np.partition(cosines_by_row, -count)[-count]
        near_rows: list[int] = np.flatnonzero(cosines_by_row >= least - _ROUNDING).tolist()
        return [self.rows[row] for row in near_rows]

    def _cosines(self, texts: Sequence[str], vector: FloatArray) -> dict[str, float]:
        """Rounded to six decimals, so that they do not depend on which other texts there are."""
        if not texts:
            return {}
        stacked = np.stack([self.vectors[text] for text in texts]).astype(np.float64)
        cosines = np.round(stacked @ vector, 6).tolist()
        return dict(zip(texts, cosines, strict=True))
