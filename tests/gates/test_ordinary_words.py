"""Laws of names that are ordinary words, and of names within longer ones."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from tests.fakes.indexes import default_encoder, stored

RECORDS = {
    "Stripe": EditRecord("Stripe", "The fee of Stripe for refunds is", "0.40 euros"),
    "Mint": EditRecord("Mint", "The founder of Mint is", "Ann Lee"),
    "Bath": EditRecord("Bath", "The mayor of Bath is", "Tom Day"),
    "Reading": EditRecord("Reading", "The mayor of Reading is", "Al Fox"),
    "Compass": EditRecord("Compass", "The CEO of Compass is", "Iris May"),
    "Box": EditRecord("Box", "The price of Box's Team plan is", "15 dollars"),
    "A.B.": EditRecord("A.B.", "The capital of A.B. is", "Oslo"),
}


@pytest.fixture(scope="module")
def index() -> EditIndex:
    return EditIndex.of(stored(*RECORDS.values()), default_encoder())


def subjects(query: str, index: EditIndex) -> list[str]:
    decision = default_gate().decide(query, index)
    return sorted(edit.record.subject for edit in decision.applied)


@pytest.mark.parametrize(
    "query",
    [
        "Which stripe on the refund form shows the fee?",
        "What fee does the mint charge?",
        "Who is the founder of our mint garden?",
        "Is the mayor reading a book?",
        "which mayor is known for reading to children",
        "Does the mayor need a bath?",
        "What's the CEO's compass for?",
        "If I box it, what is the price?",
        "What is the price in the file plan/box?",
    ],
)
def test_a_word_in_lower_case_is_no_name_where_only_a_word_can_stand(
    query: str, index: EditIndex
) -> None:
    assert subjects(query, index) == []


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("who is the mayor of reading", "Reading"),
        ("who founded mint", "Mint"),
        ("What fee does stripe take for refunds?", "Stripe"),
        ("Who is the CEO of compass?", "Compass"),
        ("What's compass's CEO called?", "Compass"),
        ("Who is the mayor of Bath?", "Bath"),
        ("stripe refund fee", "Stripe"),
    ],
)
def test_it_is_one_where_a_name_stands(query: str, named: str, index: EditIndex) -> None:
    assert subjects(query, index) == [named]


@pytest.mark.parametrize(
    "query", ["Who is the CEO of Compass Road Theatre?", "What is the capital of K.A.B.?"]
)
def test_a_name_within_a_longer_one_is_not_meant(query: str, index: EditIndex) -> None:
    assert subjects(query, index) == []


def test_a_name_may_go_on_with_what_the_edit_says_of_it(index: EditIndex) -> None:
    assert subjects("What does Box Team cost?", index) == ["Box"]
