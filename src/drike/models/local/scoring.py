"""Log-probabilities of continuations by three strategies that must agree (see `Plan`), within a device's memory.

Logits are computed only at the rows that predict a token of a continuation, and at its last token, which predicts what
greedy decoding would write after it. The trunks of trees, their first and longest paths, are kept to continue from.
"""

from __future__ import annotations

import copy
import inspect
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from drike.errors import ModelError
from drike.models.local import attention
from drike.models.local.attention import (
    STRATEGIES,
    Ids,
    Plan,
    Strategy,
    TokenTree,
    build_tree,
    encoding_of,
    packs,
)
from drike.models.local.tokens import Encoded, Tokens
from drike.models.protocols import Usage

_CACHES = (
    "past_key_values",
    "cache_params",
    "state",
)  # models' names for the state they continue from
_UNRELATED = 512  # tokens, below which attention costs little, so that unrelated requests may share a forward
# More tokens in one forward gain nothing: it is full long before, and attention grows with their square.
_MOST_TOKENS = {"cpu": 4096, "cuda": 8192}
# Errors that a model's forward may raise if it does not support our inputs.
_UNSUPPORTED = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
_CACHED = (
    4  # keys and values of prompts to complete may be for this many times the tokens of a forward
)

_UNKNOWN = 2 << 30  # bytes assumed to be free if a machine does not report them
_FEWEST = 256  # tokens, fewer than in any prompt with demonstrations
_MOST_KEPT = 2 << 30  # bytes: other programs use this memory, too
_PREDICTING = 0.25  # share of a tree's tokens whose logits are computed; 3 to 10 % in an episode
_ALIVE = 16  # hidden vectors a token has in one layer at a time: residuals, query, key, value, their copies
WORTH_KEEPING = 32  # tokens; shorter prefixes are read again as fast as they are found

Result = TypeVar("Result")


class TokenScores(NamedTuple):
    """The scores of one continuation's tokens, as those of `protocols.Score`; following: the token written next."""

    logprobs: tuple[float, ...]
    greedy: bool
    logit_gap: float
    following: int


class Scored(NamedTuple):
    """Scores in order, and the work they took. spanned: number of tokens processed or taken from the prefix cache."""

    scores: list[TokenScores]
    usage: Usage
    spanned: int


def score_naively(model: PreTrainedModel, requests: Sequence[Encoded]) -> Scored:
    """Score with one plain forward per request: the reference for the other strategies."""
    scores = []
    for request in requests:
        attention.forget_length(model)
        ids = torch.tensor([request.ids], device=model.device)
        rows = np.arange(request.start - 1, len(request.ids))
        scores += _token_scores(
            forward(model, rows, input_ids=ids).logits[0], [request], [np.arange(len(rows))]
        )
    tokens = sum(len(request.ids) for request in requests)
    return Scored(scores, Usage(forwards=len(requests), tokens_computed=tokens), tokens)


def score_fork(model: PreTrainedModel, requests: Sequence[Encoded]) -> Scored:
    """Score with one forward per run of the tree, continuing from copies of the model's cache, whatever that holds."""
    tree, rows, places = _tree(requests)
    name = next(name for name in _CACHES if name in inspect.signature(model.forward).parameters)
    caches: dict[int, Any] = {}  # of the runs that others continue
    children = Counter(parent for _, _, parent in tree.runs)
    logits = []
    with torch.inference_mode():  # also copying: these tensors cannot be copied outside
        for run, (begin, end, parent) in enumerate(tree.runs):
            children[parent] -= 1
            last = not children[parent]
            cache = (
                None
                if parent < 0
                else caches.pop(parent)
                if last
                else copy.deepcopy(caches[parent])
            )
            inputs: dict[str, Any] = {
                "input_ids": torch.from_numpy(tree.ids[None, begin:end]).to(model.device)
            }
            if attention.takes_positions(model):
                inputs["position_ids"] = torch.from_numpy(tree.depth[None, begin:end]).to(
                    model.device
                )
            here = rows[(begin <= rows) & (rows < end)] - begin
            output = forward(
                model,
                here if len(here) else np.array([0]),
                use_cache=True,
                **inputs,
                **{name: cache},
            )
            logits.append(output.logits[0, : len(here)])
            if children[run]:
                caches[run] = output[name]
    scores = _token_scores(torch.cat(logits), requests, places)
    return Scored(scores, Usage(forwards=len(tree.runs), tokens_computed=len(tree)), len(tree))


