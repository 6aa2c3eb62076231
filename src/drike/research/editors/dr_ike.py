"""DR-IKE and its ablations: a trained policy ranks the retains, and a budget cuts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drike.prompts import PromptStyle
from drike.research.editors.budgets import Budget, Fraction
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RankAndCut, Selector

if TYPE_CHECKING:
    from drike.research.editors.retriever import Retriever


@dataclass(frozen=True)
class Trained:
    """What training leaves.

    retriever: ranks the retains. budget: the one it was trained with. style: of its prompts.
    per_query: DR-IKE-Q's policy, if that was trained.
    """

    retriever: Retriever
    budget: Budget
    style: PromptStyle = PromptStyle()
    per_query: Selector | None = field(default=None, kw_only=True)


def rank_all(
    trained: Trained, pool: Pool, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """The policy's ranking without a budget: every retain is shown."""
    selector = RankAndCut(trained.retriever, Fraction(1.0))
    return InContextEditor("Rank-All", pool, selector, trained.style, limit)


def rank_half(
    trained: Trained, pool: Pool, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """The better half of the policy's ranking, for every edit."""
    selector = RankAndCut(trained.retriever, Fraction(0.5))
    return InContextEditor("Rank-50%", pool, selector, trained.style, limit)


def dr_ike(
    trained: Trained, pool: Pool, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """The paper's method: the policy's ranking, cut by the budget that was learned with it."""
    selector = RankAndCut(trained.retriever, trained.budget)
    return InContextEditor("DR-IKE", pool, selector, trained.style, limit)


def dr_ike_q(
    policy: Selector, pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[Selector]:
    """DR-IKE-Q: a policy decides for every query what it is shown (`query_policy`)."""
    return InContextEditor("DR-IKE-Q", pool, policy, style, limit)
