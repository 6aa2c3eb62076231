"""How many demonstrations of a ranking are kept (paper, section 4.3; Algorithm 1, lines 8-9 and 18-20).

A fixed `Fraction` (IKE keeps all, the ablation half) and `Threshold`, the paper's rule, need no network of their own;
the learned ones of the paper's appendix are in `learned_budget`. All keep at least one. Budgets are values: `after`
returns the next one.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from drike.demonstrations import DemonstrationSet
from drike.editors.rankers import Ranker
from drike.edits import Key, trained_on
from drike.prompts import Prompt

Flip = Literal["offender", "algorithm1"]


class Budget(Protocol):
    """A rule that cuts a ranking. `probs` [n] are in ranking order; `candidates` is the pool that was ranked.

    A class that derives from it and only defines `keep` is a rule without a sigma that learns nothing.
    """

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many of the ranked candidates to keep, at least 1."""

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many prefixes an episode of training evaluates, at least `keep` (k of Algorithm 1, line 8)."""
        return self.keep(probs, candidates)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float | None:
        """The probability that a candidate must exceed here to be kept; None if the rule has no such bar."""
        return None

    def after(self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet) -> Budget:
        """The budget for the next episode, given the rewards [k] of the first k prefixes, `probs` as tried."""
        return self


@dataclass(frozen=True)
class Fraction(Budget):
    """Keep a fixed share of every pool, rounded to the nearest count (a half counts up), at least one.

    `max_shots` caps the count; None caps nothing.
    """

    share: float = 1.0
    max_shots: int | None = None

    def __post_init__(self) -> None:

        if type(self.share) not in (int, float) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"a budget's share must lie in (0, 1], not {self.share!r}")
        if self.max_shots is not None:
            require_shots(self.max_shots)

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """The share of n, whatever the probabilities."""
        require_candidates(probs)
        kept = max(1, math.floor(self.share * len(probs) + 0.5))
        return kept if self.max_shots is None else min(kept, self.max_shots)


@dataclass(frozen=True)
class Threshold(Budget):
    """Keep candidates whose probability exceeds `sigma`, at most `max_shots`, at least one.

    `flip` says where sigma goes when the j-th retain turns a right answer wrong:
    "offender" (default, section 4.3 of the paper): to p_j, so that this retain falls out (the test is p > sigma);
    "algorithm1" (the listing in the appendix): to the largest p_i behind it, which leaves the offender in.
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
        """min(K, #{p_i > sigma}), at least 1 (Algorithm 1, lines 8-9)."""
        require_candidates(probs)
        return max(1, min(self.max_shots, sum(p > self.sigma for p in probs)))

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
class SameCount(Budget):
    """Keep as many retains as `budget` keeps of `ranker`'s ranking, whichever ranking they are taken from.

    A control: the k of DR-IKE with the retains of another ranker.
    """

    ranker: Ranker
    budget: Budget

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that the ranker was trained on."""
        return trained_on(self.ranker)

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """The other ranking's k."""
        return self.budget.keep(self.ranker.rank(candidates).probs, candidates)


@dataclass(frozen=True)
class TokenLimit:
    """At most `tokens` in a prompt, as `count` counts them (a model's `count_tokens`): prunes what a budget keeps.

    Copies, updates and the best retain stay: what is too long even then is for the model to refuse.
    """

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:

        if self.tokens < 1:
            raise ValueError(f"a prompt has at least one token; it cannot be limited to {self.tokens}")

    def fitting(self, k: int, shown: Callable[[int], Sequence[Prompt]]) -> int:
        """The most retains, from 1 to k, with which all prompts fit; 1 where none does.

        shown: the prompts with the first j of the ranking; they grow with j.
        """

        def too_long(j: int) -> bool:
            return max(self.count([prompt.text for prompt in shown(j)])) > self.tokens

        if k == 1 or not too_long(k):  # nearly always everything fits
            return k
        return 1 + bisect(range(2, k), False, key=too_long)


def require_candidates(probs: Sequence[float]) -> None:
    """Refuse an empty pool. Raises ValueError."""
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")


def require_shots(max_shots: int) -> None:
    """Refuse a K that is no whole number of at least 1. Raises ValueError."""
    if type(max_shots) is not int or max_shots < 1:
        raise ValueError(f"max_shots must be a whole number of at least 1, not {max_shots!r}")