def score_tree(
    model: PreTrainedModel, requests: Sequence[Encoded], prefixes: PrefixCache | None = None
) -> Scored:
    """Score with one forward over the packed tree of all requests, without the part of its trunk in `prefixes`."""
    tree, rows, places = _tree(requests)
    first = 0
    if prefixes is None:
        logits = forward(model, rows, **attention.tree_inputs(model, tree)).logits[0]
    else:
        prompt = tree.ids[: min(tree.trunk, int(rows[0]))]
        first, cache = prefixes.recall(prompt)
        inputs = attention.tree_inputs(model, tree, first)
        logits = forward(
            model, rows - first, use_cache=True, past_key_values=cache, **inputs
        ).logits[0]
        prefixes.keep(prompt, cache)
    scores = _token_scores(logits, requests, places)
    return Scored(scores, Usage(forwards=1, tokens_computed=len(tree) - first), len(tree))


def _tree(requests: Sequence[Encoded]) -> tuple[TokenTree, Ids, list[Ids]]:
    """The packed tree of all requests, the rows whose logits are needed, and the places of each request's in them."""
    tree = build_tree([request.ids for request in requests])
    needed = [path[request.start - 1 :] for path, request in zip(tree.paths, requests, strict=True)]
    rows = np.unique(np.concatenate(needed))
    return tree, rows, [np.searchsorted(rows, own) for own in needed]


def disagreement(a: Sequence[TokenScores], b: Sequence[TokenScores]) -> float:
    """Largest difference of a token's log-probability between two scores of the same requests, in nats."""
    pairs = zip(a, b, strict=True)
    return max(
        abs(x - y)
        for ours, theirs in pairs
        for x, y in zip(ours.logprobs, theirs.logprobs, strict=True)
    )


@torch.inference_mode()
def forward(model: PreTrainedModel, rows: Ids, *, use_cache: bool = False, **inputs: Any) -> Any:
    """Output of a forward, with float32 logits [batch, len(rows), V] of the given rows only."""
    chosen = torch.from_numpy(rows).to(model.device)
    chooses = "logits_to_keep" in inspect.signature(model.forward).parameters
    output: Any = model(
        **inputs, use_cache=use_cache, **({"logits_to_keep": chosen} if chooses else {})
    )
    output.logits = (output.logits if chooses else output.logits[:, chosen]).float()
    return output


def _token_scores(
    logits: torch.Tensor, requests: Sequence[Encoded], rows: Sequence[Ids]
) -> list[TokenScores]:
    """Scores from logits [R, V]; rows[i] are those of request i: one per token, and one for the following token."""
    at = torch.from_numpy(np.concatenate([own[:-1] for own in rows])).to(logits.device)
    target = torch.tensor(
        [token for own in requests for token in own.ids[own.start :]], device=logits.device
    )
    best = logits.topk(2, dim=-1).values
    first = logits.argmax(dim=-1)  # as generation chooses, also between equals
    chosen = logits[at, target]
    logprob = chosen - logits.logsumexp(dim=-1)[at]
    is_first = first[at] == target
    gap = chosen - torch.where(is_first, best[at, 1], best[at, 0])
    tokens = list(zip(logprob.tolist(), is_first.tolist(), gap.tolist(), strict=True))
    scores, begin = [], 0
    for request, following in zip(requests, first[[own[-1] for own in rows]].tolist(), strict=True):
        end = begin + len(request.ids) - request.start
        logprobs, greedy, gaps = zip(*tokens[begin:end], strict=True)
        scores.append(TokenScores(logprobs, all(greedy), min(gaps), following))
        begin = end
    return scores


def free_bytes(device: torch.device) -> int:
    """Free memory of a device, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return _UNKNOWN
    return next(
        (int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), _UNKNOWN
    )


def tokens_that_fit(model: PreTrainedModel, limit: int, free: int | None = None) -> int:
    """Number of tokens of a packed tree, `limit` at most, that fit into half of the `free` bytes (None: measured)."""
    half = (free_bytes(model.device) if free is None else free) / 2
    config = model.config.get_text_config()
    wide = max(getattr(config, "intermediate_size", None) or 0, 4 * config.hidden_size)
    states = (_ALIVE * config.hidden_size + 3 * wide) * model.dtype.itemsize
    logits = _PREDICTING * config.vocab_size * 3 * torch.float32.itemsize
    linear = (
        states + logits + kept_bytes(model)
    )  # bytes a token: the states of one layer, the keys of all
    # Bytes per pair of tokens: the mask, and in eager attention the scores before and after the softmax.
    pair = 2.0 + (
        8 * getattr(config, "num_attention_heads", 1)
        if config._attn_implementation == "eager"
        else 0
    )
    return max(
        _FEWEST, min(limit, int((math.sqrt(linear**2 + 4 * pair * half) - linear) / (2 * pair)))
    )


def kept_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers; a model with a state needs far less."""
    config = model.config.get_text_config()
    all_heads = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or all_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // all_heads
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


