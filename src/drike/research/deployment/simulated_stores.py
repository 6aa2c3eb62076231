"""The stores in which an evaluation with many edits in force asks its cases."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from drike.edits.conflicts import conflict_keys
from drike.edits.edit import STABLE, Aspect, Edit, EditCase, Probe
from drike.edits.record import EditVersion, as_stored
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.gates.index import EditIndex
from drike.text.words import mentions


class SimulatedStores:
    """For each case a store that holds its edits and others, of which none contradicts them.

    edits: all that may be in force; of two that answer the same question the first is. size: edits
    in force, drawn with the seed; None is all. encoder: for a gate that compares vectors. Raises
    UsageError for an edit without a subject.
    """

    def __init__(
        self,
        edits: Sequence[Edit],
        size: int | None = None,
        *,
        encoder: TextEncoder | None = None,
        seed: int = 0,
    ) -> None:
        self.size = size
        self._seed = seed
        self._encoder = encoder
        latest_by_key = {edit.key: edit for edit in edits}
        self.edits = as_stored(list(latest_by_key.values()))
        self._version_by_key = {edit.record.edit.key: edit for edit in self.edits}
        self._conflict_keys = _conflict_keys_by_id(self.edits)
        self._consistent = self._without_conflicts()
        self.whole = EditIndex.of(self._consistent, encoder)
        self._latest = self.whole

    def _without_conflicts(self) -> list[EditVersion]:
        """All edits, without those that contradict an earlier one."""
        consistent = []
        taken: set[str] = set()
        for edit in self.edits:
            keys = self._conflict_keys[edit.id]
            if not keys & taken:
                taken |= keys
                consistent.append(edit)
        return consistent

    def versions_of(self, edits: Sequence[Edit]) -> list[EditVersion]:
        """Edits as they are stored. Raises KeyError for one that may not be in force."""
        return [self._version_by_key[edit.key] for edit in edits]

    def index_for(self, edits: Sequence[Edit]) -> EditIndex:
        """What is in force when a case with these edits is asked.

        The same edits in force give the same index, so that its vectors are computed once.
        """
        of_case = self.versions_of(edits)
        others = self._others(of_case)
        if self.size is not None:
            # Drawn by the case, so that a case has the same store whichever was asked before.
            rng = random.Random(f"{self._seed}|{edits[0].fact}")
            free = max(0, self.size - len(of_case))
            others = rng.sample(others, min(len(others), free))

        in_force = [*of_case, *others]
        ids = {edit.id for edit in in_force}
        for index in (self.whole, self._latest):
            if index.edits.keys() == ids:
                return index
        self._latest = EditIndex.of(in_force, self._encoder, self.whole)
        return self._latest

    def _others(self, of_case: Sequence[EditVersion]) -> list[EditVersion]:
        """The edits that may be in force beside those of a case, as they contradict none."""
        ids = {edit.id for edit in of_case}
        taken = frozenset[str]().union(*(self._conflict_keys[edit_id] for edit_id in ids))
        return [
            edit
            for edit in self._consistent
            if edit.id not in ids and not self._conflict_keys[edit.id] & taken
        ]


def _conflict_keys_by_id(edits: Sequence[EditVersion]) -> Mapping[int, frozenset[str]]:
    """What each edit answers; two that share a key contradict each other. Raises UsageError."""
    keys_by_id = {}
    for edit in edits:
        if not edit.record.subject:
            raise UsageError(
                f"{edit.record.fact} has no subject, which a store of edits needs: give its row one"
            )
        keys_by_id[edit.id] = conflict_keys(edit.record)
    return keys_by_id


def with_stores(case: EditCase, stores: SimulatedStores) -> EditCase:
    """The case with the right answers under its store.

    The right answer to a probe that asks for another edit in force is that edit's new object.
    """
    of_case = stores.versions_of(case.edits)
    index = stores.index_for(case.edits)

    def with_answer(probe: Probe) -> Probe:
        asked_for = edits_asked_for(probe, of_case, index)
        if not asked_for or asked_for[0] in of_case:
            return probe
        record = asked_for[0].record
        return replace(probe, target=record.target_new, distractor=record.target_true, also=())

    return replace(
        case,
        probes=tuple(map(with_answer, case.probes)),
        further=tuple(map(with_answer, case.further)),
    )


def edits_asked_for(
    probe: Probe, of_case: Sequence[EditVersion], index: EditIndex
) -> Sequence[EditVersion]:
    """The edits in force that a probe asks for.

    Those of its case; but if the probe's answer should stay, one about the same fact, if there is
    one. That is one whose subject the probe names and whose old or new object is its answer, as
    data may name no relations.
    """
    if not _should_stay(probe, of_case):
        return of_case

    same_fact = []
    for edit in index.edits.values():
        record = edit.record
        if record.target_true is None:
            continue
        states_answer = probe.target in (record.target_true, record.target_new)
        if states_answer and mentions(probe.query, record.subject):
            same_fact.append(edit)
    # Of several, the one whose name says the most.
    same_fact.sort(key=lambda edit: (-len(edit.record.subject), edit.id))
    return same_fact[:1]


def _should_stay(probe: Probe, of_case: Sequence[EditVersion]) -> bool:
    """Whether the case's edits should leave a probe's answer as it is."""
    if probe.aspect is Aspect.DISTRACTOR:  # a sentence before either kind of question
        return not any(mentions(probe.query, edit.record.subject) for edit in of_case)
    return probe.aspect in STABLE
