"""Laws of the time that a question is of."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.relations import about_another


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
        ("The price of it is", "How much will it cost next year?"),
        ("The mayor of it is", "Who was mayor of it in the nineties?"),
        ("The mayor of it is", "Who ran it in colonial times?"),
        ("The coach of it is", "Who was the coach when they won the cup?"),
        ("The number of beds of it is", "How many beds did it have before the merger?"),
        ("The office of it is in", "Where was the office of it originally?"),
        ("The price of it is", "Wie viel kostete it früher?"),
        ("The price of it is", "¿Cuánto costaba it antes?"),
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