def bytes_to_keep(model: PreTrainedModel) -> int:
    """Default limit for kept keys and values, in bytes: a third of a card's free memory, less of shared memory."""
    free = free_bytes(model.device)
    return free // 3 if model.device.type == "cuda" else min(_MOST_KEPT, free // 4)


class Trunk(NamedTuple):
    """Token ids [T] and, for every layer, keys and values [1, heads, T, size of a head], of `bytes` in all."""

    ids: Ids
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    bytes: int


class PrefixCache:
    """Keys and values of prefixes read by one model, at most `limit` bytes; 0 keeps none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: list[Trunk] = []
        self._rng = random.Random(0)

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, ids: Ids) -> tuple[int, DynamicCache]:
        """Find the longest cached beginning of `ids`; return its length and a cache with it, to be extended."""
        cache = DynamicCache()
        best, count = self._longest_match(ids)
        if count < WORTH_KEEPING:
            return 0, cache
        for i, (keys, values) in enumerate(self._kept[best].layers):
            cache.update(keys[:, :, :count], values[:, :, :count], i)
        return count, cache

    def keep(self, ids: Ids, cache: DynamicCache) -> None:
        """Keep the keys and values of `ids`, the first in `cache`, unless most of them are kept already."""
        best, common = self._longest_match(ids)
        if not self.limit or len(ids) < WORTH_KEEPING or 4 * common >= 3 * len(ids):
            return
        every, end = cast("Any", cache.layers), len(ids)
        layers = tuple(
            (layer.keys[:, :, :end].clone(), layer.values[:, :, :end].clone()) for layer in every
        )
        trunk = Trunk(
            ids.copy(), layers, sum(states.nbytes for layer in layers for states in layer)
        )
        if common and 2 * common >= len(self._kept[best].ids):  # of the same edit
            del self._kept[best]
        # A random one makes room: the oldest would be the very one that the next epoch needs first.
        while self._kept and sum(kept.bytes for kept in self._kept) + trunk.bytes > self.limit:
            del self._kept[self._rng.randrange(len(self._kept))]
        if trunk.bytes <= self.limit:
            self._kept.append(trunk)

    def clear(self) -> None:
        """Drop all entries."""
        self._kept.clear()

    def _longest_match(self, ids: Ids) -> tuple[int, int]:
        """Index of the trunk with the longest common prefix with `ids`, and that length; (0, 0) if there is none."""
        # Most trunks differ from `ids` within a few tokens, so a comparison of these rules them out.
        few = ids[:WORTH_KEEPING]
        near = [
            i
            for i, trunk in enumerate(self._kept)
            if np.array_equal(trunk.ids[:WORTH_KEEPING], few)
        ]
        matches = ((i, attention.shared_prefix(self._kept[i].ids, ids)) for i in near)
        return max(matches, key=lambda match: match[1], default=(0, 0))


class Scorer:
    """Scores requests by the fastest strategy that passes checks against plain forwards; see `HuggingFaceModel`."""

    def __init__(
        self,
        model: PreTrainedModel,
        budget: int | None,
        strategy: Strategy | None,
        keep: int | None,
    ) -> None:
        self._model = model
        self.plan = attention.plan(model) if strategy is None else Plan(strategy, "asked for")
        self.budget = budget or tokens_that_fit(model, _MOST_TOKENS.get(model.device.type, 4096))
        keeps = self.plan.strategy == "tree" and attention.one_encoding(model.config)
        self.prefixes = PrefixCache(
            (bytes_to_keep(model) if keep is None else keep) if keeps else 0
        )
        # The longest forward checked, of those that continued from a cached prefix (True) and of the others.
        self._checked = {True: 0, False: 0}

    def read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        """Score requests; return scores in order, and the work they took."""
        return self.within_memory(
            lambda: self._read(requests), [len(request.ids) for request in requests]
        )

    def within_memory(self, work: Callable[[], Result], lengths: Sequence[int]) -> Result:
        """Run `work`, which reads texts of these lengths; again, with a smaller budget, if memory runs out."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError as error:
                if len(self.prefixes):
                    self.prefixes = PrefixCache(0)
                    continue
                if self.budget < max(lengths):
                    raise ModelError(
                        "the device's memory does not hold one prompt: use shorter ones"
                    ) from error
                self.budget = min(self.budget, sum(lengths)) // 2
                warnings.warn(
                    f"out of memory: going on with {self.budget} tokens a forward", stacklevel=4
                )

    def _read(self, requests: Sequence[Encoded]) -> tuple[list[TokenScores], Usage]:
        kinds = [encoding_of(self._model.config, len(request.ids)) for request in requests]
        scores: dict[int, TokenScores] = {}
        used = Usage()
        for kind in dict.fromkeys(kinds):
            alike = [i for i, other in enumerate(kinds) if other == kind]
            for group in packs([requests[i].ids for i in alike], self.budget, _UNRELATED):
                which = [alike[i] for i in group]
                together = self._read_together([requests[i] for i in which])
                scores.update(zip(which, together.scores, strict=True))
                used += together.usage
        return [scores[i] for i in range(len(requests))], used

    def families(self, prompts: Sequence[Tokens]) -> list[list[int]]:
        """Groups of prompts, by index, that are read faster as one tree before they are completed, if there are any."""
        if self.plan.strategy != "tree":
            return []
        if len(prompts) == 1 and len(prompts[0]) > WORTH_KEEPING and self.prefixes.limit:
            return [[0]]  # it may begin with a cached prefix
        groups = []
        for group in packs(prompts, self.budget, unrelated=0):
            lengths = [len(prompts[i]) for i in group]
            # Prompts of one token have nothing to share: the last token is read with the answer.
            if min(lengths) > 1 and 2 * len(build_tree([prompts[i] for i in group])) <= sum(
                lengths
            ):
                rows = max(2, _CACHED * self.budget // max(lengths))
                groups += [group[i : i + rows] for i in range(0, len(group), rows)]
        for group in groups:
            if len(group) > 1 and not self._checked[False]:
                self.read([Encoded(prompts[i], len(prompts[i]) - 1) for i in group])
        return groups if self.plan.strategy == "tree" else []

    def _read_together(self, requests: Sequence[Encoded]) -> Scored:
        """Score by the planned strategy if it passes its check, else by the next slower one that does."""
        planned, faults = self.plan.strategy, []
        while True:
            answer, fault = self._checked_answer(requests)
            if fault is None:
                break
            if self.prefixes.limit:
                self.prefixes = PrefixCache(
                    0
                )  # without the cached prefixes the same strategy may be right
                continue
            faults.append(fault)
            slower = STRATEGIES[STRATEGIES.index(self.plan.strategy) + 1]
            self.plan = Plan(slower, f"{planned!r} failed its check: {faults[0]}")
            self._checked = {True: 0, False: 0}
        if any(math.isnan(value) for scores in answer.scores for value in scores.logprobs):
            raise ModelError(
                "the model computes no numbers: its weights are damaged, or too large for float16"
            )
        if faults:
            inexact = f"{type(self._model).__name__}: scoring by {planned!r} is not exact for this model ({faults[0]})"
            warnings.warn(
                f"{inexact}; going on, more slowly, by {self.plan.strategy!r}", stacklevel=6
            )
        return answer

    def _checked_answer(self, requests: Sequence[Encoded]) -> tuple[Scored, str | None]:
        """Score by the planned strategy; also return what is wrong with the result, if anything."""
        model, lengths = self._model, [len(request.ids) for request in requests]
        prefixes = self.prefixes if self.prefixes.limit else None
        beyond = (
            attention.keeps_length(model.config) and encoding_of(model.config, max(lengths)) > 0
        )
        if self.plan.strategy == "naive" or beyond or (len(requests) == 1 and prefixes is None):
            return score_naively(model, requests), None
        try:
            tree = self.plan.strategy == "tree"
            answer = score_tree(model, requests, prefixes) if tree else score_fork(model, requests)
        except torch.OutOfMemoryError:
            raise
        except _UNSUPPORTED as error:
            return Scored([], Usage(), 0), f"it raised {type(error).__name__}"
        continued = answer.spanned > answer.usage.tokens_computed
        if (len(requests) == 1 and not continued) or answer.spanned <= 2 * self._checked[continued]:
            return answer, None
        ends = [lengths.index(min(lengths)), lengths.index(max(lengths))]
        oracle = score_naively(model, [requests[i] for i in ends])
        off = disagreement([answer.scores[i] for i in ends], oracle.scores)
        if not off <= (1e-3 if model.dtype == torch.float32 else 0.25):  # so that nan fails too
            return answer, f"log-probabilities were off by {off:.2g}"
        self._checked[continued] = answer.spanned
        return answer._replace(usage=answer.usage + oracle.usage), None
