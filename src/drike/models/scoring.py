"""Log-probabilities of continuations under a transformers model, three ways that must agree.

`score_naively` reads one whole request after the other: what any model allows, and the oracle of the others.
`score_batch` pads requests to one block. `score_tree` packs all of them into one token tree and reads every distinct
token once, with the logits taken only at the rows that predict a token of a continuation. Each continuation is read to
its last token, so that one more row tells what greedy decoding would write behind it.

Ids in, numbers out: no text here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from drike.models.attention import forget_length, tree_inputs
from drike.models.token_trie import build_tree
from drike.models.tokenise import Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Reading:
    """What a forward says of one continuation.

    logprobs: natural log, one a token. greedy: all tokens are first choices. margin: smallest lead over the best other
    token, in nats. following: the token greedy decoding writes next.
    """

    logprobs: tuple[float, ...]
    greedy: bool
    margin: float
    following: int


def score_naively(model: PreTrainedModel, requests: Sequence[Encoded]) -> list[Reading]:
    """One plain forward a request."""
    readings = []
    for request in requests:
        forget_length(model)
        ids = torch.tensor([request.ids], device=model.device)
        rows = np.arange(request.start - 1, len(request.ids))
        readings += _readings(_logits(model, rows, input_ids=ids)[0], [request], [np.arange(len(rows))])
    return readings


def score_batch(model: PreTrainedModel, requests: Sequence[Encoded]) -> list[Reading]:
    """One forward over all requests side by side, padded on the right, where causal models never look."""
    longest = max(len(request.ids) for request in requests)
    ids = torch.zeros((len(requests), longest), dtype=torch.long)
    real = torch.zeros_like(ids)
    for row, request in enumerate(requests):
        ids[row, : len(request.ids)] = torch.tensor(request.ids)
        real[row, : len(request.ids)] = 1
    # The same columns are kept for every row of the block: those that any request needs.
    needed = [np.arange(request.start - 1, len(request.ids)) for request in requests]
    columns = np.unique(np.concatenate(needed))
    logits = _logits(model, columns, input_ids=ids.to(model.device), attention_mask=real.to(model.device))
    readings = []
    for row, request in enumerate(requests):
        readings += _readings(logits[row], [request], [np.searchsorted(columns, needed[row])])
    return readings


def score_tree(model: PreTrainedModel, requests: Sequence[Encoded]) -> list[Reading]:
    """One forward over the packed tree of all requests."""
    tree = build_tree([request.ids for request in requests])
    needed = [path[request.start - 1 :] for path, request in zip(tree.paths, requests, strict=True)]
    rows = np.unique(np.concatenate(needed))
    logits = _logits(model, rows, **tree_inputs(model, tree))[0]
    return _readings(logits, requests, [np.searchsorted(rows, own) for own in needed])


def distinct_tokens(sequences: Sequence[Sequence[int]]) -> int:
    """Tokens a packed tree of these sequences holds."""
    return len(build_tree(sequences))


def disagreement(a: Sequence[Reading], b: Sequence[Reading]) -> float:
    """Largest difference of a token's log-probability between two readings of the same requests, in nats."""
    pairs = zip(a, b, strict=True)
    return max(abs(x - y) for one, other in pairs for x, y in zip(one.logprobs, other.logprobs, strict=True))


@torch.inference_mode()
def _logits(model: PreTrainedModel, rows: NDArray[np.int64], **inputs: Any) -> torch.Tensor:
    """Float32 logits [batch, len(rows), V] at the given rows; never more than these where the model can choose."""
    chosen = torch.from_numpy(rows).to(model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        logits = model(**inputs, use_cache=False, logits_to_keep=chosen).logits
    else:
        logits = model(**inputs, use_cache=False).logits[:, chosen]
    return logits.float()  # type: ignore[no-any-return]


def _readings(logits: torch.Tensor, requests: Sequence[Encoded], rows: Sequence[NDArray[np.int64]]) -> list[Reading]:
    """Readings from logits [R, V]; rows[i] are those of request i: one a token, and one more for what follows."""
    targets = [token for request in requests for token in request.ids[request.start :]]
    at = torch.from_numpy(np.concatenate([own[:-1] for own in rows])).to(logits.device)
    target = torch.tensor(targets, device=logits.device)
    best = logits.topk(2, dim=-1).values
    first = logits.argmax(dim=-1)  # as generation chooses, also between equals
    chosen = logits[at, target]
    logprob = (chosen - logits.logsumexp(dim=-1)[at]).tolist()
    is_first = first[at] == target
    margin = (chosen - torch.where(is_first, best[at, 1], best[at, 0])).tolist()
    greedy, first_ids = is_first.tolist(), first.tolist()
    readings, begin = [], 0
    for request, own in zip(requests, rows, strict=True):
        end = begin + len(request.ids) - request.start
        readings.append(
            Reading(tuple(logprob[begin:end]), all(greedy[begin:end]), min(margin[begin:end]), first_ids[own[-1]])
        )
        begin = end
    return readings
