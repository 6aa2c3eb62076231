"""The demonstrations that an edit may be shown with: the nearest records, each in a role.

A shuffle seeded by the edit makes them IKE's 4 copies, 12 updates and 16 retains (paper, sections
3.1 and 3.2). Records that would repeat or contradict the edit are left out, as happens at 47 of
2,000 edits of the published index.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

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

# Synthetic neighbours per record: so many that some are usable, whatever else is demonstrated.
SYNTHETIC = 8


@dataclass(frozen=True)
class _Assignment:
    """A record that is shown in a role; similarity: its cosine to the edit."""

    record: EditCase
    role: Role
    similarity: float


class Pool:
    """The records that demonstrations are drawn from, embedded once; they are never edited.

    encoder: finds the nearest records (all-MiniLM-L6-v2 in the paper). roles: of the demonstrations
    of an edit. seed: of their assignment; the same edit, records and seed give the same
    demonstrations. remembered: how many sets are cached, None for all, which a server must not do.

    `fallbacks` has a sentence for each kind of probe that the records lack and that something else
    replaces (docs/design/method.md, row 30). Raises PoolError for fewer records than roles.
    """

    def __init__(
        self,
        records: Sequence[EditCase],
        encoder: TextEncoder,
        *,
        roles: Roles = IKE_ROLES,
        seed: int = 0,
        remembered: int | None = None,
    ) -> None:
        self.records = tuple(records)
        self.encoder = encoder
        self.seed = seed
        self.roles = tuple(role for role, count in roles for _ in range(count))
        self.fallbacks: tuple[str, ...] = ()

        if len(self.records) < len(self.roles):
            remedy = "add others (`pool` tinyfacts), or make fewer rows editable"
            raise PoolError(
                f"{len(self.records)} records cannot give {len(self.roles)} demonstrations: "
                f"{remedy}"
            )

        if Role.UPDATE in self.roles and not any(record.paraphrases for record in self.records):
            self.roles = tuple(Role.COPY if role is Role.UPDATE else role for role in self.roles)
            self.fallbacks += ("No record has a paraphrase: copies replace updates",)

        has_neighbours = any(record.neighborhood for record in self.records)
        self._neighbours_are_synthetic = Role.RETAIN in self.roles and not has_neighbours
        if self._neighbours_are_synthetic:
            self.records = with_synthetic_neighbours(self.records, seed)
            self.fallbacks += (
                "No record has a neighbour: a retain shows another record's fact before its edit",
            )

        texts = [query_block(record.edit, record.edit.query) for record in self.records]
        self._directions = directions(encoder.encode(texts))

        # Training and every editor need the same sets, and sets have most demonstrations in common.
        self._remembered = remembered
        self._sets_by_edits: dict[Edits, DemonstrationSet] = {}
        self._shared_demonstrations: dict[Demonstration, Demonstration] = {}

    def candidates(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit, in force alone.

        Raises PoolError if too few records suit an edit.
        """
        return self.for_groups([(edit,) for edit in edits])

    def together(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit when all are in force.

        Raises ValueError for no edits, and PoolError if too few records suit them.
        """
        facts_of(edits)  # raises the ValueError
        return self.for_groups(rotations(edits))

    def for_groups(self, groups: Sequence[Edits]) -> list[DemonstrationSet]:
        """For each group of edits in force together, the demonstrations of its first edit.

        Raises PoolError if too few records suit a group.
        """
        found: dict[Edits, DemonstrationSet] = {}
        for edits in groups:
            remembered_set = self._sets_by_edits.get(edits)
            if remembered_set is not None:
                found[edits] = remembered_set

        new_groups = [edits for edits in dict.fromkeys(groups) if edits not in found]
        if new_groups:
            found |= self._search_and_remember(new_groups)
        return [found[edits] for edits in groups]

    def _search_and_remember(self, groups: Sequence[Edits]) -> dict[Edits, DemonstrationSet]:
        vectors = self.encoder.encode([query_block(edit, edit.query) for edit, *_ in groups])

        # One at a time: the product of several at once rounds differently, and ties might change.
        searched = {
            edits: self._search(edits, vector)
            for edits, vector in zip(groups, vectors, strict=True)
        }
        self._sets_by_edits |= searched

        if self._remembered is not None:
            oldest_first = list(self._sets_by_edits)
            surplus = max(0, len(oldest_first) - self._remembered)
            for edits in oldest_first[:surplus]:
                self._sets_by_edits.pop(edits, None)  # another thread may have dropped it
        return searched

    def _search(self, edits: Edits, vector: FloatArray) -> DemonstrationSet:
        # Nearly always the nearest few records suffice.
        few = min(4 * len(self.roles), len(self.records))
        for count in dict.fromkeys((few, len(self.records))):
            indices, similarities = nearest(vector[None], self._directions, count)
            candidates, missing_roles = self._assign(edits, indices[0], similarities[0])
            if not missing_roles:
                return candidates

        remedy = "add records that have such probes (`pool` tinyfacts)"
        raise PoolError(
            f"no records are left to demonstrate {', '.join(missing_roles)} "
            f"for {edits[0].fact!r}: {remedy}"
        )

    def _assign(
        self, edits: Edits, indices: NDArray[np.int64], similarities: FloatArray
    ) -> tuple[DemonstrationSet, list[str]]:
        """Give each record, nearest first, a role that it can be shown in.

        Returns the demonstrations, and the roles that remain unfilled.
        """
        open_roles = list(self.roles)
        random.Random(f"{self.seed}|{edits[0].fact}").shuffle(open_roles)

        excluded = 0
        assignments: list[_Assignment] = []
        for index, similarity in zip(indices.tolist(), similarities.tolist(), strict=True):
            if not open_roles:
                break
            record = self.records[index]
            if _collides_with_any(record, edits):
                excluded += 1
                continue
            role = _first_suitable(open_roles, record, edits)
            if role is not None:
                open_roles.remove(role)
                assignments.append(_Assignment(record, role, similarity))

        candidates = DemonstrationSet(
            edit=edits[0],
            demonstrations=self._demonstrations(assignments, edits),
            similarities=tuple(assignment.similarity for assignment in assignments),
            excluded=excluded,
            other_edits=edits[1:],
        )
        return candidates, sorted({role.value for role in open_roles})

    def _demonstrations(
        self, assignments: Sequence[_Assignment], edits: Edits
    ) -> tuple[Demonstration, ...]:
        # A synthetic neighbour must not state a fact that another of these demonstrations rewrites.
        rewritten: set[str] = set()
        if self._neighbours_are_synthetic:
            rewritten = {assignment.record.edit.query for assignment in assignments}
        return tuple(
            self._demonstration(assignment, edits, rewritten) for assignment in assignments
        )

    def _demonstration(
        self, assignment: _Assignment, edits: Edits, rewritten: Collection[str]
    ) -> Demonstration:
        """A record in its role.

        It shows the same probe for every edit if it can, so that its features are computed once.
        """
        record = assignment.record
        role = assignment.role
        probes = probes_for(record, role, edits)
        preferred_probes = [probe for probe in probes if probe.query not in rewritten]
        rng = random.Random(f"{self.seed}|{record.case_id}|{role}")
        probe = rng.choice(preferred_probes or probes)

        demonstration = Demonstration(
            role, record.edit.fact, probe.query, probe.target, record.case_id
        )
        return self._shared_demonstrations.setdefault(demonstration, demonstration)


def _first_suitable(roles: Sequence[Role], record: EditCase, edits: Edits) -> Role | None:
    """The first of the roles that a record has a probe for."""
    for role in roles:
        if probes_for(record, role, edits):
            return role
    return None


def _collides_with_any(record: EditCase, edits: Edits) -> bool:
    return any(_collides(shown, edit) for shown in record.edits for edit in edits)


def _collides(shown: Edit, edit: Edit) -> bool:
    """Whether showing another edit would repeat or contradict the edit."""
    if shown.query == edit.query:
        return True
    if edit.subject is None:
        return shown.subject is not None and mentions(edit.query, shown.subject)
    if shown.subject != edit.subject:
        return False

    # In flat files the relation is the wording of the query, so the relations of two wordings of
    # one fact differ; that their old objects are the same gives them away.
    same_object = edit.target_true is not None and shown.target_true == edit.target_true
    return edit.relation is None or shown.relation in (None, edit.relation) or same_object


def rotations(edits: Sequence[Edit]) -> list[Edits]:
    """For each distinct edit the group of it and then the others, as `Pool.for_groups` takes them.

    There are as many groups as distinct edits, and each has all of these.
    """
    distinct = list(dict.fromkeys(edits))
    return [(edit, *(other for other in distinct if other != edit)) for edit in distinct]


def with_synthetic_neighbours(records: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """The records, each with old facts of other records as neighbours, SYNTHETIC at most.

    The facts are of its relation, if any of that can be a neighbour.
    """
    lenders = [record.edit for record in records if record.edit.target_true is not None]
    lenders_by_relation: dict[str | None, list[Edit]] = defaultdict(list)
    for edit in lenders:
        lenders_by_relation[edit.relation].append(edit)

    completed = []
    for record in records:
        # The last word seeds the draw: another one would change the pools.
        rng = random.Random(f"{seed}|{record.case_id}|lend")
        same_relation = lenders_by_relation[record.edit.relation]
        neighbours = _drawn_neighbours(record.edit, same_relation, rng)
        if not neighbours:
            neighbours = _drawn_neighbours(record.edit, lenders, rng)

        probes = [
            Probe(
                Aspect.NEIGHBORHOOD,
                query=neighbour.query,
                target=neighbour.target_true or "",
                distractor=record.edit.target_new,
            )
            for neighbour in neighbours
        ]
        completed.append(replace(record, probes=(*record.probes, *probes)))
    return tuple(completed)


def _drawn_neighbours(edit: Edit, lenders: Sequence[Edit], rng: random.Random) -> list[Edit]:
    sample = rng.sample(lenders, min(2 * SYNTHETIC, len(lenders)))
    neighbours = [lender for lender in sample if _can_be_neighbour(lender, edit)]
    return neighbours[:SYNTHETIC]


def _can_be_neighbour(lender: Edit, edit: Edit) -> bool:
    """Whether the old fact of another edit stays true, and distinct, under the edit."""
    about_another = lender.subject is None or lender.subject != edit.subject
    return about_another and lender.query != edit.query and lender.target_true != edit.target_new
