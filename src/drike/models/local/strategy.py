"""Score by the fastest strategy, check it on requests scored by themselves, and use the next slower one if it fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from drike.errors import ModelError
from drike.models.local import scoring
from drike.models.local.attention import STRATEGIES, Plan, Strategy, encoding_of, keeps_length, one_encoding, plan
from drike.models.local.decoding import families
from drike.models.local.memory import bytes_to_keep, tokens_that_fit
from drike.models.local.prefix_cache import WORTH_KEEPING, PrefixCache
from drike.models.local.scoring import Scored, TokenScores, score_naively
from drike.models.local.tokens import Encoded
from drike.models.local.tree import packs
from drike.models.protocols import Usage

_UNRELATED = 512  # tokens, below which attention costs little, so that unrelated requests may share a forward
# More tokens in one forward gain nothing: it is full long before, and attention grows with their square.
_MOST_TOKENS = {"cpu": 4096, "cuda": 8192}
# Errors that a model's forward may raise if it does not support our inputs.
_UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)

Result = TypeVar("Result")


class Scorer:
    """Scores requests with one model by the fastest exact strategy; the arguments are those of `HuggingFaceModel`."""

    def __init__(self, model: PreTrainedModel, budget: int | None, strategy: Strategy | None, keep: int | None) -> None:
        self._model = model
        self.plan = plan(model) if strategy is None else Plan(strategy, "asked for")
        self.budget = budget or tokens_that_fit(model, _MOST_TOKENS.get(model.device.type, 4096))
        keeps = self.plan.strategy == "tree" and one_encoding(model.config)
        self.prefixes = PrefixCache((bytes_to_keep(model) if keep is None else keep) if keeps else 0)
        # The longest forward checked, of those that continued from a cached prefix (True) and of the others.
        self._checked = {True: 0, False: 0}

    def read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        """Score requests; return scores in order, and the work they took."""
        return self.within_memory(lambda: self._read(requests), [len(request.ids) for request in requests])

    def within_memory(self, work: Callable[[], Result], lengths: Sequence[int]) -> Result:
        """Run `work`, which reads texts of these lengths within the budget.

        If memory runs out, drop cached prefixes, then halve the budget, warn and repeat; ModelError for a single text.
        """
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                if len(self.prefixes):
                    self.prefixes.stop()
                    continue
                if self.budget < max(lengths):
                    raise ModelError("the device's memory does not hold one prompt: use shorter ones") from error
                self.budget = min(self.budget, sum(lengths)) // 2
                warnings.warn(f"out of memory: going on with {self.budget} tokens a forward", stacklevel=4)

    def _read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        kinds = [encoding_of(self._model.config, len(request.ids)) for request in requests]
        scores: dict[int, TokenScores] = {}
        used = Usage()
        for kind in dict.fromkeys(kinds):
            alike = [i for i, other in enumerate(kinds) if other == kind]
            ids = [requests[i].ids for i in alike]
            for group in packs(ids, self.budget, _UNRELATED):
                which = [alike[i] for i in group]
                together, spent = self._read_together([requests[i] for i in which])
                scores.update(zip(which, together, strict=True))
                used += spent
        return [scores[i] for i in range(len(requests))], used

    def families(self, prompts: Sequence[tuple[int, ...]]) -> list[list[int]]:
        """Groups of prompts, by index, to read as one tree before they are completed; none if the plan is no tree."""
        if self.plan.strategy != "tree":
            return []
        # A single prompt may begin with a cached prefix.
        alone = [[0]] if len(prompts) == 1 and len(prompts[0]) > WORTH_KEEPING and self.prefixes.limit else []
        groups = alone or families(prompts, self.budget)
        for group in groups:
            if len(group) > 1 and not self._checked[False]:
                self.read([Encoded(prompts[i], len(prompts[i]) - 1) for i in group])
        return groups if self.plan.strategy == "tree" else []

    def _read_together(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        """Score by the planned strategy if it passes its check, else by the next slower one that does."""
        longest = max(len(request.ids) for request in requests)
        beyond = keeps_length(self._model.config) and encoding_of(self._model.config, longest) > 0
        if beyond or (len(requests) == 1 and not self.prefixes.limit):
            answer = score_naively(self._model, requests)
            return answer.scores, answer.usage
        planned, faults = self.plan.strategy, []
        while True:
            answer, fault = self._checked_answer(requests)
            if fault is None:
                break
            if self.prefixes.limit:
                self.prefixes.stop()  # without the cached prefixes the same strategy may be right
                continue
            faults.append(fault)
            slower = STRATEGIES[STRATEGIES.index(self.plan.strategy) + 1]
            self.plan = Plan(slower, f"{planned!r} failed its check: {faults[0]}")
            self._checked = {True: 0, False: 0}
        if faults:
            inexact = f"{type(self._model).__name__}: scoring by {planned!r} is not exact for this model ({faults[0]})"
            warnings.warn(f"{inexact}; going on, more slowly, by {self.plan.strategy!r}", stacklevel=6)
        return answer.scores, answer.usage

    def _checked_answer(self, requests: Sequence[Encoded]) -> tuple[Scored, str | None]:
        """Score by the planned strategy; also return what is wrong with the result, if anything."""
        if self.plan.strategy == "naive":
            return score_naively(self._model, requests), None
        try:
            if self.plan.strategy == "tree":
                answer = scoring.score_tree(self._model, requests, self.prefixes if self.prefixes.limit else None)
            else:
                answer = scoring.score_fork(self._model, requests)
        except torch.OutOfMemoryError:
            raise
        except _UNSUPPORTED as error:
            return Scored([], Usage(), 0), f"it raised {type(error).__name__}"
        continued = answer.spanned > answer.usage.tokens_computed
        plain = len(requests) == 1 and not continued
        if plain or answer.spanned <= 2 * self._checked[continued]:
            return answer, None
        lengths = [len(request.ids) for request in requests]
        ends = [lengths.index(min(lengths)), lengths.index(max(lengths))]
        oracle = score_naively(self._model, [requests[i] for i in ends])
        off = scoring.disagreement([answer.scores[i] for i in ends], oracle.scores)
        tolerance = 1e-3 if self._model.dtype == torch.float32 else 0.25
        if not off <= tolerance:  # so that nan fails too
            return answer, f"log-probabilities were off by {off:.2g}"
        self._checked[continued] = answer.spanned
        return replace(answer, usage=answer.usage + oracle.usage), None
