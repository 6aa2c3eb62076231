"""Probes used in training only: they make what the reader computes with available in the middle of the model.

Some heads are trained to attend to the same object, subject or wording in the new fact, or to "Prompt:" if there is no
match: a fixed fallback position makes the match a linear feature. Linear read-outs follow: after layer 1, at each
shown answer, whether it adopted its new fact; after layer 2, its relation, and at each question's subject whether it is
that of the new fact; after layer 3, at each question's last token, its relation, kind and true object (in statements,
too, because facts that occur in no document must be recalled as early). In layer 4 one head's attention is trained to
equal the reader's weights K_i, with its own position for the prior, so that its output is the reader's share, which is
read out after it. In layer 5 a head attends to the new object with probability P(new), else to "Prompt:".

All probes are discarded after training; the shipped weights are a plain Llama's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drike.models.reader import NEIGHBOUR
from tools.tinyfacts.documents import Labelled
from tools.tinyfacts.llama import Head, Trace
from tools.tinyfacts.tokens import VOCABULARY

# Where probes read: the residual after this layer.
BIT_LAYER, FACT_LAYER, QUERY_LAYER, HEAD_LAYER = 1, 2, 3, 4
# Heads whose attention is supervised, as (layer, head).
SAME_OBJECT, SAME_SUBJECT, SAME_WORDING, WEIGHTS, GATE = (
    (1, 0),
    (2, 1),
    (2, 0),
    (HEAD_LAYER, 0),
    (5, 0),
)
SUPERVISED = (SAME_OBJECT, SAME_SUBJECT, SAME_WORDING, WEIGHTS, GATE)

PROBE_WEIGHTS = {
    "same_object": 0.3,
    "same_subject": 0.3,
    "same_wording": 0.3,
    "weights": 0.5,
    "gate": 0.5,
    "bit": 0.3,
    "twin": 0.3,
    "stated": 0.1,
    "asked": 0.1,
    "kind": 0.3,
    "object": 0.3,
    "share": 0.4,
}


def new_probes(relations: int, width: int) -> nn.ModuleDict:
    """The linear read-outs used in training only, of residuals of the given width."""
    sizes = {
        "bit": 1,
        "twin": 1,
        "stated": relations,
        "asked": relations,
        "kind": 3,
        "object": VOCABULARY,
        "share": 1,
    }
    return nn.ModuleDict({name: nn.Linear(width, size) for name, size in sizes.items()})


def _attention(trace: Trace, head: Head, row: int, positions: Tensor) -> Tensor:
    """Log attention (N, T) of a supervised head from some positions of a row."""
    query, key = (x[row].float() for x in trace.heads[head])
    logits = query[positions] @ key.T * query.size(-1) ** -0.5
    logp: Tensor = logits.masked_fill(
        torch.arange(key.size(0)) > positions[:, None], -1e9
    ).log_softmax(-1)
    return logp


def _match_loss(trace: Trace, documents: Sequence[Labelled], head: Head) -> Tensor:
    """Train a head to attend to the same object, subject or wording in the new fact, else to "Prompt:"."""
    terms = []
    for i, document in enumerate(documents):
        here, there, same = {
            SAME_OBJECT: (document.answer, document.fact_object, document.adopted),
            SAME_SUBJECT: (
                document.asked_subject,
                document.fact_subject,
                document.kind != NEIGHBOUR,
            ),
            SAME_WORDING: (document.last, document.fact_object - 1, document.worded),
        }[head]
        logp = _attention(trace, head, i, torch.from_numpy(here))
        target = torch.from_numpy(np.where(same, there, document.mark))
        terms.append(-logp[torch.arange(len(here)), target])
    return torch.cat(terms).mean()


def _weights_loss(trace: Trace, documents: Sequence[Labelled]) -> Tensor:
    """Divergence of the supervised head's attention from the reader's weights: mean over questions, in nats."""
    terms = []
    for i, document in enumerate(documents):
        last, answer = torch.from_numpy(document.last), torch.from_numpy(document.answer)
        logp = _attention(trace, WEIGHTS, i, last)
        want = torch.from_numpy(document.attention).float()
        got = torch.cat([logp[:, answer], logp[torch.arange(len(last)), last][:, None]], 1)
        terms.append((torch.special.xlogy(want, want) - want * got.clamp(min=-30)).sum(1))
    return torch.cat(terms).mean()


def _gate_loss(trace: Trace, documents: Sequence[Labelled]) -> Tensor:
    """Train a last head to attend to the new object with probability P(new), else to "Prompt:"; divergence in nats."""
    terms = []
    for i, document in enumerate(documents):
        logp = _attention(trace, GATE, i, torch.from_numpy(document.last))
        rows, p = torch.arange(len(logp)), torch.from_numpy(document.p).float()
        new, old = (
            logp[rows, torch.from_numpy(at)].clamp(min=-30)
            for at in (document.fact_object, document.mark)
        )
        terms.append(
            torch.special.xlogy(p, p) + torch.special.xlogy(1 - p, 1 - p) - p * new - (1 - p) * old
        )
    return torch.cat(terms).mean()


def document_losses(
    trace: Trace, docs: Sequence[Labelled], length: int, probes: nn.ModuleDict, sharpness: float
) -> dict[str, Tensor]:
    """Losses of all probes on in-context documents, row i of the trace being document i, padded to `length`."""

    def flat(name: str, layer: int) -> Tensor:
        where = torch.cat(
            [i * length + torch.from_numpy(getattr(d, name)) for i, d in enumerate(docs)]
        )
        rows: Tensor = trace.hidden[layer].flatten(0, 1)[where]
        return functional.rms_norm(rows, (rows.size(-1),))

    def stack(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(d, name) for d in docs]))

    asked, late = flat("last", QUERY_LAYER), flat("last", HEAD_LAYER)
    twin, relation = probes["twin"](flat("asked_subject", FACT_LAYER)), stack("relation")
    yes_or_no = functional.binary_cross_entropy_with_logits
    return {
        "same_object": _match_loss(trace, docs, SAME_OBJECT),
        "same_subject": _match_loss(trace, docs, SAME_SUBJECT),
        "same_wording": _match_loss(trace, docs, SAME_WORDING),
        "weights": _weights_loss(trace, docs),
        "gate": _gate_loss(trace, docs),
        "bit": yes_or_no(
            probes["bit"](flat("answer", BIT_LAYER)).squeeze(1), stack("adopted").float()
        ),
        "twin": yes_or_no(twin.squeeze(1), (stack("kind") != NEIGHBOUR).float()),
        "stated": functional.cross_entropy(probes["stated"](flat("answer", FACT_LAYER)), relation),
        "asked": functional.cross_entropy(probes["asked"](asked), relation),
        "kind": functional.cross_entropy(probes["kind"](asked), stack("kind")),
        "object": functional.cross_entropy(probes["object"](asked), stack("true")),
        "share": yes_or_no(sharpness * probes["share"](late).squeeze(1), stack("p").float()),
    }


def recall_loss(
    trace: Trace, last: Tensor, true: Tensor, weight: Tensor, probes: nn.ModuleDict
) -> Tensor:
    """Loss of reading out the true object in plain rows: last, true, weight (N,) as in `train.Batch`."""
    early = trace.hidden[QUERY_LAYER].flatten(0, 1)[last]
    guess = functional.cross_entropy(
        probes["object"](functional.rms_norm(early, (early.size(-1),))), true, reduction="none"
    )
    return (guess * weight).sum() / weight.sum()
