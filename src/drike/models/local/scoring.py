"""Log-probabilities of continuations by three strategies that must agree (see `Plan`).

Logits are computed only at the rows that predict a token of a continuation, and at its last token,
which predicts what greedy decoding would write after it. What was computed for the trunk of a tree,
its first and longest path, may be kept so that later readings continue from there.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from drike.errors import ModelError
from drike.models.local.architecture import forget_length, state_name, takes_positions
from drike.models.local.attention import batch_inputs, on_device, tree_inputs
from drike.models.local.memory import memory_errors
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.token_trees import Ids, TokenRun, TokenTree, build_tree
from drike.models.local.tokens import Encoded
from drike.models.protocols import Usage


class TokenScores(NamedTuple):
    """The scores of one continuation's tokens, as in `protocols.Score`.

    following: the id of the token that greedy decoding would write next.
    """

    logprobs: tuple[float, ...]
    greedy: bool
    logit_gap: float
    following: int


class Scored(NamedTuple):
    """Scores in order, and the work they took."""

    scores: list[TokenScores]
    usage: Usage


class PackedRequests(NamedTuple):
    """Requests, and their packed tree.

    rows: the tree's tokens whose logits are needed, in order. rows_by_request: of each request,
    which of the `rows` predict its continuation and the token after it.
    """

    requests: Sequence[Encoded]
    tree: TokenTree
    rows: Ids
    rows_by_request: list[Ids]

    @property
    def prompt(self) -> Ids:
        """The trunk's tokens before the first whose logits are needed: these may be cached."""
        return self.tree.ids[: min(self.tree.trunk, int(self.rows[0]))]


def pack(requests: Sequence[Encoded]) -> PackedRequests:
    """Pack requests into one tree."""
    tree = build_tree([request.ids for request in requests])
    needed_by_request = [
        path[request.start - 1 :] for path, request in zip(tree.paths, requests, strict=True)
    ]
    rows = np.unique(np.concatenate(needed_by_request))
    rows_by_request = [np.searchsorted(rows, needed) for needed in needed_by_request]
    return PackedRequests(requests, tree, rows, rows_by_request)


def score_naively(model: PreTrainedModel, requests: Sequence[Encoded]) -> Scored:
    """Score with one plain forward per request: the reference for the other strategies."""
    scores = []
    tokens = 0
    for request in requests:
        length = len(request.ids)
        tokens += length
        forget_length(model)
        ids = torch.tensor([request.ids], device=model.device)
        rows = np.arange(request.start - 1, length)
        output = forward(model, rows, input_ids=ids)
        scores += token_scores(output.logits[0], [request], [np.arange(len(rows))])
    return Scored(scores, Usage(forwards=len(requests), tokens_computed=tokens))


def score_fork(model: PreTrainedModel, packed: PackedRequests) -> Scored:
    """Score with one forward per run of the tree.

    Each continues from a copy of the model's own cache, whatever that holds.
    """
    tree, rows = packed.tree, packed.rows
    runs = tree.runs
    cache_name = state_name(model)
    if cache_name is None:
        raise TypeError("the model takes no state to continue from")
    children_left = Counter(run.parent for run in runs)
    cache_by_run: dict[int, Any] = {}  # of the runs that others continue
    logits = []
    with torch.inference_mode():  # also copying: these tensors cannot be copied outside
        for i, run in enumerate(runs):
            children_left[run.parent] -= 1
            if run.parent < 0:
                cache = None
            elif children_left[run.parent]:
                cache = copy.deepcopy(cache_by_run[run.parent])
            else:
                cache = cache_by_run.pop(run.parent)
            rows_of_run = rows[(run.begin <= rows) & (rows < run.end)] - run.begin
            output = forward(
                model,
                # Some logits must be asked for, also where none are needed.
                rows_of_run if len(rows_of_run) else np.array([0]),
                use_cache=True,
                **_run_inputs(model, tree, run),
                **{cache_name: cache},
            )
            logits.append(output.logits[0, : len(rows_of_run)])
            if children_left[i]:
                cache_by_run[i] = output[cache_name]
    scores = token_scores(torch.cat(logits), packed.requests, packed.rows_by_request)
    return Scored(scores, Usage(forwards=len(runs), tokens_computed=len(tree)))


def score_tree(
    model: PreTrainedModel, packed: PackedRequests, prefixes: PrefixCache | None = None
) -> Scored:
    """Score with one forward over the packed tree.

    The part of its trunk that is in `prefixes` is not read again.
    """
    tree, rows = packed.tree, packed.rows
    if prefixes is None:
        first = 0
        inputs = tree_inputs(model, tree)
        output = forward(model, rows, **inputs)
    else:
        first, cache = prefixes.recall(packed.prompt)
        inputs = tree_inputs(model, tree, first)
        output = forward(model, rows - first, use_cache=True, past_key_values=cache, **inputs)
        prefixes.keep(packed.prompt, cache)
    scores = token_scores(output.logits[0], packed.requests, packed.rows_by_request)
    return Scored(scores, Usage(forwards=1, tokens_computed=len(tree) - first))


