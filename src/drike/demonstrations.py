"""Demonstrations: questions about other edits, with the answers we want (paper, definition 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, zip_longest

from drike.edits import Edit, EditCase, Probe, rewrite_probe
from drike.words import mentions


class Role(StrEnum):
    """What a demonstration shows.

    copy, update: the edit's own query or a paraphrase, with the new object. retain: a neighbouring fact, with its old
    one.
    """

    COPY = "copy"
    UPDATE = "update"
    RETAIN = "retain"


@dataclass(frozen=True)
class Demonstration:
    """A question about another edit, whose new fact is `fact`, with the answer we want; case_id: of its record."""

    role: Role
    fact: str
    query: str
    answer: str
    case_id: str


@dataclass(frozen=True)
class DemonstrationSet:
    """The demonstrations that an edit may be shown with, nearest record first.

    similarities: cosine similarity of each record to the edit. excluded: how many nearer records contradict or repeat
    an edit. other_edits: edits that are in force at the same time.
    """

    edit: Edit
    demonstrations: tuple[Demonstration, ...]
    similarities: tuple[float, ...]
    excluded: int = 0
    other_edits: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits in force."""
        return (self.edit, *self.other_edits)

    @property
    def fixed(self) -> tuple[Demonstration, ...]:
        """Copies, then updates, nearest first in each role; the paper shows them in every prompt of the edit."""
        return tuple(d for role in (Role.COPY, Role.UPDATE) for d in self.demonstrations if d.role is role)

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The n retain candidates C, nearest first."""
        return tuple(d for d in self.demonstrations if d.role is Role.RETAIN)

    @property
    def retain_similarities(self) -> tuple[float, ...]:
        """The similarities of `retains`."""
        return tuple(s for d, s in zip(self.demonstrations, self.similarities, strict=True) if d.role is Role.RETAIN)


def probes_for(case: EditCase, role: Role, edits: Sequence[Edit]) -> tuple[Probe, ...]:
    """The probes of a case (with its first edit) that can be demonstrated in a role while `edits` are in force.

    Those about the subject of such an edit are left out: as a retain, one could state the very fact that it replaces.
    """
    if role is Role.COPY:
        return (rewrite_probe(case.edit),)
    other_targets = {other.target_new for other in case.other_edits}
    updates = tuple(probe for probe in case.paraphrases if probe.target not in other_targets)

    def asks_about(query: str, edit: Edit) -> bool:
        return query == edit.query or (edit.subject is not None and mentions(query, edit.subject))

    probes = updates if role is Role.UPDATE else case.neighborhood
    return tuple(probe for probe in probes if not any(asks_about(probe.query, edit) for edit in edits))


def demonstrate(case: EditCase, probe: Probe, role: Role) -> Demonstration:
    """A probe of a case as a demonstration, with the probe's target for an answer."""
    return Demonstration(role, case.edit.fact, probe.query, probe.target, case.case_id)


def interleave(lists: Sequence[Sequence[Demonstration]]) -> tuple[Demonstration, ...]:
    """Combine the demonstrations that each of several edits would be shown with into one list, ordered by role.

    Of each role the result has as many as an edit has on average, rounded up, so that the prompt stays as long as for
    one edit, for which policies and token limits are made. They are taken from the edits in turn, without repeats.
    Retains of a fact that one of the copies or updates rewrites are left out. A single list is returned unchanged.
    """
    if len(lists) == 1:
        return tuple(lists[0])
    taken: list[Demonstration] = []
    for role in Role:
        of_role = [[d for d in demonstrations if d.role is role] for demonstrations in lists]
        count = -(-sum(map(len, of_role)) // len(lists))
        rewritten = [d.fact for d in taken] if role is Role.RETAIN else []
        usable = [[d for d in of if not any(fact.startswith(f"{d.query} ") for fact in rewritten)] for of in of_role]
        taken += islice(dict.fromkeys(d for turn in zip_longest(*usable) for d in turn if d is not None), count)
    return tuple(taken)
