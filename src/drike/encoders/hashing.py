"""An encoder without weights for tests and dry runs; it is used only if named, never as a fallback."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, Progress, unit
from drike.errors import EncoderError, require_unicode

NAME = "hashing"
LARGEST = 1 << 16  # numbers per text
_WORD = re.compile(r"\w+")


class HashingEncoder:
    """Feature hashing of words and their letter n-grams, to unit length: exact and instant, without weights."""

    def __init__(self, dim: int = 256, *, seed: int = 0) -> None:
        self.name = NAME if (dim, seed) == (256, 0) else f"{NAME}:{dim}:{seed}"
        self.dim = dim
        self.identity: dict[str, str | None] = {}
        self._seed = seed

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Unit vectors [n, d]; a text without any word is the zero vector. Raises UsageError for half a character."""
        require_unicode(texts)
        vectors: FloatArray = np.zeros((len(texts), self.dim), dtype=np.float32)
        split = [(row, word) for row, text in enumerate(texts) for word in _WORD.findall(text.casefold())]
        hashed = [_places(word, self._seed) for _, word in split]
        if hashed:
            places, rows = np.concatenate(hashed), np.repeat([row for row, _ in split], [len(word) for word in hashed])
            np.add.at(vectors, (rows, places % self.dim), np.where(places & 1 << 31, np.float32(1), np.float32(-1)))
        if progress:
            progress(len(texts), len(texts))
        return unit(vectors)


@lru_cache(maxsize=1 << 10)
def _places(word: str, seed: int) -> NDArray[np.int64]:
    marked = f"<{word}>"
    grams = [marked[i : i + n] for n in (3, 4) for i in range(len(marked) - n + 1)]
    # Mixed once more: CRC is linear, so similar words have similar low bits.
    return np.array([_mix(zlib.crc32(gram.encode(), seed)) for gram in [marked, marked, *grams]], np.int64)


def _mix(number: int) -> int:
    number = (number ^ number >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return (number ^ number >> 16) * 0x45D9F3B & 0xFFFFFFFF


def named(name: str) -> HashingEncoder:
    """The encoder called "hashing" or "hashing:{dim}:{seed}"; EncoderError for anything else."""
    match = re.fullmatch(rf"{NAME}(?::([0-9]{{1,5}}))?(?::([0-9]{{1,10}}))?", name)
    dim, seed = (int(match[1] or 256), int(match[2] or 0)) if match else (0, 0)
    if not 0 < dim <= LARGEST or seed >= 1 << 32:
        use = f'"hashing" or "hashing:{{dim}}:{{seed}}" with 1 to {LARGEST} numbers'
        raise EncoderError(f"{name!r} is no encoder; use {use}")
    return HashingEncoder(dim, seed=seed)
