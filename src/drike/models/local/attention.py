"""Attention over packed trees of tokens: a model's inputs, and a fast kernel for the trunk.

transformers passes a 4-D mask on unchanged, so windows, chunks and causality are put in here, per
layer type.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from drike.models.local.architecture import tree_obstacle
from drike.models.local.token_trees import TokenTree

SPLIT = "drike_split"  # the name of our attention function among those of transformers


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
    layer_types = sorted(set(getattr(config, "layer_types", None) or ()))
    mask_by_type = {}
    for layer_type in layer_types or [""]:
        attends = torch.from_numpy(_mask(config, layer_type, tree, first)).to(model.device)
        mask_by_type[layer_type] = _as_model_takes(attends[None, None], model)
    # Only models with several layer types accept a dict; all accept a single mask.
    attention_mask: object = mask_by_type
    if len(layer_types) <= 1:
        [attention_mask] = mask_by_type.values()
    return {"input_ids": ids, "position_ids": depth, "attention_mask": attention_mask}


def _as_model_takes(attends: Tensor, model: PreTrainedModel) -> Tensor:
    """A boolean mask as it is, or for eager attention as numbers that it adds to its scores."""
    if model.config.get_text_config()._attn_implementation != "eager":
        return attends
    numbers = torch.zeros_like(attends, dtype=model.dtype)
    return numbers.masked_fill_(~attends, torch.finfo(model.dtype).min)


def _mask(
    config: PreTrainedConfig, layer_type: str, tree: TokenTree, first: int
) -> NDArray[np.bool_]:
    """The tree's mask in layers of this type.

    "" stands for all layers of a model without named types.
    """
    window = getattr(config, "sliding_window", None)
    chunk = getattr(config, "attention_chunk_size", None)
    slides = layer_type == "sliding_attention" or (not layer_type and window is not None)
    if not slides:
        window = None
    if slides or layer_type == "full_attention":
        chunk = None
    cuts_trunk = any(limit and limit < tree.trunk for limit in (window, chunk))
    is_split = config._attn_implementation == SPLIT and not cuts_trunk and not first
    return tree.mask(window=window, chunk=chunk, first=tree.trunk if is_split else first)


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
