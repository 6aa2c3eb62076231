"""How many demonstrations of a ranking are kept (paper, section 4.3; Algorithm 1, lines 8-9 and 18-20).

Two rules that need no learning of their own: a fixed `Fraction` (IKE keeps all, the ablation half) and `Threshold`, the
paper's: keep p_i > sigma, and raise sigma whenever one more retain turns a right answer into a wrong one. Both keep at
least one. State goes in and comes out: `after` returns the next budget and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

Flip = Literal["offender", "algorithm1"]


class Budget(Protocol):
    """A rule that cuts a ranking."""

    def keep(self, probs: Sequence[float]) -> int:
        """How many of the ranked candidates to keep, at least 1; `probs` [n] in ranking order."""
        ...

    def after(self, probs: Sequence[float], rewards: Sequence[int]) -> Budget:
        """The budget for the next episode, given the rewards [k] of the first k prefixes of the ranking."""
        ...


@dataclass(frozen=True)
class Fraction:
    """Keep a fixed share of every pool, rounded to the nearest count (a half counts up), at least one."""

    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1]."""
        if type(self.share) not in (int, float) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"a budget's share must lie in (0, 1], not {self.share!r}")

    def keep(self, probs: Sequence[float]) -> int:
        """The share of n, whatever the probabilities."""
        _require_candidates(probs)
        return max(1, math.floor(self.share * len(probs) + 0.5))

    def after(self, probs: Sequence[float], rewards: Sequence[int]) -> Fraction:
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
        if type(self.max_shots) is not int or self.max_shots < 1:
            raise ValueError(f"max_shots must be a whole number of at least 1, not {self.max_shots!r}")
        if self.flip not in ("offender", "algorithm1"):
            raise ValueError(f'flip must be "offender" or "algorithm1", not {self.flip!r}')

    def keep(self, probs: Sequence[float]) -> int:
        """min(K, #{p_i > sigma}), at least 1 (Algorithm 1, lines 8-9)."""
        _require_candidates(probs)
        return max(1, min(self.max_shots, sum(p > self.sigma for p in probs)))

    def after(self, probs: Sequence[float], rewards: Sequence[int]) -> Threshold:
        """Sigma after an episode: raised at every step j > 1 whose reward fell from +1 to -1, never lowered."""
        sigma = self.sigma
        for j in range(1, len(rewards)):  # j counts from 0 here: the (j+1)-th retain of the paper
            if rewards[j - 1] > 0 > rewards[j]:
                raised_to = probs[j] if self.flip == "offender" else max(probs[j + 1 :], default=0.0)
                sigma = max(sigma, raised_to)
        return replace(self, sigma=sigma)


def _require_candidates(probs: Sequence[float]) -> None:
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")
