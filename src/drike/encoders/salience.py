"""Salient vectors: the mean of the vectors of a text's tokens, of which common ones count little.

Two questions of the same form about different things, "What is the author of it?" and "What is the price of it?", have
similar vectors, as most of their words are the same. In a salient vector the words that tell them apart decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources

import numpy as np

from drike.encoders.base import FloatArray

_POWER, _LEAST = 1.5, 0.01  # of weights; chosen on public data, docs/results/gate.md


def token_weights(tokens_of: Callable[[str], Sequence[int]], size: int) -> FloatArray:
    """What each of `size` tokens counts for: 1 for a rare one, the less the more common it is. tokens_of: of a word."""
    [(_, total), *counts] = _counts()
    count = np.zeros(size)
    for word, lines in counts:
        count[list(tokens_of(word))] += lines
    rarity = np.log((total + 1) / (1 + np.minimum(count, total))) / np.log(total)
    weights: FloatArray = np.clip(rarity, _LEAST, 1).astype(np.float32) ** _POWER
    return weights


@cache
def version() -> str:
    """Tells salient vectors from those of another list of common words."""
    return hashlib.sha256(repr((_POWER, _LEAST, _counts())).encode()).hexdigest()


@cache
def _counts() -> list[tuple[str, int]]:
    """The common words and signs with the number of wordings that have each; the first, "", counts all wordings."""
    lines = resources.files("drike.encoders").joinpath("common_words.txt").read_text("utf-8").splitlines()
    return [(word, int(count)) for count, _, word in (line.partition(" ") for line in lines)]
