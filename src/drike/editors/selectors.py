"""Which demonstrations a query is shown: a ranking of the retains and its cut for all queries, or a choice for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from drike.demonstrations import Demonstration, DemonstrationSet, Role, interleave
from drike.editors.budgets import Budget


@dataclass(frozen=True)
class Ranking:
    """The retains of an edit, best first.

    order: the index of each among the retains as they were ranked, [n]. probs: the probability of each, [n].
    """

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retains of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains, best first."""


def best_first(probs: Sequence[float]) -> list[int]:
    """Indices in descending probability; ties keep their order, so that a ranking is reproducible."""
    return sorted(range(len(probs)), key=lambda i: -probs[i])


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability."""
    probs = [math.exp(log_p) for log_p in log_probs]
    order = best_first(probs)
    return Ranking(tuple(retains[i] for i in order), tuple(order), tuple(probs[i] for i in order))


@dataclass(frozen=True)
class Similarity:
    """The nearest record first, as in IKE. Probabilities are the softmax of cosine / temperature."""

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine similarity of each record to the edit."""
        scores = np.asarray(candidates.retain_similarities, dtype=np.float64) / self.temperature
        return ranking_of(candidates.retains, (scores - np.logaddexp.reduce(scores)).tolist())


@dataclass(frozen=True)
class SameCount(Budget):
    """Keep as many retains of any ranking as `budget` keeps of `ranker`'s: a control with the k of DR-IKE."""

    ranker: Ranker
    budget: Budget

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """The k of `ranker`'s ranking."""
        return self.budget.keep(self.ranker.rank(candidates).probs, candidates)


@dataclass(frozen=True)
class Selection:
    """The demonstrations that a query is shown.

    candidates: those it was chosen from; where several edits are in force, those that the edits share. shown: with a
    ranking, copies, updates and the best retains, which the prompt style arranges; without one, in the order of the
    prompt. ranking: all retains, best first; None if the selector ranks none. pruned: how many more did not fit into
    the prompt. alone: whether the model gets the query alone, without the edit.
    """

    candidates: DemonstrationSet
    shown: tuple[Demonstration, ...]
    ranking: Ranking | None = None
    pruned: int = 0
    alone: bool = False

    @classmethod
    def of_ranking(cls, candidates: DemonstrationSet, ranking: Ranking, k: int) -> Selection:
        """All copies and updates, and the k best retains."""
        return cls(candidates, (*candidates.fixed, *ranking.retains[:k]), ranking)

    @property
    def kept(self) -> tuple[Demonstration, ...]:
        """The retains shown, best first."""
        return tuple(demonstration for demonstration in self.shown if demonstration.role is Role.RETAIN)

    @property
    def k(self) -> int:
        """How many retains are shown."""
        return len(self.kept)

    @property
    def prunable(self) -> int:
        """How many demonstrations a token limit may prune: all, or with a ranking the retains."""
        return len(self.shown) if self.ranking is None else self.k

    def without_last(self, count: int) -> Selection:
        """The selection after its last `count` demonstrations were pruned."""
        return replace(self, shown=self.shown[: len(self.shown) - count], pruned=self.pruned + count)


class Selector(Protocol):
    """Chooses among the demonstrations of an edit.

    Queries that share one `Selection` object are shown the same: a token limit prunes it once for all of them.
    """

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The selection for each query, in order."""


@dataclass(frozen=True)
class RankAndCut(Selector):
    """The paper's choice: `ranker` orders the retains and `budget` cuts them; copies and updates are all shown."""

    ranker: Ranker
    budget: Budget

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """One selection, which all queries share."""
        ranking = self.ranker.rank(candidates)
        selection = Selection.of_ranking(candidates, ranking, self.budget.keep(ranking.probs, candidates))
        return [selection] * len(queries)


@dataclass(frozen=True)
class LeaveAlone(Selector):
    """Leaves every query alone."""

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The query alone, for each."""
        return [Selection(candidates, (), alone=True) for _ in queries]


def select_for(selector: Selector, candidates: Sequence[DemonstrationSet], queries: Sequence[str]) -> list[Selection]:
    """The selection for each query under all edits in force; queries that share those of every edit share theirs."""
    rows = list(zip(*(selector.select(of_edit, queries) for of_edit in candidates), strict=True))
    distinct = {tuple(map(id, row)): row for row in rows}
    merged = {ids: merge(row) for ids, row in distinct.items()}
    return [merged[tuple(map(id, row))] for row in rows]


def merge(selections: Sequence[Selection]) -> Selection:
    """One selection for several edits in force, given that of each edit: its demonstrations are interleaved.

    If all are ranked, so is the result, with the mean k, rounded up. A query is left alone if all leave it alone, else
    these say nothing.
    """
    first, *others = [selection for selection in selections if not selection.alone] or selections[:1]
    if not others:
        return first
    selections = [first, *others]
    rankings = [selection.ranking for selection in selections if selection.ranking is not None]
    if len(rankings) < len(selections):
        shown = interleave([selection.shown for selection in selections])
        return Selection(_shared(selections, shown), shown)
    ranked = zip(selections, rankings, strict=True)
    shown = interleave([(*selection.candidates.fixed, *ranking.retains) for selection, ranking in ranked])
    shared = _shared(selections, shown)
    retains = tuple(demonstration for demonstration in shown if demonstration.role is Role.RETAIN)
    probs = {d: p for ranking in rankings for d, p in zip(ranking.retains, ranking.probs, strict=True)}
    ranking = Ranking(retains, tuple(map(shared.retains.index, retains)), tuple(probs[retain] for retain in retains))
    mean_k = -(-sum(selection.k for selection in selections) // len(selections))
    return Selection.of_ranking(shared, ranking, min(mean_k, len(retains)))


def _shared(selections: Iterable[Selection], shown: Iterable[Demonstration]) -> DemonstrationSet:
    """The set that several edits share, of the first of them and the others: these demonstrations, nearest first."""
    sets = [selection.candidates for selection in selections]
    cosines = {d: c for known in sets for d, c in zip(known.demonstrations, known.similarities, strict=True)}
    nearest = tuple(sorted(shown, key=lambda demonstration: -cosines[demonstration]))
    similarities, excluded = tuple(cosines[d] for d in nearest), sum(known.excluded for known in sets)
    return replace(sets[0], demonstrations=nearest, similarities=similarities, excluded=excluded)
