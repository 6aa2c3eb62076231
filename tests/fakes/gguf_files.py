"""Tiny GGUF files, written with the `gguf` package: random weights, and a tokenizer of single bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MERGES = ("t h", "th e", "Ġ the", "Ġ c", "o f", "Ġ of", "i s", "Ġ is")
TOKENS = (*SPECIAL, *bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in MERGES))
_CONTROL, _NORMAL = 3, 1
_HIDDEN, _INNER, _HEADS, _LAYERS = 64, 128, 4, 2


def write_gguf(
    path: Path,
    quantised: str = "F32",
    *,
    architecture: str = "llama",
    fields: Mapping[str, Any] | None = None,
    without: str | None = None,
    damaged: str | None = None,
) -> Path:
    """Write a tiny model with its matrices in one of GGML's types.

    fields: more metadata, by key. without: the name of a tensor that is left out. damaged: that of
    one which holds a value that is no number.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(256)
    writer.add_embedding_length(_HIDDEN)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(_HIDDEN // _HEADS)
    _add_tokenizer(writer)
    for key, value in (fields or {}).items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(key, value)
    for name, weights in _weights().items():
        if name == without:
            continue
        if name == damaged:
            weights.flat[7] = np.nan
        is_matrix = weights.ndim > 1
        kind = gguf.GGMLQuantizationType[quantised if is_matrix else "F32"]
        stored = weights if kind == gguf.GGMLQuantizationType.F32 else gguf.quantize(weights, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(list(TOKENS))
    writer.add_token_types([_CONTROL if token in SPECIAL else _NORMAL for token in TOKENS])
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)


def _weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shared = _HIDDEN // 2
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (len(TOKENS), _HIDDEN),
        "output_norm": (_HIDDEN,),
    }
    for layer in range(_LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm": (_HIDDEN,),
            f"blk.{layer}.attn_q": (_HIDDEN, _HIDDEN),
            f"blk.{layer}.attn_k": (shared, _HIDDEN),
            f"blk.{layer}.attn_v": (shared, _HIDDEN),
            f"blk.{layer}.attn_output": (_HIDDEN, _HIDDEN),
            f"blk.{layer}.ffn_norm": (_HIDDEN,),
            f"blk.{layer}.ffn_gate": (_INNER, _HIDDEN),
            f"blk.{layer}.ffn_up": (_INNER, _HIDDEN),
            f"blk.{layer}.ffn_down": (_HIDDEN, _INNER),
        }  # fmt: skip
    return {
        f"{name}.weight": (
            1 + rng.normal(0, 0.1, shape) if len(shape) == 1 else rng.normal(0, 0.2, shape)
        ).astype(np.float32)
        for name, shape in shapes.items()
    }
