"""The initial token budget: it follows the memory and the model and stays within its bounds."""

from __future__ import annotations

import pytest
import torch

from drike.models.local.memory import bytes_to_keep, free_bytes, kept_bytes, tokens_that_fit
from tests.fakes.tiny_models import TREES, gpt2, llama


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-2", "GPT-J", "OPT"])
def test_more_memory_never_fits_fewer_tokens(name: str) -> None:
    model = TREES[name]()
    fits = [tokens_that_fit(model, 4096, free) for free in (0, 10**6, 10**7, 10**8, 10**9, 10**12)]
    assert fits == sorted(fits)
    assert (fits[0], fits[-1]) == (256, 4096)


def test_eager_attention_fits_fewer_tokens_because_its_memory_is_quadratic() -> None:
    model = gpt2()
    model.set_attn_implementation("sdpa")
    fast = tokens_that_fit(model, 10**6, 10**9)
    model.set_attn_implementation("eager")
    assert tokens_that_fit(model, 10**6, 10**9) < fast / 2


def test_a_cached_token_takes_the_bytes_of_its_keys_and_values() -> None:
    model = llama()
    cache = model(input_ids=torch.zeros((1, 7), dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert held == 7 * kept_bytes(model)
    assert 0 < bytes_to_keep(model) <= free_bytes(model.device)
