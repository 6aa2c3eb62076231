"""Attention over packed trees of tokens: a model's inputs, and a fast kernel for the trunk.

transformers passes a 4-D mask on unchanged, so windows, chunks and causality are put in here, per
layer type.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from drike.models.local.architecture import tree_obstacle
from drike.models.local.token_trees import TokenTree

SPLIT = "drike_split"  # the name of our attention function among those of transformers
# Size of a head beyond which a card attends in float32 without its fast kernels: with these the
# trees of Gemma 3 (256) failed their check by nats on an H100 (torch 2.11), those of others passed.
_WIDEST_HEAD = 128
_ALIGNED = 8  # a multiple of this many tokens, without which a card's kernels copy every mask


def use_given_masks(model: PreTrainedModel) -> None:
    """Switch to the fastest attention that a model supports and that takes custom masks.

    Flash kernels take none.
    """
    config = model.config.get_text_config()
    if config._attn_implementation not in ("sdpa", "eager", SPLIT):
        try:
            model.set_attn_implementation("sdpa")
        except ValueError:
            model.set_attn_implementation("eager")
    can_split = config._attn_implementation == "sdpa" and model._supports_attention_backend
    if can_split and tree_obstacle(model) is None:
        AttentionInterface.register(SPLIT, _split_attention)
        AttentionMaskInterface.register(SPLIT, sdpa_mask)
        model.set_attn_implementation(SPLIT)


def tree_inputs(model: PreTrainedModel, tree: TokenTree, first: int = 0) -> dict[str, Any]:
    """A model's inputs to read a packed tree: ids, positions, and mask.

    Ids and positions are [1, N - first], the mask is [1, 1, rows, N].

    first: number of the trunk's tokens that are in the model's cache already. The rows are those
    from `first` on or, with split attention, those after a trunk that no window cuts; a model with
    several layer types gets a mask for each. Boolean for sdpa; for eager, which adds the mask, 0 or
    the smallest number of the model's dtype.
    """
    ids = torch.from_numpy(tree.ids[first:])[None].to(model.device)
    if tree.trunk == len(tree) and not first:
        # A single path: the model's own causal attention is exact and fast.
        return {"input_ids": ids}
    depth = torch.from_numpy(tree.depth[first:])[None].to(model.device)
    config = model.config.get_text_config()
    mask_by_type = {}
    for layer_type in _layer_types(config):
        attends = torch.from_numpy(_mask(config, layer_type, tree, first)).to(model.device)
        mask_by_type[layer_type] = _as_model_takes(attends[None, None], model)
    return {"input_ids": ids, "position_ids": depth, "attention_mask": _as_argument(mask_by_type)}


def batch_inputs(model: PreTrainedModel, trees: Sequence[TokenTree]) -> dict[str, Any]:
    """A model's inputs to read packed trees, one in each row of a batch [B, N].

    They are those of `tree_inputs`, but for the shorter trees' padding: tokens that attend to
    themselves alone. With split attention, the rows of the mask are those after the shortest trunk.
    """
    longest = max(map(len, trees))
    size = -(-longest // _ALIGNED) * _ALIGNED
    packed = np.zeros((3, len(trees), size), dtype=np.int64)
    packed[2] = np.arange(1, size + 1)  # where the subtree of a token alone ends
    for row, tree in enumerate(trees):
        packed[:, row, : len(tree)] = (tree.ids, tree.depth, tree.end)
    ids, depth, end = on_device(packed, model.device).unbind()

    config = model.config.get_text_config()
    trunk = min(size - 1, *(tree.trunk for tree in trees))
    mask_by_type = {}
    for layer_type in _layer_types(config):
        limits = _limits(config, layer_type)
        first = trunk if _is_split(config, limits, trunk) else 0
        attends = _batch_mask(depth, end, limits, first)
        mask_by_type[layer_type] = _as_model_takes(attends[:, None], model)
    return {"input_ids": ids, "position_ids": depth, "attention_mask": _as_argument(mask_by_type)}


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on a device; a card is not waited for."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class _Limits(NamedTuple):
    """How far tokens attend in a layer: tokens back, with their own, and length of a chunk."""

    window: int | None
    chunk: int | None


def _layer_types(config: PreTrainedConfig) -> list[str]:
    """The types of a model's layers; "" stands for all, where they are not named."""
    return sorted(set(getattr(config, "layer_types", None) or ())) or [""]


