"""IKE and DR-IKE: one editor, other parts (paper, sections 4 and 5.3).

    IKE, IKE-All   Similarity   Fraction(1.0)      layout="ike"
    Rank-All       Retriever    Fraction(1.0)
    Rank-50%       Retriever    Fraction(0.5)
    DR-IKE         Retriever    Threshold(sigma)

A ranker orders the retain pool, a budget cuts it, a layout arranges what is left. "append" (DR-IKE's default) puts
copies and updates first and then the retains, best first, so that nested prompts share their beginning; "ike" is the
published one: all 32 shuffled over their roles, farthest record first, nearest last. An `order` shows the kept retains
in another order, at the places the layout has for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.demonstrations import Demonstration, DemonstrationSet, Role
from drike.edits import Edit
from drike.prompts import Prompt, RetainForm, in_context
from drike.retrieval.budget import Budget
from drike.retrieval.order import Order
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Ranker, Ranking
from drike.retrieval.token_limit import TokenLimit

Layout = Literal["append", "ike"]


@dataclass(frozen=True)
class Selection:
    """What was chosen for an edit: its candidates, the pool in order, and how many of it were kept.

    pruned: how many more the budget would have kept, had they fitted into the prompt.
    """

    candidates: DemonstrationSet
    ranking: Ranking
    k: int
    pruned: int = 0

    @property
    def kept(self) -> tuple[Demonstration, ...]:
        """The k best retains, best first."""
        return self.ranking.retains[: self.k]


def arrange(
    candidates: DemonstrationSet, kept: Sequence[Demonstration], layout: Layout = "append", order: Order | None = None
) -> tuple[Demonstration, ...]:
    """Demonstrations in the order they are shown; the retains that were not kept are left out."""
    if layout == "append":
        return (*candidates.fixed, *(kept if order is None else order(candidates, kept)))
    shown = tuple(reversed([d for d in candidates.demonstrations if d.role is not Role.RETAIN or d in kept]))
    if order is None:
        return shown
    retains = iter(order(candidates, kept))
    return tuple(next(retains) if d.role is Role.RETAIN else d for d in shown)


@dataclass(frozen=True)
class IKE:
    """In-context knowledge editing by demonstrations chosen by `ranker` and `budget` from `pool`.

    limit: where given, retains are pruned from the end of the ranking until the prompts of an edit fit.
    """

    name: str
    pool: Pool
    ranker: Ranker
    budget: Budget
    layout: Layout = "append"
    own_copy: bool = True
    retain: RetainForm = "headed"
    limit: TokenLimit | None = None
    order: Order | None = None

    def select(self, edit: Edit) -> Selection:
        """DemonstrationSet, ranking and cut of an edit; the same for all its queries."""
        [candidates] = self.pool.candidates([edit])
        ranking = self.ranker.rank(candidates)
        return Selection(candidates, ranking, self.budget.keep(ranking.probs, candidates))

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the retains that would make a prompt longer than the limit."""
        if self.limit is None or not queries:
            return selection
        k = self.limit.fitting(selection.k, lambda j: self.show(replace(selection, k=j), queries))
        return replace(selection, k=k, pruned=selection.pruned + selection.k - k)

    def show(self, selection: Selection, queries: Sequence[str]) -> list[Prompt]:
        """Prompts for queries about the edit of a selection."""
        shown = arrange(selection.candidates, selection.kept, self.layout, self.order)
        edit = selection.candidates.edit
        prompts = [in_context(shown, edit, query, own_copy=self.own_copy, retain=self.retain) for query in queries]
        return [replace(prompt, pruned=selection.pruned) for prompt in prompts] if selection.pruned else prompts

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """Select once, show for every query."""
        return self.show(self.fit(self.select(edit), queries), queries)
