"""Estimate how many tokens fit into a device's memory; running out of memory corrects the estimate later."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from transformers import PreTrainedModel

_UNKNOWN = 2 << 30  # bytes assumed to be free if a machine does not report them
_FEWEST = 256  # tokens, fewer than in any prompt with demonstrations
_MOST_KEPT = 2 << 30  # bytes: other programs use this memory, too
_PREDICTING = 0.25  # share of a tree's tokens whose logits are computed; 3 to 10 % in an episode
_ALIVE = 16  # hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies


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
    [available] = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")] or [_UNKNOWN >> 10]
    return available << 10


def tokens_that_fit(model: PreTrainedModel, limit: int, free: int | None = None) -> int:
    """Number of tokens of a packed tree, at limit `limit`, that fit into half of the `free` bytes (None: measured).

    Counts the states of one layer, the keys and values of all layers, the float32 logits of the rows that predict, and
    the scores of eager attention, which grow with the square of the tokens.
    """
    half = (free_bytes(model.device) if free is None else free) / 2
    config = model.config.get_text_config()
    wide = max(getattr(config, "intermediate_size", None) or 0, 4 * config.hidden_size)
    states = (_ALIVE * config.hidden_size + 3 * wide) * model.dtype.itemsize
    logits = _PREDICTING * config.vocab_size * 3 * torch.float32.itemsize
    linear = states + logits + kept_bytes(model)
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
