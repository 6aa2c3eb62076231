"""Which demonstrations a query is shown: a ranking of the retains that is cut, or a mix.

A mix says how many demonstrations of each role are shown; a policy may choose one for every query
(docs/design/method.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, get_args

from drike.edits.edit import Edit
from drike.prompts import Demonstration, DemonstrationSet, Role, interleave
from drike.research.editors.budgets import Budget
from drike.research.editors.rankings import Ranker, Ranking
from drike.support.records import ADDED
from drike.text.words import mentions

# How a prompt states the edit behind the demonstrations: as its style does, on the line "New Fact"
# without a copy of the edit, or as FactPrompt, which has no demonstrations.
FactForm = Literal["styled", "line", "imagined"]
FACT_FORMS: tuple[FactForm, ...] = get_args(FactForm)


@dataclass(frozen=True)
class Selection:
    """The demonstrations that a query is shown.

    candidates: what they were chosen from, the demonstrations of an edit or those that several
    edits share. shown: in the prompt's order, or with a `ranking` in any: then the prompt style
    arranges them. pruned: how many more did not fit. alone: the query is asked without the edit.
    fact: how the edit is stated.
    """

    candidates: DemonstrationSet
    shown: tuple[Demonstration, ...]
    ranking: Ranking | None = None
    pruned: int = 0
    alone: bool = False
    fact: FactForm = "styled"

    @classmethod
    def of_ranking(cls, candidates: DemonstrationSet, ranking: Ranking, k: int) -> Selection:
        """All copies and updates, and the k best retains."""
        return cls(candidates, (*candidates.fixed, *ranking.retains[:k]), ranking)

    @property
    def kept(self) -> tuple[Demonstration, ...]:
        """The retains shown, best first."""
        return _retains_among(self.shown)

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
        remaining = self.shown[: len(self.shown) - count]
        return replace(self, shown=remaining, pruned=self.pruned + count)


class Selector(Protocol):
    """Chooses demonstrations of an edit for each of several queries.

    Queries may share a selection: if they share the object, it is pruned once for all of them.
    """

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The selection for each query, in order."""


@dataclass(frozen=True)
class RankAndCut(Selector):
    """The paper's choice: `ranker` orders the retains, and `budget` cuts them.

    Copies and updates are all shown.
    """

    ranker: Ranker
    budget: Budget

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """One selection, which all queries share."""
        ranking = self.ranker.rank(candidates)
        k = self.budget.keep(ranking.probs, candidates)
        selection = Selection.of_ranking(candidates, ranking, k)
        return [selection] * len(queries)


@dataclass(frozen=True)
class LeaveAlone(Selector):
    """Leaves every query alone."""

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The query alone, for each."""
        return [Selection(candidates, (), alone=True) for _ in queries]


@dataclass(frozen=True, order=True)
class RoleCounts(Selector):
    """A mix, which every query is shown: at most so many copies, updates and retains, the nearest.

    fact: how the edit is stated behind them. Raises ValueError for a number below 0, and for
    demonstrations before an imagined fact.
    """

    copies: int
    updates: int
    retains: int
    fact: FactForm = field(default="styled", metadata=ADDED)

    def __post_init__(self) -> None:
        counts = (self.copies, self.updates, self.retains)
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError(f"a mix has three whole numbers of at least 0, not {counts!r}")
        if self.fact not in FACT_FORMS:
            raise ValueError(f"fact must be one of {', '.join(FACT_FORMS)}, not {self.fact!r}")
        if self.fact == "imagined" and any(counts):
            raise ValueError(f"an imagined fact has no demonstrations before it, not {counts!r}")

    @classmethod
    def of_roles(cls, roles: Sequence[Role]) -> RoleCounts:
        """The mix of demonstrations that have these roles."""
        counts = Counter(roles)
        return cls(counts[Role.COPY], counts[Role.UPDATE], counts[Role.RETAIN])

    @property
    def size(self) -> int:
        """The number of demonstrations in a prompt."""
        return self.copies + self.updates + self.retains

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The same demonstrations for each query."""
        return [self.selection(candidates) for _ in queries]

    def selection(self, candidates: DemonstrationSet) -> Selection:
        """What a query is shown of the demonstrations of an edit."""
        return Selection(candidates, self.nearest(candidates), fact=self.fact)

    def nearest(self, candidates: DemonstrationSet) -> tuple[Demonstration, ...]:
        """Copies, then updates, then retains, each nearest first."""
        counts = {Role.COPY: self.copies, Role.UPDATE: self.updates, Role.RETAIN: self.retains}
        chosen: list[Demonstration] = []
        for role, count in counts.items():
            of_role = [shown for shown in candidates.demonstrations if shown.role is role]
            chosen += of_role[:count]
        return tuple(chosen)


def copies_and_updates(roles: Sequence[Role], max_demonstrations: int | None = None) -> RoleCounts:
    """All copies and updates of an edit, or the first `max_demonstrations` of them.

    This is the best mix behind a gate.
    """
    available = RoleCounts.of_roles(roles)
    if max_demonstrations is None:
        return replace(available, retains=0)
    copies = min(available.copies, max_demonstrations)
    updates = min(available.updates, max_demonstrations - copies)
    return RoleCounts(copies, updates, 0)


