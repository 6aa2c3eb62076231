"""Demonstrations: other edits, shown with the answer we want to a question about them (paper, definition 3.3).

A case yields *copy* (its own query, new object), *update* (a paraphrase, new object) and *retain* (a neighbour, which
keeps its true object). What each teaches the model is told by its role, never by its wording.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from drike.edits import EditCase


class Role(StrEnum):
    """What a demonstration shows the model to do with a new fact."""

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


def roles_of(case: EditCase) -> frozenset[Role]:
    """The roles a case can play: update needs a paraphrase, retain a neighbour."""
    roles = {Role.COPY}
    if case.paraphrases:
        roles.add(Role.UPDATE)
    if case.neighborhood:
        roles.add(Role.RETAIN)
    return frozenset(roles)


def demonstrate(case: EditCase, role: Role, rng: random.Random) -> Demonstration:
    """A demonstration of `case` in `role`; which paraphrase or neighbour is drawn from `rng`, as in IKE.

    Raises ValueError if the case cannot play the role.
    """
    edit = case.edit
    if role not in roles_of(case):
        raise ValueError(f"case {case.case_id} has no probe to make a {role.value} demonstration from")
    if role is Role.COPY:
        return Demonstration(role, edit.fact, edit.query, edit.target_new, case.case_id)
    probe = rng.choice(case.paraphrases if role is Role.UPDATE else case.neighborhood)
    return Demonstration(role, edit.fact, probe.query, probe.target, case.case_id)
