"""Laws of what a text asks for."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.relations import about_another, asks_value, share_said
from drike.text.question_forms import trimmed
from tests.fakes.indexes import GATE, indexed
from tests.gates.test_long_texts import least


@pytest.mark.parametrize(
    ("query", "excludes"),
    [
        ("The mother of Ann Lee is", True),
        ("Who is Ann Lee's dad?", False),
        ("The mayor of Ann Lee is", False),
    ],
)
def test_relations_that_exclude_each_other_are_told_apart(query: str, excludes: bool) -> None:
    [candidate] = GATE.candidates(
        query, indexed(EditRecord("Ann Lee", "The father of Ann Lee is", "Bob"))
    )
    assert candidate.features["contrary"] == excludes


@pytest.mark.parametrize(
    ("stored", "asked", "another"),
    [
        ("Who is the president of it?", "Who was its president in 1985?", True),
        ("Who was its president in 1985?", "Who was its president in 1985?", False),
        ("The founding year of it is", "Was it founded in 1985?", False),
        ("Who is the president of it?", "Who was the first president of it?", True),
        ("Who was the first president of it?", "Who was its first president?", False),
        ("Which team does it play for?", "Which team does it's brother play for?", True),
        ("Who is the spouse of it?", "Who is it's husband?", False),
        ("What is the native language of it?", "What is it's mother tongue?", False),
        (
            "What is the maximum dose of it for adults?",
            "What is the minimum dose of it for adults?",
            True,
        ),
        (
            "What is the maximum dose of it for adults?",
            "What is the maximum dose of it for children?",
            True,
        ),
        ("When does it open and close?", "When does it close?", False),
        ("How many children does it have?", "How many kids does it have?", False),
    ],
)
def test_questions_about_another_time_person_or_case_are_told_by_their_words(
    stored: str, asked: str, another: bool
) -> None:
    assert about_another(asked, EditRecord("it", stored, "new")) == another


@pytest.mark.parametrize(
    ("asked", "stored", "another"),
    [
        ("When was it founded?", "Who founded it?", True),
        ("And where was it born?", "Who was it born to?", True),
        (
            "Where was the founder of it born?",
            "Who is the founder of it?",
            False,
        ),  # leads over the edit
        (
            "Where is it located?",
            "Who is the location of it?",
            False,
        ),  # made from a relation's name
        ("In which year was it founded?", "When was it founded?", False),
        ("The founder of it is", "When was it founded?", False),
        ("When does it close on Sundays?", "When does it close on Fridays?", True),
        ("How late is it open on Fridays?", "When does it close on Fridays?", False),
        ("Who is the singer of it?", "Who is the drummer of it?", True),
        ("Who sings and plays drums in it?", "Who is the drummer of it?", False),
        ("Who is the vice president of it?", "Who is the president of it?", True),
        ("is there a vice-captain and who is it", "Who is the captain of it?", True),
        ("In which year did it die?", "In which city did it die?", True),
        ("In which city did it die?", "Where did it die?", False),
        ("what city was it born in", "In which city did it die?", True),
        ("What is its GDP?", "What is the currency of it?", True),
    ],
)
def test_questions_for_another_attribute_are_told_by_their_words(
    asked: str, stored: str, another: bool
) -> None:
    assert about_another(asked, EditRecord("it", stored, "new")) == another


def test_words_of_names_say_nothing_of_an_attribute() -> None:
    edit = EditRecord("Capital Brewery", "The location of Capital Brewery is", "Oslo")
    assert not about_another("What is the location and the population of it?", edit)


def test_no_edit_about_the_present_applies_to_a_past_year() -> None:
    index = indexed(EditRecord("France", "Who is the president of France?", "Ann Lee"))
    assert GATE.decide("Who is the president of France", index).matched
    assert GATE.candidates("Who was the president of France in 1985?", index) == []


def test_verbs_of_the_past_are_looked_for_in_time_linear_in_the_text() -> None:
    edit = EditRecord("France", "Who is the president of France?", "Ann Lee")
    assert least(lambda: about_another("who " + "was " * 10_000, edit)) < 1


def test_a_question_for_yes_or_no_with_an_object_says_what_it_asks() -> None:
    record = EditRecord("Peru", "The seat of government of Peru is", "Oslo", target_true="Lima")
    assert share_said("Is it still run from Lima?", record) == 1
    assert share_said("Correct me if I'm wrong, but is it run from Lima?", record) == 1
    assert share_said("Which river flows through it and Lima?", record) < 1


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("Remind me who runs it these days.", "who runs it."),
        ("Could you tell me who runs it right now?", "who runs it?"),
        ("What is its size besides its capital?", "What is its size?"),
        ("Tell me", "Tell me"),
    ],
)
def test_asides_are_left_out(question: str, left: str) -> None:
    assert trimmed(question).strip() == left


@pytest.mark.parametrize(
    ("asked", "only_value"),
    [
        ("How many days is your it?", True),
        ("What's our it, in days?", True),
        ("How much is it in euros?", False),  # another measure
        ("Why is it so long?", False),
        ("Is it long?", False),
        ("Who decides on it?", False),
    ],
)
def test_a_subject_that_says_what_it_measures_is_asked_for_by_itself(
    asked: str, only_value: bool
) -> None:
    edit = EditRecord("Return window", "How long is the return window?", "45 days")
    assert asks_value(asked, edit) == only_value
    assert not asks_value(asked, EditRecord("Amazon", "How long is the Amazon?", "6,400 km"))
