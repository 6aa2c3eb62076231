"""Which demonstrations a query is shown: a ranking of the retains, cut by a budget (paper, section 4.3), or a mix.

A mix says how many demonstrations of each role are shown; a policy may choose one for every query
(docs/design/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal, Protocol

import numpy as np

from drike.prompts import Demonstration, DemonstrationSet, Role, interleave
from drike.text.words import mentions

Flip = Literal["offender", "algorithm1"]


@dataclass(frozen=True)
class Ranking:
    """The retains of an edit, best first, with the index of each among those that were ranked, and its probability."""

    retains: tuple[Demonstration, ...]
    order: tuple[int, ...]
    probs: tuple[float, ...]


class Ranker(Protocol):
    """Orders the retains of an edit."""

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """All retains, best first."""


def ranking_of(retains: Sequence[Demonstration], log_probs: Sequence[float]) -> Ranking:
    """Retains in descending probability; ties keep their order, so that a ranking is reproducible."""
    probs = [math.exp(log_p) for log_p in log_probs]
    order = sorted(range(len(probs)), key=lambda i: -probs[i])
    return Ranking(tuple(retains[i] for i in order), tuple(order), tuple(probs[i] for i in order))


@dataclass(frozen=True)
class Similarity:
    """The nearest record first, as in IKE. Probabilities are the softmax of cosine / temperature."""

    temperature: float = 0.1

    def rank(self, candidates: DemonstrationSet) -> Ranking:
        """Rank by the cosine similarity of each record to the edit."""
        scores = np.asarray(candidates.retain_similarities, dtype=np.float64) / self.temperature
        return ranking_of(candidates.retains, (scores - np.logaddexp.reduce(scores)).tolist())


class Budget(Protocol):
    """A rule that cuts a ranking by its `probs` [n]; one with nothing but `keep` has no sigma and learns nothing."""

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many of the retains to keep, at least 1."""

    def evaluated(self, probs: Sequence[float], candidates: DemonstrationSet) -> int:
        """How many prefixes a training episode evaluates, at least `keep` (k of Algorithm 1, line 8)."""
        return self.keep(probs, candidates)

    def sigma_for(self, probs: Sequence[float], candidates: DemonstrationSet) -> float | None:
        """The probability that a retain must exceed to be kept; None if the rule has no threshold."""
        return None

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: DemonstrationSet
    ) -> Budget:
        """The budget after an episode: `probs` [n] in the order tried, rewards [k] of the first k prefixes."""
        return self


@dataclass(frozen=True)
class Fraction(Budget):
    """Keep a share of the retains, halves rounded up: 1 to `max_shots` of them. ValueError for one outside (0, 1]."""

    share: float = 1.0
    max_shots: int | None = None

    def __post_init__(self) -> None:
        if type(self.share) not in (int, float) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"a budget's share must lie in (0, 1], not {self.share!r}")
        if self.max_shots is not None:
            require_shots(self.max_shots)

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """The share of n."""
        require_candidates(probs)
        kept = max(1, math.floor(self.share * len(probs) + 0.5))
        return kept if self.max_shots is None else min(kept, self.max_shots)


