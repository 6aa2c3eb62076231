"""Controls: editors without a learned part of their own, which show what learning adds.

Each has the style of the editor that it is compared with.
"""

from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction, SameCount
from drike.research.editors.dr_ike import Trained
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import (
    RankAndCut,
    RoleCounts,
    SameSize,
    Selector,
    SubjectSwitch,
    copies_and_updates,
)


def nearest(
    k: int, pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """The k retains nearest to the edit, for every edit."""
    selector = RankAndCut(Similarity(), Fraction(1.0, max_shots=k))
    return InContextEditor(f"Nearest, k={k}", pool, selector, style, limit)


def nearest_same_k(
    trained: Trained, pool: Pool, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """As many retains as DR-IKE shows for an edit, but the nearest."""
    selector = RankAndCut(Similarity(), SameCount(trained.retriever, trained.budget))
    return InContextEditor("Nearest (k of DR-IKE)", pool, selector, trained.style, limit)


def nearest_same_size(
    policy: Selector, pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[SameSize]:
    """As many demonstrations as DR-IKE-Q's policy shows for a query, but the nearest."""
    return InContextEditor("Nearest (size of DR-IKE-Q)", pool, SameSize(policy), style, limit)


def by_name(
    pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[SubjectSwitch]:
    """Copies and updates where a query names the edit's subject, elsewhere retains."""
    available = RoleCounts.of_roles(pool.roles)
    retains = RoleCounts(0, 0, available.retains)
    selector = SubjectSwitch(copies_and_updates(pool.roles), retains)
    return InContextEditor("Switch by name", pool, selector, style, limit)


def by_name_or_alone(
    pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[SubjectSwitch]:
    """Copies and updates where a query names the edit's subject; other queries are left alone."""
    selector = SubjectSwitch(copies_and_updates(pool.roles))
    return InContextEditor("By name, else left alone", pool, selector, style, limit)


def no_retains(
    pool: Pool, style: PromptStyle, limit: TokenLimit | None = None
) -> InContextEditor[RoleCounts]:
    """Copies and updates for every query: the best behind a gate."""
    return InContextEditor("Copies and updates", pool, copies_and_updates(pool.roles), style, limit)
