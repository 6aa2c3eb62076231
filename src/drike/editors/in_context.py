"""IKE and DR-IKE: one editor, other parts (paper, sections 4 and 5.3; `editors.make` lists them).

A ranker orders the retain pool, a budget cuts it, a style lays out what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.demonstrations import Demonstration, DemonstrationSet, Role, interleave
from drike.editors.budgets import Budget, TokenLimit
from drike.editors.pool import Pool
from drike.editors.rankers import Ranker, Ranking
from drike.edits import Edit, Key, trained_on
from drike.prompts import Prompt, PromptStyle


@dataclass(frozen=True)
class Selection:
    """What was chosen for the edits in force: their demonstrations, the ranked retains, and how many of them are kept.

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


@dataclass(frozen=True)
class IKE:
    """In-context knowledge editing by demonstrations that `ranker` and `budget` choose from `pool`.

    limit: prune retains from the end of the ranking until the prompts of an edit fit. Several edits in force share one
    set of demonstrations, as `interleave` says; k is then the mean of what the budget keeps for each, rounded up.
    """

    name: str
    pool: Pool
    ranker: Ranker
    budget: Budget
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that its ranker, or the ranker behind its budget, was trained on."""
        return trained_on(self.ranker, self.budget)

    def select(self, edits: Sequence[Edit]) -> Selection:
        """Demonstrations, ranking and cut, the same for all queries. Raises ValueError for no edits."""
        pools = self.pool.together(edits)
        rankings = [self.ranker.rank(pool) for pool in pools]
        kept = [self.budget.keep(ranking.probs, pool) for ranking, pool in zip(rankings, pools, strict=True)]
        if len(pools) == 1:
            return Selection(pools[0], rankings[0], kept[0])
        shared, ranking = _together(pools, rankings)
        return Selection(shared, ranking, min(-(-sum(kept) // len(kept)), len(ranking.retains)))

    def fit(self, selection: Selection, queries: Sequence[str]) -> Selection:
        """The selection without the retains that would make a prompt longer than the limit."""
        if self.limit is None or not queries:
            return selection
        k = self.limit.fitting(selection.k, lambda j: self.show(replace(selection, k=j), queries))
        return replace(selection, k=k, pruned=selection.pruned + selection.k - k)

    def show(self, selection: Selection, queries: Sequence[str]) -> list[Prompt]:
        """Prompts for queries under the edits of a selection."""
        prompts = self.style.show(selection.candidates, selection.kept, queries)
        return [replace(prompt, pruned=selection.pruned) for prompt in prompts] if selection.pruned else prompts

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Select once, show for every query."""
        return self.show(self.fit(self.select(edits), queries), queries)


def _together(pools: Sequence[DemonstrationSet], rankings: Sequence[Ranking]) -> tuple[DemonstrationSet, Ranking]:
    """The demonstrations that several edits share, nearest first, and their retains: the best of each edit first."""
    shown = interleave([(*pool.fixed, *ranking.retains) for pool, ranking in zip(pools, rankings, strict=True)])
    nearness = {d: cosine for pool in pools for d, cosine in zip(pool.demonstrations, pool.similarities, strict=True)}
    probs = {d: p for ranking in rankings for d, p in zip(ranking.retains, ranking.probs, strict=True)}
    nearest = tuple(sorted(shown, key=lambda d: -nearness[d]))
    shared = replace(
        pools[0],
        demonstrations=nearest,
        similarities=tuple(nearness[d] for d in nearest),
        excluded=sum(pool.excluded for pool in pools),
    )
    ranked = tuple(d for d in shown if d.role is Role.RETAIN)
    return shared, Ranking(ranked, tuple(map(shared.retains.index, ranked)), tuple(probs[d] for d in ranked))
