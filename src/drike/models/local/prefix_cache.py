"""Keys and values of prompts read before, from which others with the same beginning continue."""

from __future__ import annotations

import random
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from transformers import DynamicCache

from drike.models.local.token_trees import Ids, shared_prefix

WORTH_KEEPING = 32  # tokens; shorter prefixes are read again as fast as they are found


class Trunk(NamedTuple):
    """The longest path of a tree.

    ids: [T]. layers: for every layer, keys and values [1, heads, T, size of a head]. bytes: of
    these.
    """

    ids: Ids
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    bytes: int


class _Match(NamedTuple):
    """A trunk, by index, and the length of the prefix that it has in common with a text."""

    trunk_index: int
    length: int


class PrefixCache:
    """Keys and values of prefixes read by one model, at most `limit` bytes; 0 keeps none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._trunks: list[Trunk] = []
        self._rng = random.Random(0)

    def __len__(self) -> int:
        return len(self._trunks)

    def has_beginning(self, ids: Ids) -> bool:
        """Whether a beginning of `ids` is cached."""
        return self._longest_match(ids).length >= WORTH_KEEPING

    def recall(self, ids: Ids) -> tuple[int, DynamicCache]:
        """Find the longest cached beginning of `ids`.

        Return its length and a cache with it, to be extended.
        """
        cache = DynamicCache()
        match = self._longest_match(ids)
        if match.length < WORTH_KEEPING:
            return 0, cache
        for i, (keys, values) in enumerate(self._trunks[match.trunk_index].layers):
            cache.update(keys[:, :, : match.length], values[:, :, : match.length], i)
        return match.length, cache

    def keep(self, ids: Ids, cache: DynamicCache) -> None:
        """Keep the keys and values of `ids`, the first in `cache`, unless most of them are kept."""
        if not self.limit or len(ids) < WORTH_KEEPING:
            return
        match = self._longest_match(ids)
        if 4 * match.length >= 3 * len(ids):
            return
        trunk = _trunk_of(ids, cache)
        if match.length and 2 * match.length >= len(self._trunks[match.trunk_index].ids):
            del self._trunks[match.trunk_index]  # of the same edit
        # A random one makes room: the oldest would be the very one that the next epoch needs first.
        while self._trunks and self._bytes() + trunk.bytes > self.limit:
            del self._trunks[self._rng.randrange(len(self._trunks))]
        if trunk.bytes <= self.limit:
            self._trunks.append(trunk)

    def clear(self) -> None:
        """Drop all entries."""
        self._trunks.clear()

    def _bytes(self) -> int:
        return sum(trunk.bytes for trunk in self._trunks)

    def _longest_match(self, ids: Ids) -> _Match:
        """The trunk with the longest common prefix with `ids`, the first of several.

        The match has length 0 if no trunk has a common prefix with them.
        """
        # Most trunks differ from `ids` within a few tokens, so a comparison of these rules them
        # out.
        beginning = ids[:WORTH_KEEPING]
        best = _Match(0, 0)
        for i, trunk in enumerate(self._trunks):
            if np.array_equal(trunk.ids[:WORTH_KEEPING], beginning):
                length = shared_prefix(trunk.ids, ids)
                if length > best.length:
                    best = _Match(i, length)
        return best


def _trunk_of(ids: Ids, cache: DynamicCache) -> Trunk:
    """A copy of the keys and values of `ids`, the first in a cache."""
    layers = []
    for layer in cast("Any", cache.layers):
        keys = layer.keys[:, :, : len(ids)].clone()
        values = layer.values[:, :, : len(ids)].clone()
        layers.append((keys, values))
    size = sum(keys.nbytes + values.nbytes for keys, values in layers)
    return Trunk(ids.copy(), tuple(layers), size)
