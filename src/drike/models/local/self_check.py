"""The scoring engine's check of itself: now and then scores are compared with plain forwards'.

When: at a reading that is deeper than any that was checked before (its longest request has more
tokens, by a 64th), or that spans more than twice the tokens, the latter apart for readings that
continued from a cached prefix and those that did not. Windows, sparse and hybrid attention depend
on depth, so that a model may pass at short texts and be wrong at long ones. Texts in no order of
length break the record of depth a few times in a thousand. A single request read without a cached
prefix needs no check.

What: the log-probabilities of the shortest and the longest request of that reading, with those of a
plain forward for each. If several are about the longest, it is one that leaves the tree's trunk,
which alone is read as in a plain forward.

What follows: scores that are off, or a model that raises an error at our inputs, first cost the
model its prefix cache, then its strategy, for the next slower one, which is checked in turn. A
strategy that passed before, and fails at greater depth, is given up for plain forwards, as the next
one might do the same. A warning says so once.
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
from drike.models.local.plans import Plan, Strategy, slower
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scoring import Scored, disagreement, score_fork, score_naively, score_tree
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Encoded

# Errors that a model's forward may raise if it does not support our inputs.
_UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
_LARGER = 2  # a reading that spans more times the tokens of any checked one is checked
_DEEPER = 64  # and one that is deeper by more than this part
_NEARLY = 7 / 8  # a request this long, compared with the longest, counts as one of the longest
_TOLERANCE = 1e-3  # nats, in float32
_TOLERANCE_IN_HALF_PRECISION = 0.25


@dataclass
class _Checked:
    """The largest readings that passed a check.

    depth: tokens of the longest request. continued, from_start: tokens that readings spanned, with
    a cached prefix and without.
    """

    depth: int = 0
    continued: int = 0
    from_start: int = 0

    def covers(self, depth: int, spanned: int, *, is_continued: bool) -> bool:
        """Whether a reading needs no further check."""
        largest = self.continued if is_continued else self.from_start
        deepest = self.depth + self.depth // _DEEPER
        return spanned <= _LARGER * largest and depth <= deepest

    def add(self, depth: int, spanned: int, *, is_continued: bool) -> None:
        """Note that a reading passed."""
        self.depth = max(self.depth, depth)
        if is_continued:
            self.continued = max(self.continued, spanned)
        else:
            self.from_start = max(self.from_start, spanned)


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
        self._checked = _Checked()

    @property
    def way(self) -> tuple[Strategy, bool]:
        """The strategy, and whether readings may continue from cached prefixes.

        If it changed, a check has failed, or memory ran out.
        """
        return self.plan.strategy, self.prefixes.limit > 0

    def has_checked(self, requests: Sequence[Encoded]) -> bool:
        """Whether the planned strategy has passed a check that covers this reading."""
        depth = _depth(requests)
        spanned = len(build_tree([request.ids for request in requests]))
        checked = self._checked
        return any(checked.covers(depth, spanned, is_continued=way) for way in (True, False))

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
            self.plan = Plan(self._next_strategy(), reason)
            self._checked = _Checked()
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

    def _next_strategy(self) -> Strategy:
        """What follows a failed check: the next slower strategy, or plain forwards."""
        if self._checked == _Checked():
            return slower(self.plan.strategy)
        return "naive"

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
        if not self._is_due(scored, _depth(requests)):
            return _Attempt(scored)
        return self._compared(scored, requests)

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

    def _is_due(self, scored: Scored, depth: int) -> bool:
        """Whether a reading is deeper than any checked one, or larger than those of its kind."""
        is_continued = _is_continued(scored)
        if len(scored.scores) == 1 and not is_continued:
            return False
        return not self._checked.covers(depth, scored.spanned, is_continued=is_continued)

    def _compared(self, scored: Scored, requests: Sequence[Encoded]) -> _Attempt:
        """Compare the scores of two requests with plain forwards'."""
        sample = _sample(requests)
        plain = score_naively(self._model, [requests[i] for i in sample])
        off = disagreement([scored.scores[i] for i in sample], plain.scores)
        is_exact = off <= self._tolerance()  # so that nan fails, too
        if not is_exact:
            return _Attempt(None, f"log-probabilities were off by {off:.2g}")
        is_continued = _is_continued(scored)
        self._checked.add(_depth(requests), scored.spanned, is_continued=is_continued)
        return _Attempt(scored._replace(usage=scored.usage + plain.usage))

    def _tolerance(self) -> float:
        if self._model.dtype == torch.float32:
            return _TOLERANCE
        return _TOLERANCE_IN_HALF_PRECISION


def _is_continued(scored: Scored) -> bool:
    """Whether a reading took tokens from the prefix cache."""
    return scored.spanned > scored.usage.tokens_computed


def _depth(requests: Sequence[Encoded]) -> int:
    """The tokens of the longest request."""
    return max(len(request.ids) for request in requests)


def _sample(requests: Sequence[Encoded]) -> list[int]:
    """Which requests are compared: the shortest, and one of the longest.

    That is one that leaves the tree's trunk, if there is, as the trunk alone is easily right.
    """
    tree = build_tree([request.ids for request in requests])
    lengths = [len(request.ids) for request in requests]
    shortest = lengths.index(min(lengths))
    longest = lengths.index(max(lengths))
    branches = [i for i, path in enumerate(tree.paths) if path[-1] >= tree.trunk]
    deepest_branch = max(branches, key=lengths.__getitem__, default=longest)
    if lengths[deepest_branch] >= _NEARLY * lengths[longest]:
        longest = deepest_branch
    return [shortest, longest]
