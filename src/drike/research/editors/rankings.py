"""The order in which an edit's retains are shown: by similarity, or by a policy (`retriever`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drike.prompts import Demonstration, DemonstrationSet


@dataclass(frozen=True)
class Ranking:
    """The n retains of an edit, best first.

    order: the index of each among the retains that were ranked. probs: the probability of each.
    """

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retains of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains, best first."""


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability; ties keep their order, so that it is reproducible."""
    probs = [math.exp(log_prob) for log_prob in log_probs]
    order = sorted(range(len(probs)), key=lambda index: -probs[index])
    return Ranking(
        retains=tuple(retains[index] for index in order),
        order=tuple(order),
        probs=tuple(probs[index] for index in order),
    )


@dataclass(frozen=True)
class Similarity:
    """The nearest record first, as in IKE.

    Probabilities are the softmax of cosine / temperature.
    """

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine similarity of each record to the edit."""
        cosines = np.asarray(candidates.retain_similarities, dtype=np.float64)
        scores = cosines / self.temperature
        log_probs = scores - np.logaddexp.reduce(scores)
        return ranking_of(candidates.retains, log_probs.tolist())
