"""Salient vectors: the mean of the vectors of a text's tokens, of which common ones count little.

So "What is the author of it?" and "What is the price of it?" are told apart by the words that differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray

_WORD = re.compile(r"\w+|[^\w\s]")
_POWER, _LEAST = 1.5, 0.01  # of weights; chosen on public data, docs/results/gate.md


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
    counts = _counts()
    lines = [counts.get(word, 0) for word in _WORD.findall(text.lower()) if word != "it"]
    return float(_weights(np.array(lines), counts[""]).sum())


def _weights(lines: NDArray[Any], total: int) -> FloatArray:
    rarity = np.log((total + 1) / (1 + np.minimum(lines, total))) / np.log(total)
    weights: FloatArray = np.clip(rarity, _LEAST, 1).astype(np.float32) ** _POWER
    return weights


@cache
def version() -> str:
    """Tells salient vectors from those of another list of common words."""
    return hashlib.sha256(repr((_POWER, _LEAST, [*_counts().items()])).encode()).hexdigest()


@cache
def _counts() -> dict[str, int]:
    """The common words and signs with the number of wordings that have each; the first, "", counts all wordings."""
    lines = resources.files("drike.encoders").joinpath("common_words.txt").read_text("utf-8").splitlines()
    return {word: int(count) for count, _, word in (line.partition(" ") for line in lines)}
