"""The demonstrations that an edit may be shown with: the nearest records, each in a role (paper, sections 3.1 and 3.2).

A shuffle seeded by the edit makes them IKE's 4 copies, 12 updates and 16 retains. Records that would repeat or
contradict it, as at 47 of 2,000 edits of the published index, are left out.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drike.edits.edit import Aspect, Edit, EditCase, Probe
from drike.encoders import FloatArray, TextEncoder
from drike.encoders.base import directions, nearest
from drike.errors import PoolError
from drike.prompts import Demonstration, DemonstrationSet, Role, facts_of, probes_for, query_block
from drike.text.words import mentions

Roles = Sequence[tuple[Role, int]]  # how many demonstrations of each role an edit gets
Edits = tuple[Edit, ...]  # in force together; demonstrations are drawn for the first

IKE_ROLES: Roles = ((Role.COPY, 4), (Role.UPDATE, 12), (Role.RETAIN, 16))
SYNTHETIC = (
    8  # synthetic neighbours per record, so that some are usable whatever else is demonstrated
)


class Pool:
    """The records that demonstrations are drawn from, embedded once; the cases of records are never edited themselves.

    encoder: finds the nearest records (all-MiniLM-L6-v2 in the paper). seed: of the assignment of roles; the same edit,
    records and seed give the same demonstrations. remembered: how many sets are cached; None: all, as no server can.
    Raises PoolError for fewer records than roles.
    """

    def __init__(
        self, records: Sequence[EditCase], encoder: TextEncoder, *,
        roles: Roles = IKE_ROLES, seed: int = 0, remembered: int | None = None,
    ) -> None:  # fmt: skip
        self.records, self.encoder, self.seed = tuple(records), encoder, seed
        self.roles = tuple(role for role, count in roles for _ in range(count))
        if len(self.records) < len(self.roles):
            remedy = "add others (`pool` tinyfacts), or make fewer rows editable"
            raise PoolError(
                f"{len(self.records)} records cannot give {len(self.roles)} demonstrations: {remedy}"
            )
        self.fallbacks: tuple[
            str, ...
        ] = ()  # on each kind of probe that is replaced (docs/design/method.md, row 30)
        if Role.UPDATE in self.roles and not any(record.paraphrases for record in self.records):
            self.roles = tuple(Role.COPY if role is Role.UPDATE else role for role in self.roles)
            self.fallbacks += ("No record has a paraphrase: copies replace updates",)
        self._synthetic = Role.RETAIN in self.roles and not any(
            record.neighborhood for record in self.records
        )
        if self._synthetic:
            self.records = with_synthetic_neighbours(self.records, seed)
            self.fallbacks += (
                "No record has a neighbour: a retain shows another record's fact before its edit",
            )
        self._directions = directions(
            encoder.encode([query_block(r.edit, r.edit.query) for r in self.records])
        )
        self._known: dict[
            Edits, DemonstrationSet
        ] = {}  # training and every editor need the same sets
        self._remembered = remembered
        self._shared: dict[Demonstration, Demonstration] = {}  # sets have most in common

    def candidates(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit, in force alone. Raises PoolError if too few records suit an edit."""
        return self.for_groups([(edit,) for edit in edits])

    def together(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit when all are in force. Raises ValueError for no edits, and PoolError."""
        facts_of(edits)
        return self.for_groups(rotations(edits))

    def for_groups(self, groups: Sequence[Edits]) -> list[DemonstrationSet]:
        """For each group of edits in force together, the demonstrations of its first edit. Raises PoolError."""
        known = {edits: known_set for edits in groups if (known_set := self._known.get(edits))}
        new = [edits for edits in dict.fromkeys(groups) if edits not in known]
        if new:
            vectors = self.encoder.encode([query_block(edit, edit.query) for edit, *_ in new])
            # One at a time: the product of several at once rounds differently, and near ties might change.
            searched = {
                edits: self._search(edits, v) for edits, v in zip(new, vectors, strict=True)
            }
            known |= searched
            self._known |= searched
            if self._remembered is not None:  # drop the oldest; several threads may do so at once
                for edits in list(self._known)[: -self._remembered or None]:
                    self._known.pop(edits, None)
        return [known[edits] for edits in groups]

    def _search(self, edits: Edits, vector: FloatArray) -> DemonstrationSet:
        for count in sorted({min(4 * len(self.roles), len(self.records)), len(self.records)}):
            indices, similarities = nearest(vector[None], self._directions, count)
            candidates, missing = self._assign(edits, indices[0], similarities[0])
            if not missing:
                return candidates
        remedy = "add records that have such probes (`pool` tinyfacts)"
        raise PoolError(
            f"no records are left to demonstrate {', '.join(missing)} for {edits[0].fact!r}: {remedy}"
        )

    def _assign(
        self, edits: Edits, indices: NDArray[np.int64], near: FloatArray
    ) -> tuple[DemonstrationSet, list[str]]:
        """Give each record, nearest first, a role that it can be shown in; also returns the roles left unfilled."""
        open_roles, excluded, chosen = list(self.roles), 0, list[tuple[EditCase, Role, float]]()
        random.Random(f"{self.seed}|{edits[0].fact}").shuffle(open_roles)
        for index, similarity in zip(indices.tolist(), near.tolist(), strict=True):
            if not open_roles:
                break
            record = self.records[index]
            if any(_collides(other, edit) for other in record.edits for edit in edits):
                excluded += 1
            elif role := next(
                (role for role in open_roles if probes_for(record, role, edits)), None
            ):
                open_roles.remove(role)
                chosen.append((record, role, similarity))
        # A synthetic neighbour must not state a fact that another of these demonstrations rewrites.
        rewritten = (
            {record.edit.query for record, _, _ in chosen} if self._synthetic else frozenset[str]()
        )
        shown = tuple(
            self._demonstrate(record, role, edits, rewritten) for record, role, _ in chosen
        )
        similarities = tuple(similarity for _, _, similarity in chosen)
        candidates = DemonstrationSet(edits[0], shown, similarities, excluded, edits[1:])
        return candidates, sorted({role.value for role in open_roles})

    def _demonstrate(
        self, record: EditCase, role: Role, edits: Edits, rewritten: Collection[str]
    ) -> Demonstration:
        """A record in a role, with the same probe for every edit if it can be, so that features are computed once."""
        rng = random.Random(f"{self.seed}|{record.case_id}|{role}")
        probes = probes_for(record, role, edits)
        probe = rng.choice([probe for probe in probes if probe.query not in rewritten] or probes)
        made = Demonstration(role, record.edit.fact, probe.query, probe.target, record.case_id)
        return self._shared.setdefault(made, made)


def rotations(edits: Sequence[Edit]) -> list[Edits]:
    """For each distinct edit the group of it and then the others, as `Pool.for_groups` takes them."""
    return [
        (edit, *(other for other in dict.fromkeys(edits) if other != edit))
        for edit in dict.fromkeys(edits)
    ]


def with_synthetic_neighbours(records: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The records, each with up to SYNTHETIC old facts of other records as neighbours, of its relation if possible."""

    def can_be_neighbour(other: Edit, edit: Edit) -> bool:
        about_another = other.subject is None or other.subject != edit.subject
        return about_another and other.query != edit.query and other.target_true != edit.target_new

    everyone = [record.edit for record in records if record.edit.target_true is not None]
    by_relation: dict[str | None, list[Edit]] = defaultdict(list)
    for edit in everyone:
        by_relation[edit.relation].append(edit)
    completed = []
    for record in records:
        rng = random.Random(
            f"{seed}|{record.case_id}|lend"
        )  # this word seeds the draw: another one changes the pools
        drawn: list[Edit] = []
        for others in (by_relation[record.edit.relation], everyone):
            sample = rng.sample(others, min(2 * SYNTHETIC, len(others)))
            drawn = (
                drawn
                or [edit for edit in sample if can_be_neighbour(edit, record.edit)][:SYNTHETIC]
            )
        new = record.edit.target_new
        probes = (
            Probe(Aspect.NEIGHBORHOOD, edit.query, edit.target_true or "", new) for edit in drawn
        )
        completed.append(replace(record, probes=(*record.probes, *probes)))
    return tuple(completed)


def _collides(other: Edit, edit: Edit) -> bool:
    """Whether showing `other` would repeat or contradict the edit."""
    if other.query == edit.query:
        return True
    if edit.subject is None:
        return other.subject is not None and mentions(edit.query, other.subject)
    if other.subject != edit.subject:
        return False
    # In flat files the relation is the wording of the query; the same old object means the same fact in other words.
    same_object = edit.target_true is not None and other.target_true == edit.target_true
    return edit.relation is None or other.relation in (None, edit.relation) or same_object
