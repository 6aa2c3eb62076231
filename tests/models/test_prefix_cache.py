"""The prefix cache: keys and values are those of the requested tokens, within the limit."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache

from drike.models.local.prefix_cache import PrefixCache

# Sequences with long shared prefixes, like the prompts of an edit: a base, and where it branches
# off.
TURNS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(1, 120)), min_size=1, max_size=12
)


def sequence(base: int, turn: int, length: int) -> np.ndarray:
    ids = np.full(length, base, dtype=np.int64)
    ids[turn:] += 10 + turn
    return ids


def cache_of(ids: np.ndarray) -> DynamicCache:
    """Make keys and values that encode the tokens they were computed from."""
    cache = DynamicCache()
    states = torch.from_numpy(np.cumsum(ids * (np.arange(len(ids)) + 1))).float()[
        None, None, :, None
    ]
    for layer in range(2):
        cache.update(states + layer, -states, layer)
    return cache


@given(TURNS, st.sampled_from([0, 1500, 4000, 10**9]))
def test_cached_keys_and_values_belong_to_the_requested_tokens(
    turns: list[tuple[int, int, int]], limit: int
) -> None:
    prefixes = PrefixCache(limit)
    for turn in turns:
        ids = sequence(*turn)
        count, cache = prefixes.recall(ids)
        assert 0 <= count <= len(ids)
        if count:
            expected = cache_of(ids[:count])
            for layer, right in zip(cache.layers, expected.layers, strict=True):
                assert torch.equal(layer.keys, right.keys) and torch.equal(
                    layer.values, right.values
                )
        prefixes.keep(ids, cache_of(ids))
        assert (
            sum(one.nbytes for trunk in prefixes._trunks for layer in trunk.layers for one in layer)
            <= limit
        )


def test_extending_a_cached_prefix_leaves_the_cache_unchanged() -> None:
    prefixes = PrefixCache(10**9)
    ids = sequence(1, 99, 80)
    prefixes.keep(ids, cache_of(ids))
    _, cache = prefixes.recall(ids)
    cache.update(torch.ones(1, 1, 5, 1), torch.ones(1, 1, 5, 1), 0)
    count, again = prefixes.recall(np.append(ids, 7))
    assert count == 80 and again.layers[0].keys.shape[2] == 80


def test_a_longer_prefix_replaces_the_shorter_one_of_the_same_edit() -> None:
    prefixes = PrefixCache(10**9)
    for length in (60, 100):
        prefixes.keep(sequence(1, 200, length), cache_of(sequence(1, 200, length)))
    assert len(prefixes) == 1
    assert prefixes.recall(sequence(1, 200, 120))[0] == 100


def test_cyclic_access_larger_than_the_cache_still_hits_in_part() -> None:
    edits = [np.arange(100, dtype=np.int64) + 1000 * i for i in range(10)]
    prefixes = PrefixCache(
        sum(trunk.nbytes for trunk in [cache_of(edits[0]).layers[0].keys] * 4) * 5
    )  # room for five sequences
    found = 0
    for epoch in range(20):
        for ids in edits:
            found += prefixes.recall(ids)[0] > 0 and epoch > 0
            prefixes.keep(ids, cache_of(ids))
    assert found > 20  # evicting the oldest first would leave none
