"""Scoring any number of requests: which ones are read together, within the device's memory."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from transformers import PreTrainedModel

from drike.errors import ModelError
from drike.models.local import plans
from drike.models.local.architecture import encodings_of, has_one_encoding
from drike.models.local.memory import PREDICTING, bytes_to_keep, memory_errors, tokens_that_fit
from drike.models.local.plans import Plan, Strategy
from drike.models.local.prefix_cache import WORTH_KEEPING, PrefixCache
from drike.models.local.scoring import PackedRequests, Scored, TokenScores, pack
from drike.models.local.self_check import CheckedReader, Way
from drike.models.local.token_trees import build_tree, packs
from drike.models.local.tokens import Encoded, Tokens
from drike.models.protocols import Usage

# Tokens, below which attention costs little, so that unrelated requests may share a forward.
_UNRELATED = 512
# More tokens in one forward gain nothing: it is full long before, and attention grows with their
# square.
_MOST_TOKENS = {"cpu": 4096, "cuda": 8192}
# Tokens of several trees in one forward, each a row of its batch. One tree alone fills a processor,
# where batches cost memory and gain nothing; a card computes many in the time of its launches.
_MOST_TOGETHER = {"cuda": 32768}
# Keys and values of prompts to complete may be for this many times the tokens of a forward.
_CACHED = 4

Result = TypeVar("Result")


class _Group(NamedTuple):
    """Requests that make one tree, and their indices among all. packed: None if it is not made."""

    indices: list[int]
    requests: list[Encoded]
    packed: PackedRequests | None

    @property
    def size(self) -> int:
        """Tokens of the tree."""
        return 0 if self.packed is None else len(self.packed.tree)

    @property
    def rows(self) -> int:
        """Its tokens whose logits are computed."""
        return 0 if self.packed is None else len(self.packed.rows)


class TokenBudget(NamedTuple):
    """The most tokens in one forward: of one tree, and of several together (0: one at a time)."""

    tree: int
    together: int


class Scorer:
    """Scores requests by the fastest strategy that passes checks against plain forwards.

    See `HuggingFaceModel`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        budget: int | TokenBudget | None,
        strategy: Strategy | None,
        keep: int | None,
    ) -> None:
        self._model = model
        self.budget, self.together = _token_budget(model, budget)
        plan = plans.plan(model) if strategy is None else Plan(strategy, "asked for")
        kept_bytes = 0
        if plan.strategy == "tree" and has_one_encoding(model.config):
            kept_bytes = bytes_to_keep(model) if keep is None else keep
        self._reader = CheckedReader(model, plan, PrefixCache(kept_bytes))

    @property
    def plan(self) -> Plan:
        """The strategy in use, which a failed check changes."""
        return self._reader.plan

    @property
    def way(self) -> Way:
        """How requests are read; if that changes, a check has failed, or memory ran out."""
        return self._reader.way

    @property
    def batches(self) -> bool:
        """Whether several trees are read in one forward, so that more requests are read faster."""
        return self._reader.batches and self.together > 0

    @property
    def prefixes(self) -> PrefixCache:
        """The cached prefixes.

        Another, empty cache takes their place if memory runs out or a check fails.
        """
        return self._reader.prefixes

    def read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        """Score requests; return scores in order, and the work they took."""
        lengths = [len(request.ids) for request in requests]
        return self.within_memory(lambda: self._read(requests), lengths)

    def within_memory(self, work: Callable[[], Result], lengths: Sequence[int]) -> Result:
        """Run `work`, which reads texts of these lengths.

        Again, with a smaller budget, if memory runs out.
        """
        while True:
            try:
                with memory_errors():
                    return work()
            except torch.OutOfMemoryError as error:
                if len(self.prefixes):
                    self._reader.prefixes = PrefixCache(0)
                    continue
                if self.batches and self.together > max(lengths):
                    self.together = min(self.together, sum(lengths)) // 2
                    continue
                if self.budget < max(lengths):
                    raise ModelError(
                        "the device's memory does not hold one prompt: use shorter ones"
                    ) from error
                self.budget = min(self.budget, sum(lengths)) // 2
                warnings.warn(
                    f"out of memory: going on with {self.budget} tokens a forward", stacklevel=4
                )

    def families(self, prompts: Sequence[Tokens]) -> list[list[int]]:
        """Groups of prompts, by index, that are completed faster if they are read as one tree."""
        if self.plan.strategy != "tree":
            return []
        if len(prompts) == 1 and len(prompts[0]) > WORTH_KEEPING and self.prefixes.limit:
            return [[0]]  # it may begin with a cached prefix

        families: list[list[int]] = []
        for group in packs(prompts, self.budget, unrelated=0):
            related = [prompts[i] for i in group]
            if _shares_half(related):
                rows = self._rows(related, self.budget)
                families += [group[i : i + rows] for i in range(0, len(group), rows)]
        return self._joined(families, prompts) if self.batches else families

    def _joined(self, families: Sequence[list[int]], prompts: Sequence[Tokens]) -> list[list[int]]:
        """Families of several edits that are completed at once, as far as a forward has room."""
        joined: list[list[int]] = []
        size = 0  # tokens of the last one's trees
        for family in families:
            added = len(build_tree([prompts[i] for i in family]))
            if joined:
                both = [*joined[-1], *family]
                rows = self._rows([prompts[i] for i in both], self.together)
                if size + added <= self.budget and len(both) <= rows:
                    joined[-1] = both
                    size += added
                    continue
            joined.append(family)
            size = added
        return joined

    def _rows(self, prompts: Sequence[Tokens], tokens: int) -> int:
        """How many prompts may be completed at once, whose keys and values are kept apart."""
        longest = max(len(prompt) for prompt in prompts)
        return max(2, _CACHED * tokens // longest)

    def _read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        used = Usage()
        way = None
        while way != self._reader.way:  # again, if a check failed: groups before it had none
            way = self._reader.way
            score_by_index: dict[int, TokenScores] = {}
            for batch in self._batches(requests):
                scored = self._read_batch(batch)
                indices = [i for group in batch for i in group.indices]
                score_by_index.update(zip(indices, scored.scores, strict=True))
                used += scored.usage
        scores = [score_by_index[i] for i in range(len(requests))]
        return scores, used

    def _read_batch(self, batch: Sequence[_Group]) -> Scored:
        """Score groups in one forward, or one by one if that is not right."""
        if self.batches and len(batch) > 1:
            trees = [group.packed for group in batch if group.packed is not None]
            scored = self._reader.read_batch(trees)
            if scored is not None:
                return scored
        one_by_one = [self._reader.read(group.requests) for group in batch]
        scores = [score for scored in one_by_one for score in scored.scores]
        return Scored(scores, sum((scored.usage for scored in one_by_one), Usage()))

    def _batches(self, requests: Sequence[Encoded]) -> Iterator[list[_Group]]:
        """Groups that are read in one forward; trees of like size, so that little is padded."""
        groups = self._groups(requests)
        if not self.batches:
            for indices in groups:
                yield [_Group(indices, [requests[i] for i in indices], None)]
            return

        packed_groups = []
        for indices in groups:
            of_group = [requests[i] for i in indices]
            packed_groups.append(_Group(indices, of_group, pack(of_group)))
        packed_groups.sort(key=lambda group: group.size, reverse=True)
        batch: list[_Group] = []
        for group in packed_groups:
            if batch and not self._has_room([*batch, group]):
                yield batch
                batch = []
            batch.append(group)
        if batch:
            yield batch

    def _has_room(self, batch: Sequence[_Group]) -> bool:
        """Whether trees, padded to the longest, and the logits of their rows fit in one forward."""
        longest = max(group.size for group in batch)
        most_rows = max(group.rows for group in batch)
        fits = len(batch) * longest <= self.together
        return fits and len(batch) * most_rows <= PREDICTING * self.together

    def _groups(self, requests: Sequence[Encoded]) -> Iterator[list[int]]:
        """Requests, by index, that are read together: within the budget, and with one encoding."""
        encodings = encodings_of(self._model.config, [len(request.ids) for request in requests])
        indices_by_encoding: dict[int, list[int]] = defaultdict(list)
        for i, encoding in enumerate(encodings):
            indices_by_encoding[encoding].append(i)
        for indices in indices_by_encoding.values():
            texts = [requests[i].ids for i in indices]
            for group in packs(texts, self.budget, _UNRELATED):
                yield [indices[i] for i in group]


def _token_budget(model: PreTrainedModel, budget: int | TokenBudget | None) -> TokenBudget:
    """The budget asked for, or what fits the device; a number is that of one tree and of several.

    Several are read together only where that is faster, unless it is asked for.
    """
    if isinstance(budget, TokenBudget):
        return budget
    device = model.device.type
    tree = budget or tokens_that_fit(model, _MOST_TOKENS.get(device, 4096))
    if device not in _MOST_TOGETHER:
        return TokenBudget(tree, together=0)
    return TokenBudget(tree, together=budget or tokens_that_fit(model, _MOST_TOGETHER[device]))


def _shares_half(prompts: Sequence[Tokens]) -> bool:
    """Whether a tree of these prompts has at most half of their tokens."""
    lengths = [len(prompt) for prompt in prompts]
    # Prompts of one token have nothing to share: the last token is read with the answer.
    return min(lengths) > 1 and 2 * len(build_tree(prompts)) <= sum(lengths)