def policy_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a policy chooses from, smallest first.

    They are those of `first_mixes`, the fact alone in two further forms, and without copies and
    updates a quarter of the retains, and all.
    """
    retains = RoleCounts.of_roles(roles).retains
    mixes = {
        *first_mixes(roles),
        RoleCounts(0, 0, 0, "line"),
        RoleCounts(0, 0, 0, "imagined"),
        RoleCounts(0, 0, math.ceil(retains / 4)),
        RoleCounts(0, 0, retains),
    }
    return _smallest_first(mixes)


def first_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes of policies of earlier versions, smallest first.

    They are the fact alone, with copies, with updates too, with a quarter of the retains, with all.
    """
    everything = RoleCounts.of_roles(roles)
    quarter_of_retains = math.ceil(everything.retains / 4)
    mixes = {
        RoleCounts(0, 0, 0),
        RoleCounts(everything.copies, 0, 0),
        RoleCounts(everything.copies, everything.updates, 0),
        RoleCounts(everything.copies, everything.updates, quarter_of_retains),
        everything,
    }
    return _smallest_first(mixes)


def _smallest_first(mixes: Iterable[RoleCounts]) -> tuple[RoleCounts, ...]:
    """Of equally large ones that with the usual form of the fact."""
    return tuple(sorted(mixes, key=lambda mix: (mix.size, FACT_FORMS.index(mix.fact), mix)))


@dataclass(frozen=True)
class SubjectSwitch(Selector):
    """A control without training: whether a query names the edit's subject decides.

    named: the mix for queries that do. other: what chooses for those that do not.
    """

    named: RoleCounts
    other: Selector = LeaveAlone()

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The selection for each query, by whether it names the subject."""
        selections = []
        for query in queries:
            selector = self.named if _is_named(candidates.edit, query) else self.other
            selections += selector.select(candidates, [query])
        return selections


def _is_named(edit: Edit, query: str) -> bool:
    if edit.subject is None:  # then only its own query is about it
        return query == edit.query
    return mentions(query, edit.subject)


@dataclass(frozen=True)
class SameSize(Selector):
    """A control: as many demonstrations as `policy` shows, but the nearest, whatever their role."""

    policy: Selector

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The nearest demonstrations, by role; queries that the policy leaves alone stay so."""
        selections = []
        for selection in self.policy.select(candidates, queries):
            size = len(selection.shown)
            roles = [nearest.role for nearest in candidates.demonstrations[:size]]
            demonstrations = RoleCounts.of_roles(roles).nearest(candidates)
            selections.append(replace(selection, shown=demonstrations, ranking=None))
        return selections


def merge(selections: Sequence[Selection]) -> Selection:
    """The selections of several edits in force for one query, as one.

    Those that leave the query alone do not count, unless all do. The demonstrations of the others
    are interleaved; if all are ranked, so is the result, with their mean k, rounded up. The edits
    are stated in the form that all have in common, else as the style does.
    """
    showing = [selection for selection in selections if not selection.alone]
    if not showing:
        return selections[0]
    if len(showing) == 1:
        return showing[0]

    rankings = [selection.ranking for selection in showing if selection.ranking is not None]
    if len(rankings) == len(showing):
        return _merge_ranked(showing, rankings)
    demonstrations = interleave([selection.shown for selection in showing])
    shared = _shared_candidates(showing, demonstrations)
    forms = {selection.fact for selection in showing}
    return Selection(shared, demonstrations, fact=forms.pop() if len(forms) == 1 else "styled")


def _merge_ranked(selections: Sequence[Selection], rankings: Sequence[Ranking]) -> Selection:
    demonstrations = interleave(
        [
            (*selection.candidates.fixed, *ranking.retains)
            for selection, ranking in zip(selections, rankings, strict=True)
        ]
    )
    shared = _shared_candidates(selections, demonstrations)

    prob_by_retain: dict[Demonstration, float] = {}
    for ranking in rankings:
        prob_by_retain.update(zip(ranking.retains, ranking.probs, strict=True))
    retains = _retains_among(demonstrations)
    merged = Ranking(
        retains,
        order=tuple(shared.retains.index(retain) for retain in retains),
        probs=tuple(prob_by_retain[retain] for retain in retains),
    )

    mean_k = math.ceil(sum(selection.k for selection in selections) / len(selections))
    return Selection.of_ranking(shared, merged, mean_k)


def _shared_candidates(
    selections: Sequence[Selection], demonstrations: Sequence[Demonstration]
) -> DemonstrationSet:
    """The set of these demonstrations, nearest first, that all edits share."""
    cosines: dict[Demonstration, float] = {}
    for selection in selections:
        candidates = selection.candidates
        cosines.update(zip(candidates.demonstrations, candidates.similarities, strict=True))

    nearest_first = sorted(demonstrations, key=lambda demonstration: -cosines[demonstration])
    return replace(
        selections[0].candidates,
        demonstrations=tuple(nearest_first),
        similarities=tuple(cosines[demonstration] for demonstration in nearest_first),
        excluded=sum(selection.candidates.excluded for selection in selections),
    )


def _retains_among(demonstrations: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
    return tuple(shown for shown in demonstrations if shown.role is Role.RETAIN)
