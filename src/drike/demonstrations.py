"""Demonstrations: other edits, shown with the answer we want to a question about them (paper, definition 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drike.edits import Edit, EditCase, Probe, mentions, rewrite_probe


class Role(StrEnum):
    """What a demonstration teaches: copy (a case's own query, its new object), update (a paraphrase) or retain.

    A retain is a neighbour, which keeps its true object.
    """

    COPY = "copy"
    UPDATE = "update"
    RETAIN = "retain"


@dataclass(frozen=True)
class Demonstration:
    """A question about another edit with the answer we want: `fact` is that edit's new fact."""

    role: Role
    fact: str
    query: str
    answer: str
    case_id: str


@dataclass(frozen=True)
class DemonstrationSet:
    """The demonstrations of an edit, nearest record first, with the similarity of each.

    excluded: nearer records that were left out because they contradict or repeat the edit.
    """

    edit: Edit
    demonstrations: tuple[Demonstration, ...]
    similarities: tuple[float, ...]
    excluded: int = 0

    @property
    def fixed(self) -> tuple[Demonstration, ...]:
        """Copies, then updates, nearest first in each role: every prompt of the edit begins with them."""
        return tuple(d for role in (Role.COPY, Role.UPDATE) for d in self.demonstrations if d.role is role)

    @property
    def retains(self) -> tuple[Demonstration, ...]:
        """The retain pool C, nearest first, n of them."""
        return tuple(d for d in self.demonstrations if d.role is Role.RETAIN)

    @property
    def retain_similarities(self) -> tuple[float, ...]:
        """Cosine similarity of each retain's record to the edit, in the order of `retains`."""
        return tuple(s for d, s in zip(self.demonstrations, self.similarities, strict=True) if d.role is Role.RETAIN)


def probes_for(case: EditCase, role: Role, edit: Edit) -> tuple[Probe, ...]:
    """The probes of `case` that can be shown in `role` beside `edit`.

    A probe about the edit's own subject is left out: a retain that shows it would state the very fact to be replaced.
    """
    if role is Role.COPY:
        return (rewrite_probe(case.edit),)
    probes = case.paraphrases if role is Role.UPDATE else case.neighborhood
    about = edit.subject
    return tuple(p for p in probes if p.query != edit.query and not (about is not None and mentions(p.query, about)))


def demonstrate(case: EditCase, probe: Probe, role: Role) -> Demonstration:
    """`probe` of `case`, answered as `role` wants it: a probe's target is the right answer under the case's edit."""
    return Demonstration(role, case.edit.fact, probe.query, probe.target, case.case_id)
