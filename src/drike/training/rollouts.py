"""Which retains an episode tries, and in which order (paper, Algorithm 1, lines 8-11; section 4.2).

A choice is a function from a case, its demonstrations, log p over the retains [n] and the budget to an `Rollout`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.editors.budgets import Budget
from drike.editors.rankers import best_first, ranking_of
from drike.edits import EditCase


@dataclass(frozen=True, eq=False)
class Rollout:
    """The retains that an episode tries for an edit, best first.

    pool: the edit's demonstrations, n retains among them. order: indices of the retains as tried, [n]. probs: p of each
    in that order, [n]. log_p: log p of each in that order, [n], differentiable in the policy that chose them. kept: how
    many the budget keeps. k: how many prefixes are evaluated, at least `kept`. number: of the episode, from 0.
    """

    case: EditCase
    pool: DemonstrationSet
    order: tuple[int, ...]
    probs: tuple[float, ...]
    log_p: Tensor
    kept: int
    k: int
    number: int = 0

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The k retains whose prefixes are evaluated."""
        retains = self.pool.retains
        return tuple(retains[i] for i in self.order[: self.k])


Choice = Callable[[EditCase, DemonstrationSet, Tensor, Budget], Rollout]


def top(case: EditCase, pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Rollout:
    """The most probable retains first (Algorithm 1)."""
    ranking = ranking_of(pool.retains, log_p.tolist())
    order, probs = ranking.order, ranking.probs
    return Rollout(case, pool, order, probs, log_p[[*order]], budget.keep(probs, pool), budget.evaluated(probs, pool))


def sampled(rng: random.Random, *, apart: bool = False) -> Choice:
    """Draw retains without replacement until one does not exceed sigma (section 4.2).

    apart: give every edit a generator of its own, seeded by `rng`, as training in blocks of edits does.
    """

    def choose(case: EditCase, pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Rollout:
        draws = random.Random(rng.getrandbits(64)) if apart else rng
        best = top(case, pool, log_p, budget)
        # Gumbel top-k: sorting by log p + Gumbel noise draws without replacement, and no p is too small for it.
        order = best_first([x - math.log(-math.log(max(draws.random(), 1e-300))) for x in log_p.tolist()])
        p = dict(zip(best.order, best.probs, strict=True))
        sigma = budget.sigma_for(best.probs, pool) or 0.0
        admitted = next((j for j, i in enumerate(order) if p[i] <= sigma), len(order))
        kept = max(1, min(best.kept, admitted))  # a draw at or below sigma is the stop action
        k = min(len(order), kept + best.k - best.kept)
        return Rollout(case, pool, tuple(order), tuple(p[i] for i in order), log_p[order], kept, k)

    return choose


def renormalised(choice: Choice) -> Choice:
    """`choice` with log p_j taken over the retains not chosen before step j: the log-probability of the draw itself."""

    def choose(case: EditCase, pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Rollout:
        attempt = choice(case, pool, log_p, budget)
        return replace(attempt, log_p=attempt.log_p - torch.logcumsumexp(attempt.log_p.flip(0), dim=0).flip(0))

    return choose
