"""Greedy decoding of many prompts with a transformers model.

Prompts that share prefixes are first read as one packed tree, from which each gets its own copy of the keys and values
along its path; the others are batched by length. The generation config holds nothing but the end-of-text tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.models.local.attention import forget_length, tree_inputs
from drike.models.local.memory import PrefixCache
from drike.models.local.scoring import forward
from drike.models.local.tokens import Tokens, decode
from drike.models.local.tree import build_tree
from drike.models.protocols import Completion, cut

_PAD = 0  # any token will do: padding is masked before a prompt and cut off after an answer


def write(
    model: Any,
    tokenizer: Tokenizer,
    prompts: Sequence[Tokens],
    max_tokens: int,
    stop: str | None,
    *,
    prefixes: PrefixCache | None = None,
) -> tuple[list[Completion], int]:
    """Complete a batch of tokenised prompts; return completions in order and the number of tokens processed.

    prefixes: if given, the prompts' common prefixes are read once, and not at all if this cache has them.
    """
    longest = max(map(len, prompts))
    ends = model.generation_config.eos_token_id or []
    texts = [torch.tensor(prompt) for prompt in prompts]
    ids = pad_sequence(texts, batch_first=True, padding_value=_PAD, padding_side="left")
    real = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True, padding_side="left")
    lengths: dict[int, int] = {}  # tokens of each finished answer, with the one that ended it

    def over(tokens: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        for row, written in enumerate(tokens[:, longest:].tolist()):
            if row not in lengths:
                text = decode(tokenizer, written)
                if written[-1] in ends or cut(text, stop) != text:
                    lengths[row] = len(written)
        return torch.tensor([row in lengths for row in range(len(prompts))], device=tokens.device)

    forget_length(model)
    with torch.inference_mode():
        cache, read = (None, sum(map(len, prompts))) if prefixes is None else _shared_cache(model, prompts, prefixes)
        inputs = {"attention_mask": real.to(model.device), "pad_token_id": _PAD, "past_key_values": cache}
        output = model.generate(ids.to(model.device), max_new_tokens=max_tokens, stopping_criteria=[over], **inputs)
    completions = []
    for row, written in enumerate(output[:, longest:].tolist()):
        tokens = written[: lengths.get(row, len(written))]
        text = decode(tokenizer, tokens[:-1] if tokens[-1] in ends else tokens)
        completions.append(Completion(cut(text, stop), len(prompts[row]), len(tokens)))
    return completions, read + sum(completion.completion_tokens or 0 for completion in completions)


def batches(prompts: Sequence[Tokens], budget: int, padding: bool) -> list[list[int]]:
    """Indices of `prompts`, longest first, in batches of at most `budget` tokens with padding, or of one prompt.

    padding: whether prompts of different lengths may share a batch.
    """
    result: list[list[int]] = []
    for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
        head = len(prompts[result[-1][0]]) if result else 0
        fits = result and (len(result[-1]) + 1) * head <= budget
        if fits and (padding or head == len(prompts[i])):
            result[-1].append(i)
        else:
            result.append([i])
    return result


def _shared_cache(model: Any, prompts: Sequence[Tokens], prefixes: PrefixCache) -> tuple[DynamicCache, int]:
    """Keys and values of the prompts without their last tokens, [batch, heads, longest - 1, size of a head] each.

    Also the number of tokens read, the last ones included.
    """
    tree = build_tree([prompt[:-1] for prompt in prompts])
    trunk = tree.ids[: tree.trunk]
    first, packed = prefixes.recall(trunk)
    if first < len(tree):
        forward(model, np.array([0]), use_cache=True, past_key_values=packed, **tree_inputs(model, tree, first))
        prefixes.keep(trunk, packed)
    longest = max(map(len, tree.paths))
    paths = np.stack([np.pad(path, (longest - len(path), 0)) for path in tree.paths])
    where = torch.from_numpy(paths).to(model.device)
    result = DynamicCache()
    layers: Any = packed.layers
    for i, layer in enumerate(layers):
        keys, values = (states[0][:, where].transpose(0, 1) for states in (layer.keys, layer.values))
        result.update(keys, values, i)
    return result, len(tree) - first + len(prompts)
