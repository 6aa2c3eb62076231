"""Laws of the gate: which stored edits a query concerns."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from drike.encoders import HashingEncoder
from drike.encoders.base import FloatArray, Progress
from drike.serving.scope import MOST_FIRED, EditIndex, Named, Scope, words
from drike.serving.store import Entry, Snapshot, Status, StoredEdit

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERU = Entry("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))


def stored(*entries: Entry) -> list[StoredEdit]:
    return [StoredEdit(i, i, 1, "2026-11-22T12:00:00Z", entry) for i, entry in enumerate(entries, 1)]


def fired(query: str, *entries: Entry, scope: Scope | None = None, **options: Any) -> list[int]:
    return [one.id for one in (scope or Named()).decide(query, EditIndex.of(stored(*entries), **options)).fired]


class CountingEncoder(HashingEncoder):
    """Keeps the texts it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self.asked += texts
        return super().encode(texts, progress)


@pytest.mark.parametrize(
    "query",
    ["What is the capital of Peru?", "PERU's capital?", "peru", "In “Peru”, who?", "the republic of  peru is", "Perú"],
)
def test_a_named_subject_fires_its_edit(query: str) -> None:
    assert fired(query, PERU) == [1]


@pytest.mark.parametrize("query", ["", "Hello, how are you?", "Peruvian capitals", "Superu", "Republic of Chile", "?!"])
def test_an_edit_whose_subject_is_not_named_as_whole_words_stays_silent(query: str) -> None:
    assert fired(query, PERU) == []


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
def test_names_are_compared_without_case_diacritics_and_forms_of_letters(name: str, query: str) -> None:
    assert fired(query, Entry(name, f"{name} is", "new")) == [1]


def test_letters_with_signs_are_other_names() -> None:
    assert fired("Who made C?", Entry("C++", "C++ was made by", "Ann")) == []


def test_a_name_inside_a_longer_stored_name_is_not_meant() -> None:
    chile = Entry("Chile", "The capital of Chile is", "Oslo")
    university = Entry("University of Chile", "The capital with University of Chile is", "Rome")
    assert fired("The capital with the University of Chile is", chile, university) == [2]
    assert fired("The University of Chile is in the capital of Chile", chile, university) == [2, 1]


@pytest.mark.parametrize("encoder", [None, HashingEncoder()], ids=["words", "vectors"])
def test_of_a_subject_the_edit_with_the_nearest_wording_fires(encoder: HashingEncoder | None) -> None:
    anthem = Entry("Peru", "The national anthem of Peru is", "Ode", wordings=("Peru sings",))
    assert fired("Tell me the capital of Peru", PERU, anthem, encoder=encoder) == [1]
    assert fired("Which national anthem has Peru", PERU, anthem, encoder=encoder) == [2]
    assert fired("What Peru sings", PERU, anthem, encoder=encoder) == [2]


def test_several_named_subjects_fire_an_edit_each_and_three_at_most() -> None:
    entries = [Entry(name, f"{name} is led by", "Ann") for name in ("Peru", "Chile", "Cuba", "Mali")]
    assert sorted(fired("Are Peru and Chile led by the same woman?", *entries)) == [1, 2]
    assert len(fired("Peru, Chile, Cuba and Mali", *entries)) == MOST_FIRED
    assert fired("Peru, Chile, Cuba and Mali", *entries[:3], replace(entries[3], priority=1))[0] == 4


def test_a_negative_exemplar_never_fires_its_edit() -> None:
    excluded = replace(PERU, negatives=("Is Peru the capital of llamas?",))
    anthem = Entry("Peru", "The national anthem of Peru is", "Ode")
    assert fired("Is Peru the capital of llamas", excluded) == []
    assert fired("is perú the capital of llamas?!", excluded, anthem) == [2]
    assert fired("Is Peru the capital of alpacas?", excluded) == [1]


def test_only_edits_in_force_fire() -> None:
    for changed in ({"status": Status.RETIRED}, {"status": Status.DRAFT}, {"valid_to": "2026-11-01T00:00:00Z"}):
        [one] = stored(replace(PERU, **changed))
        index = EditIndex.of(Snapshot(1, {1: one}).in_force(NOON))
        assert Named().decide(PERU.query, index).fired == ()
    assert fired(PERU.query, replace(PERU, status=Status.RETIRED)) == []


def test_decisions_do_not_depend_on_the_order_of_the_edits() -> None:
    entries = [Entry(f"Name {i % 7}", f"The {i % 5} of Name {i % 7} is", f"o{i}", priority=i % 2) for i in range(40)]
    edits = stored(*entries)
    queries = [f"What is the {i % 5} of Name {i % 7} or of name {i % 3}?" for i in range(40)]
    index = EditIndex.of(edits)
    expected = [Named().decide(query, index) for query in queries]
    random.Random(0).shuffle(edits)
    assert [Named().decide(query, EditIndex.of(edits)) for query in queries] == expected


def test_an_index_made_from_a_previous_one_equals_a_fresh_one_and_embeds_only_what_is_new() -> None:
    encoder = CountingEncoder()
    anthem = Entry("Peru", "The national anthem of Peru is", "Ode", wordings=("Peru sings",))
    chile = Entry("Chile", "The capital of Chile is", "Rome", wordings=("Chile is governed from",))
    before = EditIndex.of(stored(PERU, anthem), encoder)
    encoder.asked.clear()
    edits = stored(PERU, replace(anthem, wordings=("Peruvians sing",)), chile)
    reused, fresh = EditIndex.of(edits, encoder, before), EditIndex.of(edits, HashingEncoder())
    assert encoder.asked == ["Peruvians sing", *(chile.query, *chile.wordings)]
    assert reused.vectors is not None
    assert fresh.vectors is not None
    assert list(reused.rows) == list(fresh.rows)
    assert np.array_equal(reused.vectors, fresh.vectors)
    assert EditIndex.of([], encoder, reused).edits == ()


def test_an_empty_index_and_texts_of_bare_signs_decide_nothing() -> None:
    assert fired("Peru") == []
    assert fired("Who sings in !!!", Entry("!!!", "!!! is from", "Oslo")) == []
    assert words("!!! ...") == []


def test_looking_up_names_takes_less_than_half_a_millisecond_with_20000_edits() -> None:
    rng = random.Random(0)
    syllables = ("ba", "do", "ke", "li", "mu")
    names = [" ".join(rng.choice(syllables) + str(rng.randrange(900)) for _ in "ab") for _ in range(20_000)]
    index = EditIndex.of(stored(*(Entry(name, f"{name} is", "new") for name in names)))
    query = "Hello, could you please tell me how I could learn to play the piano within a year, and with whom?"
    took = []
    for _ in range(50):
        began = time.process_time()
        decision = Named().decide(query, index)
        took.append(time.process_time() - began)
    assert decision.reason == "no subject is named"
    assert min(took) < 0.0005


def test_the_gate_loads_no_torch() -> None:
    code = "import sys, drike.serving.scope; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
