"""The interface of text encoders, and nearest records by cosine similarity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.float64)
FloatArray = NDArray[np.float32]
Progress = Callable[[int, int], None]  # texts done, texts to do

BULK = 64  # texts at once from which a server keeps vectors; what a user wrote is encoded in smaller parts
_ROWS = 256  # queries at once: 256 x 20,000 similarities are 40 MB


class TextEncoder(Protocol):
    """Encodes texts as vectors, the same text always as the same vector."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """The name from which `load_encoder` makes the same encoder."""

    @property
    def dim(self) -> int:
        """Numbers per text."""

    @property
    def identity(self) -> Mapping[str, str | None]:
        """What tells it from others of its name, "sha256" above all; {} if the name says it all."""

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Vectors [n, d] of `texts`, float32."""


def salient(encoder: TextEncoder) -> TextEncoder:
    """The encoder of salient vectors (`drike.encoders.salience`) that goes with one; the same, if it has none."""
    return getattr(encoder, "salient", encoder)


def unit(vectors: NDArray[Number]) -> NDArray[Number]:
    """Rows [n, d] scaled to length 1, in the precision given; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=vectors.dtype)


def directions(vectors: FloatArray) -> NDArray[np.float64]:
    """Rows [n, d] of length 1 in double precision: single rounds differently with the number of queries."""
    return unit(vectors.astype(np.float64))


def nearest(queries: FloatArray, records: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], FloatArray]:
    """For each query [m, d] the k records of highest cosine similarity: indices and similarities [m, k].

    records: `directions` [n, d], made once for many searches. Best first; of two that agree to six decimals the earlier
    one, so that the order does not depend on how queries are batched. k is cut to n. A zero vector has similarity 0.
    """
    k = min(k, len(records))
    indices = np.zeros((len(queries), k), dtype=np.int64)
    similarities = np.zeros((len(queries), k), dtype=np.float32)
    if not k:
        return indices, similarities
    unit_queries = directions(queries)
    for start in range(0, len(queries), _ROWS):
        cosines = np.round(unit_queries[start : start + _ROWS] @ records.T, 6)
        smallest = np.partition(cosines, -k, axis=1)[:, -k]
        for row, (cosine, limit) in enumerate(zip(cosines, smallest, strict=True), start):
            candidates = np.flatnonzero(cosine >= limit)
            best = candidates[np.argsort(-cosine[candidates], kind="stable")[:k]]
            indices[row], similarities[row] = best, cosine[best]
    return indices, similarities
