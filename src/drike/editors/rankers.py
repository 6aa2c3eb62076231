"""Rankings of an edit's retains, and the one by similarity; the learned one is in `retriever` (paper, section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drike.demonstrations import Demonstration, DemonstrationSet


@dataclass(frozen=True)
class Ranking:
    """The retains of an edit, best first.

    order: the index of each among the retains as they were ranked, [n]. probs: the probability of each, [n].
    """

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retains of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains, best first."""


def best_first(probs: Sequence[float]) -> list[int]:
    """Indices in descending probability; ties keep their order, so that a ranking is reproducible."""
    return sorted(range(len(probs)), key=lambda i: -probs[i])


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability."""
    probs = [math.exp(log_p) for log_p in log_probs]
    order = best_first(probs)
    return Ranking(tuple(retains[i] for i in order), tuple(order), tuple(probs[i] for i in order))


@dataclass(frozen=True)
class Similarity:
    """The nearest record first, as in IKE. Probabilities are the softmax of cosine / temperature."""

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine similarity of each record to the edit."""
        scores = np.asarray(candidates.retain_similarities, dtype=np.float64) / self.temperature
        return ranking_of(candidates.retains, (scores - np.logaddexp.reduce(scores)).tolist())
