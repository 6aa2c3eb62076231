"""The scoring engine's check of itself: scores are compared with plain forwards' before they leave.

When: at a reading that is deeper, or whose tree is larger, than any that was checked before, apart
for readings that continued from a cached prefix, those of several trees in one forward, and others.
Windows, sparse and hybrid
attention depend on depth, so that a model may pass at short texts and be wrong at long ones. A
single request read without a cached prefix needs no check.

What: the log-probabilities of the shortest request and of one of the longest, with those of a plain
forward for each; and those of texts that go on from these (`reach`), so that the readings that
follow need no check, and none is deeper than what was checked.

What follows: scores that are off, or a model that raises an error at our inputs, first cost the
model its batches of trees, then its prefix cache, then its strategy, for the next slower one, which
is checked in turn. A strategy that passed before, and fails at greater depth, is given up for plain
forwards, as the next one might do the same. A warning says so once. A model whose plain forwards
differ from one another is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from drike.errors import ModelError
from drike.models.local.architecture import encoding_of, has_one_encoding, remembers_length
from drike.models.local.plans import Plan, Strategy, slower
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.reach import Ahead, Reach, ahead, none_ahead, reach_of, steps_of
from drike.models.local.scoring import (
    PackedRequests,
    Scored,
    TokenScores,
    disagreement,
    has_nan,
    pack,
    require_numbers,
    score_fork,
    score_naively,
    score_tree,
    score_trees,
)
from drike.models.local.tokens import Encoded
from drike.models.protocols import Usage

# Errors that a model's forward may raise if it does not support our inputs.
UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
_TOLERANCE = 1e-3  # nats, in float32
_TOLERANCE_IN_HALF_PRECISION = 0.25
_COMPARED = 64  # tokens at the end of a text that looks ahead
_LONGER = 2  # a plain forward over this many times the tokens of any repeated one is repeated


@dataclass(frozen=True)
class _Attempt:
    """A reading by the planned strategy, or its fault."""

    scored: Scored | None
    fault: str = ""
    is_error: bool = False  # raised by the model


class Way(NamedTuple):
    """How requests are read.

    continues: readings may continue from cached prefixes. batches: several trees in one forward.
    """

    strategy: Strategy
    continues: bool
    batches: bool


class CheckedReader:
    """Scores requests together, by the fastest strategy that passes its checks.

    plan: the strategy in use. prefixes: the cache of keys and values, which keeps nothing if its
    limit is 0. batches: whether several trees may be read in one forward.
    """

    def __init__(self, model: PreTrainedModel, plan: Plan, prefixes: PrefixCache) -> None:
        self.plan = plan
        self.prefixes = prefixes
        self.batches = plan.strategy == "tree" and has_one_encoding(model.config)
        self._model = model
        self._config = model.config
        self._reach_by_kind: dict[tuple[bool, int], Reach] = {}  # see `_kind`
        self._reach_of_batches = Reach()
        self._looks_ahead = True
        self._repeated = 0  # tokens of the longest text of which two plain forwards agreed

    @property
    def way(self) -> Way:
        """How requests are read. If it changed, a check has failed, or memory ran out."""
        return Way(self.plan.strategy, self.prefixes.limit > 0, self.batches)

    def read(self, requests: Sequence[Encoded]) -> Scored:
        """Score by the planned strategy if it passes its check, else by a slower one that does.

        Raises ModelError if the model computes no numbers, or others each time.
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
            self._reach_by_kind = {}
            self._looks_ahead = True
            self.batches = False
        require_numbers(scored.scores)
        if faults:
            name = type(self._model).__name__
            inexact = f"{name}: scoring by {planned!r} is not exact for this model ({faults[0]})"
            warnings.warn(
                f"{inexact}; going on, more slowly, by {self.plan.strategy!r}", stacklevel=6
            )
        return scored

    def read_batch(self, batch: Sequence[PackedRequests]) -> Scored | None:
        """Score several trees in one forward; None if that is not right for the model.

        It then reads no batches any more, and warns.
        """
        attempt = self._attempt_batch(batch)
        scored = attempt.scored
        if scored is not None and not has_nan(scored.scores):
            return scored
        self.batches = False
        name = type(self._model).__name__
        fault = attempt.fault or "it computes no numbers"
        warnings.warn(
            f"{name}: reading several trees in one forward is not exact for this model ({fault});"
            " going on, more slowly, one by one",
            stacklevel=6,
        )
        return None

    def _attempt_batch(self, batch: Sequence[PackedRequests]) -> _Attempt:
        """Score trees in one forward, and check the scores if a check is due."""
        try:
            attempt = _Attempt(score_trees(self._model, batch))
        except torch.OutOfMemoryError:
            raise
        except UNSUPPORTED as error:
            return _Attempt(None, f"it raised {type(error).__name__}", is_error=True)
        reaches = [reach_of(packed.tree) for packed in batch]
        if all(self._reach_of_batches.covers(reach) for reach in reaches):
            return attempt
        return self._checked_batch(batch, attempt)

    def _checked_batch(self, batch: Sequence[PackedRequests], attempt: _Attempt) -> _Attempt:
        """Compare scores of a batch, and texts that look ahead of it, with plain forwards.

        Compared are the deepest tree, the largest, and the smallest, which has the most padding.
        """
        assert attempt.scored is not None  # noqa: S101 - as its caller has seen
        scores, usage = attempt.scored
        begins = [0, *accumulate(len(packed.requests) for packed in batch)]
        depths = [packed.tree.trunk for packed in batch]
        sizes = [len(packed.tree) for packed in batch]
        deepest = depths.index(max(depths))
        smallest = sizes.index(min(sizes))
        for i in {deepest, smallest, sizes.index(max(sizes))}:
            packed = batch[i]
            of_tree = scores[begins[i] : begins[i + 1]]
            sample = none_ahead(packed.tree).sample
            compared = self._compared(packed.requests, of_tree, sample)
            if compared.scored is None:
                return compared
            usage += compared.scored.usage

        looked = self._look_ahead_of_batch(batch[deepest], batch[smallest])
        if looked.scored is None and not looked.is_error:
            return looked
        if looked.scored is not None:
            usage += looked.scored.usage
        for packed in batch:
            reach = reach_of(packed.tree)
            self._reach_of_batches = self._reach_of_batches.including(reach)
        return _Attempt(Scored(scores, usage))

    def _look_ahead_of_batch(self, deepest: PackedRequests, smallest: PackedRequests) -> _Attempt:
        """Read texts that look ahead of the deepest tree beside the smallest, and compare them.

        What is right is then covered.
        """
        texts = [request.ids for request in deepest.requests]
        further = ahead(texts, deepest.tree, self._config)
        if not further.texts:
            return _Attempt(Scored([], Usage()))
        extended = pack([*deepest.requests, *_asking(further)])
        sample = [len(texts) + i for i in further.compared]
        try:
            scored = score_trees(self._model, [extended, smallest])
            compared = self._compared(extended.requests, scored.scores, sample, ahead=True)
        except torch.OutOfMemoryError:
            return _Attempt(None, "memory ran out", is_error=True)
        except UNSUPPORTED as error:
            return _Attempt(None, f"it raised {type(error).__name__}", is_error=True)
        if compared.scored is None:
            return compared
        reach = further.reach_in(extended.tree)
        self._reach_of_batches = self._reach_of_batches.including(reach)
        return _Attempt(Scored([], scored.usage + compared.scored.usage))

    def _next_strategy(self) -> Strategy:
        """What follows a failed check: the next slower strategy, or plain forwards."""
        if not self._reach_by_kind:
            return slower(self.plan.strategy)
        return "naive"

    def _attempt(self, requests: Sequence[Encoded]) -> _Attempt:
        """Score by the planned strategy, and check the scores if a check is due."""
        before = state_of_draws(self._model)
        if self._must_be_read_apart(requests):
            scored = score_naively(self._model, requests)
            drew = state_of_draws(self._model) != before
            if drew or self.plan.strategy == "naive":
                self._require_repeatable(requests, scored, drew=drew)
            return _Attempt(scored)
        packed = pack(requests)
        if self._is_covered(packed):
            attempt = self._read_together(packed, self.prefixes)
            if state_of_draws(self._model) == before:
                return attempt
        return self._checked(packed)

    def _must_be_read_apart(self, requests: Sequence[Encoded]) -> bool:
        """Whether there is nothing to share, or sharing is not exact here."""
        if self.plan.strategy == "naive":
            return True
        if len(requests) == 1 and not self.prefixes.limit:
            return True
        longest = max(len(request.ids) for request in requests)
        return remembers_length(self._config) and encoding_of(self._config, longest) > 0

    def _read_together(self, packed: PackedRequests, prefixes: PrefixCache) -> _Attempt:
        try:
            if self.plan.strategy == "tree":
                kept = prefixes if self.prefixes.limit else None
                return _Attempt(score_tree(self._model, packed, kept))
            return _Attempt(score_fork(self._model, packed))
        except torch.OutOfMemoryError:
            raise
        except UNSUPPORTED as error:
            return _Attempt(None, f"it raised {type(error).__name__}", is_error=True)

    def _kind(self, packed: PackedRequests) -> tuple[bool, int]:
        """Whether a reading continues from a cached prefix, and its encoding of positions."""
        is_continued = self.prefixes.limit > 0 and self.prefixes.has_beginning(packed.prompt)
        return is_continued, encoding_of(self._config, packed.tree.trunk)

    def _is_covered(self, packed: PackedRequests) -> bool:
        """Whether a check that was passed shows that a reading is right."""
        kind = self._kind(packed)
        is_continued, _ = kind
        if len(packed.requests) == 1 and not is_continued:
            return True
        reach = self._reach_by_kind.get(kind, Reach())
        steps = max(self._steps_of(packed), default=0)
        return reach.covers(reach_of(packed.tree)._replace(steps=steps))

    def _steps_of(self, packed: PackedRequests) -> list[int]:
        """How many tokens of each request are read alone and continued, by runs of a tree."""
        return steps_of(packed.tree) if self.plan.strategy == "fork" else []

    def _checked(self, packed: PackedRequests) -> _Attempt:
        """Score requests, and compare some of them, and texts that look ahead, with plain forwards.

        The texts are read apart, as scores must not depend on when a check is due.
        """
        kind = self._kind(packed)  # before the reading adds to the prefixes
        attempt = self._read_together(packed, self.prefixes)
        if attempt.scored is None:
            return attempt
        scores, usage = attempt.scored
        texts = [request.ids for request in packed.requests]
        further = none_ahead(packed.tree)
        reach = reach_of(packed.tree)
        if self._looks_ahead:
            further = ahead(texts, packed.tree, self._config)
        if further.texts:
            extended = pack([*packed.requests, *_asking(further)])
            looked = self._look_ahead(extended, further, kind)
            if looked.scored is not None:
                usage += looked.scored.usage
                reach = further.reach_in(extended.tree)
            elif looked.is_error:
                # These may be the only texts that the model cannot read, or the memory cannot hold.
                self._looks_ahead = False
                further = none_ahead(packed.tree)
            else:
                return looked
        steps = self._steps_of(packed)
        sample = {*further.sample}
        if any(steps):
            sample.add(steps.index(max(steps)))
            reach = reach._replace(steps=max(steps))
        compared = self._compared(packed.requests, scores, sorted(sample))
        if compared.scored is None:
            return compared
        usage += compared.scored.usage
        self._reach_by_kind[kind] = self._reach_by_kind.get(kind, Reach()).including(reach)
        return _Attempt(Scored(scores, usage))

    def _look_ahead(
        self, extended: PackedRequests, further: Ahead, kind: tuple[bool, int]
    ) -> _Attempt:
        """Score requests with the texts that look ahead of them, and compare some of the latter."""
        is_continued, _ = kind
        own = len(extended.requests) - len(further.texts)
        try:
            read = self._read_together(extended, self.prefixes if is_continued else PrefixCache(0))
            if read.scored is None:
                return read
            sample = [own + i for i in further.compared]
            compared = self._compared(extended.requests, read.scored.scores, sample, ahead=True)
        except torch.OutOfMemoryError:
            return _Attempt(None, "memory ran out", is_error=True)
        if compared.scored is None:
            return compared
        return _Attempt(Scored([], read.scored.usage + compared.scored.usage))

    def _compared(
        self,
        requests: Sequence[Encoded],
        scores: Sequence[TokenScores],
        sample: Sequence[int],
        *,
        ahead: bool = False,
    ) -> _Attempt:
        """The plain scores of some requests, by index, or how much others differ from them."""
        try:
            plain = score_naively(self._model, [requests[i] for i in sample])
        except torch.OutOfMemoryError:
            raise
        except UNSUPPORTED as error:
            fault = f"a plain forward raised {type(error).__name__}"
            return _Attempt(None, fault, is_error=True)
        for i, score in zip(sample, plain.scores, strict=True):
            off = self._off(scores[i], score, looks_ahead=ahead)
            if not off <= tolerance(self._model):  # so that nan fails, too
                self._require_repeatable([requests[i]], Scored([score], plain.usage))
                return _Attempt(None, f"log-probabilities were off by {off:.2g}")
        return _Attempt(plain)

    def _off(self, score: TokenScores, plain: TokenScores, *, looks_ahead: bool) -> float:
        """How much a score is off, in nats.

        In half precision, single ones of the many tokens that look ahead are off by chance.
        """
        differences = [abs(a - b) for a, b in zip(score.logprobs, plain.logprobs, strict=True)]
        if looks_ahead and self._model.dtype != torch.float32:
            return sum(differences) / len(differences)
        # So that nan, which `max` may overlook, is the largest.
        return max(differences, key=lambda off: (math.isnan(off), off))

    def _require_repeatable(
        self, requests: Sequence[Encoded], scored: Scored, *, drew: bool = False
    ) -> None:
        """Read the longest request plainly once more, if no longer one was.

        drew: whether the model drew numbers at random as it read them, which some do at long texts
        alone, so that they are read once more in any case. Raises ModelError if its score differs
        from the one that was read before.
        """
        lengths = [len(request.ids) for request in requests]
        longest = lengths.index(max(lengths))
        if not drew and lengths[longest] < _LONGER * self._repeated:
            return
        again = score_naively(self._model, [requests[longest]])
        off = disagreement([scored.scores[longest]], again.scores)
        if off > tolerance(self._model):
            raise ModelError(differs(self._model, off))
        self._repeated = max(self._repeated, lengths[longest])


