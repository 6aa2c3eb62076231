"""Every causal architecture that transformers can build, small: sizes, and what single ones need.

Sizes are given under all names that configs use, and set where a config has them. Layers are of all
the types that an architecture mixes. Windows, chunks and the numbers of tokens that sparse
attention keeps are shorter than long prompts, so that they take effect there.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

WINDOW = 24
CHOSEN = 64  # tokens that sparse attention keeps
MOST_PARAMETERS = 3_000_000
MODEL_TYPES = tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)

# Sizes by the names that configs give them.
SIZES: dict[str, Any] = {
    "vocab_size": 340,
    **dict.fromkeys(
        ["hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim"], 32
    ),
    **dict.fromkeys(["intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"], 48),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers"], 2),
    **dict.fromkeys(["encoder_layers", "decoder_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    "num_key_value_heads": 2,
    **dict.fromkeys(["max_position_embeddings", "n_positions"], 640),
    **dict.fromkeys(["head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"], 8),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "moe_k"], 2),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16),
    **dict.fromkeys(["n_group", "topk_group", "first_k_dense_replace"], 1),
    **dict.fromkeys(["q_lora_rank", "kv_lora_rank"], 16),
    **dict.fromkeys(["sliding_window", "attention_window_size", "attention_chunk_size"], WINDOW),
    **dict.fromkeys(["index_topk", "keep_window_size"], CHOSEN),
    "index_n_heads": 2,
    "index_head_dim": 16,
    **dict.fromkeys(["bos_token_id", "eos_token_id", "pad_token_id"], 0),
}

# Latent attention has as many heads for keys as for queries.
_LATENT = {"num_key_value_heads": 4}
# Recurrent layers: heads and states that fit a hidden size of 32.
_BAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
_ONE_EACH = {"attn_layer_period": 2, "attn_layer_offset": 1}

_PER_LAYER = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 340}
_DOTS: dict[str, Any] = {
    "num_key_value_heads": 4,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_q_lora_rank": 16,
    "swa_kv_lora_rank": 16,
    "shared_experts_intermediate_size": 16,
}
_GEMMA_3N: dict[str, Any] = _PER_LAYER | {
    "num_kv_shared_layers": 0,
    "activation_sparsity_pattern": [0.0, 0.0],
    "laurel_rank": 8,
    "intermediate_size": [48, 48],
}
_MIXED = {"layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2}

# What single architectures need besides; no layer types are those that follow from other sizes.
NEEDS: dict[str, dict[str, Any]] = {
    "axk1": _LATENT,
    "axk2": _LATENT,
    "bailing_hybrid": _LATENT,
    "bamba": _BAMBA | {"layer_types": None, "attn_layer_indices": [1]},
    "blenderbot-small": {"layer_types": None},
    "codegen": {"rotary_dim": 8},
    "cohere_compass_text": _MIXED,
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 16, "hidden_size": 32},
    },
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": _LATENT,
    "dots1": _MIXED | {"n_shared_experts": 1},
    "dots3_note": _DOTS,
    "dots3_note_text": _DOTS,
    "falcon_h1": _BAMBA | {"layer_types": None, "mamba_d_ssm": 64},
    "gemma3n": _GEMMA_3N,
    "gemma3n_text": _GEMMA_3N,
    "gemma4": _PER_LAYER,
    "gemma4_text": _PER_LAYER,
    "glm4_moe_lite": _LATENT,
    "glm_moe_dsa": _LATENT,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": _BAMBA
    | {"layer_types": ["linear_attention", "full_attention"], "shared_intermediate_size": 16},
    "jamba": _ONE_EACH | {"layer_types": None, "use_mamba_kernels": False},
    "kimi_linear": _LATENT,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": _LATENT,
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 8},
    "minicpm3": _LATENT,
    "recurrent_gemma": {"layer_types": None, "num_hidden_layers": 3},
    "reformer": {"axial_pos_embds": False, "attention_head_size": 8, "feed_forward_size": 48},
    "roc_bert": {
        "shape_embed_dim": 8,
        "pronunciation_embed_dim": 8,
        "shape_vocab_size": 340,
        "pronunciation_vocab_size": 340,
    },
    "xlstm": {"num_heads": 2, "chunk_size": 16, "autocast_kernel_dtype": "float32"},
    "xmod": {"default_language": "en_XX"},
    "youtu": _LATENT,
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
}


class UnbuiltError(Exception):
    """An architecture that cannot be built small, and why."""


def architecture(model_type: str) -> Any:
    """A small model of an architecture, with random weights. Raises UnbuiltError."""
    try:
        config = config_of(model_type)
        with torch.device("meta"):
            parts = hf.AutoModelForCausalLM.from_config(config).parameters()
        size = sum(part.numel() for part in parts)
        if size > MOST_PARAMETERS:
            raise UnbuiltError(f"it has {size:,} parameters")
        model: Any = hf.AutoModelForCausalLM.from_config(config).eval()
        with torch.inference_mode():
            model(input_ids=torch.ones((1, 2), dtype=torch.long))
    except (ValueError, KeyError, TypeError, RuntimeError, AttributeError, IndexError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UnbuiltError(f"{type(error).__name__}: {reason[:100]}") from error
    return model


def config_of(model_type: str) -> Any:
    """A small config of an architecture: that of its text, if it reads other things, too."""
    usual: Any = hf.AutoConfig.for_model(model_type)
    text = usual.get_text_config()
    kind: Any = type(text)
    names = {*text.to_dict(), *kind.attribute_map}
    sizes = {name: size for name, size in SIZES.items() if name in names}
    types = list(dict.fromkeys(getattr(text, "layer_types", None) or ()))
    if types and "layer_types" in names:
        layers = types * (3 - min(len(types), 2))
        sizes |= {"layer_types": layers, "num_hidden_layers": len(layers)}
    needs = NEEDS.get(model_type, {})
    sizes |= {"is_decoder": True} | needs
    if "layer_types" in needs and needs["layer_types"] is None:
        del sizes["layer_types"]
        sizes["num_hidden_layers"] = needs.get("num_hidden_layers", 2)
    return kind(**sizes)