@dataclass(frozen=True)
class Threshold(Budget):
    """Keep the retains whose probability exceeds `sigma`, at most `max_shots` and at least one.

    flip: what sigma rises to when the j-th retain turns a right answer wrong. "offender" (paper, section 4.3): p_j, so
    that this retain is dropped; "algorithm1" (the listing in the appendix): the largest probability after it, so that
    it is still kept. Raises ValueError for an impossible value.
    """

    sigma: float = 0.0
    max_shots: int = 16
    flip: Flip = "offender"

    def __post_init__(self) -> None:
        if type(self.sigma) not in (int, float) or not 0.0 <= self.sigma <= 1.0:
            raise ValueError(f"sigma is a probability; {self.sigma!r} is not")
        require_shots(self.max_shots)
        if self.flip not in ("offender", "algorithm1"):
            raise ValueError(f'flip must be "offender" or "algorithm1", not {self.flip!r}')

    def keep(self, probs: Sequence[float], candidates: DemonstrationSet | None = None) -> int:
        """min(K, #{p_i > sigma}), at least 1 (Algorithm 1, lines 8-9)."""
        require_candidates(probs)
        return max(1, min(self.max_shots, sum(p > self.sigma for p in probs)))

    def sigma_for(
        self, probs: Sequence[float], candidates: DemonstrationSet | None = None
    ) -> float:
        """Sigma, the same for all edits."""
        return self.sigma

    def after(
        self, probs: Sequence[float], rewards: Sequence[float], candidates: object = None
    ) -> Threshold:
        """Sigma is raised, never lowered, at every step j > 1 where the reward fell from +1 to -1."""
        sigma = self.sigma
        for j in range(1, len(rewards)):  # j counts from 0 here: the (j+1)-th retain of the paper
            if rewards[j - 1] > 0 > rewards[j]:
                sigma = max(
                    sigma, probs[j] if self.flip == "offender" else max(probs[j + 1 :], default=0.0)
                )
        return replace(self, sigma=sigma)


def require_candidates(probs: Sequence[float]) -> None:
    """Raises ValueError if there is no retain to keep."""
    if not len(probs):
        raise ValueError("an empty pool: there is no retain candidate to keep")


def require_shots(max_shots: int) -> None:
    """Raises ValueError for a K that is not a whole number of at least 1."""
    if type(max_shots) is not int or max_shots < 1:
        raise ValueError(f"max_shots must be a whole number of at least 1, not {max_shots!r}")


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
    """The demonstrations that a query is shown, of `candidates`: those of an edit, or what several edits share."""

    candidates: DemonstrationSet
    shown: tuple[
        Demonstration, ...
    ]  # with a `ranking`, the prompt style arranges them; else in the prompt's order
    ranking: Ranking | None = None
    pruned: int = 0  # how many more did not fit
    alone: bool = False  # the query is asked without the edit

    @classmethod
    def of_ranking(cls, candidates: DemonstrationSet, ranking: Ranking, k: int) -> Selection:
        """All copies and updates, and the k best retains."""
        return cls(candidates, (*candidates.fixed, *ranking.retains[:k]), ranking)

    @property
    def kept(self) -> tuple[Demonstration, ...]:
        """The retains shown, best first."""
        return tuple(
            demonstration for demonstration in self.shown if demonstration.role is Role.RETAIN
        )

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
        return replace(
            self, shown=self.shown[: len(self.shown) - count], pruned=self.pruned + count
        )


class Selector(Protocol):
    """Chooses demonstrations of an edit; a `Selection` object that several queries share is pruned once for all."""

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
        return [
            Selection.of_ranking(candidates, ranking, self.budget.keep(ranking.probs, candidates))
        ] * len(queries)


