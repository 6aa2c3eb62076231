"""From an edit to its demonstrations: nearest records, each dealt a role (paper, sections 3.1 and 3.2).

The records nearest to the edit in embedding space become IKE's 4 copies, 12 updates and 16 retains; a shuffle seeded by
the edit says which record plays which role. The retains are the pool the retriever ranks and the budget cuts; copies
and updates stay. A record with the edit's own subject and relation, or its very query, never demonstrates: in the
published index 47 of 2,000 edits are shown a contradiction of themselves.

Where a data set has no paraphrases at all, copies stand in for updates. Where it has no neighbours at all, a retain
shows what another record said before its edit, under the New Fact of the first (`lend`): the temporal edits need both.
Measures do not see this: what a data set does not ask stays n/a.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drike.demonstrations import Demonstration, DemonstrationSet, Role, demonstrate, probes_for
from drike.edits import Aspect, Edit, EditCase, Probe, mentions
from drike.encoders import FloatArray, TextEncoder, nearest
from drike.errors import PoolError
from drike.prompts import query_block

IKE_ROLES: tuple[tuple[Role, int], ...] = ((Role.COPY, 4), (Role.UPDATE, 12), (Role.RETAIN, 16))
LENT = 8  # old facts a record without neighbours is lent, so that some are free whatever else is shown


class Pool:
    """Records to demonstrate with, embedded once.

    Args:
        records: cases that are never edited themselves.
        encoder: the sentence encoder of the preselection (all-MiniLM-L6-v2 in the paper).
        roles: how many demonstrations of each role an edit gets; IKE's 4, 12, 16.
        seed: of the deal; the same edit, records and seed always give the same candidates.

    `fallbacks` says in a sentence each what is shown in place of probes that no record has. Raises PoolError if there
    are fewer records than demonstrations.
    """

    def __init__(
        self,
        records: Sequence[EditCase],
        encoder: TextEncoder,
        *,
        roles: Sequence[tuple[Role, int]] = IKE_ROLES,
        seed: int = 0,
    ) -> None:
        self.records = tuple(records)
        self.encoder = encoder
        self.seed = seed
        self.roles = tuple(role for role, count in roles for _ in range(count))
        if len(self.records) < len(self.roles):
            raise PoolError(
                f"{len(self.records)} records cannot give {len(self.roles)} demonstrations: "
                "leave more rows out of the editable ones, or ask for fewer demonstrations"
            )
        self.fallbacks: tuple[str, ...] = ()
        if Role.UPDATE in self.roles and not any(record.paraphrases for record in self.records):
            self.roles = tuple(Role.COPY if role is Role.UPDATE else role for role in self.roles)
            self.fallbacks += ("No record has a paraphrase: copies stand in for updates",)
        self._lent = Role.RETAIN in self.roles and not any(record.neighborhood for record in self.records)
        if self._lent:
            self.records = lend(self.records, seed)
            self.fallbacks += ("No record has a neighbour: a retain shows another record's fact before its edit",)
        self._vectors = encoder.encode([_search_text(record.edit) for record in self.records])
        self._dealt: dict[Edit, DemonstrationSet] = {}  # training and every editor ask for the same

    def candidates(self, edits: Sequence[Edit]) -> list[DemonstrationSet]:
        """Deal demonstrations to each edit.

        Raises PoolError if an edit's own subject and relation leave too few records.
        """
        new = [edit for edit in dict.fromkeys(edits) if edit not in self._dealt]
        if new:
            vectors = self.encoder.encode([_search_text(edit) for edit in new])
            # One at a time: a product over several rounds otherwise, and near ties would hang on the company.
            self._dealt |= {edit: self._nearest_dealt(edit, v) for edit, v in zip(new, vectors, strict=True)}
        return [self._dealt[edit] for edit in edits]

    def _nearest_dealt(self, edit: Edit, vector: FloatArray) -> DemonstrationSet:
        """Deal from a few more records than needed, and from all of them where those cannot fill every role."""
        few = 4 * len(self.roles)
        for wanted in sorted({min(few, len(self.records)), len(self.records)}):
            found, similarities = nearest(vector[None], self._vectors, wanted)
            candidates, missing = self._deal(edit, found[0], similarities[0])
            if not missing:
                return candidates
        raise PoolError(
            f"no records are left to demonstrate {', '.join(missing)} for {edit.fact!r}: add records that have such "
            "probes, or ask for fewer demonstrations of that role"
        )

    def _deal(
        self, edit: Edit, found: NDArray[np.int64], similarities: FloatArray
    ) -> tuple[DemonstrationSet, list[str]]:
        """DemonstrationSet from records in order of nearness, and the roles that stayed open."""
        rng = random.Random(f"{self.seed}|{edit.fact}")
        open_roles = list(self.roles)
        rng.shuffle(open_roles)
        dealt: list[tuple[EditCase, Role, float]] = []
        excluded = 0
        for index, similarity in zip(found.tolist(), similarities.tolist(), strict=True):
            if not open_roles:
                break
            record = self.records[index]
            if _collides(record.edit, edit):
                excluded += 1
                continue
            role = next((role for role in open_roles if probes_for(record, role, edit)), None)
            if role is not None:
                open_roles.remove(role)
                dealt.append((record, role, similarity))
        # A lent fact must not be one that a demonstration beside it has just rewritten.
        rewritten = {record.edit.query for record, _, _ in dealt} if self._lent else frozenset[str]()
        shown = tuple(self._demonstrate(record, role, edit, rewritten) for record, role, _ in dealt)
        candidates = DemonstrationSet(edit, shown, tuple(similarity for _, _, similarity in dealt), excluded)
        return candidates, sorted({role.value for role in open_roles})

    def _demonstrate(self, record: EditCase, role: Role, edit: Edit, rewritten: Collection[str]) -> Demonstration:
        """A record in a role; its probe is drawn once for all edits, so that features are computed once."""
        rng = random.Random(f"{self.seed}|{record.case_id}|{role}")
        probes = probes_for(record, role, edit)
        free = [probe for probe in probes if probe.query not in rewritten]
        return demonstrate(record, rng.choice(free or probes), role)


def lend(records: Sequence[EditCase], seed: int = 0) -> tuple[EditCase, ...]:
    """Records with up to LENT old facts of others as neighbours, of their own relation where any are to be had.

    A lent fact is about another subject, and its answer is not the borrower's new object.
    """
    everyone = [record.edit for record in records if record.edit.target_true is not None]
    by_relation: dict[str | None, list[Edit]] = defaultdict(list)
    for edit in everyone:
        by_relation[edit.relation].append(edit)
    lent = []
    for record in records:
        rng = random.Random(f"{seed}|{record.case_id}|lend")
        drawn: list[Edit] = []
        for lenders in (by_relation[record.edit.relation], everyone):
            some = rng.sample(lenders, min(2 * LENT, len(lenders)))
            drawn = drawn or [edit for edit in some if _lends(edit, record.edit)][:LENT]
        probes = (Probe(Aspect.NEIGHBORHOOD, e.query, e.target_true or "", record.edit.target_new) for e in drawn)
        lent.append(replace(record, probes=(*record.probes, *probes)))
    return tuple(lent)


def _lends(lender: Edit, borrower: Edit) -> bool:
    about_another = lender.subject is None or lender.subject != borrower.subject
    return about_another and lender.query != borrower.query and lender.target_true != borrower.target_new


def _search_text(edit: Edit) -> str:
    return query_block(edit, edit.query)


def _collides(other: Edit, edit: Edit) -> bool:
    """Whether showing `other` would contradict or repeat the edit.

    An edit that was written by hand may lack subject or relation: then any record of the subject it names collides.
    """
    if other.query == edit.query:
        return True
    if edit.subject is None:
        return other.subject is not None and mentions(edit.query, other.subject)
    if other.subject != edit.subject:
        return False
    # In the flat form a relation is its wording; a shared old object tells the same fact in another one.
    same_object = edit.target_true is not None and other.target_true == edit.target_true
    return edit.relation is None or other.relation in (None, edit.relation) or same_object
