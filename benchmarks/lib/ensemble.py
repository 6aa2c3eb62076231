"""An ensemble of rankers, weighted by fitness (after FWE-IKE): their scores are mixed, and a budget cuts the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drike.edits.edit import Key, trained_on
from drike.prompts import DemonstrationSet
from drike.research.editors.rankings import Ranker, Ranking, ranking_of


@dataclass(frozen=True)
class Ensemble:
    """Ranks by the weighted sum of its rankers' log-probabilities, each scaled to mean 0 and variance 1 over the pool.

    Raises ValueError where weights and rankers do not match.
    """

    rankers: tuple[Ranker, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:

        if not self.rankers or len(self.rankers) != len(self.weights):
            raise ValueError(
                f"an ensemble needs one weight per ranker, not {len(self.weights)} for {len(self.rankers)}"
            )

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that any of its rankers was trained on."""
        return trained_on(*self.rankers)

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """The pool by mixed scores; their softmax are the probabilities."""
        mixed = np.zeros(len(candidates.retains))
        for weight, ranker in zip(self.weights, self.rankers, strict=True):
            ranking = ranker.rank(candidates)
            scores = np.empty_like(mixed)
            scores[[*ranking.order]] = np.log(np.maximum(ranking.probs, 1e-30))
            mixed += weight * (scores - scores.mean()) / max(float(scores.std()), 1e-9)
        return ranking_of(candidates.retains, (mixed - np.logaddexp.reduce(mixed)).tolist())


def fitness_weighted(
    rankers: Sequence[Ranker], fitness: Sequence[float], temperature: float = 0.01
) -> Ensemble:
    """An ensemble whose weights are the softmax of fitness / temperature, such as a ranker's S on training edits."""
    powers = np.exp((np.asarray(fitness, dtype=float) - max(fitness)) / temperature)
    return Ensemble(tuple(rankers), tuple((powers / powers.sum()).tolist()))
