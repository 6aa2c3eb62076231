"""Laws of questions that name the new object of an edit instead of its subject."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.edits.record import EditRecord, Status
from drike.encoders.base import TextEncoder
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.gates.parsed_query import SHARING
from tests.fakes.indexes import GATE, default_encoder, indexed, stored

BORN = EditRecord("Ludwig van Beethoven", "In which city was Ludwig van Beethoven born?", "Graz")
LED = EditRecord("Acme", "The chief executive of Acme is", "Ann Lee", object_aliases=("Dr. Lee",))
EVERY = (
    BORN,
    LED,
    EditRecord("Oslo", "The mayor of Oslo is", "Bo Ek"),
    EditRecord("Peru", "The capital of Peru is", "Oslo"),
)


def object_features(query: str, *records: EditRecord) -> dict[int, dict[str, float]]:
    """The features of candidates by their object, by the edit's id."""
    candidates = GATE.candidates(query, indexed(*records))
    names = ("closed", "others", "subject")
    return {
        c.edit.id: {n: c.features[n] for n in names} for c in candidates if "object" in c.features
    }


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return default_encoder()


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("Who was born in Graz?", [1]),
        ("Which company is run by Ann Lee?", [2]),
        ("Which company is Dr. Lee the chief executive of?", [2]),
        ("Of which city is Bo Ek the mayor?", [3]),
        ("Which country has Oslo as its capital?", [4]),
        ("Who is the mayor of Oslo?", [3]),  # its subject, not the object of the other edit
        ("What is the population of Graz?", []),
        ("Where was Ann Lee born?", []),
        ("Was Franz Schubert born in Graz?", []),
        ("Where was Franz Schubert born? A. Graz B. Linz", []),
        ("Besides Graz, where are people born?", []),
        ("Translate 'Who was born in Graz?' into German.", []),
    ],
)
def test_a_question_for_the_subject_matches_and_others_about_the_object_do_not(
    query: str, matched: list[int], encoder: TextEncoder
) -> None:
    index = EditIndex.of(stored(*EVERY), encoder)
    decision = default_gate().decide(query, index)
    assert [edit.id for edit in decision.applied] == matched


def test_features_say_what_makes_it_doubtful_that_the_subject_is_asked_for() -> None:
    assert object_features("Who was born in Graz?", *EVERY) == {
        1: {"closed": 0, "others": 0, "subject": 0}
    }
    assert object_features("Is anyone born in Graz?", *EVERY) == {
        1: {"closed": 1, "others": 0, "subject": 0}
    }
    assert object_features("Who left Graz for Linz?", *EVERY) == {
        1: {"closed": 0, "others": 1, "subject": 0}
    }
    assert object_features("Which country has Oslo?", *EVERY) == {
        4: {"closed": 0, "others": 0, "subject": 1}
    }
    assert object_features("Was Ludwig van Beethoven born in Graz?", *EVERY) == {}


def test_an_object_that_many_edits_share_or_that_is_a_common_word_says_nothing() -> None:
    born = [
        replace(BORN, subject=f"Ann {i}", query=f"Where was Ann {i} born?")
        for i in range(SHARING + 1)
    ]
    assert set(object_features("Who was born in Graz?", *born[1:])) == {1, 2, 3}
    assert object_features("Who was born in Graz?", *born) == {}
    shadow = [replace(born[0], status=Status.SHADOW), *born[1:]]
    assert set(object_features("Who was born in Graz?", *shadow)) == {1, 2, 3, 4}
    assert (
        object_features("Which of the four?", EditRecord("Acme", "Acme has offices in", "four"))
        == {}
    )


def test_a_gate_without_weights_for_objects_considers_no_edit_by_its_object() -> None:
    weights = {name: weight for name, weight in GATE.named.weights.items() if name != "object"}
    earlier: Calibrated = replace(GATE, named=LogisticHead(weights, GATE.named.bias))
    assert GATE.candidates("Who was born in Graz?", indexed(*EVERY))
    assert earlier.candidates("Who was born in Graz?", indexed(*EVERY)) == []


def test_an_index_forgets_the_objects_of_edits_that_go() -> None:
    before = indexed(*EVERY)
    after = before.changed([1], [])
    assert GATE.candidates("Who was born in Graz?", before) and not GATE.candidates(
        "Who was born in Graz?", after
    )
