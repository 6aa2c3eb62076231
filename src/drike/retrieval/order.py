"""The order in which the kept retains stand in a prompt; which retains are kept is not its business.

An editor has the order of its layout unless it is given one of these (paper, appendix "Sensitivity of Reward Function":
shuffled or reordered context). Each takes the candidates of an edit and its kept retains, best first, and returns the
same retains in another order, first shown first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from drike.demonstrations import Demonstration, DemonstrationSet

ORDERS = ("policy", "similarity", "reversed", "shuffled")  # as editors with another order are named after


class Order(Protocol):
    """A permutation of the kept retains."""

    def __call__(self, candidates: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
        """`kept` in the order in which it is shown."""
        ...


def by_policy(candidates: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
    """Best first, as the policy ranks."""
    return tuple(kept)


def by_policy_reversed(candidates: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
    """Best last: next to the question."""
    return tuple(reversed(kept))


def by_similarity(candidates: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
    """Nearest record first, in the embedding space that chose the pool."""
    return tuple(retain for retain in candidates.retains if retain in kept)


@dataclass(frozen=True)
class Shuffled:
    """At random; the same seed, edit and retains always give the same order."""

    seed: int = 0

    def __call__(self, candidates: DemonstrationSet, kept: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
        """`kept` shuffled, however it was ordered before."""
        shown = list(by_similarity(candidates, kept))
        random.Random(f"{self.seed}|{candidates.edit.fact}").shuffle(shown)
        return tuple(shown)
