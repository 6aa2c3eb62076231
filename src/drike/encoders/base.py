"""Text encoders: their interface, which tokens and words count for their salient vectors, and one without weights.

A salient vector is the mean of the vectors of a text's tokens, of which common ones count little, so that "What is the
author of it?" and "What is the price of it?" are told apart by the words that differ.
"""

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from drike.errors import EncoderError, require_unicode
from drike.support import progress

Number = TypeVar("Number", np.float32, np.float64)
FloatArray = NDArray[np.float32]
Identity = Mapping[
    str, str | None
]  # what tells an encoder from others of its name, "sha256" above all

BULK = 64  # texts at once from which a server keeps vectors; what a user wrote is encoded in smaller parts
HASHING = "hashing"
_LARGEST = 1 << 16  # numbers of a hashed text
_WORD, _WORD_OR_SIGN = re.compile(r"\w+"), re.compile(r"\w+|[^\w\s]")
_POWER, _LEAST = (
    1.5,
    0.01,
)  # of the weights of tokens; chosen on public data, benchmarks/notes/gate.md
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
    """Rows [n, d] of length 1 in double precision: single rounds differently with the number of queries."""
    return unit(vectors.astype(np.float64))


def nearest(
    queries: FloatArray, records: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], FloatArray]:
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


def token_weights(tokens_of: Callable[[str], Sequence[int]], size: int) -> FloatArray:
    """What each of `size` tokens counts for: 1 for a rare one, the less the more common it is. tokens_of: of a word."""
    [(_, total), *counts] = _counts().items()
    count = np.zeros(size)
    for word, lines in counts:
        count[list(tokens_of(word))] += lines
    return _weights(count, total)


@lru_cache(maxsize=1 << 14)
def content(text: str) -> float:
    """How much a text says besides "it": the weights of its words together, 0 for one without words."""
    weights = word_weights()
    return sum(
        weights.get(word, 1.0) for word in _WORD_OR_SIGN.findall(text.lower()) if word != "it"
    )


@cache
def word_weights() -> dict[str, float]:
    """What common words and signs count for; all others count for 1."""
    [(_, total), *counts] = _counts().items()
    weights = _weights(np.array([lines for _, lines in counts]), total)
    return dict(zip((word for word, _ in counts), weights.tolist(), strict=True))


def _weights(lines: NDArray[Any], total: int) -> FloatArray:
    rarity = np.log((total + 1) / (1 + np.minimum(lines, total))) / np.log(total)
    return np.asarray(np.clip(rarity, _LEAST, 1).astype(np.float32) ** _POWER)


@cache
def salience_version() -> str:
    """Tells salient vectors from those of another list of common words."""
    return hashlib.sha256(repr((_POWER, _LEAST, [*_counts().items()])).encode()).hexdigest()


@cache
def _counts() -> dict[str, int]:
    """The common words and signs with the number of wordings that have each; the first, "", counts all wordings."""
    lines = (
        resources.files("drike.encoders")
        .joinpath("common_words.txt")
        .read_text("utf-8")
        .splitlines()
    )
    return {word: int(count) for count, _, word in (line.partition(" ") for line in lines)}


class HashingEncoder:
    """Feature hashing of words and their letter n-grams, to unit length, without weights; for tests and dry runs."""

    def __init__(self, dim: int = 256, *, seed: int = 0) -> None:
        self.name = HASHING if (dim, seed) == (256, 0) else f"{HASHING}:{dim}:{seed}"
        self.dim = dim
        self.identity: Identity = {}
        self._seed = seed

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors [n, d]; a text without any word is the zero vector. Raises UsageError for half a character."""
        require_unicode(texts)
        vectors: FloatArray = np.zeros((len(texts), self.dim), dtype=np.float32)
        with progress.show(len(texts)) as count:
            hashed = [_places(text, self._seed) for text in texts]
            count(len(texts))
        if texts:
            places, rows = (
                np.concatenate(hashed),
                np.repeat(np.arange(len(texts)), list(map(len, hashed))),
            )
            np.add.at(
                vectors,
                (rows, places % self.dim),
                np.where(places & 1 << 31, np.float32(1), np.float32(-1)),
            )
        return unit(vectors)


@lru_cache(maxsize=1 << 12)  # training encodes the same texts in every episode
def _places(text: str, seed: int) -> NDArray[np.int64]:
    words = [_places_of_word(word, seed) for word in _WORD.findall(text.casefold())]
    return np.concatenate([np.zeros(0, np.int64), *words])


@lru_cache(maxsize=1 << 12)
def _places_of_word(word: str, seed: int) -> NDArray[np.int64]:
    marked = f"<{word}>"
    grams = [marked[i : i + n] for n in (3, 4) for i in range(len(marked) - n + 1)]
    numbers = np.array(
        [zlib.crc32(gram.encode(), seed) for gram in [marked, marked, *grams]], np.int64
    )
    for _ in range(2):  # mixed once more: CRC is linear, so similar words have similar low bits
        numbers = (numbers ^ numbers >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return numbers


def hashing_encoder(name: str) -> HashingEncoder:
    """The encoder called "hashing" or "hashing:{dim}:{seed}"; EncoderError for anything else."""
    match = re.fullmatch(rf"{HASHING}(?::([0-9]{{1,5}}))?(?::([0-9]{{1,10}}))?", name)
    dim, seed = (int(match[1] or 256), int(match[2] or 0)) if match else (0, 0)
    if not 0 < dim <= _LARGEST or seed >= 1 << 32:
        use = f'"hashing" or "hashing:{{dim}}:{{seed}}" with 1 to {_LARGEST} numbers'
        raise EncoderError(f"{name!r} is no encoder; use {use}")
    return HashingEncoder(dim, seed=seed)