def score_trees(model: PreTrainedModel, batch: Sequence[PackedRequests]) -> Scored:
    """Score with one forward over several packed trees, which are the rows of its batch.

    Padding counts as computed. The scores are those of the first tree's requests, then of the next.
    """
    inputs = batch_inputs(model, [packed.tree for packed in batch])
    most_rows = max(len(packed.rows) for packed in batch)
    kept = np.zeros((len(batch), most_rows), dtype=np.int64)
    requests: list[Encoded] = []
    rows_by_request: list[Ids] = []
    for i, packed in enumerate(batch):
        kept[i, : len(packed.rows)] = packed.rows
        requests += packed.requests
        rows_by_request += [rows + i * most_rows for rows in packed.rows_by_request]
    output = forward(model, kept, **inputs)
    scores = token_scores(output.logits.flatten(0, 1), requests, rows_by_request)
    return Scored(scores, Usage(forwards=1, tokens_computed=inputs["input_ids"].numel()))


def has_nan(scores: Iterable[TokenScores]) -> bool:
    """Whether a log-probability is no number."""
    return any(math.isnan(logprob) for score in scores for logprob in score.logprobs)


def require_numbers(scores: Iterable[TokenScores]) -> None:
    """Raises ModelError where a log-probability is no number."""
    if has_nan(scores):
        raise ModelError(
            "the model computes no numbers: its weights are damaged, or too large for float16"
        )


def disagreement(a: Sequence[TokenScores], b: Sequence[TokenScores]) -> float:
    """The largest difference of a token's log-probability between two scores of requests: nats."""
    return max(
        abs(logprob_a - logprob_b)
        for score_a, score_b in zip(a, b, strict=True)
        for logprob_a, logprob_b in zip(score_a.logprobs, score_b.logprobs, strict=True)
    )


@memory_errors()
@torch.inference_mode()
def forward(model: PreTrainedModel, rows: Ids, *, use_cache: bool = False, **inputs: Any) -> Any:
    """Output of a forward, with float32 logits [batch, R, V] of the given rows only.

    rows: [R] of every text of the batch, or [batch, R] of each.
    """
    kept = on_device(rows, model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        output: Any = model(**inputs, use_cache=use_cache, logits_to_keep=kept)
        logits = output.logits
    else:
        output = model(**inputs, use_cache=use_cache)
        logits = output.logits
        logits = logits[:, kept] if kept.ndim == 1 else logits.take_along_dim(kept[..., None], 1)
    if logits.ndim != 3:
        raise ValueError("the model takes no rows of each text")
    output.logits = logits.float()
    return output


@memory_errors()
def token_scores(
    logits: torch.Tensor, requests: Sequence[Encoded], rows: Sequence[Ids]
) -> list[TokenScores]:
    """Scores from logits [R, V].

    rows[i]: the rows of request i, one for each token and one for the following token.
    """
    predicting = np.concatenate([request_rows[:-1] for request_rows in rows])
    predicting_rows = torch.from_numpy(predicting).to(logits.device)
    targets = [token for request in requests for token in request.ids[request.start :]]
    target = torch.tensor(targets, device=logits.device)

    best_two = logits.topk(2, dim=-1).values
    first_choice = logits.argmax(dim=-1)  # as generation chooses, also between equals
    chosen = logits[predicting_rows, target]
    logprob = chosen - logits.logsumexp(dim=-1)[predicting_rows]
    is_first = first_choice[predicting_rows] == target
    rival = torch.where(is_first, best_two[predicting_rows, 1], best_two[predicting_rows, 0])
    gap = chosen - rival

    # One transfer from the device for all requests; single values would each wait for it.
    logprobs = logprob.tolist()
    are_first = is_first.tolist()
    gaps = gap.tolist()
    following = first_choice[[request_rows[-1] for request_rows in rows]].tolist()
    scores = []
    begin = 0
    for request, next_token in zip(requests, following, strict=True):
        end = begin + len(request.ids) - request.start
        scores.append(
            TokenScores(
                logprobs=tuple(logprobs[begin:end]),
                greedy=all(are_first[begin:end]),
                logit_gap=min(gaps[begin:end]),
                following=next_token,
            )
        )
        begin = end
    return scores


def _run_inputs(model: PreTrainedModel, tree: TokenTree, run: TokenRun) -> dict[str, Any]:
    """The ids [1, T] of a run, and their positions if the model takes them."""
    place = slice(run.begin, run.end)
    inputs = {"input_ids": torch.from_numpy(tree.ids[None, place]).to(model.device)}
    if takes_positions(model):
        inputs["position_ids"] = torch.from_numpy(tree.depth[None, place]).to(model.device)
    return inputs
