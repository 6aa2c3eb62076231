"""Cache keys and values of prefixes, so that later forwards continue from them.

What is kept is a tree's trunk, its first and longest path (see `tree`), of causal models only. If the cache is full, a
random entry is dropped: the oldest would be the very one that the next epoch needs first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from transformers import DynamicCache

from drike.models.local.tree import Ids, shared_prefix

WORTH_KEEPING = 32  # tokens; shorter prefixes are read again as fast as they are found


@dataclass(frozen=True, eq=False)
class Trunk:
    """Token ids [T] and, for every layer, keys and values [1, heads, T, size of a head], of `bytes` in all."""

    ids: Ids
    layers: tuple[tuple[Tensor, Tensor], ...]
    bytes: int


class PrefixCache:
    """Keys and values of prefixes read by one model, at most `limit` bytes; 0 keeps none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: list[Trunk] = []
        self._rng = random.Random(0)

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, ids: Ids) -> tuple[int, DynamicCache]:
        """Find the longest cached beginning of `ids`; return its length and a cache with it, to be extended."""
        cache = DynamicCache()
        best, count = self._longest_match(ids)
        if count < WORTH_KEEPING:
            return 0, cache
        for i, (keys, values) in enumerate(self._kept[best].layers):
            cache.update(keys[:, :, :count], values[:, :, :count], i)
        return count, cache

    def keep(self, ids: Ids, cache: DynamicCache) -> None:
        """Keep the keys and values of `ids`, the first in `cache`, unless most of them are kept already.

        They replace a trunk that shares at least half its tokens with `ids`, as it belongs to the same edit.
        """
        if not self.limit or len(ids) < WORTH_KEEPING:
            return
        best, common = self._longest_match(ids)
        if 4 * common >= 3 * len(ids):
            return
        every: Any = cache.layers
        begins = ((layer.keys[:, :, : len(ids)], layer.values[:, :, : len(ids)]) for layer in every)
        layers = tuple((keys.clone(), values.clone()) for keys, values in begins)
        trunk = Trunk(ids.copy(), layers, sum(states.nbytes for layer in layers for states in layer))
        if common and 2 * common >= len(self._kept[best].ids):
            del self._kept[best]
        while self._kept and sum(kept.bytes for kept in self._kept) + trunk.bytes > self.limit:
            del self._kept[self._rng.randrange(len(self._kept))]
        if trunk.bytes <= self.limit:
            self._kept.append(trunk)

    def clear(self) -> None:
        """Drop all entries."""
        self._kept.clear()

    def stop(self) -> None:
        """Drop all entries, and keep none from now on."""
        self.limit = 0
        self.clear()

    def _longest_match(self, ids: Ids) -> tuple[int, int]:
        """Index of the trunk with the longest common prefix with `ids`, and that length; (0, 0) if there is none."""
        # Most trunks differ from `ids` within a few tokens, so a comparison of these rules them out.
        few = ids[:WORTH_KEEPING]
        near = [i for i, trunk in enumerate(self._kept) if np.array_equal(trunk.ids[:WORTH_KEEPING], few)]
        matches = ((i, shared_prefix(self._kept[i].ids, ids)) for i in near)
        return max(matches, key=lambda match: match[1], default=(0, 0))
