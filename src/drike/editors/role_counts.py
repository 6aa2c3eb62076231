"""How many demonstrations of each role a prompt shows: a mix (docs/method.md, "Past the paper").

The paper's budget cuts the retains of an edit and always shows its copies and updates. A mix may leave out
demonstrations of any role, and a policy may choose another mix for every query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

from drike.demonstrations import Demonstration, DemonstrationSet, Role
from drike.editors.pool import Pool
from drike.editors.selectors import Selection, Selector
from drike.edits import Edit
from drike.words import mentions

_ROLES = (Role.COPY, Role.UPDATE, Role.RETAIN)


class RoleCountPolicy(Selector, Protocol):
    """Chooses a mix for every query about an edit. A class that derives from it only defines `choose`."""

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """One mix per query, in order."""

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The demonstrations of each query's mix."""
        mixes = self.choose(candidates.edit, queries)
        return [Selection(candidates, mix.nearest(candidates)) for mix in mixes]


@dataclass(frozen=True, order=True)
class RoleCounts(RoleCountPolicy):
    """A mix: how many copies, updates and retains are shown, those nearest to the edit; all where there are fewer.

    It is also the policy that chooses itself for every query.
    """

    copies: int
    updates: int
    retains: int

    def __post_init__(self) -> None:
        """Raises ValueError for counts that are not whole numbers of at least 0."""
        if not all(type(count) is int and count >= 0 for count in astuple(self)):
            raise ValueError(f"a mix has three whole numbers of at least 0, not {astuple(self)!r}")

    @property
    def size(self) -> int:
        """The number of demonstrations in a prompt."""
        return self.copies + self.updates + self.retains

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """This mix for each query."""
        return [self for _ in queries]

    def nearest(self, candidates: DemonstrationSet) -> tuple[Demonstration, ...]:
        """Copies, then updates, then retains, each nearest first."""
        return tuple(
            demonstration
            for role, count in zip(_ROLES, astuple(self), strict=True)
            for demonstration in [d for d in candidates.demonstrations if d.role is role][:count]
        )


def copies_and_updates(roles: Sequence[Role], max_demonstrations: int | None = None) -> RoleCounts:
    """All copies and updates of an edit, or the first `max_demonstrations` of them, given the roles it has.

    The best behind a gate, where every query concerns the edit.
    """
    copies, updates, _ = _counts(roles)
    total = copies + updates if max_demonstrations is None else max_demonstrations
    return RoleCounts(min(copies, total), min(updates, max(total - copies, 0)), 0)


def mixes_of(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """All mixes that are compared, smallest first, given the role of each demonstration of an edit.

    They show all copies and updates, copies alone, or neither, each with 0, 1, 2, 4, ... or all retains.
    """
    copies, updates, retains = _counts(roles)
    numbers = {0, retains, *(2**i for i in range(retains.bit_length()) if 2**i < retains)}
    fixed = {(0, 0), (copies, 0), (copies, updates)}
    return _sorted(RoleCounts(c, u, r) for c, u in fixed for r in numbers)


def policy_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a policy chooses from, smallest first: as good as all mixes, at half the cost of training.

    They show all copies and updates or neither, with none, a quarter or all of the retains; or all copies alone.
    """
    copies, updates, retains = _counts(roles)
    numbers = {0, -(-retains // 4), retains}
    full = (RoleCounts(c, u, r) for c, u in ((0, 0), (copies, updates)) for r in numbers)
    return _sorted({RoleCounts(copies, 0, 0), *full})


def _counts(roles: Sequence[Role]) -> tuple[int, int, int]:
    return roles.count(Role.COPY), roles.count(Role.UPDATE), roles.count(Role.RETAIN)


def _sorted(mixes: Iterable[RoleCounts]) -> tuple[RoleCounts, ...]:
    return tuple(sorted(mixes, key=lambda mix: (mix.size, mix)))


@dataclass(frozen=True)
class SubjectSwitch(RoleCountPolicy):
    """A control without training: one mix for queries that name the edit's subject, another for all others."""

    named: RoleCounts
    other: RoleCounts

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """`named` for queries that name the subject or, if the edit has none, for the edit's own query."""
        about = [query == edit.query if edit.subject is None else mentions(query, edit.subject) for query in queries]
        return [self.named if named else self.other for named in about]


@dataclass(frozen=True)
class SameSize(RoleCountPolicy):
    """A control: as many demonstrations as `policy` chooses, but those nearest to the edit, whatever their role."""

    policy: RoleCountPolicy
    pool: Pool

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """How many of the nearest demonstrations have each role. Raises PoolError."""
        [candidates] = self.pool.candidates([edit])
        roles = [demonstration.role for demonstration in candidates.demonstrations]
        sizes = [mix.size for mix in self.policy.choose(edit, queries)]
        return [RoleCounts(*_counts(roles[:size])) for size in sizes]
