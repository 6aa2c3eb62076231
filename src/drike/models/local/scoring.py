"""Log-probabilities of continuations under a transformers model, by three strategies that must agree (see `Plan`).

`score_naively` is the reference for the others. Logits are computed only at the rows that predict a token of a
continuation, and at its last token, which predicts what greedy decoding would write after it.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from drike.models.local.attention import forget_length, takes_positions, tree_inputs
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.tokens import Encoded
from drike.models.local.tree import Ids, TokenTree, build_tree
from drike.models.protocols import Usage

_CACHES = ("past_key_values", "cache_params", "state")  # models' names for the state they continue from


@dataclass(frozen=True)
class TokenScores:
    """The scores of one continuation's tokens.

    logprobs: natural log, one a token. greedy: all tokens are first choices. logit_gap: smallest lead over the best
    other token. following: the token that greedy decoding writes next.
    """

    logprobs: tuple[float, ...]
    greedy: bool
    logit_gap: float
    following: int


@dataclass(frozen=True)
class Scored:
    """Scores in order, and the work they took. spanned: number of tokens processed or taken from the prefix cache."""

    scores: list[TokenScores]
    usage: Usage
    spanned: int


def score_naively(model: PreTrainedModel, requests: Sequence[Encoded]) -> Scored:
    """Score with one plain forward per request."""
    scores = []
    for request in requests:
        forget_length(model)
        ids = torch.tensor([request.ids], device=model.device)
        rows = np.arange(request.start - 1, len(request.ids))
        scores += _token_scores(forward(model, rows, input_ids=ids).logits[0], [request], [np.arange(len(rows))])
    tokens = sum(len(request.ids) for request in requests)
    return Scored(scores, Usage(forwards=len(requests), tokens_computed=tokens), tokens)


def score_fork(model: PreTrainedModel, requests: Sequence[Encoded]) -> Scored:
    """Score with one forward per run (branch without forks) of the tree, continuing from copies of the model's cache.

    The cache's content does not matter, so this also works for models with a state instead of keys and values.
    """
    tree, rows, needed = _tree(requests)
    name = next(name for name in _CACHES if name in inspect.signature(model.forward).parameters)
    caches: dict[int, Any] = {}  # of the runs that others continue
    children = Counter(parent for _, _, parent in tree.runs)
    logits = []
    with torch.inference_mode():  # also copying: these tensors cannot be copied outside
        for run, (begin, end, parent) in enumerate(tree.runs):
            children[parent] -= 1
            last = not children[parent]
            cache = None if parent < 0 else caches.pop(parent) if last else copy.deepcopy(caches[parent])
            inputs: dict[str, Any] = {"input_ids": torch.from_numpy(tree.ids[None, begin:end]).to(model.device)}
            if takes_positions(model):
                inputs["position_ids"] = torch.from_numpy(tree.depth[None, begin:end]).to(model.device)
            here = rows[(begin <= rows) & (rows < end)] - begin
            output = forward(model, here if len(here) else np.array([0]), use_cache=True, **inputs, **{name: cache})
            logits.append(output.logits[0, : len(here)])
            if children[run]:
                caches[run] = output[name]
    scores = _token_scores(torch.cat(logits), requests, [np.searchsorted(rows, own) for own in needed])
    return Scored(scores, Usage(forwards=len(tree.runs), tokens_computed=len(tree)), len(tree))


def score_tree(model: PreTrainedModel, requests: Sequence[Encoded], prefixes: PrefixCache | None = None) -> Scored:
    """Score with one forward over the packed tree of all requests, without the part of its trunk in `prefixes`."""
    tree, rows, needed = _tree(requests)
    first = 0
    if prefixes is None:
        logits = forward(model, rows, **tree_inputs(model, tree)).logits[0]
    else:
        prompt = tree.ids[: min(tree.trunk, int(rows[0]))]
        first, cache = prefixes.recall(prompt)
        inputs = tree_inputs(model, tree, first)
        logits = forward(model, rows - first, use_cache=True, past_key_values=cache, **inputs).logits[0]
        prefixes.keep(prompt, cache)
    scores = _token_scores(logits, requests, [np.searchsorted(rows, own) for own in needed])
    return Scored(scores, Usage(forwards=1, tokens_computed=len(tree) - first), len(tree))


def _tree(requests: Sequence[Encoded]) -> tuple[TokenTree, Ids, list[Ids]]:
    """The packed tree of all requests, the rows whose logits are needed, and the rows that each request needs."""
    tree = build_tree([request.ids for request in requests])
    needed = [path[request.start - 1 :] for path, request in zip(tree.paths, requests, strict=True)]
    return tree, np.unique(np.concatenate(needed)), needed


def disagreement(a: Sequence[TokenScores], b: Sequence[TokenScores]) -> float:
    """Largest difference of a token's log-probability between two scores of the same requests, in nats."""
    pairs = zip(a, b, strict=True)
    return max(abs(x - y) for ours, theirs in pairs for x, y in zip(ours.logprobs, theirs.logprobs, strict=True))


@torch.inference_mode()
def forward(model: PreTrainedModel, rows: Ids, *, use_cache: bool = False, **inputs: Any) -> Any:
    """Output of a forward, with float32 logits [batch, len(rows), V] of the given rows only."""
    chosen = torch.from_numpy(rows).to(model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        output: Any = model(**inputs, use_cache=use_cache, logits_to_keep=chosen)
    else:
        output = model(**inputs, use_cache=use_cache)
        output.logits = output.logits[:, chosen]
    output.logits = output.logits.float()
    return output


def _token_scores(logits: torch.Tensor, requests: Sequence[Encoded], rows: Sequence[Ids]) -> list[TokenScores]:
    """Scores from logits [R, V]; rows[i] are those of request i: one per token, and one for the following token."""
    targets = [token for request in requests for token in request.ids[request.start :]]
    at = torch.from_numpy(np.concatenate([own[:-1] for own in rows])).to(logits.device)
    target = torch.tensor(targets, device=logits.device)
    best = logits.topk(2, dim=-1).values
    first = logits.argmax(dim=-1)  # as generation chooses, also between equals
    chosen = logits[at, target]
    logprob = (chosen - logits.logsumexp(dim=-1)[at]).tolist()
    is_first = first[at] == target
    gap = (chosen - torch.where(is_first, best[at, 1], best[at, 0])).tolist()
    greedy, first_ids = is_first.tolist(), first.tolist()
    scores, begin = [], 0
    for request, own in zip(requests, rows, strict=True):
        of = slice(begin, begin + len(request.ids) - request.start)
        scores.append(TokenScores(tuple(logprob[of]), all(greedy[of]), min(gap[of]), first_ids[own[-1]]))
        begin = of.stop
    return scores
