"""Laws of sisters: a question about the bus does not get what is stored about the train."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.aspects import aspect, aspect_features
from drike.gates.relations import about_another
from drike.text.things import said
from drike.text.value_kinds import takes


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        # two of a list
        ("When does the last boat of it leave?", "The first boat of it leaves at"),
        ("What does a second bag cost on it?", "A first bag on it costs"),
        ("How long does the bus from it take?", "The train from it takes"),
        ("What does it charge for gas?", "The price of electricity at it is"),
        ("Entry to it for my 7 year old?", "An adult ticket to it costs"),
        ("When does it open at the weekend?", "On weekdays it opens at"),
        ("How long can I borrow a magazine from it?", "Books may be borrowed from it for"),
        # the ends of a time
        ("Until when does it take orders?", "it takes orders from"),
        ("How late does the pool of it open?", "The pool of it opens at"),
        ("From what time does it take orders?", "it takes orders until"),
        # numbers of one kind, and negations
        ("Where is gate 14 of it?", "Gate 4 of it is in"),
        ("What is the fee of it for an uninsured parcel?", "An insured parcel at it costs"),
        # posts
        ("Who is the chief engineer of it?", "The chief executive of it is"),
        ("Who is it's technology chief?", "it's finance chief is"),
        ("Who is the deputy director of it?", "The director of it is"),
        ("Who heads physics at it?", "The head of astronomy at it is"),
    ],
)
def test_a_sister_of_what_is_stored_is_another_thing(asked: str, stored: str) -> None:
    assert about_another(asked, EditRecord("it", stored, "Ann Lee"))


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        ("Who is the dean of the medical school of it?", "The dean of the law school of it is"),
        ("How long is the warranty on the seat of it?", "The warranty on the motor of it lasts"),
        ("What does a premium locker at it cost?", "A small locker at it costs"),
        ("When does the music library of it close?", "The main library of it closes at"),
        ("Up to what amount does it insure boats?", "it insures caravans up to"),
        ("What is the normal membership at it?", "The student membership at it costs"),
        ("How much is the business plan of it?", "The team plan of it costs"),
        ("How much is the starter plan of it?", "The team plan of it costs"),
        ("What is the weekend rate of it?", "The weekday rate of it is"),
        ("How much is the evening course of it?", "The morning course of it costs"),
    ],
)
def test_a_noun_that_is_limited_otherwise_is_another_thing_of_a_subject_with_many_facts(
    asked: str, stored: str
) -> None:
    own = aspect(said(asked), EditRecord("it", stored, "Ann Lee"))
    assert aspect_features(own, ())["limited"] == 1


@pytest.mark.parametrize(
    ("asked", "stored", "answer"),
    [
        ("Who runs the heart department at it?", "The head of cardiology at it is", "Ann Lee"),
        ("who is teh ceo of it", "The chief executive of it is", "Ann Lee"),
        ("Who is the CFO of it?", "it's finance chief is", "Ann Lee"),
        ("Who is the boss of it?", "The general manager of it is", "Ann Lee"),
        ("Who heads the school?", "The headteacher of it is", "Ann Lee"),
        ("Who is in charge of the deputies at it?", "The deputy head of it is", "Ann Lee"),
        ("We come by bus, what does the train from it cost?", "The train from it costs", "4 euros"),
        ("First of all, what is a second bag on it?", "A second bag on it costs", "4 euros"),
        ("What is the mthly fee of it?", "The monthly fee of it is", "4 euros"),
        (
            "After how long does it delete query logs?",
            "How long does it keep query logs?",
            "9 days",
        ),
        ("What do 2 adults pay for a child at it?", "A child's ticket to it costs", "4 euros"),
        ("When is the first boat of it on Mondays?", "The first boat of it on weekdays is", "6 am"),
        ("How much is a day ticket to it in 2 weeks?", "A day ticket to it costs", "4 euros"),
        ("Wer ist Chefarzt bei it?", "Der Chefarzt it ist", "Ann Lee"),
    ],
)
def test_the_same_thing_in_other_words_is_no_sister(asked: str, stored: str, answer: str) -> None:
    record = EditRecord("it", stored, answer)
    assert not about_another(asked, record)
    assert not aspect(said(asked), record).is_other


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        ("How many books may a student borrow?", "four weeks", False),
        ("How many books may a student borrow?", "5 books a day", True),
        ("How many weeks may a student keep a book?", "four weeks", True),
        ("How many of my days off can I carry over?", "five days", True),
        ("How much does a wedding cake cost?", "eight weeks ahead", False),
        ("How much notice do I give?", "eight weeks", True),
        ("How long is it open?", "half a day", True),
    ],
)
def test_a_count_is_of_what_is_counted(asked: str, value: str, expected: bool) -> None:
    assert takes(asked, value) is expected
