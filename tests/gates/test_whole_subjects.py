"""Requests for all that is known of a subject."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.gates.whole_subjects import MOST_OF_WHOLE
from drike.gateway.edited import EditedRequest
from drike.gateway.options import Mode
from tests.fakes.indexes import GATE, default_encoder, indexed, stored

EDITS = {
    "price": EditRecord("Corvo 3", "The price of the Corvo 3 is", "189 euros", "169 euros"),
    "warranty": EditRecord("Corvo 3", "The warranty on the Corvo 3 lasts", "five years"),
    "colours": EditRecord("Corvo 3", "The Corvo 3 comes in these colours:", "slate and moss"),
    "price 2": EditRecord("Corvo 2", "The price of the Corvo 2 is", "129 euros"),
    "limit": EditRecord("travel policy", "The hotel limit in the travel policy is", "140 euros"),
    "meals": EditRecord("travel policy", "The meal allowance in the travel policy is", "38 euros"),
}
INDEX = EditIndex.of(stored(*EDITS.values()), default_encoder())
CORVO_3 = ["price", "warranty", "colours"]
POLICY = ["limit", "meals"]


def asked_for(text: str) -> list[str]:
    names = dict(enumerate(EDITS, start=1))
    return [
        names[edit.id]
        for edit in sorted(default_gate().decide(text, INDEX).matched, key=lambda e: e.id)
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Tell me about the Corvo 3.", CORVO_3),
        ("What do I need to know about the Corvo 3?", CORVO_3),
        ("give me an overview of the Corvo 3 please", CORVO_3),
        ("Could you describe the Corvo 3 in three sentences?", CORVO_3),
        ("Erzähl mir alles über das Corvo 3", CORVO_3),
        ("Parle-moi de la Corvo 3", CORVO_3),
        ("Cuéntame todo sobre la Corvo 3", CORVO_3),
        ("请介绍一下 Corvo 3", CORVO_3),
        ("Compare Corvo 2 and 3", [*CORVO_3, "price 2"]),
        ("What's the difference between the Corvo 2 and the Corvo 3?", [*CORVO_3, "price 2"]),
        ("Compare the Corvo 2 with the Corvo 3 on price", ["price", "price 2"]),
        ("Give me all details on the Corvo 3: price and colours", ["price", "colours"]),
        ("Summarise our travel policy", POLICY),
        ("Fasse die travel policy zusammen", POLICY),
        ("Tell me about the weight of the Corvo 3", []),
        ("Tell me about the Corvo 4", []),
        ("Tell me about espresso machines in general", []),
        ("Describe how to clean an espresso machine", []),
        ("Summarise this: I bought a Corvo 3 and read the travel policy on the train.", []),
        ("Translate: Tell me about the Corvo 3.", []),
        ("I told my sister everything about my holidays, and she has a Corvo 3 at home now.", []),
    ],
)  # fmt: skip
def test_all_of_a_subject_is_stated_or_what_is_named_of_it(text: str, names: list[str]) -> None:
    assert asked_for(text) == names


def test_what_is_left_out_beyond_the_budget_is_said() -> None:
    things = ("roof", "cellar", "garden", "library", "kitchen", "tower", "chapel", "stable", "well")
    more = ("gate", "hall", "mill", "pond", "yard")
    records = [EditRecord("Holm", f"The {thing} of Holm is", "old") for thing in (*things, *more)]
    decision = GATE.decide("Tell me about Holm.", indexed(*records))
    assert len(decision.applied) == MOST_OF_WHOLE == 12
    left_out = [edit.id for edit in decision.left_out]
    assert not {edit.id for edit in decision.applied}.intersection(left_out)
    assert len(left_out) == 2 and f"edits {left_out[0]}, {left_out[1]}" in decision.reason

    edited = EditedRequest(b"", "fired", Mode.ON, decision.applied, decision=decision)
    assert edited.headers["x-drike-left-out"] == f"{left_out[0]}@1,{left_out[1]}@1"
