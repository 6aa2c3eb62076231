"""Ways of training that the paper leaves open and that won nothing: drawn retains, their own log p, a stop at a flip.

benchmarks/results.py compares them with Algorithm 1.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import torch
from torch import Tensor

from drike.models.protocols import LanguageModel
from drike.prompts import DemonstrationSet
from drike.research.editors.budgets import Budget
from drike.research.training.algorithm1 import (
    Choice,
    Choose,
    Reward,
    Rewards,
    Rollout,
    rewrite_reward,
    top,
)


def sampled(rng: random.Random, *, apart: bool = False) -> Choose:
    """Draw retains without replacement until one does not exceed sigma (section 4.2).

    apart: give every edit a generator of its own, seeded by `rng`, as training in blocks of edits does.
    """

    def choose(pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Choice:
        draws = random.Random(rng.getrandbits(64)) if apart else rng
        best = top(pool, log_p, budget)
        # Gumbel top-k: sorting by log p + Gumbel noise draws without replacement, and no p is too small for it.
        noisy = [x - math.log(-math.log(max(draws.random(), 1e-300))) for x in log_p.tolist()]
        order = sorted(range(len(noisy)), key=lambda i: -noisy[i])
        p = dict(zip(best.order, best.probs, strict=True))
        sigma = budget.sigma_for(best.probs, pool) or 0.0
        admitted = next((j for j, i in enumerate(order) if p[i] <= sigma), len(order))
        kept = max(1, min(best.kept, admitted))  # a draw at or below sigma is the stop action
        k = min(len(order), kept + best.k - best.kept)
        return Choice(tuple(order), tuple(p[i] for i in order), log_p[order], kept, k)

    return choose


def renormalised(choose: Choose) -> Choose:
    """`choose` with log p_j taken over the retains not chosen before step j: the log-probability of the draw itself."""

    def renormalise(pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Choice:
        choice = choose(pool, log_p, budget)
        return replace(
            choice, log_p=choice.log_p - torch.logcumsumexp(choice.log_p.flip(0), dim=0).flip(0)
        )

    return renormalise


def stopped_at_flip(model: LanguageModel) -> Reward:
    """The paper's reward for the prefixes up to the first retain that breaks the answer."""
    whole = rewrite_reward(model)

    def reward(rollout: Rollout) -> Rewards:
        of_all = whole(rollout)
        pairs = zip(of_all.correct, of_all.correct[1:], strict=False)
        end = next((i + 2 for i, pair in enumerate(pairs) if pair == (True, False)), None)
        return replace(of_all, rewards=of_all.rewards[:end], correct=of_all.correct[:end])

    return reward
