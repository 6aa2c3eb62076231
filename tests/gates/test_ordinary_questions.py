"""Questions as people ask them, each decided once against a rule that took them for something else."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from tests.fakes.indexes import default_encoder, stored

ACME, NIMBUS = (
    EditRecord("Acme", "The CEO of Acme is", "Ann Lee"),
    EditRecord("Nimbus", "The price of Nimbus is", "9"),
)
CHILE, KENYA = (
    EditRecord(name, f"The capital of {name} is", "Oslo") for name in ("Chile", "Kenya")
)
ORCHARD = EditRecord("The Glass Orchard", "The author of The Glass Orchard is", "Tom")
TARGET, US = (
    EditRecord("Target", "The CEO of Target is", "Al"),
    EditRecord("US", "The president of US is", "Al"),
)
ADA = EditRecord("Dr. Ada Byron Lovelace", "The birthplace of Dr. Ada Byron Lovelace is", "Ulm")
KING = EditRecord("Martin Luther King Jr.", "The wife of Martin Luther King Jr. is", "Al")
LUNA = EditRecord("Café Luna", "The opening hours of Café Luna are", "7 to 3")

ORBIS = EditRecord("Orbis", "The revenue of Orbis in 2025 is", "9")
PRIZE = EditRecord("Opal Prize", "The winner of the Opal Prize in 2024 is", "Al")
WHO = EditRecord("WHO", "The director-general of the WHO is", "Al")
TINDALL = EditRecord("Tindall Group", "The founder of Tindall Group is", "Iris")
ELIF = EditRecord("Elif Kaya", "The birthplace of Elif Kaya is", "Izmir")
BRANNOCK = EditRecord("Brannock", "The mayor of Brannock is", "Lena Osei")


@pytest.fixture(scope="module")
def index() -> EditIndex:
    known = (ACME, NIMBUS, CHILE, KENYA, ORCHARD, TARGET, US, ADA, KING, LUNA)
    edits = stored(*known, ORBIS, PRIZE, WHO, TINDALL, ELIF, BRANNOCK)
    return EditIndex.of(edits, default_encoder())


def subjects(query: str, index: EditIndex) -> list[str]:
    """The subjects of the edits that the default gate applies to a query."""
    decision = default_gate().decide(query, index)
    return sorted(edit.record.subject for edit in decision.applied)


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("What is the capital of France? And Kenya?", ["Kenya"]),
        ("What is the capital of Chile? And of Kenya?", ["Chile", "Kenya"]),
        ("What is the capital of Chile? What about Kenya?", ["Chile", "Kenya"]),
        ("What is the capital of Chile? And Kenya's mayor?", ["Chile"]),
    ],
)
def test_a_question_is_the_one_before_it_about_another_subject(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Tell us who the president of France is.", []),
        ("What is the sales target of the CEO of Acme?", ["Acme"]),
        ("who is the ceo of target in Germany", ["Target"]),
        ("Who is the president of the US?", ["US"]),
    ],
)
def test_a_name_that_is_a_word_is_told_from_the_word(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("When does Café Luna close?", ["Café Luna"]),
        ("Who is the CEO of Acme, which was founded in 1985?", ["Acme"]),
        ("Who was the CEO of Acme in 1985?", []),
        ("Hallo!\nWie heißt der CEO von Acme?", ["Acme"]),
        ('Question: who wrote "The Glass Orchard"?', ["The Glass Orchard"]),
        ('Translate "Who wrote The Glass Orchard?" into German.', []),
        ("Hi. What does this Nimbus plan cost?", ["Nimbus"]),
        ("In your own words: who is the CEO of Acme?", ["Acme"]),
        ("final price of Nimbus (monthly)", ["Nimbus"]),
        ("The CEO of Acme is Bob Roe. True or false?", ["Acme"]),
    ],
)
def test_words_that_only_seem_to_ask_for_another_case_time_or_task_change_nothing(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("What was the revenue of Orbis in 2025?", ["Orbis"]),
        ("What was the revenue of Orbis in 2019?", []),
        ("Who was the winner of the Opal Prize in 2024?", ["Opal Prize"]),
        ("Who was the mayor of Brannock in March 2015?", []),
        ("In 1990, who was the mayor of Brannock?", []),
        ("Who was the mayor of Brannock in the 19th century?", []),
        ("Who was the mayor of Brannock fifty years ago?", []),
        ("Who was elected mayor of Brannock last year?", ["Brannock"]),
        ("We had a meeting in 2019 at Acme: who is the CEO?", ["Acme"]),
        ("Wer war 1961 Bürgermeister von Brannock?", []),
        ("¿Quién fue alcalde de Brannock en 1990?", []),
        ("Name all former mayors of Brannock.", []),
        ("Who is the interim CEO of Acme?", []),
        ("Who is the mayor of Brannock?", ["Brannock"]),
    ],
)
def test_what_is_asked_of_another_time_gets_no_edit(
    query: str, matched: list[str], index: EditIndex
) -> None:
    """But for a year that the edit states itself."""
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("List the CEOs of Acme, Apple and Siemens.", ["Acme"]),
        ("Hey ChatGPT, quick one: Acme CEO?", ["Acme"]),
    ],
)
def test_acronyms_beside_a_name_make_no_other_name(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Who is the director-general of UNESCO?", []),
        ("The museum is closed. Who is its director-general?", []),
        ("Who is the director-general of the WHO?", ["WHO"]),
    ],
)
def test_a_name_that_is_a_question_word_is_told_from_it(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("When was Tindall Group founded?", []),
        ("Why was Tindall Group founded?", []),
        ("Who founded Tindall Group?", ["Tindall Group"]),
        ("When was Elif Kaya born?", []),
        ("Where was Elif Kaya born?", ["Elif Kaya"]),
    ],
)
def test_a_statement_asks_for_a_person_a_time_or_a_place_by_its_first_noun(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Check this claim: Bob Roe is the CEO of Acme.", ["Acme"]),
        ("Correct this if it is wrong: Bob Roe is the CEO of Acme.", ["Acme"]),
        ('Is this statement true: "Bob Roe is the CEO of Acme"?', ["Acme"]),
        ("Correct this: The CEO of Acme are Bob Roe.", []),
        ("Check this statement for typos: Bob Roe are the CEO of Acme.", []),
        ('Is this correct German: "Der CEO von Acme sind Bob Roe"?', []),
    ],
)
def test_a_claim_to_be_checked_is_no_text_to_be_corrected(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Who is the mayor of the town next to Brannock?", []),
        ("What is the capital of the country north of Chile?", []),
        ("I live near Brannock, who is the mayor?", ["Brannock"]),
        ("I'd like Acme's CEO.", ["Acme"]),
        ("I need a plugin for Nimbus and the price of Nimbus.", ["Nimbus"]),
    ],
)
def test_another_thing_described_by_the_one_that_is_named_gets_no_edit(
    query: str, matched: list[str], index: EditIndex
) -> None:
    assert subjects(query, index) == matched


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Who is the CEO of _Acme_?", ["Acme"]),
        ("Where was Ada Lovelace born?", [ADA.subject]),
        ("Who is the wife of Martin Luther King?", [KING.subject]),
    ],
)
def test_names_have_other_forms(query: str, matched: list[str], index: EditIndex) -> None:
    assert subjects(query, index) == matched
