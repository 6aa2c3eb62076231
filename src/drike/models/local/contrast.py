"""Contrastive decoding: scores of continuations, and the choice of the next token.

`prompts.Contrast` says what it is. Both texts, the prompt and the bare question, are read in one
forward, and every contrast of them is computed from the same logits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from drike.models.local.architecture import forget_length, has_one_encoding, state_name
from drike.models.local.attention import tree_inputs
from drike.models.local.plans import Strategy
from drike.models.local.scoring import (
    TokenScores,
    forward,
    pack,
    require_numbers,
    token_scores,
)
from drike.models.local.self_check import tolerance
from drike.models.local.token_trees import packs
from drike.models.local.tokens import Encoded, Tokens
from drike.models.protocols import Usage
from drike.prompts import Contrast

# The log-probability of a token that the contrast rules out: a number, as files hold no infinity.
_RULED_OUT = -1e4
_KEYS = "past_key_values"
_UNRELATED = 512  # tokens of unrelated texts that are read in one forward


class Contrasted(NamedTuple):
    """A continuation after a prompt and after the bare question, by the same tokens."""

    edited: Encoded
    bare: Encoded
    contrast: Contrast

    @property
    def texts(self) -> tuple[Encoded, Encoded]:
        """Both texts, which every contrast of them shares."""
        return self.edited, self.bare


def contrasted_logprobs(
    edited: torch.Tensor, bare: torch.Tensor, contrast: Contrast
) -> torch.Tensor:
    """Log-probabilities [R, V] of the next token, from logits [R, V] with and without edits."""
    with_edits = edited.log_softmax(-1)
    without = bare.log_softmax(-1)
    alpha: float | torch.Tensor = contrast.alpha
    if contrast.adaptive:
        alpha = contrast.alpha * _divergence(with_edits, without)
    values = with_edits + alpha * (with_edits - without)
    if contrast.plausible:
        least = with_edits.max(-1, keepdim=True).values + math.log(contrast.plausible)
        values = values.masked_fill(with_edits < least, _RULED_OUT)
    return values.log_softmax(-1).clamp_min(_RULED_OUT)


def _divergence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The Jensen-Shannon divergence [R, 1] of log-probabilities [R, V], in bits: from 0 to 1."""
    mean = torch.logaddexp(a, b) - math.log(2)
    from_a = (a.exp() * (a - mean)).sum(-1, keepdim=True)
    from_b = (b.exp() * (b - mean)).sum(-1, keepdim=True)
    bits: torch.Tensor = (from_a + from_b) / (2 * math.log(2))
    return bits.clamp(0, 1)


class ContrastReader:
    """Scores contrasted continuations.

    Texts with shared beginnings are read as one tree, if the model allows that and the first
    reading agrees with plain forwards.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._is_checked = False
        self._is_exact = has_one_encoding(model.config)

    def read(
        self, requests: Sequence[Contrasted], strategy: Strategy, budget: int
    ) -> tuple[list[TokenScores], Usage]:
        """Score in order, and count the work.

        strategy: of plain scoring. budget: most tokens in one forward. Raises ModelError for a
        model that computes no numbers.
        """
        indices_by_texts: dict[tuple[Encoded, Encoded], list[int]] = {}
        for i, request in enumerate(requests):
            indices_by_texts.setdefault(request.texts, []).append(i)
        pairs = list(indices_by_texts)

        score_by_index: dict[int, TokenScores] = {}
        used = Usage()
        for group in packs([edited.ids for edited, _ in pairs], budget, _UNRELATED):
            of_group = [pairs[i] for i in group]
            logits_by_text, work = self._logits(of_group, strategy)
            used += work
            for contrast, indices in _by_contrast(requests, indices_by_texts, of_group).items():
                of_contrast = _scores([requests[i] for i in indices], contrast, logits_by_text)
                score_by_index.update(zip(indices, of_contrast, strict=True))
        scores = [score_by_index[i] for i in range(len(requests))]
        require_numbers(scores)
        return scores, used

    def _logits(
        self, pairs: Sequence[tuple[Encoded, Encoded]], strategy: Strategy
    ) -> tuple[dict[Encoded, torch.Tensor], Usage]:
        """Logits [T, V] of each text: of its continuation's tokens and the one after them."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        if strategy != "tree" or not self._is_exact:
            return self._logits_one_by_one(texts)
        packed = pack(texts)
        inputs = tree_inputs(self._model, packed.tree)
        logits = forward(self._model, packed.rows, **inputs).logits[0]
        by_text = {
            text: logits[torch.from_numpy(rows).to(logits.device)]
            for text, rows in zip(texts, packed.rows_by_request, strict=True)
        }
        used = Usage(forwards=1, tokens_computed=len(packed.tree))
        if self._is_checked:
            return by_text, used
        plain, work = self._logits_one_by_one(texts)
        self._is_checked = True
        off = max(_largest_difference(by_text[text], plain[text]) for text in texts)
        if not off <= tolerance(self._model):
            self._is_exact = False
            warnings.warn(
                f"{type(self._model).__name__}: reading contrasted texts together is not exact for"
                f" this model (off by {off:.2g} nats); going on, more slowly, one by one",
                stacklevel=6,
            )
        return plain, used + work

    def _logits_one_by_one(
        self, texts: Sequence[Encoded]
    ) -> tuple[dict[Encoded, torch.Tensor], Usage]:
        by_text = {}
        for text in texts:
            forget_length(self._model)
            ids = torch.tensor([text.ids], device=self._model.device)
            rows = np.arange(text.start - 1, len(text.ids))
            by_text[text] = forward(self._model, rows, input_ids=ids).logits[0]
        tokens = sum(len(text.ids) for text in texts)
        return by_text, Usage(forwards=len(texts), tokens_computed=tokens)


