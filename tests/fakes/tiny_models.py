"""Tiny random models in many configurations, and prompts for them.

Weights have a large variance: with the usual initialisation a model is nearly uniform, which would
hide a wrong mask. Windows and chunks are shorter than the prompts, so that they take effect.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from drike.models.local.huggingface import HuggingFaceModel
from drike.models.local.scoring import TokenScores, score_naively
from drike.models.local.tokens import encode_requests
from drike.models.protocols import Request, Score

SUBJECTS = [
    "Ada Byron",
    "Karl Orff",
    "Mount Elbrus",
    "Lake Como",
    "Niels Abel",
    "The Hague",
    "Ann Lee",
]
PLACES = ["Paris", "New York", "New Orleans", "Rome", "Kyoto", "Oslo", "Lima", "Saint Petersburg"]
WINDOW = 24
DEVICE = os.environ.get("DRIKE_TEST_DEVICE", "cpu")  # "cuda" tries the scoring engine on a GPU

SMALL: dict[str, Any] = {
    "vocab_size": 340,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 640,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
# The same sizes under the names that some families use.
PLAIN: dict[str, Any] = {"vocab_size": 340, "eos_token_id": 0, "bos_token_id": 0}
GPT: dict[str, Any] = PLAIN | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 640}
WIDE: dict[str, Any] = PLAIN | {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}


def llama(**more: Any) -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL | more))


def gpt2(**more: Any) -> Any:
    return hf.GPT2LMHeadModel(hf.GPT2Config(**GPT | more))


def gemma3() -> Any:
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**SMALL, sliding_window=WINDOW, head_dim=8))


def bloom() -> Any:
    return hf.BloomForCausalLM(hf.BloomConfig(**PLAIN, hidden_size=32, n_layer=2, n_head=4))


def bart() -> Any:
    """Bart embeds positions without a position argument."""
    sizes = {
        "d_model": 32,
        "decoder_ffn_dim": 48,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
    }
    return hf.BartForCausalLM(
        hf.BartConfig(**PLAIN, is_decoder=True, max_position_embeddings=640, **sizes)
    )


def doge() -> Any:
    """Of long texts, attention keeps the tokens that matter most: here 64."""
    return hf.DogeForCausalLM(hf.DogeConfig(**SMALL, keep_window_size=64))


def deepseek_v32() -> Any:
    """An indexer chooses the tokens to attend to: here 64."""
    ranks = {"q_lora_rank": 16, "kv_lora_rank": 16}
    heads = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    indexer = {"index_topk": 64, "index_n_heads": 2, "index_head_dim": 16}
    groups = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    sizes = SMALL | EXPERTS | ranks | heads | indexer | groups
    return hf.DeepseekV32ForCausalLM(
        hf.DeepseekV32Config(**sizes | {"num_key_value_heads": 4, "n_shared_experts": 1})
    )


_GEMMA_LAYERS: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": WINDOW,
    "head_dim": 8,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 340,
}


def gemma4() -> Any:
    """The size of a head differs from layer to layer."""
    config = hf.Gemma4TextConfig(**SMALL, **_GEMMA_LAYERS, global_head_dim=16)
    return hf.Gemma4ForCausalLM(config)


def gemma3n() -> Any:
    """The inner size is a list, one for each layer."""
    more = {"num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.0, 0.0], "laurel_rank": 8}
    sizes = SMALL | _GEMMA_LAYERS | more | {"intermediate_size": [48, 48]}
    return hf.Gemma3nForCausalLM(hf.Gemma3nTextConfig(**sizes))


def gpt1() -> Any:
    """There is no cache to continue from."""
    return hf.OpenAIGPTLMHeadModel(
        hf.OpenAIGPTConfig(vocab_size=340, n_embd=32, n_layer=2, n_head=4, n_positions=640)
    )


def reformer(**more: Any) -> Any:
    """Of texts longer than 64 tokens it reads what random hashes choose."""
    sizes = {"axial_pos_embds": False, "attention_head_size": 8, "feed_forward_size": 48}
    config = hf.ReformerConfig(**SMALL | sizes | more, is_decoder=True)
    return hf.ReformerModelWithLMHead(config)


def dynamic_rope() -> Any:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return llama(max_position_embeddings=96, rope_parameters=rope)


def long_rope() -> Any:
    rope = {
        "rope_type": "longrope",
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
        "rope_theta": 1e4,
    }
    config = SMALL | {
        "rope_parameters": rope | {"factor": 3.0},
        "original_max_position_embeddings": 120,
    }
    return hf.Phi3ForCausalLM(hf.Phi3Config(**config))


def _gpt_neo() -> Any:
    layers = {"attention_types": [[["global", "local"], 1]], "window_size": WINDOW, "num_layers": 2}
    return hf.GPTNeoForCausalLM(
        hf.GPTNeoConfig(**PLAIN, hidden_size=32, num_heads=4, max_position_embeddings=640, **layers)
    )


def _gemma2() -> Any:
    # Only eager attention computes its soft caps.
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**SMALL, sliding_window=WINDOW, head_dim=8, attn_implementation="eager")
    )


def _opt() -> Any:
    sizes = {
        "ffn_dim": 48,
        "word_embed_proj_dim": 32,
        "max_position_embeddings": 640,
        "pad_token_id": 0,
    }
    return hf.OPTForCausalLM(hf.OPTConfig(**WIDE, **sizes))


def _llama4() -> Any:
    more = {
        "num_hidden_layers": 4,
        "num_local_experts": 2,
        "attention_chunk_size": WINDOW,
        "intermediate_size_mlp": 48,
    }
    return hf.Llama4ForCausalLM(hf.Llama4TextConfig(**SMALL | more, head_dim=8))


def _deepseek() -> Any:
    latent = {
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
    }
    experts = EXPERTS | {
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_key_value_heads": 4,
    }
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**SMALL | experts, **latent))


def _qwen3_next() -> Any:
    linear = {"linear_num_value_heads": 4, "linear_num_key_heads": 2}
    linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    more = EXPERTS | {
        "num_experts": 4,
        "shared_expert_intermediate_size": 16,
        "head_dim": 8,
        "num_hidden_layers": 4,
    }
    return hf.Qwen3NextForCausalLM(hf.Qwen3NextConfig(**SMALL | more, **linear))


def _small(family: str, **more: Any) -> Callable[[], Any]:
    """Make a model of a family whose config has the usual names."""
    return lambda: getattr(hf, f"{family}ForCausalLM")(
        getattr(hf, f"{family}Config")(**SMALL | more)
    )


TREES: dict[str, Callable[[], Any]] = {
    "Llama": llama,
    "Llama, yarn": lambda: llama(
        rope_parameters={"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}
    ),
    "Qwen2": _small("Qwen2"),
    "Qwen2, window": _small(
        "Qwen2", use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
    "Qwen3": _small("Qwen3", head_dim=8),
    "Qwen3-MoE": _small("Qwen3Moe", head_dim=8, num_experts=4, **EXPERTS),
    "Mistral": _small("Mistral", sliding_window=None),
    "Mistral, window": _small("Mistral", sliding_window=WINDOW),
    "Gemma": _small("Gemma", head_dim=8),
    "Gemma 2": _gemma2,
    "Gemma 3": gemma3,
    "Phi": _small("Phi"),
    "Phi-3": _small("Phi3"),
    "Phi-3, window": _small("Phi3", sliding_window=WINDOW),
    "Phi-3, longrope": long_rope,
    "GPT-2": gpt2,
    "GPT-NeoX": _small("GPTNeoX"),
    "GPT-J": lambda: hf.GPTJForCausalLM(hf.GPTJConfig(**GPT, rotary_dim=8)),
    "OPT": _opt,
    "OLMo-2": _small("Olmo2"),
    "Falcon, rope": lambda: hf.FalconForCausalLM(hf.FalconConfig(**WIDE, alibi=False)),
    "StableLM": _small("StableLm"),
    "Cohere2": _small("Cohere2", sliding_window=WINDOW),
    "SmolLM3": _small("SmolLM3", use_sliding_window=True, sliding_window=WINDOW),
    "Granite": _small("Granite"),
    "Starcoder2": _small("Starcoder2", sliding_window=WINDOW),
    "gpt-oss": _small(
        "GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW
    ),
    "Llama 4": _llama4,
    "DeepSeek-V3": _deepseek,
}
FORKS: dict[str, Callable[[], Any]] = {
    "BLOOM": bloom,
    "MPT": lambda: hf.MptForCausalLM(
        hf.MptConfig(**PLAIN, d_model=32, n_heads=4, n_layers=2, max_seq_len=640)
    ),
    "GPT-Neo": _gpt_neo,
    "Falcon, ALiBi": lambda: hf.FalconForCausalLM(hf.FalconConfig(**WIDE, alibi=True)),
    "BART": bart,
    "RWKV": lambda: hf.RwkvForCausalLM(
        hf.RwkvConfig(**PLAIN, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32)
    ),
    "Mamba 2": lambda: hf.Mamba2ForCausalLM(
        hf.Mamba2Config(
            **PLAIN,
            hidden_size=32,
            num_hidden_layers=2,
            num_heads=8,
            head_dim=8,
            n_groups=1,
            state_size=8,
        )
    ),
    "LFM2": _small("Lfm2", layer_types=["conv", "full_attention"]),
    "Qwen3-Next": _qwen3_next,
}
ALONE: dict[str, Callable[[], Any]] = {
    "Mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(**PLAIN, hidden_size=32, num_hidden_layers=2)
    ),
    "Jamba": _small(
        "Jamba", use_mamba_kernels=False, num_experts=2, attn_layer_period=2, attn_layer_offset=1
    ),
    "RecurrentGemma": _small("RecurrentGemma", num_hidden_layers=3, attention_window_size=WINDOW),
}


def demonstration(rng: random.Random) -> str:
    subject, old, new = rng.choice(SUBJECTS), rng.choice(PLACES), rng.choice(PLACES)
    return f"New Fact: {subject} was born in {new}\nPrompt: {subject} comes from {old}\n\n"


def episode(seed: int, prompts: int = 6) -> list[Request]:
    """Make nested prompts of one edit with two targets each, as in training and evaluation."""
    rng = random.Random(seed)
    shown = [demonstration(rng) for _ in range(prompts + 2)]
    query = f"New Fact: {rng.choice(SUBJECTS)} was born in Rome\nPrompt: {rng.choice(SUBJECTS)} comes from"
    texts = ["".join(shown[: k + 2]) + query for k in range(prompts)]
    return [Request(text, f" {target}") for text in texts for target in rng.sample(PLACES, 2)]


@functools.cache
def tokenizer() -> Any:
    """Make a byte-level BPE tokenizer of 340 tokens, like GPT-2's."""
    rng = random.Random(0)
    text = [demonstration(rng) for _ in range(300)]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        text,
        trainers.BpeTrainer(vocab_size=340, special_tokens=["<|end|>"], initial_alphabet=alphabet),
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")


def widen(model: Any, scale: float = 0.25, seed: int = 0) -> Any:
    """Redraw the weights with a variance large enough for attention to matter."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                weight.copy_(
                    torch.randn(weight.shape, generator=draw) * (1.0 if "emb" in name else scale)
                )
    model.tie_weights()
    return model.eval()


def wrap(make: Callable[[], Any], tokens: Any = None, **options: Any) -> HuggingFaceModel:
    torch.manual_seed(0)
    return HuggingFaceModel(widen(make()).to(DEVICE), tokens or tokenizer(), name="tiny", **options)


def alone(model: HuggingFaceModel, requests: list[Request]) -> list[TokenScores]:
    """The oracle: one plain forward per request."""
    return score_naively(model._model, encode_requests(model._tokenizer, requests, "plain")).scores


def off(scores: list[Score], scored: list[TokenScores]) -> float:
    """Return the largest difference in a token's log-probability."""
    return max(
        abs(a - b)
        for score, reading in zip(scores, scored, strict=True)
        for a, b in zip(score.logprobs, reading.logprobs, strict=True)
    )
