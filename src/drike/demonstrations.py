"""Demonstrations: other edits, shown with the answer we want to a question about them (paper, definition 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, zip_longest

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

    excluded: nearer records that were left out because they contradict or repeat an edit. other_edits: in force at the
    same time.
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


def probes_for(case: EditCase, role: Role, edits: Sequence[Edit]) -> tuple[Probe, ...]:
    """The probes of `case` that can be shown in `role` beside `edits`.

    A probe about the subject of one of them is left out: a retain that shows it would state the very fact to be
    replaced. A case with several edits demonstrates its first.
    """
    if role is Role.COPY:
        return (rewrite_probe(case.edit),)
    of_others = {other.target_new for other in case.other_edits}
    updates = tuple(p for p in case.paraphrases if p.target not in of_others)
    probes = updates if role is Role.UPDATE else case.neighborhood
    return tuple(p for p in probes if not any(_asks_about(p, edit) for edit in edits))


def _asks_about(probe: Probe, edit: Edit) -> bool:
    return probe.query == edit.query or (edit.subject is not None and mentions(probe.query, edit.subject))


def demonstrate(case: EditCase, probe: Probe, role: Role) -> Demonstration:
    """`probe` of `case`, answered as `role` wants it: a probe's target is the right answer under the case's edit."""
    return Demonstration(role, case.edit.fact, probe.query, probe.target, case.case_id)


def interleave(shown: Sequence[Sequence[Demonstration]]) -> tuple[Demonstration, ...]:
    """What a prompt shows for several edits, given what each would show alone: no more than one edit would on average.

    Of each role there are as many as the mean over the edits, rounded up, taken from them in turn: the first of each
    edit, then the second of each, without repeats. So every edit has its share, and prompts stay as long as those of
    one edit, which policies and token limits are made for. Retains of a fact that copies or updates rewrite are left
    out. For one edit, what it shows alone.
    """
    if len(shown) == 1:
        return tuple(shown[0])
    found: list[Demonstration] = []
    for role in Role:
        count = -(-sum(d.role is role for of_edit in shown for d in of_edit) // len(shown))
        rewritten = tuple(d.fact for d in found) if role is Role.RETAIN else ()
        usable = [
            [d for d in of_edit if d.role is role and not any(fact.startswith(f"{d.query} ") for fact in rewritten)]
            for of_edit in shown
        ]
        found += islice(dict.fromkeys(d for turn in zip_longest(*usable) for d in turn if d is not None), count)
    return tuple(found)
