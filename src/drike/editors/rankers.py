"""Rankings of a retain pool: by similarity, or by the learned policy (paper, section 4.2).

The policy is a frozen text encoder with a linear head S_theta that gives every retain e of an edit x a score z, and
p = softmax(z) over the pool. Two forms of S_theta fit the paper's text:

    dot:   z = (W f(x) + b) . (W f(e) + b) / sqrt(h)     the parent method's; x and e are encoded apart
    cross: z = w . f(x, e)                               the pair is encoded as one text

f scales the encoder's vector to unit root mean square, so that a learning rate means the same whatever the encoder.
Only the head learns; features are computed once per text and kept by the encoder's cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.encoders import TextEncoder
from drike.prompts import demonstration_block, query_block

Form = Literal["dot", "cross"]

FORMS: tuple[Form, ...] = ("dot", "cross")
HIDDEN = 128


@dataclass(frozen=True)
class Ranking:
    """A pool in policy order, best first: `order[j]` is the pool index of the j-th retain, `probs[j]` its p."""

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retain pool of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Every retain of the pool, best first."""


def best_first(probs: Sequence[float]) -> list[int]:
    """Pool indices in descending probability; ties keep pool order, so that a ranking is reproducible."""
    return sorted(range(len(probs)), key=lambda i: -probs[i])


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability, each with its own."""
    probs = [math.exp(log_p) for log_p in log_probs]
    order = best_first(probs)
    return Ranking(tuple(retains[i] for i in order), tuple(order), tuple(probs[i] for i in order))


@dataclass(frozen=True)
class Similarity:
    """Nearest record first: IKE's order. Probabilities are the softmax of cosine / temperature."""

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine the pool was chosen with."""
        scores = torch.tensor(candidates.retain_similarities, dtype=torch.float64) / self.temperature
        return ranking_of(candidates.retains, torch.log_softmax(scores, dim=0).tolist())


class Retriever:
    """The learned policy: a frozen encoder and a trainable head.

    Args:
        encoder: the frozen text encoder f.
        form: which S_theta, "dot" or "cross".
        seed: of the head's initial weights.

    `trained_on` holds the key (query, new object) of every edit the head was trained on.
    """

    def __init__(self, encoder: TextEncoder, *, form: Form = "dot", seed: int = 0) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.encoder = encoder
        self.form: Form = form
        with torch.random.fork_rng(devices=[]):  # so that the global generator is left alone
            torch.manual_seed(seed)
            self.head = nn.Linear(encoder.dim, HIDDEN) if form == "dot" else nn.Linear(encoder.dim, 1, bias=False)
        self.trained_on: frozenset[tuple[str, str]] = frozenset()

    @property
    def parameters(self) -> int:
        """How many numbers are learned."""
        return sum(weight.numel() for weight in self.head.parameters())

    def texts(self, candidates: DemonstrationSet) -> list[str]:
        """What the encoder reads for an edit: x and each e for "dot", each pair for "cross"."""
        x = query_block(candidates.edit, candidates.edit.query)
        blocks = [demonstration_block(retain).strip() for retain in candidates.retains]
        return [x, *blocks] if self.form == "dot" else [f"{x}\n\n{block}" for block in blocks]

    def features(self, candidates: DemonstrationSet) -> Tensor:
        """F of `texts`: [1 + n, d] for "dot", [n, d] for "cross"; float32, no gradient."""
        vectors = torch.from_numpy(np.asarray(self.encoder.encode(self.texts(candidates)), dtype=np.float32))
        rms = vectors.square().mean(dim=1, keepdim=True).sqrt()
        return vectors / rms.clamp_min(1e-12)

    def log_probs(self, features: Tensor) -> Tensor:
        """Log p over the pool [n], differentiable in the head (Algorithm 1, lines 6-7)."""
        if self.form == "cross":
            scores = self.head(features).squeeze(1)
        else:
            hidden = self.head(features)
            scores = hidden[1:] @ hidden[0] / math.sqrt(hidden.shape[1])
        return torch.log_softmax(scores, dim=0)

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """The pool in the policy's order."""
        with torch.no_grad():
            return ranking_of(candidates.retains, self.log_probs(self.features(candidates)).tolist())
