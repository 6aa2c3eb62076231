"""A device's memory, and how many tokens of a model fit into it."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from transformers import PreTrainedModel

_UNKNOWN = 2 << 30  # bytes assumed to be free if a machine does not report them
_FEWEST = 256  # tokens, fewer than in any prompt with demonstrations
_MOST_KEPT = 2 << 30  # bytes: other programs use this memory, too
_PREDICTING = 0.25  # share of a tree's tokens whose logits are computed; 3 to 10 % in an episode
# Hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies.
_ALIVE = 16


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
    for line in lines:
        if line.startswith("MemAvailable:"):
            kilobytes = int(line.split()[1])
            return kilobytes << 10
    return _UNKNOWN


def tokens_that_fit(model: PreTrainedModel, limit: int, free: int | None = None) -> int:
    """Number of tokens of a packed tree, `limit` at most, that fit into half of the memory.

    free: its free bytes; None measures them.
    """
    config = model.config.get_text_config()
    usable = (free_bytes(model.device) if free is None else free) / 2

    # Bytes for each token: the states of one layer, the logits, and the keys and values of all
    # layers.
    wide = max(getattr(config, "intermediate_size", None) or 0, 4 * config.hidden_size)
    states = (_ALIVE * config.hidden_size + 3 * wide) * model.dtype.itemsize
    logits = _PREDICTING * config.vocab_size * 3 * torch.float32.itemsize
    per_token = states + logits + kept_bytes(model)

    # Bytes for each pair of tokens: the mask, and in eager attention the scores before and after
    # the softmax.
    per_pair = 2.0
    if config._attn_implementation == "eager":
        per_pair += 8 * getattr(config, "num_attention_heads", 1)

    # n tokens take per_pair * n**2 + per_token * n bytes.
    root = math.sqrt(per_token**2 + 4 * per_pair * usable)
    fitting = int((root - per_token) / (2 * per_pair))
    return max(_FEWEST, min(limit, fitting))


def kept_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers; a model with a state needs far less."""
    config = model.config.get_text_config()
    all_heads = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(2 * config.num_hidden_layers * heads * head_size * model.dtype.itemsize)


def bytes_to_keep(model: PreTrainedModel) -> int:
    """Default limit for kept keys and values, in bytes.

    It is a third of a card's free memory, and less of memory that other programs use, too.
    """
    free = free_bytes(model.device)
    if model.device.type == "cuda":
        return free // 3
    return min(_MOST_KEPT, free // 4)
