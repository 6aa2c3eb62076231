"""Mixes: how many demonstrations of each role a prompt shows (docs/method.md, "Past the paper").

The paper's budget cuts the retains of an edit and always shows its copies and updates. A policy over mixes may leave
out demonstrations of any role, and may choose anew for every query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

from drike.demonstrations import Demonstration, DemonstrationSet, Role
from drike.editors.pool import Pool
from drike.edits import Edit, Key, mentions, trained_on


@dataclass(frozen=True, order=True)
class RoleCounts:
    """The first copies, updates and retains of an edit, nearest first in each role; more than it has is all it has."""

    copies: int
    updates: int
    retains: int

    def __post_init__(self) -> None:
        """Refuse counts that are no whole numbers of at least 0. Raises ValueError."""
        if not all(type(count) is int and count >= 0 for count in astuple(self)):
            raise ValueError(f"a mix has three whole numbers of at least 0, not {astuple(self)!r}")

    @property
    def size(self) -> int:
        """Demonstrations in a prompt."""
        return self.copies + self.updates + self.retains

    def shown(self, candidates: DemonstrationSet) -> tuple[Demonstration, ...]:
        """The demonstrations that remain: copies, updates, retains."""
        return tuple(
            demonstration
            for role, count in zip((Role.COPY, Role.UPDATE, Role.RETAIN), astuple(self), strict=True)
            for demonstration in [d for d in candidates.demonstrations if d.role is role][:count]
        )


def mixes_of(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """All mixes that are ever compared, smallest first, given the role of each demonstration of an edit.

    Copies and updates are shown all, copies only, or not at all; of retains 0, 1, 2, 4, ... and all are shown.
    """
    copies, updates, retains = _counts(roles)
    some = {0, retains, *(2**i for i in range(retains.bit_length()) if 2**i < retains)}
    fixed = {(0, 0), (copies, 0), (copies, updates)}
    return _sorted(RoleCounts(c, u, r) for c, u in fixed for r in some)


def policy_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a policy chooses from, smallest first: with them it is as good as with all, and half as dear.

    Copies and updates are shown all or not at all, with none, a quarter or all of the retains; or copies alone.
    """
    copies, updates, retains = _counts(roles)
    some = {0, -(-retains // 4), retains}
    return _sorted(
        {RoleCounts(copies, 0, 0), *(RoleCounts(c, u, r) for c, u in ((0, 0), (copies, updates)) for r in some)}
    )


def _counts(roles: Sequence[Role]) -> tuple[int, int, int]:
    """Copies, updates and retains among the demonstrations of an edit."""
    return roles.count(Role.COPY), roles.count(Role.UPDATE), roles.count(Role.RETAIN)


def _sorted(mixes: Iterable[RoleCounts]) -> tuple[RoleCounts, ...]:
    return tuple(sorted(mixes, key=lambda mix: (mix.size, mix)))


class MixPolicy(Protocol):
    """Chooses a mix for every query about an edit. A class that derives from it only defines `choose`."""

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """One mix per query, in order."""

    def shown(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[tuple[Demonstration, ...]]:
        """The demonstrations of each query's mix."""
        return [mix.shown(candidates) for mix in self.choose(candidates.edit, queries)]


@dataclass(frozen=True)
class SubjectSwitch(MixPolicy):
    """A control that knows nothing about demonstrations: one mix where the query names the subject, else another."""

    named: RoleCounts
    other: RoleCounts

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """`named` for queries that name the edit's subject; without a subject, for the edit's own query."""
        about = [query == edit.query if edit.subject is None else mentions(query, edit.subject) for query in queries]
        return [self.named if named else self.other for named in about]


@dataclass(frozen=True)
class SameMix(MixPolicy):
    """One mix for every query."""

    mix: RoleCounts

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """The mix, for each of them."""
        return [self.mix for _ in queries]


@dataclass(frozen=True)
class SameSize(MixPolicy):
    """A control: as many demonstrations as `policy` shows a query, but the nearest ones, whatever their role."""

    policy: MixPolicy
    pool: Pool

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that the policy was trained on."""
        return trained_on(self.policy)

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """The roles of the nearest demonstrations, counted. Raises PoolError."""
        [candidates] = self.pool.candidates([edit])
        roles = [demonstration.role for demonstration in candidates.demonstrations]
        sizes = [mix.size for mix in self.policy.choose(edit, queries)]
        return [
            RoleCounts(*(roles[:size].count(role) for role in (Role.COPY, Role.UPDATE, Role.RETAIN))) for size in sizes
        ]
