"""Laws of what narrows a question down: the key deposit is not any deposit."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.aspects import aspect
from drike.text.things import said

DEPOSIT = EditRecord("it", "The deposit at it is", "150 euros")
NUMBER = EditRecord("it", "The phone number of it is", "0555 210")
PRICE = EditRecord("it", "The plan it costs", "9 euros a month")
HOURS = EditRecord("it", "The opening hours of it are", "9 to 5")
NOTICE = EditRecord("it", "The notice period of it is", "30 days")
FEE = EditRecord("it", "The monthly fee of it is", "39 euros")


@pytest.mark.parametrize(
    ("asked", "record"),
    [
        ("How much is the bottle deposit at it?", DEPOSIT),
        ("locker deposit it", DEPOSIT),
        ("What's the phone number of the bar at it?", NUMBER),
        ("What is the activation fee of it?", PRICE),
        ("What does it cost for apprentices?", PRICE),
        ("What are the bank holiday opening hours of it?", HOURS),
        ("What is the notice period of it during probation?", NOTICE),
        ("What's the fee of it for seniors?", FEE),
        ("What's the joining fee of it?", FEE),
        ("What is the annual fee of it?", FEE),
        ("What's the weekly price of it?", PRICE),
        ("What's the price of it for charities?", PRICE),
        ("What does equipment hire cost at it?", EditRecord("it", "Hire at it costs", "8 euros")),
    ],
)
def test_a_question_that_limits_what_a_fact_does_not_limit_is_of_another_thing(
    asked: str, record: EditRecord
) -> None:
    assert aspect(said(asked), record).is_narrower


@pytest.mark.parametrize(
    ("asked", "record"),
    [
        ("What is the current deposit at it?", DEPOSIT),
        ("How much is the hotel's deposit at it?", DEPOSIT),
        ("what's the deposit at it please", DEPOSIT),
        ("I have a missed call from it, is that your phone number?", NUMBER),
        ("What's your monthly price for it?", PRICE),
        ("What is the yearly deposit at it?", DEPOSIT),
        ("What does it cost for customers?", PRICE),
        ("What's the price of it and of the other plan?", PRICE),
        ("What is the fee of it for its members?", FEE),
        ("Who is the mayor of its capital, it?", EditRecord("it", "The mayor of it is", "Ann Lee")),
        ("wich opening hours do you have at it", HOURS),
    ],
)
def test_a_question_with_words_that_limit_nothing_is_not(asked: str, record: EditRecord) -> None:
    assert not aspect(said(asked), record).is_narrower
