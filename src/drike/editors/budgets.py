"""Budgets: how many retains of a ranking are kept (paper, section 4.3; Algorithm 1, lines 8-9 and 18-20).

`Fraction` keeps a fixed share (IKE all, the ablation half); `Threshold` is the paper's rule. All keep at least one.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from drike.prompts import DemonstrationSet, Prompt

Flip = Literal["offender", "algorithm1"]


class Budget(Protocol):
    """A rule that cuts a ranking: `probs` [n] are in its order, `candidates` holds the retains that were ranked.

    A class that derives from it and defines only `keep` has no sigma and learns nothing.
    """

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many of the retains to keep, at least 1."""

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many prefixes a training episode evaluates, at least `keep` (k of Algorithm 1, line 8)."""
        return self.keep(probs, candidates)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float | None:
        """The probability that a retain must exceed to be kept; None if the rule has no threshold."""
        return None

    def after(self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet) -> Budget:
        """The budget after an episode: `probs` [n] in the order tried, rewards [k] of the first k prefixes."""
        return self


@dataclass(frozen=True)
class Fraction(Budget):
    """Keep a fixed share of the retains, rounded to the nearest number (halves up), but at least one.

    max_shots: the most to keep; None sets no maximum. Raises ValueError for a share outside (0, 1].
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
        kept = max(1, math.floor(self.share * len(probs) + 0.5))
        return kept if self.max_shots is None else min(kept, self.max_shots)


@dataclass(frozen=True)
class Threshold(Budget):
    """Keep the retains whose probability exceeds `sigma`, at most `max_shots` and at least one.

    flip: the value that sigma rises to when the j-th retain turns a right answer wrong. "offender" (section 4.3 of the
    paper): p_j, so that this retain is dropped; "algorithm1" (the listing in the appendix): the largest probability
    after it, so that it is still kept. Raises ValueError for an impossible value.
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
        """Sigma, the same for all edits."""
        return self.sigma

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet | None = None
    ) -> Threshold:
        """Sigma is raised, never lowered, at every step j > 1 where the reward fell from +1 to -1."""
        sigma = self.sigma
        for j in range(1, len(rewards)):  # j counts from 0 here: the (j+1)-th retain of the paper
            if rewards[j - 1] > 0 > rewards[j]:
                raised_to = probs[j] if self.flip == "offender" else max(probs[j + 1 :], default=0.0)
                sigma = max(sigma, raised_to)
        return replace(self, sigma=sigma)


@dataclass(frozen=True)
class TokenLimit:
    """A limit of tokens in a prompt; selections are pruned until their prompts fit.

    count: the number of tokens of each text, such as a model's `count_tokens`. At least one prunable demonstration
    stays: a prompt that is too long even then is left for the model to refuse.
    """

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a prompt has at least one token; it cannot be limited to {self.tokens}")

    def fitting(self, k: int, prompts: Callable[[int], Sequence[Prompt]]) -> int:
        """The largest number from 1 to k with which all prompts fit; 1 if none does.

        prompts: those with the first j demonstrations; they get longer with j.
        """

        def too_long(j: int) -> bool:
            return max(self.count([prompt.text for prompt in prompts(j)])) > self.tokens

        if k == 1 or not too_long(k):  # nearly always all fit
            return k
        return 1 + bisect(range(2, k), False, key=too_long)


def require_candidates(probs: Sequence[float]) -> None:
    """Raises ValueError if there is no retain to keep."""
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")


def require_shots(max_shots: int) -> None:
    """Raises ValueError for a K that is not a whole number of at least 1."""
    if type(max_shots) is not int or max_shots < 1:
        raise ValueError(f"max_shots must be a whole number of at least 1, not {max_shots!r}")