def state_of_draws(model: PreTrainedModel) -> bytes:
    """The state of the generators from which a model's forwards may draw numbers at random."""
    states = [torch.get_rng_state()]
    if model.device.type == "cuda":
        states.append(torch.cuda.get_rng_state(model.device))
    return b"".join(state.numpy().tobytes() for state in states)


def tolerance(model: PreTrainedModel) -> float:
    """How much a log-probability may differ from a plain forward's, in nats."""
    return _TOLERANCE if model.dtype == torch.float32 else _TOLERANCE_IN_HALF_PRECISION


def differs(model: PreTrainedModel, off: float) -> str:
    """Why a model is refused whose plain forwards over one text differ, and what to do."""
    name = type(model).__name__
    seed = "set `hash_seed` in its config.json to a number, or "
    remedy = f"{seed if hasattr(model.config, 'hash_seed') else ''}choose another model"
    return (
        f"{name} gives the same text other log-probabilities each time (off by {off:.2g} nats),"
        f" as it draws numbers at random while it reads, so that no result can be trusted: {remedy}"
    )


def _asking(further: Ahead) -> list[Encoded]:
    """Texts that look ahead, with the last tokens of those that are compared as continuations."""
    return [
        Encoded(text, max(1, len(text) - (_COMPARED if i in further.compared else 1)))
        for i, text in enumerate(further.texts)
    ]
