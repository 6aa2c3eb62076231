"""Laws of the head that judges subjects of which many facts are stored."""

from __future__ import annotations

from dataclasses import replace

from drike.edits.record import EditRecord, Status
from drike.gates.calibrated import LogisticHead
from drike.gates.calibration import LabelledCandidate, default_gate, gate_of, to_json
from drike.gates.comparison import CROWDED
from drike.gates.decision import Candidate
from drike.gates.index import EditIndex
from tests.fakes.indexes import GATE, PERU, indexed

FEW = (
    EditRecord("Port Elm", "The ferry of Port Elm leaves at", "noon"),
    EditRecord("Port Elm", "Port Elm's harbour master is", "Ann Lee"),
)
MORE = EditRecord("Port Elm", "A berth in Port Elm costs", "12 euros")
QUESTION = "What does a berth in Port Elm cost?"
CERTAIN = LogisticHead({}, 20.0)


def named(index: EditIndex) -> list[Candidate]:
    """The candidates that `QUESTION` names."""
    return [one for one in GATE.candidates(QUESTION, index) if one.name]


def test_active_edits_alone_make_a_subject_crowded() -> None:
    shadow = replace(MORE, status=Status.SHADOW)
    assert not any(CROWDED in one.features for one in named(indexed(*FEW, PERU)))
    assert not any(CROWDED in one.features for one in named(indexed(*FEW, shadow, PERU)))
    assert all(CROWDED in one.features for one in named(indexed(*FEW, MORE, PERU)))


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
    example = LabelledCandidate({"masked": 0.5, CROWDED: 1.0}, concerns=True, edit=1)
    assert read.head_for(example.features) == read.named
