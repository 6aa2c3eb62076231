"""Laws of chains: an edit joins where a matched one leads to it and the question asks for it, and not otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.chains import joined
from drike.gates.decision import MOST_MATCHED, Candidate, Decision
from drike.gates.index import EditIndex
from tests.fakes.indexes import CountingEncoder, stored

NOVEL = EditRecord("Glass Orchard", "The author of Glass Orchard is", "Ada Finch")
FINCH = EditRecord("Ada Finch", "Ada Finch is a citizen of the country of", "Peru")
BORN = EditRecord("Ada Finch", "Ada Finch was born in the year", "1911")
CAPITAL = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))
LANGUAGE = EditRecord("Peru", "The official language of Peru is", "Danish")
WORLD = (NOVEL, FINCH, BORN, CAPITAL, LANGUAGE)
DEEP = "What is the capital of the country of which the author of Glass Orchard is a citizen?"


def chain(question: str, *records: EditRecord, encoder: HashingEncoder | None = None) -> list[int]:
    index = EditIndex.of(stored(*(records or WORLD)), encoder)
    return [edit.id for edit in joined(Named().decide(question, index), index).matched]


@pytest.mark.parametrize("encoder", [None, HashingEncoder()])
def test_edits_join_in_the_order_of_the_chain_that_the_question_asks_for(
    encoder: HashingEncoder | None,
) -> None:
    assert chain(DEEP, encoder=encoder) == [1, 2, 4]
    assert chain("In which year was the author of Glass Orchard born?", encoder=encoder) == [1, 3]
    assert chain(
        "What is the official language of the country where Ada Finch is a citizen?",
        encoder=encoder,
    ) == [
        2,
        5,
    ]


@pytest.mark.parametrize(
    "question",
    [
        "Who is the author of Glass Orchard?",
        "Glass Orchard",
        "Which author wrote Glass Orchard, and who reads it?",
        "Hello!",
    ],
)
def test_a_question_for_one_fact_gets_no_other(question: str) -> None:
    index = EditIndex.of(stored(*WORLD))
    decision = Named().decide(question, index)
    assert joined(decision, index) == decision


def test_a_word_that_is_said_of_many_relations_is_no_evidence() -> None:
    village = EditRecord("Hollow Vale", "The country of Hollow Vale is", "Peru")
    where = EditRecord("Peru", "Peru is located in the continent of", "Asia")
    assert chain("Which country is Hollow Vale located in?", village, where) == [1]
    assert chain("On which continent is the country of Hollow Vale located?", village, where) == [
        1,
        2,
    ]


def test_an_edit_joins_under_an_alias_but_not_where_its_name_is_only_part_of_the_new_object() -> (
    None
):
    assert chain(DEEP, NOVEL, replace(FINCH, target_new="Republic of Peru"), CAPITAL) == [1, 2, 3]
    assert chain(DEEP, NOVEL, replace(FINCH, target_new="Upper Peru"), CAPITAL) == [1, 2]


def test_never_more_join_than_may_match_and_none_displaces_a_match() -> None:
    tune = EditRecord("Peru", "The anthem of Peru is", "Silence", priority=9)
    asked = DEEP.replace("the capital", "the anthem, the official language and the capital")
    found = chain(asked, *WORLD, tune)
    assert len(found) == MOST_MATCHED and found[:2] == [1, 2]


def test_shadow_edits_negative_exemplars_and_circles_lead_nowhere() -> None:
    shadow = replace(FINCH, status=Status.SHADOW)
    assert chain(DEEP, NOVEL, shadow, CAPITAL) == [1]
    assert chain(DEEP, NOVEL, replace(FINCH, negatives=(DEEP,)), CAPITAL) == [1]
    circle = replace(CAPITAL, target_new="Glass Orchard")
    assert chain(DEEP, NOVEL, FINCH, circle) == [1, 2, 3]


def test_only_a_few_parts_of_a_question_are_embedded_and_only_where_something_could_join() -> None:
    encoder = CountingEncoder()
    index = EditIndex.of(stored(*WORLD), encoder)
    spelled = "Which seat of government has the old southern homeland where Glass Orchard's author spent many long years?"
    decided = [
        Named().decide(question, index) for question in (spelled, "What is the capital of Peru?")
    ]
    encoder.asked.clear()
    joined(decided[0], index)
    assert encoder.asked and len(encoder.asked) <= 3
    assert not any(word in text for text in encoder.asked for word in ("glass", "author"))
    encoder.asked.clear()
    assert joined(decided[1], index) is decided[1] and not encoder.asked


def test_a_chain_is_matched_in_the_order_of_its_edits() -> None:
    index = EditIndex.of(stored(*WORLD))
    first = Candidate(index.edits[1], 0.6, "glass orchard", uncertain=True)
    decision = joined(Decision.of(DEEP, [first], [first], ""), index)
    assert [edit.id for edit in decision.matched] == [1, 2, 4]
    assert (
        decision.reason
        == '"glass orchard" is named: edit 1; edit 1 leads to it: edit 2; edit 2 leads to it: edit 4'
    )
    assert joined(decision, index) == decision
