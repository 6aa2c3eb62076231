"""The embedded model's shape, and Llama's forward written out for training on a CPU.

The forward runs on the parameters of a `LlamaForCausalLM`, in bfloat16 with a float32 residual;
attention is written as two matrix products, which is fastest on short rows, and hands out what
probes look at. Not here: generation, caches.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from tools.tinyfacts.tokens import VOCABULARY

WIDTH, HEADS, HEAD_WIDTH = 192, 3, 64
# Slow enough that half of a head's dimensions hardly turn within the context and can match content
# at any distance.
THETA = 1_000_000.0
CONTEXT = 1024

Head = tuple[int, int]  # (layer, head)


def new_model(seed: int, width: int = WIDTH) -> LlamaForCausalLM:
    """An untrained model: 6 layers of width 192, 3 heads of 64, MLP 512, tied embeddings, 3.8 M parameters."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HEAD_WIDTH,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        rms_norm_eps=1e-5,
    )
    return LlamaForCausalLM(config)


@dataclass(frozen=True)
class Trace:
    """A forward's insides: residuals after each layer (B, T, width), and watched heads' (q, k), each (B, T, 64)."""

    hidden: list[Tensor]
    heads: dict[Head, tuple[Tensor, Tensor]]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def forward(model: LlamaForCausalLM, ids: Tensor, watch: Collection[Head] = ()) -> Trace:
    """Llama up to the final norm; rows (B, T) are padded on the right. `watch`: heads whose q and k are kept."""
    (b, t), eps = ids.shape, model.config.rms_norm_eps
    angles = torch.arange(t)[:, None] * THETA ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    cos, sin = (f(angles).repeat(1, 2).bfloat16() for f in (torch.cos, torch.sin))
    mask = torch.full((t, t), float("-inf"), dtype=torch.bfloat16).triu(1).expand(b * HEADS, t, t)
    x = functional.embedding(ids, model.model.embed_tokens.weight)
    hidden = []
    watched = {}
    for number, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        n = functional.rms_norm(x, (x.size(-1),), layer.input_layernorm.weight, eps).bfloat16()
        q, k, v = (
            functional.linear(n, p.weight.bfloat16()).view(b, t, HEADS, HEAD_WIDTH).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        for head in watch:
            if head[0] == number:
                watched[head] = q[:, head[1]], k[:, head[1]]
        flat = (-1, t, HEAD_WIDTH)
        logits = torch.baddbmm(mask, q.reshape(flat), k.reshape(flat).mT, alpha=HEAD_WIDTH**-0.5)
        mixed = (
            torch.bmm(logits.softmax(-1), v.reshape(flat))
            .view(b, HEADS, t, HEAD_WIDTH)
            .transpose(1, 2)
        )
        x = x + functional.linear(
            mixed.reshape(b, t, HEADS * HEAD_WIDTH), attention.o_proj.weight.bfloat16()
        )
        n = functional.rms_norm(
            x, (x.size(-1),), layer.post_attention_layernorm.weight, eps
        ).bfloat16()
        gate, up = (functional.linear(n, p.weight.bfloat16()) for p in (mlp.gate_proj, mlp.up_proj))
        x = x + functional.linear(functional.silu(gate) * up, mlp.down_proj.weight.bfloat16())
        hidden.append(x)
    return Trace(hidden, watched)


def logits_at(model: LlamaForCausalLM, hidden: Tensor) -> Tensor:
    """Next-token logits (N, vocabulary), float32, of last-layer residuals (N, width)."""
    n = functional.rms_norm(
        hidden, (hidden.size(-1),), model.model.norm.weight, model.config.rms_norm_eps
    ).bfloat16()
    return functional.linear(n, model.model.embed_tokens.weight.bfloat16()).float()
