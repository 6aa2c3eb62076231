"""Text encoders: their interface, and how the vectors of texts are compared."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.float64)
FloatArray = NDArray[np.float32]
# What tells an encoder from others of its name, "sha256" above all.
Identity = Mapping[str, str | None]

# Texts at once from which a server keeps vectors; what a user wrote is encoded in smaller parts.
BULK = 64
_QUERIES_AT_ONCE = 256  # times 20,000 records, the similarities are 40 MB
_DECIMALS = 6  # of similarities


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
    def identity(self) -> Identity:
        """What tells it from others of its name; {} if the name says it all."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors [n, d] of `texts`, float32."""


def salient(encoder: TextEncoder) -> TextEncoder:
    """The encoder of salient vectors that goes with one; the same, if it has none."""
    return getattr(encoder, "salient", encoder)


def unit(vectors: NDArray[Number]) -> NDArray[Number]:
    """Rows [n, d] scaled to length 1, in the precision given; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=vectors.dtype)


def directions(vectors: FloatArray) -> NDArray[np.float64]:
    """Rows [n, d] of length 1 in double precision.

    Single precision would round differently with the number of queries.
    """
    return unit(vectors.astype(np.float64))


def nearest(
    queries: FloatArray, records: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """For each query [m, d] the k records of highest cosine similarity.

    Returns their indices and similarities [m, k], best first. records: `directions` [n, d], made
    once for many searches. Of two that agree to six decimals the earlier one comes first, so that
    the order does not depend on how queries are batched. k is cut to n. A zero vector has
    similarity 0.
    """
    k = min(k, len(records))
    indices = np.zeros((len(queries), k), dtype=np.int64)
    similarities = np.zeros((len(queries), k), dtype=np.float32)
    if not k:
        return indices, similarities

    query_directions = directions(queries)
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        block = query_directions[start : start + _QUERIES_AT_ONCE]
        cosines = np.round(block @ records.T, _DECIMALS)
        for row, cosines_of_query in enumerate(cosines, start):
            best = _best(cosines_of_query, k)
            indices[row] = best
            similarities[row] = cosines_of_query[best]
    return indices, similarities


def _best(cosines: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The places of the k highest cosines, best first, the earlier of equal ones first."""
    limit = np.partition(cosines, -k)[-k]
    candidates = np.flatnonzero(cosines >= limit)
    best_first = np.argsort(-cosines[candidates], kind="stable")
    best: NDArray[np.int64] = candidates[best_first[:k]]
    return best
