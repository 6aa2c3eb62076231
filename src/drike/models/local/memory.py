"""A device's memory, and how many tokens of a model fit into it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

_UNKNOWN = 2 << 30  # bytes assumed to be free if a machine does not report them
_FEWEST = 256  # tokens, fewer than in any prompt with demonstrations
_MOST_KEPT = 2 << 30  # bytes: other programs use this memory, too
_SHORT = (2, 4)  # tokens of texts that show what a model keeps of a token
PREDICTING = 0.25  # share of a tree's tokens whose logits are computed; 3 to 10 % in an episode
# Hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies.
_ALIVE = 16


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise OutOfMemoryError for every error that memory ran out.

    A card that several programs share raises others where its libraries ask for memory themselves.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        message = str(error).casefold()
        if "out of memory" in message or "alloc_failed" in message:
            raise torch.OutOfMemoryError(str(error)) from error
        raise


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
    usable = (free_bytes(model.device) if free is None else free) / 2

    # Bytes for each token: the states of one layer, the logits, and the keys and values of all
    # layers.
    hidden = _hidden_size(model)
    states = (_ALIVE * hidden + 3 * _widest(model, 4 * hidden)) * model.dtype.itemsize
    vocabulary = model.config.get_text_config().vocab_size
    logits = PREDICTING * vocabulary * 3 * torch.float32.itemsize
    per_token = states + logits + kept_bytes(model)

    # Bytes for each pair of tokens: the mask, and in eager attention the scores before and after
    # the softmax.
    per_pair = 2.0
    if model.config.get_text_config()._attn_implementation == "eager":
        per_pair += 8 * _heads(model)

    # n tokens take per_pair * n**2 + per_token * n bytes.
    root = math.sqrt(per_token**2 + 4 * per_pair * usable)
    fitting = int((root - per_token) / (2 * per_pair))
    return max(_FEWEST, min(limit, fitting))


def kept_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers, as two short texts show.

    Configs differ in how they give these sizes, also from layer to layer. A model that shows
    nothing is taken to keep two hidden vectors in each layer.
    """
    try:
        few, more = (_state_bytes(model, length) for length in _SHORT)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a model may raise almost anything if it keeps no state
        few = more = 0
    if more > few:
        return (more - few) // (_SHORT[1] - _SHORT[0])
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", 1)
    return int(2 * layers * _hidden_size(model) * model.dtype.itemsize)


@torch.inference_mode()
def _state_bytes(model: PreTrainedModel, length: int) -> int:
    """Bytes of the keys and values that a model keeps of a text of this length; 0 if of none."""
    ids = torch.zeros((1, length), dtype=torch.long, device=model.device)
    state: Any = model(input_ids=ids, use_cache=True).past_key_values
    tensors = [
        tensor
        for layer in state.layers
        for tensor in (getattr(layer, "keys", None), getattr(layer, "values", None))
        if tensor is not None
    ]
    return sum(tensor.nbytes for tensor in tensors)


def _hidden_size(model: PreTrainedModel) -> int:
    """Size of the vectors that stand for tokens."""
    table: Any = model.get_input_embeddings()
    weight = getattr(table, "weight", None)
    size: int = model.config.get_text_config().hidden_size if weight is None else weight.shape[-1]
    return size


def _widest(model: Any, least: int) -> int:
    """The widest side of a layer's matrix, in any layer; no table of tokens, or their logits."""
    head = model.get_output_embeddings()
    widest = least
    for module in model.modules():
        if module is head or isinstance(module, torch.nn.Embedding):
            continue
        for parameter in module.parameters(recurse=False):
            widest = max(widest, *parameter.shape[-2:]) if parameter.ndim > 1 else widest
    return widest


def _heads(model: PreTrainedModel) -> int:
    """The most heads of attention in a layer; 1 if the config does not say."""
    config = model.config.get_text_config().to_dict()
    name = model.config.get_text_config().attribute_map.get("num_attention_heads")
    heads = config.get(name or "num_attention_heads") or 1
    return max(heads) if isinstance(heads, list | tuple) else int(heads)


def bytes_to_keep(model: PreTrainedModel) -> int:
    """Default limit for kept keys and values, in bytes.

    It is a third of a card's free memory, and less of memory that other programs use, too.
    """
    free = free_bytes(model.device)
    if model.device.type == "cuda":
        return free // 3
    return min(_MOST_KEPT, free // 4)
