"""The decision which edits a query concerns, and the protocol of a gate.

A gate is a pure function: see docs/reference/gate.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from drike.edits.edit import Edit
from drike.edits.record import EditVersion, Status
from drike.gates.index import EditIndex

MOST_MATCHED = 3  # active edits that match a query, and as many shadow edits
# The feature of a candidate of which the query is a text, up to case and punctuation.
EQUAL = "equal"
_SHOWN = 8_000  # characters of a query where it is shown


@dataclass(frozen=True)
class Candidate:
    """An edit that a gate has considered.

    probability: that the query concerns the edit. name: under which the query names its subject, if
    it does. features: what the probability was computed from. uncertain: whether the gate is in
    doubt. follows: the id of the edit that leads to this one in a chain (`chains`).
    """

    edit: EditVersion
    probability: float
    name: str | None = None
    features: Mapping[str, float] = field(default_factory=dict)
    uncertain: bool = False
    follows: int | None = None

    @property
    def why(self) -> str:
        """Why it was considered, in a few words."""
        if EQUAL in self.features:
            return "it is one of its wordings"
        if self.follows is not None:
            return f"edit {self.follows} leads to it"
        if self.name:
            return f'"{self.name}" is named'
        return "a wording is near"

    @property
    def reason(self) -> str:
        """Why it matches, in a few words."""
        return f"{self.why}: edit {self.edit.id}"


@dataclass(frozen=True)
class Decision:
    """Which edits a query concerns, and why, in a few words.

    matched: the best first, at most `MOST_MATCHED` active and as many in shadow; where all of a
    subject is asked for, all of it up to the budget of `whole_subjects`. candidates: all, most
    probable first. left_out: edits that are asked for, too, beyond that budget.
    """

    query: str
    matched: tuple[EditVersion, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    reason: str = "no subject is named"
    left_out: tuple[EditVersion, ...] = ()

    @classmethod
    def of(
        cls,
        query: str,
        candidates: Sequence[Candidate],
        matching: Sequence[Candidate],
        otherwise: str,
    ) -> Decision:
        """The decision for those that match, by priority, then as they come.

        Those that follow others in a chain are last. otherwise: the reason if none matches.
        """
        by_themselves = [candidate for candidate in matching if candidate.follows is None]
        by_themselves.sort(key=lambda candidate: -candidate.edit.record.priority)
        following = [candidate for candidate in matching if candidate.follows is not None]
        matched = leading([*by_themselves, *following])
        reason = "; ".join(candidate.reason for candidate in matched)
        return cls(
            query,
            tuple(candidate.edit for candidate in matched),
            tuple(candidates),
            reason or otherwise,
        )

    @property
    def applied(self) -> tuple[EditVersion, ...]:
        """The matched edits that change the answer: shadow edits are only counted."""
        return tuple(edit for edit in self.matched if edit.record.status is Status.ACTIVE)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The applied edits as editors take them, stated under the names that the query uses."""
        return tuple(edit.record.edit_in(self.query) for edit in self.applied)

    @property
    def abridged(self) -> Decision:
        """The decision with only the two ends of a very long query, to be kept."""
        if len(self.query) <= _SHOWN:
            return self
        half = _SHOWN // 2
        return replace(self, query=f"{self.query[:half]}\n{self.query[-half:]}")

    @property
    def uncertain(self) -> tuple[Candidate, ...]:
        """The candidates about which the gate is in doubt."""
        return tuple(candidate for candidate in self.candidates if candidate.uncertain)


class Gate(Protocol):
    """Decides which edits a query concerns."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edits that a query concerns, the same for the same index.

        Shadow edits change no match of active ones.
        """


def foremost(index: EditIndex, ranked_ids: Sequence[int]) -> list[int]:
    """Of ranked edits the first and, where that is a shadow edit, the first active one.

    A shadow edit must not displace an active one.
    """
    first_active = next(filter(index.is_active, ranked_ids), None)
    first_ones = [*ranked_ids[:1], *([] if first_active is None else [first_active])]
    return list(dict.fromkeys(first_ones))


def among_equals(edit: EditVersion) -> tuple[int, str, int]:
    """An edit's place among equally probable ones: by priority, then by what it says.

    By their ids alone, the facts of a prompt would stand in the order in which they were stored.
    """
    return -edit.record.priority, edit.record.fact, edit.id


def leading(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first `MOST_MATCHED` active candidates and the first as many in shadow.

    Shadow edits must not displace active ones.
    """
    leading_ones = []
    seen: Counter[Status] = Counter()
    for candidate in candidates:
        status = candidate.edit.record.status
        seen[status] += 1
        if seen[status] <= MOST_MATCHED:
            leading_ones.append(candidate)
    return leading_ones
