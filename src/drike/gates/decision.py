"""The decision which edits a query concerns, and the protocol of what decides: a gate.

A gate is a pure function of the query and an `EditIndex`, which is made from a snapshot of a store. docs/scope.md has
the figures of each gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from drike.edits import Edit
from drike.gates.index import EditIndex
from drike.stores.records import EditVersion

MOST_FIRED = 3  # edits in one prompt


class YesOrNo(StrEnum):
    """What a language model said to the question whether a query concerns an edit."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"  # it said neither, or nothing in time; counts as no


@dataclass(frozen=True)
class Candidate:
    """An edit that a gate has considered.

    Attributes:
        probability: that the query concerns the edit.
        name: under which the query names its subject; None where it does not.
        features: what the probability was made from, by name.
        doubtful: whether the gate is in doubt, so that a language model may be asked (`drike.gates.verification`).
        answer: what that model said, if it was asked.
    """

    edit: EditVersion
    probability: float
    name: str | None = None
    features: Mapping[str, float] = field(default_factory=dict)
    uncertain: bool = False
    answer: YesOrNo | None = None


@dataclass(frozen=True)
class Decision:
    """Which edits a query concerns.

    Attributes:
        fired: those to apply, `MOST_FIRED` at most, the best first; none leaves the query alone.
        considered: every edit that was looked at, the most probable first.
        reason: why, in a few words.
    """

    query: str
    matched: tuple[EditVersion, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    reason: str = "no subject is named"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Those that fired, as editors take them."""
        return tuple(one.record.edit_in(self.query) for one in self.matched)

    @property
    def uncertain(self) -> tuple[Candidate, ...]:
        """The candidates about which a language model may be asked."""
        return tuple(one for one in self.candidates if one.uncertain)

    def resolved(self, answers: Sequence[YesOrNo]) -> Decision:
        """The decision once a language model has answered about each of `doubtful`: only yes fires these."""
        said = {one.edit.id: answer for one, answer in zip(self.uncertain, answers, strict=True)}
        candidates = [replace(one, answer=said.get(one.edit.id)) for one in self.candidates]
        matched = {one.id for one in self.matched}
        sure = [one for one in candidates if (one.answer is YesOrNo.YES if one.uncertain else one.edit.id in matched)]
        return _decision(self.query, candidates, sure, "in doubt, and the model does not say yes")


class Gate(Protocol):
    """Decides which edits a query concerns."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edits of the index that a query concerns. The same query and edits get the same decision."""
        ...


def _decision(
    query: str,
    candidates: Sequence[Candidate],
    sure: Sequence[Candidate],
    otherwise: str = "a negative exemplar matches",
) -> Decision:
    """Fire the candidates of which the gate is sure: those with the highest priority first, then as they come."""
    matched = sorted(sure, key=lambda one: -one.edit.record.priority)[:MOST_FIRED]
    reasons = [
        (f'"{one.name}" is named' if one.name else "a wording is near")
        + (", and the model says yes" if one.answer is YesOrNo.YES else "")
        + f": edit {one.edit.id}"
        for one in matched
    ]
    return Decision(query, tuple(one.edit for one in matched), tuple(candidates), "; ".join(reasons) or otherwise)
