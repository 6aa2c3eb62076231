"""How many demonstrations of each role a prompt shows: a mix (docs/method.md, "Past the paper").

The paper's budget cuts the retains and always shows copies and updates. A mix may leave out any role, and a policy may
choose another mix for every query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from drike.demonstrations import Demonstration, DemonstrationSet, Role
from drike.editors.selectors import LeaveAlone, Selection, Selector
from drike.words import mentions

_ROLES, _ALONE = (Role.COPY, Role.UPDATE, Role.RETAIN), LeaveAlone()


@dataclass(frozen=True, order=True)
class RoleCounts(Selector):
    """A mix: how many copies, updates and retains are shown, those nearest to the edit; all where there are fewer.

    It is also the selector that shows itself to every query. Raises ValueError for counts below 0.
    """

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
            for role, count in zip(_ROLES, astuple(self), strict=True)
            for demonstration in [d for d in candidates.demonstrations if d.role is role][:count]
        )


def copies_and_updates(roles: Sequence[Role], max_demonstrations: int | None = None) -> RoleCounts:
    """All copies and updates of an edit with these roles, or the first `max_demonstrations` of them.

    The best behind a gate, where every query concerns the edit.
    """
    copies, updates, _ = _counts(roles)
    total = copies + updates if max_demonstrations is None else max_demonstrations
    return RoleCounts(min(copies, total), min(updates, max(total - copies, 0)), 0)


def policy_mixes(roles: Sequence[Role]) -> tuple[RoleCounts, ...]:
    """The mixes that a policy chooses from, smallest first: the fact alone, with copies, with updates, with retains."""
    copies, updates, retains = _counts(roles)
    counts = (0, 0, 0), (copies, 0, 0), *((copies, updates, r) for r in (0, -(-retains // 4), retains))
    return tuple(sorted({RoleCounts(*of_role) for of_role in counts}, key=lambda mix: (mix.size, mix)))


def _counts(roles: Sequence[Role]) -> tuple[int, int, int]:
    return roles.count(Role.COPY), roles.count(Role.UPDATE), roles.count(Role.RETAIN)


@dataclass(frozen=True)
class SubjectSwitch(Selector):
    """A control without training: one mix for queries that name the edit's subject; all others get another or no edit.

    Of an edit without a subject the own query alone counts as naming it.
    """

    named: RoleCounts
    other: Selector = _ALONE

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The selection for each query, by whether it names the subject."""
        edit = candidates.edit
        about = [query == edit.query if edit.subject is None else mentions(query, edit.subject) for query in queries]
        return [(self.named if named else self.other).select(candidates, [""])[0] for named in about]


@dataclass(frozen=True)
class SameSize(Selector):
    """A control: as many demonstrations as `policy` shows, but those nearest to the edit, whatever their role."""

    policy: Selector

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The nearest demonstrations, by role; queries that the policy leaves alone are left alone."""
        roles = [demonstration.role for demonstration in candidates.demonstrations]
        chosen = self.policy.select(candidates, queries)
        sizes = [RoleCounts(*_counts(roles[: len(selection.shown)])) for selection in chosen]
        return [
            selection if selection.alone else replace(selection, shown=mix.nearest(candidates), ranking=None)
            for selection, mix in zip(chosen, sizes, strict=True)
        ]
