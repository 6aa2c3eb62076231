"""An encoder without weights, for tests and dry runs.

It hashes features: words and their letter n-grams.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, Identity, unit
from drike.errors import EncoderError, require_unicode
from drike.support import progress

HASHING = "hashing"

_DIM = 256
_LARGEST_DIM = 1 << 16
_SEEDS = 1 << 32
_NAME = re.compile(rf"{HASHING}(?::(?P<dim>[0-9]{{1,5}}))?(?::(?P<seed>[0-9]{{1,10}}))?")
_WORD = re.compile(r"\w+")
_GRAM_SIZES = (3, 4)  # letters
_SIGN_BIT = 1 << 31


@dataclass(frozen=True)
class HashingEncoder:
    """Feature hashing to unit length, without weights; for tests and dry runs.

    Equal ones are the same encoder: what is kept for one serves all.
    """

    dim: int = _DIM
    seed: int = field(default=0, kw_only=True)
    identity: ClassVar[Identity] = {}

    @property
    def name(self) -> str:
        """What `hashing_encoder` makes it from."""
        return (
            HASHING if (self.dim, self.seed) == (_DIM, 0) else f"{HASHING}:{self.dim}:{self.seed}"
        )

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors [n, d]; a text without any word is the zero vector.

        Raises UsageError for half a character.
        """
        require_unicode(texts)
        vectors: FloatArray = np.zeros((len(texts), self.dim), dtype=np.float32)
        with progress.show(len(texts)) as count:
            hashes_of_texts = [_hashes_of_text(text, self.seed) for text in texts]
            count(len(texts))
        if texts:
            hashes = np.concatenate(hashes_of_texts)
            rows = np.repeat(np.arange(len(texts)), [len(own) for own in hashes_of_texts])
            signs = np.where(hashes & _SIGN_BIT, np.float32(1), np.float32(-1))
            np.add.at(vectors, (rows, hashes % self.dim), signs)
        return unit(vectors)


@lru_cache(maxsize=1 << 12)  # training encodes the same texts in every episode
def _hashes_of_text(text: str, seed: int) -> NDArray[np.int64]:
    hashes_of_words = [_hashes_of_word(word, seed) for word in _WORD.findall(text.casefold())]
    return np.concatenate([np.zeros(0, np.int64), *hashes_of_words])


@lru_cache(maxsize=1 << 12)
def _hashes_of_word(word: str, seed: int) -> NDArray[np.int64]:
    """The hashes of a word, twice, and of its letter n-grams."""
    marked = f"<{word}>"
    grams = [
        marked[start : start + size]
        for size in _GRAM_SIZES
        for start in range(len(marked) - size + 1)
    ]
    features = [marked, marked, *grams]
    hashes = np.array([zlib.crc32(feature.encode(), seed) for feature in features], np.int64)
    for _ in range(2):  # mixed once more: CRC is linear, so similar words have similar low bits
        hashes = (hashes ^ hashes >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return hashes


def hashing_encoder(name: str) -> HashingEncoder:
    """The encoder called "hashing" or "hashing:{dim}:{seed}"; EncoderError for anything else."""
    match = _NAME.fullmatch(name)
    if match:
        dim = int(match["dim"] or _DIM)
        seed = int(match["seed"] or 0)
        if 0 < dim <= _LARGEST_DIM and seed < _SEEDS:
            return HashingEncoder(dim, seed=seed)
    use = f'"hashing" or "hashing:{{dim}}:{{seed}}" with 1 to {_LARGEST_DIM} numbers'
    raise EncoderError(f"{name!r} is no encoder; use {use}")
