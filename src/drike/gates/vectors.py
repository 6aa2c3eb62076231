"""Vectors of the texts of edits, to be looked up and searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from drike.encoders.base import FloatArray
from drike.gates.overlay import OverlayDict, regrouped

_ROUNDING = 1e-5  # more than what the order of sums changes in a cosine of single precision


@dataclass(frozen=True, eq=False)
class TextVectors:
    """Texts with a unit vector [d] and the ids of the edits that have them; it never changes.

    matrix: the vectors of `vectors.base` in its order [n, d], to search them.
    """

    edits: OverlayDict[str, tuple[int, ...]] = field(default_factory=OverlayDict)
    vectors: OverlayDict[str, FloatArray] = field(default_factory=OverlayDict)
    matrix: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def changed(
        self, gone: Mapping[int, Iterable[str]], new: Mapping[int, Iterable[str]], known: Mapping[str, FloatArray]
    ) -> TextVectors:
        """A copy without the texts of some edits and with those of others, by id. known: vectors of these."""
        edits = regrouped(self.edits, gone.items(), new.items())
        old, added = ([text for texts in texts_of.values() for text in texts] for texts_of in (gone, new))
        dropped = {text: None for text in old if text not in edits}
        vectors = self.vectors.changed({**dropped, **{t: known[t] for t in added if t not in self.vectors}})
        if vectors.base is self.vectors.base:
            return TextVectors(edits, vectors, self.matrix)
        matrix = np.stack(list(vectors.base.values())) if vectors.base else np.zeros((0, 0), np.float32)
        return TextVectors(edits, OverlayDict(dict(zip(vectors.base, matrix, strict=True))), matrix)

    def closest(self, texts: Iterable[str], vector: FloatArray) -> float:
        """The largest cosine of a unit vector [d] and those of texts."""
        return max(self._cosines(texts, vector).values())

    def nearest(self, vector: FloatArray, count: int) -> dict[str, float]:
        """The `count` texts with the largest cosines, and those that tie with the last of them, the largest first."""
        texts, changes = list(self.vectors.base), self.vectors.changes
        rows: Iterable[int] = range(len(texts))
        if len(texts) > (enough := count + len(changes)):  # some of them may be gone
            near = self.matrix @ vector
            rows = np.flatnonzero(near >= np.partition(near, -enough)[-enough] - _ROUNDING)
        current = [text for row in rows if (text := texts[row]) not in changes]
        current += [text for text, value in changes.items() if value is not None]
        cosines = self._cosines(current, vector)
        ranked = sorted(current, key=lambda text: (-cosines[text], text))
        last = cosines[ranked[:count][-1]] if ranked else 0.0
        return {text: cosines[text] for text in ranked if cosines[text] >= last}

    def _cosines(self, texts: Iterable[str], vector: FloatArray) -> dict[str, float]:
        """Rounded to six decimals, so that they do not depend on which other texts there are."""
        texts = list(texts)
        if not texts:
            return {}
        stacked = np.stack([self.vectors[text] for text in texts]).astype(np.float64)
        return dict(zip(texts, np.round(stacked @ vector, 6).tolist(), strict=True))