def _by_contrast(
    requests: Sequence[Contrasted],
    indices_by_texts: dict[tuple[Encoded, Encoded], list[int]],
    pairs: Sequence[tuple[Encoded, Encoded]],
) -> dict[Contrast, list[int]]:
    """The requests for these pairs of texts, by index, of each contrast."""
    by_contrast: dict[Contrast, list[int]] = {}
    for pair in pairs:
        for i in indices_by_texts[pair]:
            by_contrast.setdefault(requests[i].contrast, []).append(i)
    return by_contrast


def _scores(
    requests: Sequence[Contrasted], contrast: Contrast, logits: dict[Encoded, torch.Tensor]
) -> list[TokenScores]:
    """The scores of requests with one contrast. logits: [T, V] of each text."""
    edited = torch.cat([logits[request.edited] for request in requests])
    bare = torch.cat([logits[request.bare] for request in requests])
    rows = []
    begin = 0
    for request in requests:
        end = begin + len(logits[request.edited])
        rows.append(np.arange(begin, end))
        begin = end
    logprobs = contrasted_logprobs(edited, bare, contrast)
    return token_scores(logprobs, [request.edited for request in requests], rows)


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of the log-probabilities of the tokens that are likely by `b` [R, V]."""
    likely = b.topk(min(50, b.shape[-1]), dim=-1).indices
    off = (a.log_softmax(-1) - b.log_softmax(-1)).gather(-1, likely).abs().max()
    return float(off.nan_to_num(1e9))


class ContrastedChoice:
    """Says to `generate` what the logits of the next token are, given those of the prompt.

    It reads the bare question with what was written so far. For one prompt at a time.
    """

    def __init__(self, model: Any, bare: Tokens, contrast: Contrast, answer_begins: int) -> None:
        self._model = model
        self._bare = bare
        self._contrast = contrast
        self._answer_begins = answer_begins
        # Other states than keys and values are not continued here: the whole text is read again.
        keeps_keys = state_name(model) == _KEYS and has_one_encoding(model.config)
        self._keeps_keys = keeps_keys
        self._keys: Any = None
        self._read = 0  # tokens that they are of
        self.tokens_computed = 0

    def __call__(self, so_far: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """The contrasted log-probabilities [1, V]. so_far: all tokens [1, T]."""
        answer = so_far[0, self._answer_begins :].tolist()
        ids = (*self._bare, *answer)
        if not self._keeps_keys:
            forget_length(self._model)
        new = torch.tensor([ids[self._read :]], device=so_far.device)
        options: dict[str, Any] = {"use_cache": self._keeps_keys}
        if self._keys is not None:
            options[_KEYS] = self._keys
        with torch.inference_mode():
            output = self._model(input_ids=new, **options)
        self.tokens_computed += new.shape[1]
        if self._keeps_keys:
            self._keys = output[_KEYS]
            self._read = len(ids)
        return contrasted_logprobs(logits.float(), output.logits[:, -1].float(), self._contrast)
