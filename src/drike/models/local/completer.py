"""Completing prompts greedily, in batches that share their beginnings or have similar lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.answers.thoughts import without_thoughts
from drike.models.local.architecture import forget_length, tolerates_padding
from drike.models.local.attention import tree_inputs
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scorer import Scorer
from drike.models.local.scoring import forward
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Tokens, decode
from drike.models.protocols import Completion, cut

_PAD = 0  # any token will do: padding is masked before a prompt and cut off after an answer


class Batch(NamedTuple):
    """Prompts, by index, that are completed together.

    Prefixes: the cache by which they share what they read.
    """

    indices: list[int]
    prefixes: PrefixCache | None


class Completed(NamedTuple):
    """The completions of a batch, and the tokens that were computed for them."""

    completions: list[Completion]
    tokens_computed: int


class Completer:
    """Completes prompts with one model.

    Scorer: decides which prompts are worth reading together.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, scorer: Scorer) -> None:
        self._model: Any = model
        self._tokenizer = tokenizer
        self._scorer = scorer

    def batches(self, prompts: Sequence[Tokens]) -> list[Batch]:
        """Group prompts: first those with shared beginnings, then the others, the longest first."""
        tolerant = tolerates_padding(self._model)
        families = self._scorer.families(prompts) if tolerant else []
        batches = [Batch(family, self._scorer.prefixes) for family in families]

        others = set(range(len(prompts))).difference(*families)
        longest_first = sorted(others, key=lambda i: -len(prompts[i]))
        indices: list[int] = []
        for i in longest_first:
            if not indices or not self._has_room(indices, prompts, i, tolerant=tolerant):
                indices = []
                batches.append(Batch(indices, None))
            indices.append(i)
        return batches

    def complete(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int,
        stop: str | None,
        prefixes: PrefixCache | None,
    ) -> Completed:
        """Complete a batch, cut before `stop`.

        With `prefixes`, what it shares is read once, and not at all if this cache has it.
        """
        texts = [torch.tensor(prompt) for prompt in prompts]
        is_token = [torch.ones_like(text) for text in texts]
        # On the left, so that all answers begin in the same column.
        ids = pad_sequence(texts, batch_first=True, padding_value=_PAD, padding_side="left")
        mask = pad_sequence(is_token, batch_first=True, padding_side="left")
        answers_begin = ids.shape[1]
        end_tokens = self._model.generation_config.eos_token_id or []
        ending = _Ending(self._tokenizer, end_tokens, stop, answers_begin)

        forget_length(self._model)
        with torch.inference_mode():
            cache = None
            tokens_computed = sum(map(len, prompts))
            if prefixes is not None:
                cache, tokens_computed = _shared_cache(self._model, prompts, prefixes)
            output = self._model.generate(
                ids.to(self._model.device),
                max_new_tokens=max_tokens,
                stopping_criteria=[ending],
                attention_mask=mask.to(self._model.device),
                pad_token_id=_PAD,
                past_key_values=cache,
            )

        completions = []
        for row, written in enumerate(output[:, answers_begin:].tolist()):
            answer = written[: ending.length_by_row.get(row, len(written))]
            shown = answer[:-1] if answer[-1] in end_tokens else answer
            text = cut(decode(self._tokenizer, shown), stop)
            completions.append(Completion(text, len(prompts[row]), len(answer)))
            tokens_computed += len(answer)
        return Completed(completions, tokens_computed)

    def _has_room(
        self, batch: list[int], prompts: Sequence[Tokens], i: int, *, tolerant: bool
    ) -> bool:
        """Whether a prompt fits into a batch.

        tolerant: the model allows padding shorter prompts.
        """
        longest = len(prompts[batch[0]])
        fits = (len(batch) + 1) * longest <= self._scorer.budget
        return fits and (tolerant or longest == len(prompts[i]))


class _Ending:
    """Says to `generate` which answers are over: after a token that ends a text, or at `stop`.

    length_by_row: tokens of each finished answer, with the one that ended it; the model goes on
    writing to it until all are over.
    """

    def __init__(
        self, tokenizer: Tokenizer, end_tokens: Sequence[int], stop: str | None, answers_begin: int
    ) -> None:
        self.length_by_row: dict[int, int] = {}
        self._tokenizer = tokenizer
        self._end_tokens = end_tokens
        self._stop = stop
        self._answers_begin = answers_begin

    def __call__(self, so_far: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        """Whether each row is over [batch], given all its tokens so far [batch, T]."""
        answers = so_far[:, self._answers_begin :].tolist()
        for row, written in enumerate(answers):
            if row not in self.length_by_row and self._is_over(written):
                self.length_by_row[row] = len(written)
        over = [row in self.length_by_row for row in range(len(answers))]
        return torch.tensor(over, device=so_far.device)

    def _is_over(self, written: list[int]) -> bool:
        text = decode(self._tokenizer, written)
        answer = without_thoughts(text)  # "" while the model is thinking
        return written[-1] in self._end_tokens or cut(answer, self._stop) != answer


def _shared_cache(
    model: PreTrainedModel, prompts: Sequence[Tokens], prefixes: PrefixCache
) -> tuple[DynamicCache, int]:
    """Keys and values of prompts but their last tokens, and the number of tokens computed for all.

    Those are [batch, heads, longest - 1, size of a head] in each layer, padded left. The last
    tokens are left to be read, and counted. What the prompts share is read once, or taken from
    `prefixes` if they have it.
    """
    tree = build_tree([prompt[:-1] for prompt in prompts])
    trunk = tree.ids[: tree.trunk]
    first, packed = prefixes.recall(trunk)
    if first < len(tree):
        inputs = tree_inputs(model, tree, first)
        forward(model, np.array([0]), use_cache=True, past_key_values=packed, **inputs)
        prefixes.keep(trunk, packed)
    # Each prompt's keys and values are those at its path; what stands in the padding is masked.
    padded_paths = np.zeros((len(tree.paths), tree.trunk), dtype=np.int64)
    for row, path in enumerate(tree.paths):
        padded_paths[row, tree.trunk - len(path) :] = path
    places = torch.from_numpy(padded_paths).to(model.device)
    unpacked = DynamicCache()
    for i, layer in enumerate(cast("Any", packed.layers)):
        keys = layer.keys[0][:, places].transpose(0, 1)
        values = layer.values[0][:, places].transpose(0, 1)
        unpacked.update(keys, values, i)
    return unpacked, len(tree) - first + len(prompts)
