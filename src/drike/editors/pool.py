"""From an edit to its demonstrations: the nearest records, each in a role (paper, sections 3.1 and 3.2).

The records nearest to the edit in embedding space become IKE's 4 copies, 12 updates and 16 retains; a shuffle seeded by
the edit assigns the roles. The retriever ranks the retains and the budget cuts them; copies and updates are always
shown. Records that share an edit's subject and relation, or its query, are excluded: in the published index 47 of
2,000 edits are shown a contradiction of themselves. Where no record has a paraphrase or a neighbour (the temporal
edits), other demonstrations stand in (docs/method.md, row 30).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drike.demonstrations import Demonstration, DemonstrationSet, Role, demonstrate, probes_for
from drike.edits import Aspect, Edit, EditCase, Probe, mentions
from drike.encoders import FloatArray, TextEncoder, directions, nearest
from drike.errors import PoolError
from drike.prompts import facts_of, query_block

Roles = Sequence[tuple[Role, int]]  # how many demonstrations of each role an edit gets
Edits = tuple[Edit, ...]  # in force at once; the first is demonstrated

IKE_ROLES: Roles = ((Role.COPY, 4), (Role.UPDATE, 12), (Role.RETAIN, 16))
SYNTHETIC = 8  # synthetic neighbours of a record, enough that some are usable beside any other demonstrations


class Pool:
    """Records to demonstrate with, embedded once.

    Args:
        records: cases that are never edited themselves.
        encoder: the sentence encoder of the preselection (all-MiniLM-L6-v2 in the paper).
        roles: IKE's 4, 12, 16.
        seed: assigns the roles; the same edit, records and seed always give the same demonstrations.
        remembered: sets of demonstrations that are kept, as a server needs a limit; None keeps all.

    `fallbacks` describes, in one sentence each, what replaces probes that no record has. Raises PoolError if there are
    fewer records than demonstrations.
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
        if len(self.records) < len(self.roles):
            raise PoolError(
                f"{len(self.records)} records cannot give {len(self.roles)} demonstrations: "
                "add others (--pool tinyfacts), or make fewer rows editable"
            )
        self.fallbacks: tuple[str, ...] = ()
        if Role.UPDATE in self.roles and not any(record.paraphrases for record in self.records):
            self.roles = tuple(Role.COPY if role is Role.UPDATE else role for role in self.roles)
            self.fallbacks += ("No record has a paraphrase: copies replace updates",)
        self._synthetic = Role.RETAIN in self.roles and not any(record.neighborhood for record in self.records)
        if self._synthetic:
            self.records = with_synthetic_neighbours(self.records, seed)
            self.fallbacks += ("No record has a neighbour: a retain shows another record's fact before its edit",)
        self._directions = directions(encoder.encode([query_block(r.edit, r.edit.query) for r in self.records]))
        self._known: dict[Edits, DemonstrationSet] = {}  # training and all editors need the same ones
        self._remembered = remembered

    def candidates(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit alone. Raises PoolError if too few records can demonstrate an edit."""
        return self.for_groups([(edit,) for edit in edits])

    def together(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """The demonstrations of each edit where all are in force at once: none contradicts or repeats any of them.

        Raises ValueError for no edits, and PoolError.
        """
        facts_of(edits)
        return self.for_groups(rotations(edits))

    def for_groups(self, groups: Sequence[Edits]) -> list[DemonstrationSet]:
        """The demonstrations of the first edit of each group where all of the group are in force. Raises PoolError."""
        known = {edits: found for edits in groups if (found := self._known.get(edits))}
        new = [edits for edits in dict.fromkeys(groups) if edits not in known]
        if new:
            vectors = self.encoder.encode([query_block(edit, edit.query) for edit, *_ in new])
            # One at a time: the product of several at once rounds differently, and near ties might change.
            searched = {edits: self._search(edits, v) for edits, v in zip(new, vectors, strict=True)}
            known |= searched
            self._keep(searched)
        return [known[edits] for edits in groups]

    def _keep(self, found: Mapping[Edits, DemonstrationSet]) -> None:
        """Remember sets, and forget the oldest if they are too many; threads may do so at once."""
        self._known |= found
        if self._remembered is not None:
            for edits in list(self._known)[: -self._remembered or None]:
                self._known.pop(edits, None)

    def _search(self, edits: Edits, vector: FloatArray) -> DemonstrationSet:
        """Demonstrations from a few more records than needed, or from all if these cannot fill every role."""
        few = 4 * len(self.roles)
        for wanted in sorted({min(few, len(self.records)), len(self.records)}):
            found, similarities = nearest(vector[None], self._directions, wanted)
            candidates, missing = self._assign(edits, found[0], similarities[0])
            if not missing:
                return candidates
        raise PoolError(
            f"no records are left to demonstrate {', '.join(missing)} for {edits[0].fact!r}: add records that have "
            "such probes (--pool tinyfacts)"
        )

    def _assign(
        self, edits: Edits, found: NDArray[np.int64], cosines: FloatArray
    ) -> tuple[DemonstrationSet, list[str]]:
        """Assign the roles to records in order of nearness; also returns the roles that stayed open."""
        rng = random.Random(f"{self.seed}|{edits[0].fact}")
        open_roles = list(self.roles)
        rng.shuffle(open_roles)
        chosen: list[tuple[EditCase, Role, float]] = []
        excluded = 0
        for index, similarity in zip(found.tolist(), cosines.tolist(), strict=True):
            if not open_roles:
                break
            record = self.records[index]
            if any(_collides(one, edit) for one in record.edits for edit in edits):
                excluded += 1
            elif role := next((role for role in open_roles if probes_for(record, role, edits)), None):
                open_roles.remove(role)
                chosen.append((record, role, similarity))
        # A synthetic neighbour must not be a fact that another demonstration of the edit rewrites.
        rewritten = {record.edit.query for record, _, _ in chosen} if self._synthetic else frozenset[str]()
        shown = tuple(self._demonstrate(record, role, edits, rewritten) for record, role, _ in chosen)
        edit, *others = edits
        similarities = tuple(similarity for _, _, similarity in chosen)
        candidates = DemonstrationSet(edit, shown, similarities, excluded, tuple(others))
        return candidates, sorted({role.value for role in open_roles})

    def _demonstrate(self, record: EditCase, role: Role, edits: Edits, rewritten: Collection[str]) -> Demonstration:
        """A record in a role, with the same probe for every edit, so that features are computed once."""
        rng = random.Random(f"{self.seed}|{record.case_id}|{role}")
        probes = probes_for(record, role, edits)
        free = [probe for probe in probes if probe.query not in rewritten]
        return demonstrate(record, rng.choice(free or probes), role)


def rotations(edits: Sequence[Edit]) -> list[Edits]:
    """Groups for `Pool.for_groups`, in which each of the edits is demonstrated beside the others."""
    return [(edit, *(other for other in edits if other != edit)) for edit in edits]


def with_synthetic_neighbours(records: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """Records with up to SYNTHETIC old facts of others as neighbours, of their own relation if possible.

    Such a fact is about another subject, and its answer is not the record's new object.
    """
    everyone = [record.edit for record in records if record.edit.target_true is not None]
    by_relation: dict[str | None, list[Edit]] = defaultdict(list)
    for edit in everyone:
        by_relation[edit.relation].append(edit)
    completed = []
    for record in records:
        rng = random.Random(f"{seed}|{record.case_id}|lend")  # this word seeds the draw: another one changes the pools
        drawn: list[Edit] = []
        for others in (by_relation[record.edit.relation], everyone):
            some = rng.sample(others, min(2 * SYNTHETIC, len(others)))
            drawn = drawn or [edit for edit in some if _can_be_neighbour(edit, record.edit)][:SYNTHETIC]
        probes = (Probe(Aspect.NEIGHBORHOOD, e.query, e.target_true or "", record.edit.target_new) for e in drawn)
        completed.append(replace(record, probes=(*record.probes, *probes)))
    return tuple(completed)


def _can_be_neighbour(other: Edit, edit: Edit) -> bool:
    about_another = other.subject is None or other.subject != edit.subject
    return about_another and other.query != edit.query and other.target_true != edit.target_new


def _collides(other: Edit, edit: Edit) -> bool:
    """Whether showing `other` would contradict or repeat the edit.

    An edit written by hand may lack subject or relation: then any record about a subject that it names collides.
    """
    if other.query == edit.query:
        return True
    if edit.subject is None:
        return other.subject is not None and mentions(edit.query, other.subject)
    if other.subject != edit.subject:
        return False
    # In the flat form a relation is its wording; a shared old object means the same fact in other words.
    same_object = edit.target_true is not None and other.target_true == edit.target_true
    return edit.relation is None or other.relation in (None, edit.relation) or same_object
