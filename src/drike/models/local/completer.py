"""Completing prompts greedily, in batches that share their beginnings or have similar lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.answers.thoughts import without_thoughts
from drike.models.local.architecture import forget_length, tolerates_padding
from drike.models.local.contrast import ContrastedChoice
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scorer import Scorer
from drike.models.local.sharing import PAD, CheckedSharing, padded, shared_cache
from drike.models.local.tokens import Tokens, decode
from drike.models.protocols import Completion, cut


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
        self._sharing = CheckedSharing(model)

    def batches(self, prompts: Sequence[Tokens]) -> list[Batch]:
        """Group prompts: first those with shared beginnings, then the others, the longest first."""
        tolerant = tolerates_padding(self._model)
        families = self._families(prompts) if tolerant else []
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
        *,
        tell: Callable[[str], None] | None = None,
        choice: ContrastedChoice | None = None,
    ) -> Completed:
        """Complete a batch, cut before `stop`.

        With `prefixes`, what it shares is read once, and not at all if this cache has it. tell: is
        given the text so far after each token, where there is one prompt. choice: contrasts the
        answer, where there is one prompt.
        """
        ids, mask = padded(prompts)
        answers_begin = ids.shape[1]
        end_tokens = self._model.generation_config.eos_token_id or []
        ending = _Ending(self._tokenizer, end_tokens, stop, answers_begin, tell)

        forget_length(self._model)
        with torch.inference_mode():
            cache = None
            tokens_computed = sum(map(len, prompts))
            if prefixes is not None:
                cache, tokens_computed = shared_cache(self._model, prompts, prefixes)
            output = self._model.generate(
                ids.to(self._model.device),
                max_new_tokens=max_tokens,
                stopping_criteria=[ending],
                logits_processor=[] if choice is None else [choice],
                attention_mask=mask.to(self._model.device),
                pad_token_id=PAD,
                past_key_values=cache,
            )

        completions = []
        for row, written in enumerate(output[:, answers_begin:].tolist()):
            answer = written[: ending.length_by_row.get(row, len(written))]
            shown = answer[:-1] if answer[-1] in end_tokens else answer
            text = cut(decode(self._tokenizer, shown), stop)
            completions.append(Completion(text, len(prompts[row]), len(answer)))
            tokens_computed += len(answer)
        if choice is not None:
            tokens_computed += choice.tokens_computed
        return Completed(completions, tokens_computed)

    def _families(self, prompts: Sequence[Tokens]) -> list[list[int]]:
        """Groups of prompts, by index, that share what they read, as far as that is exact."""
        families = self._scorer.families(prompts)
        allowed = []
        for family in families:
            if self._sharing.allows([prompts[i] for i in family], self._scorer.prefixes):
                allowed.append(family)
        return allowed

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
        self,
        tokenizer: Tokenizer,
        end_tokens: Sequence[int],
        stop: str | None,
        answers_begin: int,
        tell: Callable[[str], None] | None,
    ) -> None:
        self.length_by_row: dict[int, int] = {}
        self._tokenizer = tokenizer
        self._end_tokens = end_tokens
        self._stop = stop
        self._answers_begin = answers_begin
        self._tell = tell

    def __call__(self, so_far: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        """Whether each row is over [batch], given all its tokens so far [batch, T]."""
        answers = so_far[:, self._answers_begin :].tolist()
        for row, written in enumerate(answers):
            if row not in self.length_by_row and self._may_end(written) and self._is_over(written):
                self.length_by_row[row] = len(written)
        over = [row in self.length_by_row for row in range(len(answers))]
        return torch.tensor(over, device=so_far.device)

    def _may_end(self, written: list[int]) -> bool:
        """Whether the last token could end an answer, or somebody wants to know each.

        One of letters, digits and spaces ends neither a line nor thoughts, and most are such; to
        decode many answers after each token takes longer than to compute it on a card.
        """
        stop = self._stop or ""
        if self._tell or any(character.isalnum() or character == " " for character in stop):
            return True
        if written[-1] in self._end_tokens:
            return True
        text = decode(self._tokenizer, written[-1:]).replace(" ", "")
        return not text.isalnum()

    def _is_over(self, written: list[int]) -> bool:
        text = decode(self._tokenizer, written)
        if self._tell:
            self._tell(text)
        answer = without_thoughts(text)  # "" while the model is thinking
        return written[-1] in self._end_tokens or cut(answer, self._stop) != answer
