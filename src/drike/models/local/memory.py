"""How much of a prompt the memory of a device holds: a first guess, which running out of memory corrects later."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_UNKNOWN = 2 << 30  # bytes taken to be free where a machine does not say
_FEWEST = 256  # tokens: less than any prompt with demonstrations has
_MOST_KEPT = 2 << 30  # bytes: others use this memory, too
_PREDICTING = 0.25  # share of a tree's tokens whose logits are wanted; an episode's are 3 to 10 %
_ALIVE = 16  # hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies


def free_bytes(device: torch.device) -> int:
    """Memory a device has left, in bytes."""
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


def tokens_that_fit(model: PreTrainedModel, most: int, free: int | None = None) -> int:
    """Tokens of a packed tree that half of the free memory holds, at most `most`; free: bytes, None asks the device.

    Counted are the states of one layer, the keys and values of all, the float32 logits of the rows that predict, and
    where attention is eager its scores, which grow with the square.
    """
    half = (free_bytes(model.device) if free is None else free) / 2
    config = model.config.get_text_config()
    wide = max(getattr(config, "intermediate_size", None) or 0, 4 * config.hidden_size)
    states = (_ALIVE * config.hidden_size + 3 * wide) * model.dtype.itemsize
    logits = _PREDICTING * config.vocab_size * 3 * torch.float32.itemsize
    linear = states + logits + kept_bytes(model)
    # What every pair of tokens takes: the mask, and with eager attention its scores twice over (before, after softmax).
    scores = 8 * getattr(config, "num_attention_heads", 1) if config._attn_implementation == "eager" else 0
    pair = 2.0 + scores
    fitting = (math.sqrt(linear**2 + 4 * pair * half) - linear) / (2 * pair)
    return max(_FEWEST, min(most, int(fitting)))


def kept_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers; a model with a state instead takes far less."""
    config = model.config.get_text_config()
    all_heads = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


def bytes_to_keep(model: PreTrainedModel) -> int:
    """Bytes that may be spent on keeping keys and values: a third of a card's free memory, less of shared memory."""
    free = free_bytes(model.device)
    return free // 3 if model.device.type == "cuda" else min(_MOST_KEPT, free // 4)
