"""IKE and DR-IKE: one editor, other parts (paper, sections 4 and 5.3; `editors.make` lists them).

A ranker orders the retain pool, a budget cuts it, a style lays out what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.edits import Edit
from drike.prompts import Prompt, PromptStyle
from drike.retrieval.budget import Budget, SameCount, TokenLimit
from drike.retrieval.ensemble import Ensemble
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Ranker, Ranking, Retriever


@dataclass(frozen=True)
class Selection:
    """What was chosen for an edit: its demonstrations, the ranked retains, and how many of them are kept.

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

    limit: prune retains from the end of the ranking until the prompts of an edit fit.
    """

    name: str
    pool: Pool
    ranker: Ranker
    budget: Budget
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of the edits that its ranker, or the ranker behind its budget, was trained on."""
        rankers = (self.ranker, self.budget.ranker if isinstance(self.budget, SameCount) else self.ranker)
        return frozenset().union(*(ranker.trained_on for ranker in rankers if isinstance(ranker, Retriever | Ensemble)))

    def select(self, edit: Edit) -> Selection:
        """Demonstrations, ranking and cut of an edit; the same for all its queries."""
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
        prompts = self.style.show(selection.candidates, selection.kept, queries)
        return [replace(prompt, pruned=selection.pruned) for prompt in prompts] if selection.pruned else prompts

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """Select once, show for every query."""
        return self.show(self.fit(self.select(edit), queries), queries)
