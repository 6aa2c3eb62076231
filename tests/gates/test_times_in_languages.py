"""Laws of the time that a question in other languages is of, and of months."""

from __future__ import annotations

import pytest

from drike.answers.values import uniform
from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.text.months import month_names
from drike.text.value_kinds import kinds_of_value
from tests.fakes.indexes import default_encoder, stored

FEE = EditRecord("Elm House", "The fee of Elm House is", "9 euros")
HEAD = EditRecord("Elm House", "The director of Elm House is", "Ann Lee")
RENT = EditRecord("Oak Hall", "The rent of Oak Hall is", "40 euros", valid_from="2026-03-01")


@pytest.fixture(scope="module")
def index() -> EditIndex:
    return EditIndex.of(stored(FEE, HEAD, RENT), default_encoder())


def applied(query: str, index: EditIndex) -> list[str]:
    return [edit.record.target_new for edit in default_gate().decide(query, index).applied]


@pytest.mark.parametrize(
    "query",
    [
        "Wie hoch war die Gebühr von Elm House vor fünf Jahren?",
        "Wer war vor der Übernahme Direktor von Elm House?",
        "Wie hoch war die Gebühr von Elm House im Jahr 2015?",
        "Wie hoch ist die Gebühr von Elm House nächstes Jahr?",
        "¿Quién era el director de Elm House en los años ochenta?",
        "¿Cuánto era la tarifa de Elm House el mes pasado?",
        "¿Quién será director de Elm House el año que viene?",
        "Qui était directeur de Elm House avant la fusion ?",
        "Quel était le tarif de Elm House l'an dernier ?",
        "Elm House三年前的费用是多少?",
        "Elm House前任主任是谁?",
        "fee Elm House 2015",
        "What was the fee of Elm House a while ago?",
        "What was the pre-merger fee of Elm House?",
        "What was the fee of Elm House three days ago?",
    ],
)
def test_a_question_of_another_time_gets_nothing(query: str, index: EditIndex) -> None:
    assert applied(query, index) == []


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Wie hoch ist die Gebühr von Elm House dieses Jahr?", "9 euros"),
        ("¿Quién es ahora el director de Elm House?", "Ann Lee"),
        ("Qui est actuellement le directeur de Elm House ?", "Ann Lee"),
        ("What is the fee of Elm House right now?", "9 euros"),
    ],
)
def test_one_of_today_gets_the_fact(query: str, answer: str, index: EditIndex) -> None:
    assert applied(query, index) == [answer]


@pytest.mark.parametrize(
    ("time", "is_right"),
    [("as of March", True), ("since April", True), ("in June", True), ("before March", False), ("in January", False),
     ("that I may pay", True)],
)  # fmt: skip
def test_a_month_is_before_the_day_from_which_an_edit_holds_or_not(
    time: str, is_right: bool, index: EditIndex
) -> None:
    query = f"What is the rent of Oak Hall {time}?"
    assert applied(query, index) == (["40 euros"] if is_right else [])


def test_all_names_of_months_are_read_wherever_values_are() -> None:
    for name in month_names():
        assert "date" in kinds_of_value(f"15 {name}")
        assert uniform(f"15 {name}") == uniform(f"15 {name}".upper())
