"""What a gate decides about the probes of cases, question by question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drike.edits.edit import EditCase
from drike.edits.record import EditVersion
from drike.gates.decision import Decision, Gate
from drike.research.deployment.routing import route_each
from drike.research.deployment.simulated_stores import SimulatedStores, edits_asked_for


@dataclass(frozen=True)
class GateRecord:
    """A line of gate.jsonl: what a gate decided about a question of a case, or an unrelated one.

    case_id: "" for an unrelated question. kind: the probe's aspect, or "unrelated". asks: the fact
    of the edit in force that it asks for, or that its answer follows from, if any. fires: whether
    all edits that it asks for match. false: the facts of others that match. probability: of the
    edit that it asks for; 0 if that is no candidate. nearest: the most probable of others.
    """

    case_id: str
    kind: str
    query: str
    asks: str | None
    fires: bool
    false: tuple[str, ...]
    probability: float
    nearest: str | None
    nearest_probability: float


def gate_records(
    gate: Gate,
    stores: SimulatedStores,
    cases: Sequence[EditCase],
    unrelated: Sequence[str] = (),
) -> Iterator[GateRecord]:
    """What a gate decides about cases `with_stores`, and about unrelated questions.

    Each case's probes are put to its store, unrelated questions to the whole one.
    """
    for case in cases:
        of_case = stores.versions_of(case.edits)
        index = stores.index_for(case.edits)
        queries = [probe.query for probe in case.asked]
        decisions = route_each(gate, index, queries)
        for probe, decision in zip(case.asked, decisions, strict=True):
            asked_for = edits_asked_for(probe, of_case, index)
            yield _record(case.case_id, probe.aspect.value, decision, asked_for)
    for decision in route_each(gate, stores.whole, unrelated):
        yield _record("", "unrelated", decision, asked_for=[])


def _record(
    case_id: str, kind: str, decision: Decision, asked_for: Sequence[EditVersion]
) -> GateRecord:
    asked_ids = {edit.id for edit in asked_for}
    fact_by_matched_id = {edit.id: edit.record.edit.fact for edit in decision.matched}
    false_matches = [
        fact for edit_id, fact in fact_by_matched_id.items() if edit_id not in asked_ids
    ]

    probability = 0.0
    nearest = None
    for candidate in decision.candidates:  # the most probable first
        if candidate.edit.id in asked_ids:
            probability = max(probability, candidate.probability)
        elif nearest is None:
            nearest = candidate

    return GateRecord(
        case_id=case_id,
        kind=kind,
        query=decision.query,
        asks=asked_for[0].record.edit.fact if asked_for else None,
        fires=asked_ids <= fact_by_matched_id.keys(),
        false=tuple(false_matches),
        probability=probability,
        nearest=None if nearest is None else nearest.edit.record.edit.fact,
        nearest_probability=0.0 if nearest is None else nearest.probability,
    )
