"""Laws of the time that a question is of."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.relations import about_another
from tests.fakes.indexes import GATE, indexed


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Parking at it costs", "How much did parking at it cost in 1998?"),
        ("Where is the office of it?", "Where did it have its office in 2003?"),
        ("it ships to", "Which countries did it ship to last year?"),
        ("Who is the CEO of it?", "Who used to be CEO of it?"),
        ("Who is the CEO of it?", "Who was CEO of it before Ann Lee?"),
        ("The price of it is", "What was the old price of it?"),
        ("The price of it is", "What did it cost at launch?"),
        ("The price of it is", "What did it cost before?"),
        ("The price of it is", "What did it cost during the beta?"),
        ("The fee of it is", "Will the fee of it go up in May?"),
        ("The fee of it is", "How much will it be after the promotion ends?"),
        ("The range of it is", "What was the range of the first it?"),
        ("The price of it is", "How much will it cost next year?"),
        ("The mayor of it is", "Who was mayor of it in the nineties?"),
        ("The mayor of it is", "Who ran it in colonial times?"),
        ("The coach of it is", "Who was the coach when they won the cup?"),
        ("The number of beds of it is", "How many beds did it have before the merger?"),
        ("The office of it is in", "Where was the office of it originally?"),
        ("The price of it is", "Wie viel kostete it früher?"),
        ("The price of it is", "¿Cuánto costaba it antes?"),
        ("The price of it is", "What did it cost prior to the refit?"),
        ("The price of it is", "What was it's price until the takeover?"),
        ("The price of it is", "What did it cost at opening?"),
        ("The price of it is", "What was it's preceding price?"),
        ("The price of it is", "What did it cost in my parents' day?"),
        ("The price of it is", "What was it's price to begin with?"),
        ("The price of it is", "what did it cost the year it opened"),
        ("The price of it is", "What did it cost a couple of years back?"),
        ("The price of it is", "What was it's price when we joined?"),
        ("The price of it is", "how much was it back when Ann ran it"),
        ("The price of it is", "Which price did it start out with?"),
        ("The price of it is", "What was it's launch price?"),
        ("The price of it is", "At what price did it first go on sale?"),
        ("The price of it is", "What did it once cost?"),
        ("The price of it is", "What did it cost last autumn?"),
        ("The price of it is", "What was it's price earlier this year?"),
        ("The price of it is", "What did it cost in its early days?"),
        ("The price of it is", "What will it cost from April on?"),
        ("The price of it is", "How much will it be once the garage is finished?"),
        ("The price of it is", "What will it cost after the renovation?"),
        ("The price of it is", "What is it's planned price?"),
        ("The price of it is", "What will the price of it rise to?"),
        ("The head of it is", "Who will be the next head of it?"),
        ("The head of it is", "Who will take over it?"),
        ("The version of it is", "Which version of it came before this one?"),
    ],
)
def test_another_time_than_the_edits_is_another_fact(stored: str, asked: str) -> None:
    assert about_another(asked, EditRecord("it", stored, "new"))


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Parking at it costs", "How much is parking at it now?"),
        ("Who is the CEO of it?", "Who is currently the CEO of it?"),
        ("Who is the CEO of it?", "Who has been CEO of it since 2019?"),
        ("The warranty of it lasts", "I bought it in 2023, is it still under warranty?"),
        ("The price of it is", "What was the price of it again?"),
        ("it was founded by", "Who originally founded it in 1987?"),
        ("The original language of it is", "In what language was it originally written?"),
        ("The price of it in 1998 was", "What did it cost in 1998?"),
        ("The price of it is", "Is it cheaper than last year?"),
        ("The opening hours of it are", "When does it open next week?"),
        ("The price of it is", "How much did you say it was?"),
        ("The price of it is", "What will it cost me?"),
        ("The price of it is", "Before we book, how much is it?"),
        ("The price of it is", "Until when is it on sale?"),
        ("The price of it is", "When I last came it was closed. What does it cost?"),
        ("The price of it is", "What is it's price after the discount?"),
        ("The price of it is", "What does it cost once a week?"),
        ("The price of it is", "how much is it for the first year"),
        ("The price of it is", "I will be there from April on, what is it's price?"),
        ("The price of it is", "How much is it going to cost me?"),
        ("The predecessor of it is", "Who was the predecessor of it?"),
        ("The successor of it is", "Who will succeed it?"),
        ("The party of it is held at", "Where's the party of it going to be?"),
    ],
)
def test_the_edits_own_time_is_no_other(stored: str, asked: str) -> None:
    assert not about_another(asked, EditRecord("it", stored, "new"))


@pytest.mark.parametrize(
    ("valid_from", "written", "year", "holds"),
    [
        (None, "", "2025", False),
        ("2024-03-01", "", "2025", True),
        ("2024-03-01", "2026-01-01", "2023", False),
        (None, "2026-01-01T00:00:00Z", "2026", True),
        (None, "2026-01-01T00:00:00Z", "2025", False),
    ],
)
def test_a_year_is_the_edits_from_its_validity_or_its_writing_on(
    valid_from: str | None, written: str, year: str, holds: bool
) -> None:
    record = EditRecord("it", "Who is the CEO of it?", "Ann", valid_from=valid_from)
    asked = f"Who was the CEO of it in {year}?"
    assert about_another(asked, record, written=written) != holds


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("In the nineties, what did Anchorage Bank charge?", False),
        ("Before the merger with Tolley's, what did Anchorage Bank charge?", False),
        ("When it opened, what did Anchorage Bank charge?", False),
        ("Before I forget, what does Anchorage Bank charge?", True),
    ],
)
def test_a_time_that_is_said_first_is_that_of_the_question(asked: str, expected: bool) -> None:
    index = indexed(EditRecord("Anchorage Bank", "Anchorage Bank charges", "4 euros"))
    assert bool(GATE.decide(asked, index).matched) is expected
