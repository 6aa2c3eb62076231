"""Laws of the gates that decide by names."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.decision import MOST_MATCHED
from drike.gates.index import EditIndex
from drike.stores.snapshots import Snapshot
from drike.text.words import words
from tests.fakes.indexes import NOON, PERU, matched, stored


@pytest.mark.parametrize(
    "query",
    [
        "What is the capital of Peru?",
        "PERU's capital?",
        "peru",
        "In “Peru”, who?",
        "the republic of  peru is",
        "Perú",
    ],
)
def test_a_named_subject_fires_its_edit(query: str) -> None:
    assert matched(query, PERU) == [1]


@pytest.mark.parametrize(
    "query", ["", "Hello, how are you?", "Peruvian capitals", "Superu", "Republic of Chile", "?!"]
)
def test_an_edit_whose_subject_is_not_named_as_whole_words_stays_silent(query: str) -> None:
    assert matched(query, PERU) == []


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Łódź", "Who is the mayor of Lodz?"),
        ("Strasse", "Which STRAßE is it?"),
        ("C++", "Who made C++?"),
        ("O'Brien", "Where was O’Brien born?"),
        ("東京", "東京の知事は誰ですか"),
        ("\ufb01ne art", "What is fine art?"),
        ("Ångström", "Angstrom was born in"),
        ("Ångström", "A\u030angstro\u0308m was born in"),
    ],
)
def test_names_are_compared_without_case_diacritics_and_forms_of_letters(
    name: str, query: str
) -> None:
    assert matched(query, EditRecord(name, f"{name} is", "new")) == [1]


def test_letters_with_signs_are_other_names() -> None:
    assert matched("Who made C?", EditRecord("C++", "C++ was made by", "Ann")) == []


def test_a_name_inside_a_longer_stored_name_is_not_meant() -> None:
    chile = EditRecord("Chile", "The capital of Chile is", "Oslo")
    university = EditRecord(
        "University of Chile", "The capital with University of Chile is", "Rome"
    )
    assert matched("The capital with the University of Chile is", chile, university) == [2]
    assert matched("The University of Chile is in the capital of Chile", chile, university) == [
        2,
        1,
    ]


@pytest.mark.parametrize("encoder", [None, HashingEncoder()], ids=["words", "vectors"])
def test_of_a_subject_the_edit_with_the_nearest_wording_fires(
    encoder: HashingEncoder | None,
) -> None:
    anthem = EditRecord(
        "Peru", "The national anthem of Peru is", "Ode", paraphrases=("Peru sings",)
    )
    assert matched("Tell me the capital of Peru", PERU, anthem, encoder=encoder) == [1]
    assert matched("Which national anthem has Peru", PERU, anthem, encoder=encoder) == [2]
    assert matched("What Peru sings", PERU, anthem, encoder=encoder) == [2]


def test_several_named_subjects_fire_an_edit_each_and_three_at_most() -> None:
    entries = [
        EditRecord(name, f"{name} is led by", "Ann") for name in ("Peru", "Chile", "Cuba", "Mali")
    ]
    assert sorted(matched("Are Peru and Chile led by the same woman?", *entries)) == [1, 2]
    assert len(matched("Peru, Chile, Cuba and Mali", *entries)) == MOST_MATCHED
    assert (
        matched("Peru, Chile, Cuba and Mali", *entries[:3], replace(entries[3], priority=1))[0] == 4
    )


def test_a_negative_exemplar_never_fires_its_edit() -> None:
    excluded = replace(PERU, negatives=("Is Peru the capital of llamas?",))
    anthem = EditRecord("Peru", "The national anthem of Peru is", "Ode")
    assert matched("Is Peru the capital of llamas", excluded) == []
    assert (
        matched("is perú the capital of llamas?!", excluded, anthem) == []
    )  # and no other edit answers instead
    assert matched(
        "Is Peru the capital of alpacas, and its national anthem?", excluded, anthem
    ) == [2]
    assert matched("Is Peru the capital of alpacas?", excluded) == [1]


def test_only_edits_in_force_fire() -> None:
    for changed in (
        {"status": Status.RETIRED},
        {"status": Status.DRAFT},
        {"valid_to": "2026-11-01T00:00:00Z"},
    ):
        [one] = stored(replace(PERU, **changed))
        index = EditIndex.of(Snapshot(1, {1: one}).in_force(NOON))
        assert Named().decide(PERU.query, index).matched == ()
    assert matched(PERU.query, replace(PERU, status=Status.RETIRED)) == []


def test_decisions_do_not_depend_on_the_order_of_the_edits() -> None:
    entries = [
        EditRecord(f"Name {i % 7}", f"The {i % 5} of Name {i % 7} is", f"o{i}", priority=i % 2)
        for i in range(40)
    ]
    edits = stored(*entries)
    queries = [f"What is the {i % 5} of Name {i % 7} or of name {i % 3}?" for i in range(40)]
    index = EditIndex.of(edits)
    expected = [Named().decide(query, index) for query in queries]
    random.Random(0).shuffle(edits)
    assert [Named().decide(query, EditIndex.of(edits)) for query in queries] == expected


def test_an_empty_index_and_texts_of_bare_signs_decide_nothing() -> None:
    assert matched("Peru") == []
    assert matched("Who sings in !!!", EditRecord("!!!", "!!! is from", "Oslo")) == []
    assert words("!!! ...") == []
