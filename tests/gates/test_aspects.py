"""Laws of what tells the facts of one subject apart."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.aspects import aspect, aspect_features
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.text.things import said
from drike.text.value_kinds import takes
from tests.fakes.indexes import default_encoder, stored


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
        ("How do I file a claim at it?", "60 days after the trip", False),
        ("How can I reach it?", "0555 318 2200", True),
        ("Why is it closed?", "Mondays", False),
        ("Which brand are the scanners at it?", "five years", False),
        ("What colours does it come in?", "rust and sand", True),
        ("How often is it cleaned?", "9 euros", False),
    ],
)
def test_a_question_takes_values_of_its_kind(asked: str, value: str, expected: bool) -> None:
    assert takes(asked, value) == expected


FACTS = {
    "dispensary": ("The dispensary of Elm House is open", "from 8 am to 7 pm"),
    "garage": ("A place in the garage of Elm House costs", "9 euros a day"),
    "payroll": ("Responsible for payroll at Elm House is", "Ann Lee"),
    "countries": ("Elm House sends its books to", "Ireland and Spain"),
    "tax": ("The head of tax law at Elm House is", "Tom Day"),
    "waste": ("On which day does Elm House collect bottles?", "Friday"),
}


@pytest.fixture(scope="module")
def index() -> EditIndex:
    records = [EditRecord("Elm House", query, answer) for query, answer in FACTS.values()]
    return EditIndex.of(stored(*records), default_encoder())


def applied(query: str, index: EditIndex) -> list[str]:
    return [edit.record.query for edit in default_gate().decide(query, index).applied]


@pytest.mark.parametrize(
    "query",
    [
        "Does the dispensary of Elm House sell bandages?",
        "Is the garage of Elm House heated?",
        "Can I charge my car in the garage of Elm House?",
        "Who is the head of maritime law at Elm House?",
        "Do I have to wash the bottles that Elm House collects?",
    ],
)
def test_a_question_for_something_else_within_a_fact_gets_none(
    query: str, index: EditIndex
) -> None:
    assert applied(query, index) == []


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("Is the dispensary of Elm House open at 7:30 am?", "dispensary"),
        ("Is a place in the garage of Elm House free?", "garage"),
        ("Does Elm House send its books to Austria?", "countries"),
        ("Is Ann Lee responsible for payroll at Elm House?", "payroll"),
        ("Is Friday the day on which Elm House collects bottles?", "waste"),
    ],
)
def test_a_question_for_yes_or_no_that_checks_a_fact_gets_it(
    query: str, fact: str, index: EditIndex
) -> None:
    assert applied(query, index) == [FACTS[fact][0]]
