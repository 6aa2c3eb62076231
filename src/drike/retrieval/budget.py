"""How many demonstrations of a ranking are kept (paper, section 4.3; Algorithm 1, lines 8-9 and 18-20).

Two rules that need no network of their own: a fixed `Fraction` (IKE keeps all, the ablation half) and `Threshold`, the
paper's: keep p_i > sigma, and raise sigma whenever one more retain turns a right answer into a wrong one. The learned
ones of the paper's appendix are in `learned_budget`. All keep at least one. Budgets are values: `after` returns the
next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from drike.demonstrations import DemonstrationSet

if TYPE_CHECKING:
    from drike.retrieval.retriever import Ranker

Flip = Literal["offender", "algorithm1"]


class Budget(Protocol):
    """A rule that cuts a ranking. `probs` [n] are in ranking order; `candidates` is the pool that was ranked."""

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many of the ranked candidates to keep, at least 1."""
        ...

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many prefixes an episode of training evaluates, at least `keep` (k of Algorithm 1, line 8)."""
        ...

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float | None:
        """The probability that a candidate must exceed here to be kept; None if the rule has no such bar."""
        ...

    def after(self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet) -> Budget:
        """The budget for the next episode, given the rewards [k] of the first k prefixes, `probs` as tried."""
        ...


@dataclass(frozen=True)
class Fraction:
    """Keep a fixed share of every pool, rounded to the nearest count (a half counts up), at least one.

    `max_shots` caps the count; None caps nothing.
    """

    share: float = 1.0
    max_shots: int | None = None

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1] and a cap below 1."""
        if type(self.share) not in (int, float) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"a budget's share must lie in (0, 1], not {self.share!r}")
        if self.max_shots is not None:
            require_shots(self.max_shots)

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """The share of n, whatever the probabilities."""
        require_candidates(probs)
        kept = max(1, math.floor(self.share * len(probs) + 0.5))
        return kept if self.max_shots is None else min(kept, self.max_shots)

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """What it keeps."""
        return self.keep(probs)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> None:
        """None: a share does not depend on probabilities."""
        return

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet | None = None
    ) -> Fraction:
        """Itself: nothing is learned."""
        return self


@dataclass(frozen=True)
class Threshold:
    """Keep candidates whose probability exceeds `sigma`, at most `max_shots`, at least one.

    `flip` says where sigma goes when the j-th retain turns a right answer wrong:
    "offender" (default, section 4.3 of the paper): to p_j, so that this retain falls out (the test is p > sigma);
    "algorithm1" (the listing in the appendix): to the largest p_i behind it, which leaves the offender in.
    """

    sigma: float = 0.0
    max_shots: int = 16
    flip: Flip = "offender"

    def __post_init__(self) -> None:
        """Refuse values that could not have come from a run."""
        if type(self.sigma) not in (int, float) or not 0.0 <= self.sigma <= 1.0:
            raise ValueError(f"sigma is a probability; {self.sigma!r} is not")
        require_shots(self.max_shots)
        if self.flip not in ("offender", "algorithm1"):
            raise ValueError(f'flip must be "offender" or "algorithm1", not {self.flip!r}')

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """min(K, #{p_i > sigma}), at least 1 (Algorithm 1, lines 8-9)."""
        require_candidates(probs)
        return max(1, min(self.max_shots, sum(p > self.sigma for p in probs)))

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """What it keeps."""
        return self.keep(probs)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> float:
        """The one sigma of all edits."""
        return self.sigma

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet | None = None
    ) -> Threshold:
        """Sigma after an episode: raised at every step j > 1 whose reward fell from +1 to -1, never lowered."""
        sigma = self.sigma
        for j in range(1, len(rewards)):  # j counts from 0 here: the (j+1)-th retain of the paper
            if rewards[j - 1] > 0 > rewards[j]:
                raised_to = probs[j] if self.flip == "offender" else max(probs[j + 1 :], default=0.0)
                sigma = max(sigma, raised_to)
        return replace(self, sigma=sigma)


@dataclass(frozen=True)
class SameCount:
    """Keep as many retains as `budget` keeps of `ranker`'s ranking, whichever ranking they are taken from.

    A control: the k of DR-IKE with the retains of another ranker.
    """

    ranker: Ranker
    budget: Budget

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """The other ranking's k."""
        return self.budget.keep(self.ranker.rank(candidates).probs, candidates)

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """What it keeps."""
        return self.keep(probs, candidates)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> None:
        """None: the other ranking's sigma says nothing about these probabilities."""
        return

    def after(self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet) -> SameCount:
        """Itself: nothing is learned."""
        return self


def require_candidates(probs: Sequence[float]) -> None:
    """Refuse an empty pool. Raises ValueError."""
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")


def require_shots(max_shots: int) -> None:
    """Refuse a K that is no whole number of at least 1. Raises ValueError."""
    if type(max_shots) is not int or max_shots < 1:
        raise ValueError(f"max_shots must be a whole number of at least 1, not {max_shots!r}")
