"""Questions that only ask who or whose the stored object is."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from tests.fakes.indexes import default_encoder, stored

INDEX = EditIndex.of(
    stored(
        EditRecord("Tidewater Cycles", "The service manager of Tidewater Cycles is", "Ylva Strand"),
        EditRecord("Tidewater Cycles", "The hotline of Tidewater Cycles is", "0461 778 3100"),
        EditRecord("Samir Okonjo", "Samir Okonjo works as", "chief pharmacist at Orwin"),
        EditRecord(
            "Orwin Clinic", "The head of surgery of Orwin Clinic is", "Prof. Dr. Ilse Brandner"
        ),
    ),
    default_encoder(),
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Who is Ylva Strand?", [1]),
        ("who's Ylva Strand", [1]),
        ("What is Ylva Strand's role?", [1]),
        ("What does Ylva Strand do at Tidewater Cycles?", [1]),
        ("What job does Ylva Strand have there?", [1]),
        ("Wer ist Ylva Strand?", [1]),
        ("Qui est Ylva Strand ?", [1]),
        ("¿Quién es Ylva Strand?", [1]),
        ("Whose number is 0461 778 3100?", [2]),
        ("I have a missed call, whose number is 0461 778 3100?", [2]),
        ("What is Samir Okonjo's position?", [3]),
        ("Ms Strand's position at Tidewater Cycles?", [1]),
        ("Could you tell me who Ylva Strand is?", [1]),
        ("What is Dr. Strand responsible for?", [1]),
        ("Who is Dr Brandner?", [4]),
        ("Who is Ilse Brandner?", [4]),
        ("What is Prof. Brandner's job?", [4]),
        ("Who do I reach at 0461 778 3100?", [2]),
        ("What is 0461 778 3100 for?", [2]),
        ("Who is Ylva Lindqvist?", []),
        ("Who does Ylva Strand report to?", []),
        ("What is Ms Strand's phone number?", []),
        ("How old is Ylva Strand?", []),
        ("Where does Ylva Strand live?", []),
        ("Whose number is 0461 778 3199?", []),
        ("What is Samir Okonjo's phone number?", []),
        ("What does Tidewater Cycles do?", []),
    ],
)
def test_who_or_whose_an_object_is(text: str, ids: list[int]) -> None:
    assert [edit.id for edit in default_gate().decide(text, INDEX).matched] == ids
