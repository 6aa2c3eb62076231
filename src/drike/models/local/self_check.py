"""The scoring engine's check of itself: now and then scores are compared with plain forwards'.

When: at a reading that spans more than twice the tokens of any that was checked before, apart for
readings that continued from a cached prefix and those that did not. A single request read without a
cached prefix needs no check.

What: the log-probabilities of the shortest and the longest request of that reading, with those of a
plain forward for each.

What follows: scores that are off, or a model that raises an error at our inputs, first cost the
model its prefix cache, then its strategy, for the next slower one, which is checked in turn. A
warning says so once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from drike.errors import ModelError
from drike.models.local.architecture import encoding_of, remembers_length
from drike.models.local.plans import Plan, slower
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scoring import Scored, disagreement, score_fork, score_naively, score_tree
from drike.models.local.tokens import Encoded

# Errors that a model's forward may raise if it does not support our inputs.
_UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
_TOLERANCE = 1e-3  # nats, in float32
_TOLERANCE_IN_HALF_PRECISION = 0.25


@dataclass
class _LongestChecked:
    """Tokens spanned by the longest readings that passed a check."""

    continued: int = 0  # from a cached prefix
    from_start: int = 0


@dataclass(frozen=True)
class _Attempt:
    """A reading by the planned strategy, or its fault."""

    scored: Scored | None
    fault: str = ""


class CheckedReader:
    """Scores requests together, by the fastest strategy that passes its checks.

    plan: the strategy in use. prefixes: the cache of keys and values, which keeps nothing if its
    limit is 0.
    """

    def __init__(self, model: PreTrainedModel, plan: Plan, prefixes: PrefixCache) -> None:
        self.plan = plan
        self.prefixes = prefixes
        self._model = model
        self._longest_checked = _LongestChecked()

    @property
    def has_checked(self) -> bool:
        """Whether the planned strategy has passed a check of a reading from the start."""
        return self._longest_checked.from_start > 0

    def read(self, requests: Sequence[Encoded]) -> Scored:
        """Score by the planned strategy if it passes its check, else by a slower one that does.

        Raises ModelError if the model computes no numbers.
        """
        planned = self.plan.strategy
        faults: list[str] = []
        while True:
            attempt = self._attempt(requests)
            scored = attempt.scored
            if scored is not None:
                break
            if self.prefixes.limit:
                # Without the cached prefixes the same strategy may be right.
                self.prefixes = PrefixCache(0)
                continue
            faults.append(attempt.fault)
            reason = f"{planned!r} failed its check: {faults[0]}"
            self.plan = Plan(slower(self.plan.strategy), reason)
            self._longest_checked = _LongestChecked()
        if any(math.isnan(logprob) for score in scored.scores for logprob in score.logprobs):
            raise ModelError(
                "the model computes no numbers: its weights are damaged, or too large for float16"
            )
        if faults:
            name = type(self._model).__name__
            inexact = f"{name}: scoring by {planned!r} is not exact for this model ({faults[0]})"
            warnings.warn(
                f"{inexact}; going on, more slowly, by {self.plan.strategy!r}", stacklevel=6
            )
        return scored

    def _attempt(self, requests: Sequence[Encoded]) -> _Attempt:
        """Score by the planned strategy, and check the scores if a check is due."""
        if self._must_be_read_apart(requests):
            return _Attempt(score_naively(self._model, requests))
        try:
            scored = self._read_together(requests)
        except torch.OutOfMemoryError:
            raise
        except _UNSUPPORTED as error:
            return _Attempt(None, f"it raised {type(error).__name__}")
        if not self._is_due(scored):
            return _Attempt(scored)
        return self._checked(scored, requests)

    def _must_be_read_apart(self, requests: Sequence[Encoded]) -> bool:
        """Whether there is nothing to share, or sharing is not exact here."""
        if self.plan.strategy == "naive":
            return True
        if len(requests) == 1 and not self.prefixes.limit:
            return True
        config = self._model.config
        longest = max(len(request.ids) for request in requests)
        return remembers_length(config) and encoding_of(config, longest) > 0

    def _read_together(self, requests: Sequence[Encoded]) -> Scored:
        if self.plan.strategy == "tree":
            prefixes = self.prefixes if self.prefixes.limit else None
            return score_tree(self._model, requests, prefixes)
        return score_fork(self._model, requests)

    def _is_due(self, scored: Scored) -> bool:
        """Whether a reading spans more than twice the tokens of any checked one of its kind."""
        if _is_continued(scored):
            return scored.spanned > 2 * self._longest_checked.continued
        is_shared = len(scored.scores) > 1
        return is_shared and scored.spanned > 2 * self._longest_checked.from_start

    def _checked(self, scored: Scored, requests: Sequence[Encoded]) -> _Attempt:
        """Compare the scores of the shortest and the longest request with plain forwards'."""
        lengths = [len(request.ids) for request in requests]
        shortest = lengths.index(min(lengths))
        longest = lengths.index(max(lengths))
        plain = score_naively(self._model, [requests[shortest], requests[longest]])
        shared = [scored.scores[shortest], scored.scores[longest]]
        off = disagreement(shared, plain.scores)
        is_exact = off <= self._tolerance()  # so that nan fails, too
        if not is_exact:
            return _Attempt(None, f"log-probabilities were off by {off:.2g}")
        if _is_continued(scored):
            self._longest_checked.continued = scored.spanned
        else:
            self._longest_checked.from_start = scored.spanned
        return _Attempt(scored._replace(usage=scored.usage + plain.usage))

    def _tolerance(self) -> float:
        if self._model.dtype == torch.float32:
            return _TOLERANCE
        return _TOLERANCE_IN_HALF_PRECISION


def _is_continued(scored: Scored) -> bool:
    """Whether a reading took tokens from the prefix cache."""
    return scored.spanned > scored.usage.tokens_computed
