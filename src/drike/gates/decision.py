"""The decision which edits a query concerns, and the protocol of a gate, a pure function (docs/reference/gate.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Protocol

from drike.edits.edit import Edit
from drike.edits.record import EditVersion, Status
from drike.gates.index import EditIndex

MOST_MATCHED = 3  # active edits that match a query, and as many shadow edits
EQUAL = (
    "equal"  # the feature of a candidate of which the query is a text, up to case and punctuation
)
_SHOWN = 8_000  # characters of a query where it is shown, or asked about


class YesOrNo(StrEnum):
    """What a language model said to the question whether a query concerns an edit."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"  # it said neither, or nothing in time; counts as no


@dataclass(frozen=True)
class Candidate:
    """An edit that a gate has considered."""

    edit: EditVersion
    probability: float  # that the query concerns the edit
    name: str | None = None  # under which the query names its subject, if it does
    features: Mapping[str, float] = field(
        default_factory=dict
    )  # what the probability was computed from
    uncertain: bool = False  # whether a language model may be asked (`verification`)
    answer: YesOrNo | None = None  # what that model said
    follows: int | None = None  # the edit that leads to this one in a chain (`chains`)

    @property
    def why(self) -> str:
        """Why it was considered, in a few words."""
        if EQUAL in self.features:
            return "it is one of its wordings"
        if self.follows is not None:
            return f"edit {self.follows} leads to it"
        return f'"{self.name}" is named' if self.name else "a wording is near"


@dataclass(frozen=True)
class Decision:
    """Which edits a query concerns, and why, in a few words.

    matched: the best first, at most `MOST_MATCHED` active and as many in shadow. candidates: all, most probable first.
    """

    query: str
    matched: tuple[EditVersion, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    reason: str = "no subject is named"

    @classmethod
    def of(
        cls,
        query: str,
        candidates: Sequence[Candidate],
        matching: Sequence[Candidate],
        otherwise: str,
    ) -> Decision:
        """The decision for those that match, by priority, then as they come; those that follow others are last."""
        own, following = (
            [c for c in matching if (c.follows is None) is alone] for alone in (True, False)
        )
        first = leading(
            [*sorted(own, key=lambda candidate: -candidate.edit.record.priority), *following]
        )
        yes = ", and the model says yes"
        reasons = [
            f"{c.why}{yes if c.answer is YesOrNo.YES else ''}: edit {c.edit.id}" for c in first
        ]
        return cls(
            query, tuple(c.edit for c in first), tuple(candidates), "; ".join(reasons) or otherwise
        )

    @property
    def applied(self) -> tuple[EditVersion, ...]:
        """The edits that change the answer: those that match, without shadow edits, which are only counted."""
        return tuple(edit for edit in self.matched if edit.record.status is Status.ACTIVE)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The applied edits as editors take them, stated under the names that the query uses."""
        return tuple(edit.record.edit_in(self.query) for edit in self.applied)

    @property
    def abridged(self) -> Decision:
        """The decision with only the beginning and the end of a very long query, to be kept or asked about."""
        text, half = self.query, _SHOWN // 2
        return (
            self if len(text) <= _SHOWN else replace(self, query=f"{text[:half]}\n{text[-half:]}")
        )

    @property
    def uncertain(self) -> tuple[Candidate, ...]:
        """The candidates about which a language model may be asked."""
        return tuple(candidate for candidate in self.candidates if candidate.uncertain)

    def resolved(self, answers: Sequence[YesOrNo]) -> Decision:
        """The decision once a language model has answered about each of `uncertain`: only those with a yes match."""
        answer_of = {c.edit.id: answer for c, answer in zip(self.uncertain, answers, strict=True)}
        candidates = [replace(c, answer=answer_of.get(c.edit.id)) for c in self.candidates]
        certain = {edit.id for edit in self.matched} - answer_of.keys()
        matching = [c for c in candidates if c.answer is YesOrNo.YES or c.edit.id in certain]
        for candidate in [
            c for c in matching if c.follows is not None
        ]:  # those before it have had their turn
            if candidate.follows not in {c.edit.id for c in matching}:
                matching.remove(candidate)
        return Decision.of(
            self.query, candidates, matching, "in doubt, and the model does not say yes"
        )


class Gate(Protocol):
    """Decides which edits a query concerns."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edits that a query concerns, the same for the same index; shadow edits change no match of active ones."""


def foremost(index: EditIndex, ids: Sequence[int]) -> list[int]:
    """Of ranked edits the first and, where that is a shadow edit, the first active one, which it must not displace."""
    active = (i for i in ids if index.edits[i].record.status is Status.ACTIVE)
    return list(dict.fromkeys([*ids[:1], *islice(active, 1)]))


def leading(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first `MOST_MATCHED` active candidates and the first as many in shadow, which must not displace these."""
    first, seen = list[Candidate](), Counter[Status]()
    for candidate in candidates:
        seen[candidate.edit.record.status] += 1
        if seen[candidate.edit.record.status] <= MOST_MATCHED:
            first.append(candidate)
    return first
