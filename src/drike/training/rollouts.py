"""Rollouts: which retains an episode tries, in which order, and the prompts they make (paper, Algorithm 1, lines 8-11).

A `Choose` goes from the demonstrations of an edit, log p over its retains [n] and the budget to a `Choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from drike.demonstrations import Demonstration, DemonstrationSet
from drike.editors.budgets import Budget
from drike.editors.in_context import InContextEditor
from drike.editors.rankers import Ranking, ranking_of
from drike.editors.selectors import RankAndCut, Selection
from drike.edits import EditCase
from drike.prompts import Prompt


@dataclass(frozen=True, eq=False)
class Choice:
    """The retains of an edit that an episode tries, best first.

    order: indices of the n retains in the order tried, [n]. probs: p of each in that order, [n]. log_p: log p of each
    in that order, [n], differentiable in the policy that chose them. kept: how many the budget keeps. k: how many
    prefixes are evaluated, at least `kept`.
    """

    order: tuple[int, ...]
    probs: tuple[float, ...]
    log_p: Tensor
    kept: int
    k: int


Choose = Callable[[DemonstrationSet, Tensor, Budget], Choice]


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout(Choice):
    """What an episode tries for an edit, the editor that shows it, the edit's demonstrations and its number from 0."""

    editor: InContextEditor[RankAndCut]
    case: EditCase
    pool: DemonstrationSet
    number: int = 0

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The k retains whose prefixes are evaluated."""
        return self._ranking.retains[: self.k]

    def prompts(self, queries: Sequence[str]) -> list[list[Prompt]]:
        """The editor's prompt of each query under each prefix, shortest prefix first, [prefixes][queries].

        Prefixes under which a prompt is longer than the editor's limit are left out, but for the first.
        """
        ranking = self._ranking
        fitting = self.editor.fit(Selection.of_ranking(self.pool, ranking, self.k), queries)
        return [self.editor.show(Selection.of_ranking(self.pool, ranking, j), queries) for j in range(1, fitting.k + 1)]

    @property
    def _ranking(self) -> Ranking:
        retains = self.pool.retains
        return Ranking(tuple(retains[i] for i in self.order), self.order, self.probs)


def top(pool: DemonstrationSet, log_p: Tensor, budget: Budget) -> Choice:
    """The most probable retains first (Algorithm 1)."""
    ranking = ranking_of(pool.retains, log_p.tolist())
    order, probs = ranking.order, ranking.probs
    return Choice(order, probs, log_p[[*order]], budget.keep(probs, pool), budget.evaluated(probs, pool))
