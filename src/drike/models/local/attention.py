"""How a model can be scored, and the attention masks of a packed tree for it.

A packed tree is exact where attention is decided by the mask and position by `position_ids`. It is silently wrong where
either comes from the place in the row (ALiBi, fixed local windows), where a state is carried along (recurrent layers),
or where the encoding of positions depends on how long the text is (dynamic rope). `plan` knows these by the config; it
will age, so whoever scores also checks the first results against plain forwards.

transformers hands a 4-D mask on as it is: windows, chunks and causality are then ours to put in, per layer type. On
the trunk, the tree's first and longest path, attention is plainly causal: models that let us choose their attention
function get one that runs the fast causal kernel there and takes a mask for the remaining rows only.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from drike.models.local.tree import TokenTree

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Strategy = Literal["tree", "fork", "batch", "naive"]

STRATEGIES: tuple[Strategy, ...] = ("tree", "fork", "batch", "naive")  # fastest first; each is exact for more models

_SPLIT = "drike_split"  # the name of our attention function among those of transformers
# Given a state and several tokens, these start anew (measured: errors of 1 to 20 nats), or hand no state out.
_NO_CONTINUATION = ("mamba", "falcon_mamba", "jamba", "recurrent_gemma")
_ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}


@dataclass(frozen=True)
class Plan:
    """The strategy by which requests are scored, and why.

    tree: shared prefixes read once, in one forward over a packed tree. fork: shared prefixes read once, a forward a
    stretch without forks, the model's own cache copied where they part. batch: whole prompts side by side, padded.
    naive: one forward a request, as any model allows.
    """

    strategy: Strategy
    reason: str


def plan(model: PreTrainedModel) -> Plan:
    """The fastest strategy that is exact for the model, by its config."""
    config = model.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "use_bidirectional_attention", False):
        return Plan("naive", "attention is not causal throughout")
    if config.model_type in _NO_CONTINUATION:
        return Plan("batch", "layers carry a state that cannot be gone on from")
    obstacle = _obstacle(model, config)
    if obstacle is not None:
        return Plan("fork", obstacle)
    kind = {_SPLIT: "sdpa, causal kernel on the trunk"}.get(config._attn_implementation, config._attn_implementation)
    return Plan("tree", f"attention ({kind}) follows the given mask and position_ids")


def _obstacle(model: PreTrainedModel, config: PreTrainedConfig) -> str | None:
    """Why a packed tree would be wrong for a causal model; None where nothing is known against it."""
    if _carries_state(model):
        return "layers carry a state along the text"
    if _uses_alibi(config):
        return "ALiBi measures distance on the place in the row, not on position_ids"
    if not takes_positions(model):
        return "the model takes no position_ids"
    if "local" in (getattr(config, "attention_layers", None) or ()):
        return "local attention is measured on the place in the row, not on position_ids"
    if any(buffer.ndim == 4 and buffer.shape[-1] == buffer.shape[-2] > 1 for buffer in model.buffers()):
        return "the model keeps a causal mask of its own"
    return None


def encoding_of(config: PreTrainedConfig, length: int) -> int:
    """Which encoding of positions a text of `length` tokens gets; only texts with the same one can be read together.

    0 is the usual one. With longrope there is another beyond the length of the original training, and with dynamic
    rope every length beyond it has its own.
    """
    config = config.get_text_config()
    kinds = _rope_kinds(config)
    if "dynamic" in kinds:
        return length if length > config.max_position_embeddings else 0
    if "longrope" in kinds:
        original = next(
            (rope[key] for rope in _ropes(config) if (key := "original_max_position_embeddings") in rope),
            getattr(config, "original_max_position_embeddings", config.max_position_embeddings),
        )
        return int(length > original)
    return 0


def context_window(config: PreTrainedConfig) -> int | None:
    """Most tokens a text may have for this model; None where its config knows no such limit."""
    config = config.get_text_config()
    if "dynamic" in _rope_kinds(config):
        return None
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None


def tolerates_padding(model: PreTrainedModel) -> bool:
    """Whether left padding leaves what a model writes unchanged; else only prompts of one length go together."""
    if _carries_state(model) or not one_encoding(model.config):
        return False
    return _uses_alibi(model.config.get_text_config()) or takes_positions(model)


def keeps_length(config: PreTrainedConfig) -> bool:
    """Whether reading depends on the longest text read before (dynamic rope)."""
    return "dynamic" in _rope_kinds(config)


def one_encoding(config: PreTrainedConfig) -> bool:
    """Whether a token's position is encoded the same however long the text gets."""
    return not _rope_kinds(config) & {"dynamic", "longrope"}


def takes_positions(model: PreTrainedModel) -> bool:
    """Whether a model takes the position of each token."""
    return all("position_ids" in inspect.signature(part.forward).parameters for part in (model, model.base_model))