def _as_argument(mask_by_type: Mapping[str, Tensor]) -> object:
    """Only models with several layer types accept a dict of masks; all accept a single one."""
    if len(mask_by_type) > 1:
        return mask_by_type
    [mask] = mask_by_type.values()
    return mask


def _as_model_takes(attends: Tensor, model: PreTrainedModel) -> Tensor:
    """A boolean mask as it is, or as numbers that are added to the scores.

    Eager attention takes only these; a card would make them of the boolean mask in every layer.
    """
    is_eager = model.config.get_text_config()._attn_implementation == "eager"
    if not is_eager and not attends.is_cuda:
        return attends
    numbers = torch.zeros_like(attends, dtype=model.dtype)
    return numbers.masked_fill_(~attends, torch.finfo(model.dtype).min)


def _mask(
    config: PreTrainedConfig, layer_type: str, tree: TokenTree, first: int
) -> NDArray[np.bool_]:
    """The tree's mask in layers of this type."""
    limits = _limits(config, layer_type)
    is_split = not first and _is_split(config, limits, tree.trunk)
    return tree.mask(
        window=limits.window, chunk=limits.chunk, first=tree.trunk if is_split else first
    )


def _limits(config: PreTrainedConfig, layer_type: str) -> _Limits:
    """How far tokens attend in layers of this type."""
    window = getattr(config, "sliding_window", None)
    chunk = getattr(config, "attention_chunk_size", None)
    slides = layer_type == "sliding_attention" or (not layer_type and window is not None)
    if not slides:
        window = None
    if slides or layer_type == "full_attention":
        chunk = None
    return _Limits(window, chunk)


def _is_split(config: PreTrainedConfig, limits: _Limits, trunk: int) -> bool:
    """Whether the tokens of a trunk need no mask: attention is split, and no window cuts them."""
    cuts_trunk = any(limit and limit < trunk for limit in limits)
    return config._attn_implementation == SPLIT and not cuts_trunk


def _batch_mask(depth: Tensor, end: Tensor, limits: _Limits, first: int) -> Tensor:
    """`TokenTree.mask` of trees [B, N - first, N], made where their depths and ends [B, N] are."""
    keys = torch.arange(depth.shape[1], device=depth.device)
    rows = keys[first:, None]
    row_depth = depth[:, first:, None]
    attends = (keys <= rows) & (rows < end[:, None, :])
    if limits.window is not None:
        attends &= row_depth - depth[:, None, :] < limits.window
    if limits.chunk is not None:
        attends &= row_depth // limits.chunk == depth[:, None, :] // limits.chunk
    return attends


def _split_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Call sdpa.

    A mask with fewer rows than queries applies to the last queries, and those before are causal.
    The causal kernel skips half of the work, which a mask would not.
    """
    if query.is_cuda and query.dtype == torch.float32 and query.shape[2] > 1:
        # In this precision a card's fast kernels take only as many keys as queries.
        groups = getattr(module, "num_key_value_groups", 1)
        key = repeat_kv(key, groups)
        value = repeat_kv(value, groups)
        module = SimpleNamespace(is_causal=True, num_key_value_groups=1)
        if query.shape[-1] > _WIDEST_HEAD:
            with sdpa_kernel(SDPBackend.MATH):
                return _attended(module, query, key, value, attention_mask, **options)
    return _attended(module, query, key, value, attention_mask, **options)


def _attended(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What `_split_attention` returns."""
    trunk = 0 if attention_mask is None else query.shape[2] - attention_mask.shape[-2]
    if trunk <= 0:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    causal, _ = sdpa_attention_forward(
        module,
        query[:, :, :trunk],
        key[:, :, :trunk],
        value[:, :, :trunk],
        None,
        **{**options, "is_causal": True},
    )
    masked, _ = sdpa_attention_forward(
        module, query[:, :, trunk:], key, value, attention_mask, **options
    )
    return torch.cat([causal, masked], dim=1), None
