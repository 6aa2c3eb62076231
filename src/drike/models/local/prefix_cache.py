"""Keys and values of prefixes that were read before, kept so that a later forward goes on from them.

A trunk is the first and longest path of a packed tree (see `tree`). An edit is asked about again and again: in
every epoch, by every editor, by everyone who talks to an edited model; its prompts then begin with the same
demonstrations, and what follows those is all that has to be read. Causal models only, whose keys and values of a token
depend on nothing behind it.

What does not fit the limit pushes something else out: drawn at random, not the oldest, since epochs go through the
edits in a circle and would find that each one had just been dropped.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from drike.models.local.tree import shared_prefix

WORTH_KEEPING = 32  # tokens; below, reading again costs no more than looking


@dataclass(frozen=True, eq=False)
class Trunk:
    """Token ids [T] and, for every layer, keys and values [1, heads, T, size of a head]."""

    ids: NDArray[np.int64]
    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def bytes(self) -> int:
        """Memory the keys and values take."""
        return sum(states.nbytes for layer in self.layers for states in layer)


class PrefixCache:
    """Keys and values of prefixes read by one model, at most `limit` bytes of them; 0 keeps nothing."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: list[Trunk] = []
        self._bytes = 0
        self._rng = random.Random(0)

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, ids: NDArray[np.int64]) -> tuple[int, DynamicCache]:
        """How many of the first of `ids` were read before, and a cache that holds just these; it may be added to."""
        cache = DynamicCache()
        best, count = self._most_alike(ids)
        if count < WORTH_KEEPING:
            return 0, cache
        for i, (keys, values) in enumerate(self._kept[best].layers):
            cache.update(keys[:, :, :count], values[:, :, :count], i)
        return count, cache

    def keep(self, ids: NDArray[np.int64], cache: DynamicCache) -> None:
        """Keep the keys and values of `ids`, the first in `cache`, unless most of them are kept already.

        A trunk that shares half of itself with `ids` makes room for them: it is the same edit's.
        """
        if not self.limit or len(ids) < WORTH_KEEPING:
            return
        best, alike = self._most_alike(ids)
        if 4 * alike >= 3 * len(ids):
            return
        layers: Any = cache.layers
        copied = tuple((one.keys[:, :, : len(ids)].clone(), one.values[:, :, : len(ids)].clone()) for one in layers)
        trunk = Trunk(ids.copy(), copied)
        if alike and 2 * alike >= len(self._kept[best].ids):
            self._drop(best)
        while self._kept and self._bytes + trunk.bytes > self.limit:
            self._drop(self._rng.randrange(len(self._kept)))
        if trunk.bytes <= self.limit:
            self._kept.append(trunk)
            self._bytes += trunk.bytes

    def clear(self) -> None:
        """Drop all."""
        self._kept.clear()
        self._bytes = 0

    def stop(self) -> None:
        """Drop all, and keep nothing from here on."""
        self.limit = 0
        self.clear()

    def _most_alike(self, ids: NDArray[np.int64]) -> tuple[int, int]:
        """Which trunk has the longest beginning in common with `ids`, and how long that is; (0, 0) if none has one."""
        # Most prefixes differ from `ids` within a few tokens, so one comparison of a few tokens passes over them.
        few = ids[:WORTH_KEEPING]
        near = [
            (i, shared_prefix(trunk.ids, ids))
            for i, trunk in enumerate(self._kept)
            if np.array_equal(trunk.ids[:WORTH_KEEPING], few)
        ]
        return max(near, key=lambda found: found[1], default=(0, 0))

    def _drop(self, index: int) -> None:
        self._bytes -= self._kept[index].bytes
        del self._kept[index]