@dataclass(frozen=True)
class LeaveAlone(Selector):
    """Leaves every query alone."""

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The query alone, for each."""
        return [Selection(candidates, (), alone=True) for _ in queries]


def merge(selections: Sequence[Selection]) -> Selection:
    """The selections of several edits in force, interleaved: ranked if all are, with the mean k, rounded up."""
    first, *others = [selection for selection in selections if not selection.alone] or selections[
        :1
    ]
    if not others:
        return first
    selections = [first, *others]
    sets = [selection.candidates for selection in selections]
    rankings = [selection.ranking for selection in selections if selection.ranking is not None]
    ranked = len(rankings) == len(selections)
    whole = [selection.shown for selection in selections]
    if ranked:
        whole = [
            (*known.fixed, *ranking.retains) for known, ranking in zip(sets, rankings, strict=True)
        ]
    shown = interleave(whole)
    # The set that all queries share is of these demonstrations, nearest first.
    cosines = {
        d: c
        for known in sets
        for d, c in zip(known.demonstrations, known.similarities, strict=True)
    }
    nearest = tuple(sorted(shown, key=lambda demonstration: -cosines[demonstration]))
    similarities, excluded = (
        tuple(cosines[d] for d in nearest),
        sum(known.excluded for known in sets),
    )
    shared = replace(
        first.candidates, demonstrations=nearest, similarities=similarities, excluded=excluded
    )
    if not ranked:
        return Selection(shared, shown)
    retains = tuple(demonstration for demonstration in shown if demonstration.role is Role.RETAIN)
    probs = {
        d: p for ranking in rankings for d, p in zip(ranking.retains, ranking.probs, strict=True)
    }
    ranking = Ranking(
        retains,
        tuple(map(shared.retains.index, retains)),
        tuple(probs[retain] for retain in retains),
    )
    return Selection.of_ranking(
        shared, ranking, -(-sum(selection.k for selection in selections) // len(selections))
    )


@dataclass(frozen=True, order=True)
class RoleCounts(Selector):
    """A mix, shown to every query: so many copies, updates and retains at most, the nearest; ValueError below 0."""

    copies: int
    updates: int
    retains: int

    def __post_init__(self) -> None:
        if not all(type(count) is int and count >= 0 for count in astuple(self)):
            raise ValueError(f"a mix has three whole numbers of at least 0, not {astuple(self)!r}")

    @property
    def size(self) -> int:
        """The number of demonstrations in a prompt."""
        return self.copies + self.updates + self.retains

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The same demonstrations for each query."""
        return [Selection(candidates, self.nearest(candidates)) for _ in queries]

    def nearest(self, candidates: DemonstrationSet) -> tuple[Demonstration, ...]:
        """Copies, then updates, then retains, each nearest first."""
        return tuple(
            demonstration
            for role, count in zip(Role, astuple(self), strict=True)
            for demonstration in [d for d in candidates.demonstrations if d.role is role][:count]
        )


def copies_and_updates(roles: Sequence[Role], max_demonstrations: int | None = None) -> RoleCounts:
    """All copies and updates of an edit, or the first `max_demonstrations`: the best mix behind a gate."""
    copies, updates, _ = _counts(roles)
    total = copies + updates if max_demonstrations is None else max_demonstrations
    return RoleCounts(min(copies, total), min(updates, max(total - copies, 0)), 0)


def policy_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a policy chooses from, smallest first: the fact alone, with copies, with updates, with retains."""
    copies, updates, retains = _counts(roles)
    counts = (
        (0, 0, 0),
        (copies, 0, 0),
        *((copies, updates, r) for r in (0, -(-retains // 4), retains)),
    )
    return tuple(
        sorted({RoleCounts(*of_role) for of_role in counts}, key=lambda mix: (mix.size, mix))
    )


def _counts(roles: Sequence[Role]) -> tuple[int, int, int]:
    return roles.count(Role.COPY), roles.count(Role.UPDATE), roles.count(Role.RETAIN)


@dataclass(frozen=True)
class SubjectSwitch(Selector):
    """A control without training: one mix for queries that name the edit's subject; others get another or no edit."""

    named: RoleCounts
    other: Selector = LeaveAlone()

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The selection for each query, by whether it names the subject."""
        edit = candidates.edit  # without a subject, only its own query is about it
        about = [
            query == edit.query if edit.subject is None else mentions(query, edit.subject)
            for query in queries
        ]
        return [
            (self.named if named else self.other).select(candidates, [""])[0] for named in about
        ]


@dataclass(frozen=True)
class SameSize(Selector):
    """A control: as many demonstrations as `policy` shows, but those nearest to the edit, whatever their role."""

    policy: Selector

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The nearest demonstrations, by role; queries that the policy leaves alone are left alone."""
        roles = [demonstration.role for demonstration in candidates.demonstrations]
        return [
            replace(
                chosen,
                shown=RoleCounts(*_counts(roles[: len(chosen.shown)])).nearest(candidates),
                ranking=None,
            )
            for chosen in self.policy.select(candidates, queries)
        ]
