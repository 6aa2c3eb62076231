"""Choosing how requests are read, and making sure that the choice is right.

The plan read off a model's config (see `attention`) is tried on the first requests that share a forward, and again
whenever a forward is twice as long as any checked before: the shallowest and the deepest request are also read by
themselves. Where the two disagree, one warning is given and the next slower way is taken for good.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch

from drike.models import ModelError, Usage
from drike.models.attention import Plan, Way, encoding_of, keeps_length, plan
from drike.models.decoding import batches, families
from drike.models.scoring import Reading, disagreement, distinct_tokens, score_batch, score_naively, score_tree
from drike.models.token_trie import packs
from drike.models.tokenise import Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Below this many tokens attention costs little beside the rest, so strangers may share a forward.
UNRELATED_TOKENS = 512

Result = TypeVar("Result")

_NEXT: dict[Way, Way] = {"tree": "batch", "batch": "naive"}


class SharedReader:
    """Reads requests with one model by the fastest way that has proved right. budget: most tokens in one forward."""

    def __init__(self, model: PreTrainedModel, budget: int | None = None) -> None:
        self._model = model
        self.plan = plan(model)
        # Eager attention holds the scores of all its heads at once; the other kinds never do.
        eager = model.config.get_text_config()._attn_implementation == "eager"
        self.budget = budget or (2048 if eager else 4096 if model.device.type == "cpu" else 8192)
        self._checked = 0

    def read(self, requests: Sequence[Encoded]) -> tuple[list[Reading], Usage]:
        """Readings in order, with the forwards and tokens they took."""
        return self.within_memory(lambda: self._read(requests), [len(request.ids) for request in requests])

    def within_memory(self, work: Callable[[], Result], lengths: Sequence[int]) -> Result:
        """What `work` returns, which reads texts of these lengths by the budget.

        Running out of memory halves the budget, with a warning, and starts again; ModelError when that no longer helps.
        """
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                if self.budget < max(lengths):
                    raise ModelError("the device's memory does not hold one prompt: use shorter ones") from error
                self.budget = min(self.budget, sum(lengths)) // 2
                warnings.warn(f"out of memory: going on with {self.budget} tokens a forward", stacklevel=4)

    def _read(self, requests: Sequence[Encoded]) -> tuple[list[Reading], Usage]:
        kinds: dict[int, list[int]] = {}
        for i, request in enumerate(requests):
            kinds.setdefault(encoding_of(self._model.config, len(request.ids)), []).append(i)
        readings: dict[int, Reading] = {}
        used = Usage()
        for alike in kinds.values():
            for group in self._groups([requests[i].ids for i in alike]):
                which = [alike[i] for i in group]
                together, spent = self._read_together([requests[i] for i in which])
                readings.update(zip(which, together, strict=True))
                used += spent
        return [readings[i] for i in range(len(requests))], used

    def families(self, prompts: Sequence[tuple[int, ...]]) -> list[list[int]]:
        """Indices of prompts to be read as one tree before they are answered; none where this model allows no tree."""
        found = families(prompts, self.budget) if self.plan.way == "tree" else []
        if found and not self._checked:
            self.read([Encoded(prompts[i], len(prompts[i]) - 1) for i in found[0]])
        return found if self.plan.way == "tree" else []

    def _groups(self, ids: Sequence[tuple[int, ...]]) -> list[list[int]]:
        if self.plan.way == "tree":
            return packs(ids, self.budget, UNRELATED_TOKENS)
        return batches(ids, self.budget, padding=True)

    def _read_together(self, requests: Sequence[Encoded]) -> tuple[list[Reading], Usage]:
        lengths = [len(request.ids) for request in requests]
        alone = Usage(forwards=len(requests), tokens_computed=sum(lengths))
        beyond = keeps_length(self._model.config) and encoding_of(self._model.config, max(lengths)) > 0
        if self.plan.way == "naive" or len(requests) == 1 or beyond:
            return score_naively(self._model, requests), alone
        if self.plan.way == "tree":
            read, tokens = score_tree, distinct_tokens([request.ids for request in requests])
        else:
            read, tokens = score_batch, len(requests) * max(lengths)
        used = Usage(forwards=1, tokens_computed=tokens)
        if tokens <= 2 * self._checked:
            return read(self._model, requests), used
        try:
            readings = read(self._model, requests)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            self._give_up(f"it raised {type(error).__name__}")
            return score_naively(self._model, requests), alone
        ends = [lengths.index(min(lengths)), lengths.index(max(lengths))]
        oracle = score_naively(self._model, [requests[i] for i in ends])
        off = disagreement([readings[i] for i in ends], oracle)
        tolerance = 1e-3 if self._model.dtype == torch.float32 else 0.25
        if not off <= tolerance:  # so that nan fails too
            self._give_up(f"log-probabilities were off by {off:.2g}")
            return score_naively(self._model, requests), alone
        self._checked = tokens
        return readings, used + Usage(forwards=len(ends), tokens_computed=sum(lengths[i] for i in ends))

    def _give_up(self, what: str) -> None:
        way = self.plan.way
        self.plan = Plan(_NEXT[way], f"way {way!r} failed its check: {what}")
        self._checked = 0
        warnings.warn(
            f"{type(self._model).__name__}: scoring by {way!r} is not exact for this model ({what}); "
            f"going on, more slowly, by {self.plan.way!r}",
            stacklevel=6,
        )
