"""How many tokens fit into a device's memory (an estimate), and the keys and values of prefixes that are kept there.

What is kept is a tree's trunk, its first and longest path, of causal models only, so that later forwards continue it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from drike.models.local.tree import Ids, shared_prefix

_UNKNOWN = 2 << 30  # bytes assumed to be free if a machine does not report them
_FEWEST = 256  # tokens, fewer than in any prompt with demonstrations
_MOST_KEPT = 2 << 30  # bytes: other programs use this memory, too
_PREDICTING = 0.25  # share of a tree's tokens whose logits are computed; 3 to 10 % in an episode
_ALIVE = 16  # hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies
WORTH_KEEPING = 32  # tokens; shorter prefixes are read again as fast as they are found


def free_bytes(device: torch.device) -> int:
    """Free memory of a device, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return _UNKNOWN
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), _UNKNOWN)


def tokens_that_fit(model: PreTrainedModel, limit: int, free: int | None = None) -> int:
    """Number of tokens of a packed tree, `limit` at most, that fit into half of the `free` bytes (None: measured)."""
    half = (free_bytes(model.device) if free is None else free) / 2
    config = model.config.get_text_config()
    wide = max(getattr(config, "intermediate_size", None) or 0, 4 * config.hidden_size)
    states = (_ALIVE * config.hidden_size + 3 * wide) * model.dtype.itemsize
    logits = _PREDICTING * config.vocab_size * 3 * torch.float32.itemsize
    linear = states + logits + kept_bytes(model)  # bytes a token: the states of one layer, the keys of all
    # Bytes per pair of tokens: the mask, and in eager attention the scores before and after the softmax.
    pair = 2.0 + (8 * getattr(config, "num_attention_heads", 1) if config._attn_implementation == "eager" else 0)
    fitting = (math.sqrt(linear**2 + 4 * pair * half) - linear) / (2 * pair)
    return max(_FEWEST, min(limit, int(fitting)))


def kept_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers; a model with a state needs far less."""
    config = model.config.get_text_config()
    all_heads = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


def bytes_to_keep(model: PreTrainedModel) -> int:
    """Default limit for kept keys and values, in bytes: a third of a card's free memory, less of shared memory."""
    free = free_bytes(model.device)
    return free // 3 if model.device.type == "cuda" else min(_MOST_KEPT, free // 4)


@dataclass(frozen=True, eq=False)
class Trunk:
    """Token ids [T] and, for every layer, keys and values [1, heads, T, size of a head], of `bytes` in all."""

    ids: Ids
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
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
        """Keep the keys and values of `ids`, the first in `cache`, unless most of them are kept already."""
        best, common = self._longest_match(ids)
        if not self.limit or len(ids) < WORTH_KEEPING or 4 * common >= 3 * len(ids):
            return
        every, end = cast("Any", cache.layers), len(ids)
        layers = tuple((layer.keys[:, :, :end].clone(), layer.values[:, :, :end].clone()) for layer in every)
        trunk = Trunk(ids.copy(), layers, sum(states.nbytes for layer in layers for states in layer))
        if common and 2 * common >= len(self._kept[best].ids):  # of the same edit
            del self._kept[best]
        # A random one makes room: the oldest would be the very one that the next epoch needs first.
        while self._kept and sum(kept.bytes for kept in self._kept) + trunk.bytes > self.limit:
            del self._kept[self._rng.randrange(len(self._kept))]
        if trunk.bytes <= self.limit:
            self._kept.append(trunk)

    def clear(self) -> None:
        """Drop all entries."""
        self._kept.clear()

    def _longest_match(self, ids: Ids) -> tuple[int, int]:
        """Index of the trunk with the longest common prefix with `ids`, and that length; (0, 0) if there is none."""
        # Most trunks differ from `ids` within a few tokens, so a comparison of these rules them out.
        few = ids[:WORTH_KEEPING]
        near = [i for i, trunk in enumerate(self._kept) if np.array_equal(trunk.ids[:WORTH_KEEPING], few)]
        matches = ((i, shared_prefix(self._kept[i].ids, ids)) for i in near)
        return max(matches, key=lambda match: match[1], default=(0, 0))
