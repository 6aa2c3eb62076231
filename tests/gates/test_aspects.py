"""Laws of what tells the facts of one subject apart."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.aspects import aspect, aspect_features
from drike.text.things import said
from drike.text.value_kinds import takes


def features_of(asked: str, stored: str, answer: str) -> set[str]:
    """The features that are not 0 of a question and an edit of a subject with many."""
    own = aspect(said(asked), EditRecord("it", stored, answer))
    return {name for name, value in aspect_features(own, ()).items() if value}


@pytest.mark.parametrize(
    ("asked", "stored", "feature"),
    [
        ("Who is the head of neurology at it?", "The head of cardiology at it is", "elsewhere"),
        ("When does the canteen of it close?", "The laboratory of it closes at", "elsewhere"),
        ("Where is it's bookshop?", "The gym of it is in", "joined"),
        ("Where is the lounge of it in Oslo?", "The lounge of it in Lisbon is", "beside"),
        ("What does a second bag cost at it?", "A first bag at it costs", "switched"),
        ("Who is the medical officer of it?", "The scientific officer of it is", "switched"),
    ],
)
def test_another_thing_within_the_subject_is_told_from_the_edits(
    asked: str, stored: str, feature: str
) -> None:
    assert feature in features_of(asked, stored, "Ann Lee")


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        ("Who heads the cardiology department at it?", "The head of cardiology at it is"),
        ("Until when is the lab of it open?", "The laboratory of it closes at"),
        ("Who looks after privacy at it?", "The data protection officer of it is"),
        ("Which floor is maternity on at it?", "The maternity ward of it is on"),
        ("How much holiday entitlement is there at it?", "The annual leave at it is"),
        ("Who is resposible for sustainabilty at it?", "Responsible for sustainability at it is"),
        ("Wie lange gilt die Garantie bei it?", "The warranty of it lasts"),
    ],
)
def test_the_same_thing_in_other_words_is_no_other(asked: str, stored: str) -> None:
    assert not features_of(asked, stored, "Ann Lee") & {"elsewhere", "beside", "switched"}


def test_an_edit_that_has_more_of_what_is_asked_outdoes_another() -> None:
    asked = said("How much is a student membership at it per month?")
    student = aspect(asked, EditRecord("it", "A student membership at it costs", "29 euros"))
    family = aspect(asked, EditRecord("it", "A membership at it costs", "42 euros"))
    assert aspect_features(family, [student, family])["outdone"]
    assert not aspect_features(student, [student, family])["outdone"]


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        ("How much does parking cost?", "2.50 euros per hour", True),
        ("How much does parking cost?", "Hesse building", False),
        ("How much does parking cost?", "on request", True),
        ("How many beds does it have?", "412", True),
        ("How many doctors work there?", "Dr. Lena Voss", False),
        ("When does it close?", "17:45", True),
        ("When does it close?", "Fridays", True),
        ("When is the conference?", "Tallinn", False),
        ("Who runs the library?", "23:00", False),
        ("Who runs the library?", "Ann Lee, 3rd Baron Lee", True),
        ("Who do I call?", "0555 318 2200", True),
        ("Where is the gym?", "40 pence a day", False),
        ("How long is parental leave?", "22 weeks", True),
        ("What is it?", "anything", True),
        ("In which time zone is it?", "Greenwich Mean Time", True),
    ],
)
def test_a_question_takes_values_of_its_kind(asked: str, value: str, expected: bool) -> None:
    assert takes(asked, value) == expected
