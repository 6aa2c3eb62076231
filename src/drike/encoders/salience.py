"""What words and tokens count for in salient vectors, by how common they are.

A salient vector is the mean of the vectors of a text's tokens, of which common ones count little,
so that "What is the author of it?" and "What is the price of it?" are told apart by the words that
differ.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray

_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
# Of the weights of tokens; chosen on public data, docs/results/gate.md.
_POWER = 1.5
_LEAST = 0.01
_ALL_WORDINGS = ""  # instead of a word: how many wordings there are


def token_weights(tokens_of: Callable[[str], Sequence[int]], size: int) -> FloatArray:
    """What each of `size` tokens counts for: 1 for a rare one, the less the more common it is.

    tokens_of: the tokens of a word.
    """
    counts_by_word = dict(_counts())
    total = counts_by_word.pop(_ALL_WORDINGS)
    counts_by_token = np.zeros(size)
    for word, count in counts_by_word.items():
        counts_by_token[list(tokens_of(word))] += count
    return _weights(counts_by_token, total)


@lru_cache(maxsize=1 << 14)
def content(text: str) -> float:
    """How much a text says besides "it": the weights of its words together, 0 without words."""
    weights = word_weights()
    words = _WORD_OR_SIGN.findall(text.lower())
    return sum(weights.get(word, 1.0) for word in words if word != "it")


@cache
def word_weights() -> dict[str, float]:
    """What common words and signs count for; all others count for 1."""
    counts_by_word = dict(_counts())
    total = counts_by_word.pop(_ALL_WORDINGS)
    weights = _weights(np.array(list(counts_by_word.values())), total)
    return dict(zip(counts_by_word, weights.tolist(), strict=True))


def _weights(counts: NDArray[Any], total: int) -> FloatArray:
    """The weights of what so many of all wordings have."""
    rarity = np.log((total + 1) / (1 + np.minimum(counts, total))) / np.log(total)
    return np.asarray(np.clip(rarity, _LEAST, 1).astype(np.float32) ** _POWER)


@cache
def salience_version() -> str:
    """Tells salient vectors from those of another list of common words."""
    version = (_POWER, _LEAST, list(_counts().items()))
    return hashlib.sha256(repr(version).encode()).hexdigest()


@cache
def _counts() -> dict[str, int]:
    """The common words and signs with the number of wordings that have each.

    The first, "", counts all wordings.
    """
    file = resources.files("drike.encoders").joinpath("common_words.txt")
    counts_by_word = {}
    for line in file.read_text("utf-8").splitlines():
        count, _, word = line.partition(" ")
        counts_by_word[word] = int(count)
    return counts_by_word
