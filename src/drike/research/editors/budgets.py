"""How many of the ranked retains are shown: a fixed share, or those above a learned threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from drike.prompts import DemonstrationSet
from drike.research.editors.rankings import Ranker

Flip = Literal["offender", "algorithm1"]


class Budget(Protocol):
    """A rule that cuts a ranking, whose probabilities are `probs` [n], best first.

    A subclass with nothing but `keep` has no sigma and learns nothing.
    """

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many of the retains to keep, at least 1."""

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many prefixes a training episode evaluates (k of Algorithm 1, line 8).

        At least as many as `keep` says.
        """
        return self.keep(probs, candidates)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float | None:
        """The probability that a retain must exceed to be kept; None without a threshold."""
        return None

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet
    ) -> Budget:
        """The budget after an episode.

        probs: [n], in the order in which the retains were tried. rewards: [k], of the first k
        prefixes.
        """
        return self


@dataclass(frozen=True)
class Fraction(Budget):
    """Keep a share of the retains: at least 1 and at most `max_shots`, halves rounded up.

    Raises ValueError for a share outside (0, 1] or a `max_shots` below 1.
    """

    share: float = 1.0
    max_shots: int | None = None

    def __post_init__(self) -> None:
        if type(self.share) not in (int, float) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"a budget's share must lie in (0, 1], not {self.share!r}")
        if self.max_shots is not None:
            require_shots(self.max_shots)

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """The share of n."""
        require_candidates(probs)
        count = max(1, math.floor(self.share * len(probs) + 0.5))
        if self.max_shots is None:
            return count
        return min(count, self.max_shots)


@dataclass(frozen=True)
class Threshold(Budget):
    """Keep the retains whose probability exceeds `sigma`, at most `max_shots` and at least one.

    flip: what sigma rises to when the j-th retain turns a right answer wrong. "offender" (paper,
    section 4.3): p_j, so that this retain is dropped; "algorithm1" (the listing in the appendix):
    the largest probability after it, so that it is still kept. Raises ValueError for an impossible
    value.
    """

    sigma: float = 0.0
    max_shots: int = 16
    flip: Flip = "offender"

    def __post_init__(self) -> None:
        if type(self.sigma) not in (int, float) or not 0.0 <= self.sigma <= 1.0:
            raise ValueError(f"sigma is a probability; {self.sigma!r} is not")
        require_shots(self.max_shots)
        if self.flip not in ("offender", "algorithm1"):
            raise ValueError(f'flip must be "offender" or "algorithm1", not {self.flip!r}')

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """min(K, #{p_i > sigma}), at least 1 (Algorithm 1, lines 8-11)."""
        require_candidates(probs)
        above_sigma = sum(p > self.sigma for p in probs)
        return max(1, min(self.max_shots, above_sigma))

    def sigma_for(
        self, probs: Sequence[float], candidates: DemonstrationSet | None = None
    ) -> float:
        """Sigma, the same for all edits."""
        return self.sigma

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: object = None
    ) -> Threshold:
        """Sigma rises at every step j > 1 where the reward fell from +1 to -1; it never falls."""
        sigma = self.sigma
        for j in range(1, len(rewards)):  # from 0: probs[j] is p_{j+1} of the paper
            turned_wrong = rewards[j - 1] > 0 > rewards[j]
            if not turned_wrong:
                continue
            sigma = max(sigma, self._sigma_demanded(probs, j))
        return replace(self, sigma=sigma)

    def _sigma_demanded(self, probs: Sequence[float], j: int) -> float:
        """The least sigma after the retain of probs[j] turned a right answer wrong."""
        if self.flip == "offender":
            return probs[j]
        return max(probs[j + 1 :], default=0.0)


@dataclass(frozen=True)
class SameCount(Budget):
    """A control with the k of DR-IKE: of any ranking, as many as `budget` keeps of `ranker`'s."""

    ranker: Ranker
    budget: Budget

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """The k of `ranker`'s ranking."""
        ranking = self.ranker.rank(candidates)
        return self.budget.keep(ranking.probs, candidates)


def require_candidates(probs: Sequence[float]) -> None:
    """Raises ValueError if there is no retain to keep."""
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")


def require_shots(max_shots: int) -> None:
    """Raises ValueError for a K that is not a whole number of at least 1."""
    if type(max_shots) is not int or max_shots < 1:
        raise ValueError(f"max_shots must be a whole number of at least 1, not {max_shots!r}")
