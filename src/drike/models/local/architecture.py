"""How a model encodes positions and attends: what decides how texts may be read together.

A packed tree is silently wrong if attention or positions depend on the index in the row (ALiBi,
fixed local windows), if layers carry a state, or if positions are encoded by the text's length
(dynamic rope).
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

# Given a state and several tokens, these ignore the state (measured: errors of 1 to 20 nats), or
# return none.
_NO_CONTINUATION = ("mamba", "falcon_mamba", "jamba", "recurrent_gemma")
_ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
# Models' names for the state they continue from.
_STATE_NAMES = ("past_key_values", "cache_params", "state")
_WINDOW_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len")


def fork_obstacle(model: PreTrainedModel) -> str | None:
    """Why a text could not be continued from copies of the model's own cache.

    None if no reason is known.
    """
    config = model.config.get_text_config()
    is_encoder_decoder = getattr(config, "is_encoder_decoder", False)
    if is_encoder_decoder or getattr(config, "use_bidirectional_attention", False):
        return "attention is not causal throughout"
    if config.model_type in _NO_CONTINUATION:
        return "layers carry a state that cannot be continued"
    if state_name(model) is None:
        return "the model takes no state to continue from"
    return None


def tree_obstacle(model: PreTrainedModel) -> str | None:
    """Why a packed tree would be wrong for a causal model; None if no reason is known."""
    config = model.config.get_text_config()
    if _carries_state(model):
        return "layers carry a state along the text"
    if _uses_alibi(config):
        return "ALiBi measures distance by index in the row, not by position_ids"
    if not takes_positions(model):
        return "the model takes no position_ids"
    if "local" in (getattr(config, "attention_layers", None) or ()):
        return "local attention is measured by index in the row, not by position_ids"
    if any(_is_causal_mask(buffer) for buffer in model.buffers()):
        return "the model keeps a causal mask of its own"
    return None


def encoding_of(config: PreTrainedConfig, length: int) -> int:
    """Which position encoding a text of `length` tokens has (0: the usual).

    Texts that are read together must have the same.
    """
    config = config.get_text_config()
    if remembers_length(config):  # beyond the window, one encoding for each length
        return length if length > config.max_position_embeddings else 0
    if "longrope" in _rope_kinds(config):  # another one beyond the original training length
        return int(length > _original_length(config))
    return 0


def encodings_of(config: PreTrainedConfig, lengths: Sequence[int]) -> list[int]:
    """The position encoding of each text, as `encoding_of`; reading a config takes its time."""
    if has_one_encoding(config):
        return [0] * len(lengths)
    return [encoding_of(config, length) for length in lengths]


def context_window(config: PreTrainedConfig) -> int | None:
    """Most tokens of a text for this model; None if its config states no limit."""
    config = config.get_text_config()
    if remembers_length(config):
        return None
    for name in _WINDOW_NAMES:
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None


def tolerates_padding(model: PreTrainedModel) -> bool:
    """Whether a model's answers do not depend on left padding.

    If they do, only prompts of one length go together.
    """
    if _carries_state(model) or state_name(model) is None:
        return False
    if not has_one_encoding(model.config):
        return False
    return _uses_alibi(model.config.get_text_config()) or takes_positions(model)


def has_one_encoding(config: PreTrainedConfig) -> bool:
    """Whether the encoding of a position is the same for texts of any length."""
    return not _rope_kinds(config) & {"dynamic", "longrope"}


def takes_positions(model: PreTrainedModel) -> bool:
    """Whether a model accepts `position_ids`."""
    return all(
        "position_ids" in inspect.signature(part.forward).parameters
        for part in (model, model.base_model)
    )


def state_name(model: PreTrainedModel) -> str | None:
    """The name of the state that a model continues from, among its parameters; None: it takes none.

    Such are GPT-1 and Reformer.
    """
    parameters = inspect.signature(model.forward).parameters
    return next((name for name in _STATE_NAMES if name in parameters), None)


def remembers_length(config: PreTrainedConfig) -> bool:
    """Whether the model is affected by the longest text read before (dynamic rope)."""
    return "dynamic" in _rope_kinds(config)


def forget_length(model: PreTrainedModel) -> None:
    """Reset the state that long texts leave in a model with dynamic rope.

    Reading a text of one token does it.
    """
    if remembers_length(model.config):
        one_token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        with torch.inference_mode():
            model(input_ids=one_token, use_cache=False)


def _is_causal_mask(buffer: torch.Tensor) -> bool:
    return buffer.ndim == 4 and buffer.shape[-1] == buffer.shape[-2] > 1


def _carries_state(model: PreTrainedModel) -> bool:
    layer_types = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    has_state_layers = bool(layer_types - _ATTENTION_LAYERS)
    return has_state_layers or bool(getattr(model, "_is_stateful", False))


def _uses_alibi(config: PreTrainedConfig) -> bool:
    parts = (config, getattr(config, "attn_config", None))
    return any(getattr(part, "alibi", False) for part in parts)


def _original_length(config: PreTrainedConfig) -> int:
    """The length of the texts that a model with longrope was first trained on."""
    key = "original_max_position_embeddings"
    for rope in _ropes(config):
        if key in rope:
            length: int = rope[key]
            return length
    usual: int = getattr(config, key, config.max_position_embeddings)
    return usual


def _rope_kinds(config: PreTrainedConfig) -> set[str]:
    ropes = _ropes(config.get_text_config())
    return {rope.get("rope_type") or rope.get("type") or "default" for rope in ropes}


def _ropes(config: PreTrainedConfig) -> list[dict[str, Any]]:
    """Rope settings of a config, one dict per layer type."""
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    settings = settings or {}
    by_layer_type = [value for value in settings.values() if isinstance(value, dict)]
    return by_layer_type or [settings]