def forget_length(model: PreTrainedModel) -> None:
    """Undo what reading long texts has left in a model with dynamic rope: a text of one token does it."""
    if keeps_length(model.config):
        with torch.inference_mode():
            model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), use_cache=False)


def use_given_masks(model: PreTrainedModel) -> None:
    """Give a model the fastest attention it supports that takes masks of ours (flash kernels take none)."""
    config = model.config.get_text_config()
    if config._attn_implementation not in ("sdpa", "eager", _SPLIT):
        try:
            model.set_attn_implementation("sdpa")
        except ValueError:
            model.set_attn_implementation("eager")
    splits = config._attn_implementation == "sdpa" and model._supports_attention_backend
    if splits and _obstacle(model, config) is None:
        AttentionInterface.register(_SPLIT, _split_attention)
        AttentionMaskInterface.register(_SPLIT, sdpa_mask)
        model.set_attn_implementation(_SPLIT)


def _split_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """sdpa; a mask with fewer rows than there are queries belongs to the last ones, and those before are causal.

    query, key, value: [batch, heads, tokens, size of a head]; returns [batch, tokens, heads, size].
    """
    trunk = 0 if attention_mask is None else query.shape[2] - attention_mask.shape[-2]
    if trunk <= 0:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    q, k, v = (states[:, :, :trunk] for states in (query, key, value))
    causal, _ = sdpa_attention_forward(module, q, k, v, None, **options | {"is_causal": True})
    masked, _ = sdpa_attention_forward(module, query[:, :, trunk:], key, value, attention_mask, **options)
    return torch.cat([causal, masked], dim=1), None


def tree_inputs(model: PreTrainedModel, tree: TokenTree, first: int = 0) -> dict[str, Any]:
    """What a model is called with to read a packed tree, [1, N - first] each beside the masks.

    first: how many tokens of the trunk are in the model's cache already.
    """
    ids = torch.from_numpy(tree.ids[first:])[None].to(model.device)
    if tree.trunk == len(tree) and not first:
        return {"input_ids": ids}  # a single path: the model's own causal attention is exact and fast
    depth = torch.from_numpy(tree.depth[first:])[None].to(model.device)
    return {"input_ids": ids, "position_ids": depth, "attention_mask": tree_masks(model, tree, first)}


def tree_masks(model: PreTrainedModel, tree: TokenTree, first: int = 0) -> torch.Tensor | dict[str, torch.Tensor]:
    """The mask of a packed tree in the form the model's attention takes, one per layer type where there are several.

    [1, 1, rows, N] each, for the rows from `first` on or, with split attention, those behind the trunk where no window
    cuts it. Booleans for sdpa; 0 or the smallest number in the model's dtype (to be added) for eager, which would
    silently add a boolean to its scores.
    """
    config = model.config.get_text_config()
    types = sorted(set(getattr(config, "layer_types", None) or ()))
    masks = {kind: _given(model, _seen(config, kind, tree, first)) for kind in types or [""]}
    # A dict is understood only by models with layer types; a single mask by all, if all layers need the same.
    return masks if len(types) > 1 else next(iter(masks.values()))


def _seen(config: PreTrainedConfig, layer_type: str, tree: TokenTree, first: int) -> NDArray[np.bool_]:
    """Who sees whom in a layer of this type; "" stands for all layers of a model that names no types."""
    window, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
    if layer_type == "full_attention":
        window = chunk = None
    elif layer_type == "sliding_attention" or (not layer_type and window is not None):
        chunk = None
    else:
        window = None
    longest = int(tree.depth.max()) + 1
    cut = min(limit or longest for limit in (window, chunk)) < longest
    split = config._attn_implementation == _SPLIT and not cut and not first
    return tree.mask(window=window, chunk=chunk, first=tree.trunk if split else first)


def _given(model: PreTrainedModel, seen: NDArray[np.bool_]) -> torch.Tensor:
    mask = torch.from_numpy(seen).to(model.device)[None, None]
    if model.config.get_text_config()._attn_implementation != "eager":
        return mask
    lowest = torch.finfo(model.dtype).min
    return torch.zeros(mask.shape, dtype=model.dtype, device=mask.device).masked_fill_(~mask, lowest)


def _carries_state(model: PreTrainedModel) -> bool:
    types = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    return bool(types - _ATTENTION_LAYERS) or bool(getattr(model, "_is_stateful", False))


def _uses_alibi(config: PreTrainedConfig) -> bool:
    inner = getattr(config, "attn_config", None)
    return bool(getattr(config, "alibi", False) or getattr(inner, "alibi", False))


def _rope_kinds(config: PreTrainedConfig) -> set[str]:
    return {rope.get("rope_type") or rope.get("type") or "default" for rope in _ropes(config.get_text_config())}


def _ropes(config: PreTrainedConfig) -> list[dict[str, Any]]:
    """Rope settings of a config, one dict per layer type where there are several."""
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    nested = [value for value in settings.values() if isinstance(value, dict)]
    return nested or [settings]
