"""Laws of the head that judges subjects of which many facts are stored."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.calibrated import LogisticHead
from drike.gates.calibration import LabelledCandidate, default_gate, gate_of, to_json
from drike.gates.comparison import STATED
from drike.gates.decision import Candidate
from drike.gates.index import EditIndex
from tests.fakes.indexes import GATE, PERU, indexed, stored

FEW = (
    EditRecord("Port Elm", "The ferry of Port Elm leaves at", "noon"),
    EditRecord("Port Elm", "Port Elm's harbour master is", "Ann Lee"),
)
MORE = EditRecord("Port Elm", "A berth in Port Elm costs", "12 euros")
QUESTION = "What does a berth in Port Elm cost?"
ENCODER = HashingEncoder()
CERTAIN = LogisticHead({}, 20.0)


def named(index: EditIndex) -> list[Candidate]:
    """The candidates that `QUESTION` names."""
    return [one for one in GATE.candidates(QUESTION, index) if one.name]


def test_whole_facts_count_for_a_subject_with_many_alone() -> None:
    assert not any(STATED in one.features for one in named(indexed(*FEW, PERU)))
    assert all(STATED in one.features for one in named(indexed(*FEW, MORE, PERU)))


def test_a_shadow_edit_does_not_make_a_subject_crowded() -> None:
    shadow = replace(MORE, status=Status.SHADOW)
    assert not indexed(*FEW, shadow).stated.texts


def test_the_fact_that_states_what_is_asked_is_nearest() -> None:
    found = {one.edit.record: one.features[STATED] for one in named(indexed(*FEW, MORE))}
    assert max(found, key=lambda record: found[record]) == MORE


def test_its_own_head_judges_such_a_subject_and_the_one_for_few_without_it() -> None:
    gate = replace(GATE, crowded=CERTAIN)
    many = gate.candidates(QUESTION, indexed(*FEW, MORE))
    assert many[0].edit.record == MORE
    assert many[0].probability > 0.99
    few = [one.probability for one in gate.candidates(QUESTION, indexed(*FEW))]
    assert few == [one.probability for one in GATE.candidates(QUESTION, indexed(*FEW))]


def test_a_gate_of_an_earlier_version_judges_all_alike() -> None:
    gate = replace(default_gate(), crowded=None)
    read = gate_of(to_json(gate), "gate.json")
    assert read.crowded is None
    example = LabelledCandidate({"masked": 0.5, STATED: 0.5}, concerns=True, edit=1)
    assert read.head_for(example.features) == read.named


@pytest.mark.parametrize("seed", range(5))
def test_an_index_brought_up_to_date_holds_the_same_facts_as_a_fresh_one(seed: int) -> None:
    rng = random.Random(seed)
    records = [
        EditRecord(f"Port {letter}", f"The {thing} of Port {letter} is", thing.upper())
        for letter in "AB"
        for thing in ("mayor", "ferry", "bank", "fair")
    ]
    edits = stored(*records)
    index = EditIndex.of((), ENCODER)
    for _ in range(6):
        in_force = [
            edit if rng.random() < 0.8 else replace(edit, record=_in_shadow(edit.record))
            for edit in edits
            if rng.random() < 0.7
        ]
        index = EditIndex.of(in_force, ENCODER, index)
        fresh = EditIndex.of(in_force, ENCODER)
        assert dict(index.stated.texts) == dict(fresh.stated.texts)


def _in_shadow(record: EditRecord) -> EditRecord:
    return replace(record, status=Status.SHADOW)
