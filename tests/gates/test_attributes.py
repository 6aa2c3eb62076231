"""Laws of the attributes that firms and products are asked for, and of the words for them."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.aspects import aspect, attribute_features
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.text.attributes import asked_attributes, stated_attributes
from drike.text.things import said
from tests.fakes.indexes import default_encoder, stored


@pytest.mark.parametrize(
    ("asked", "stated"),
    [
        ("What's the damage for a day at it?", "The fee of it is"),
        ("how much do you guys charge for it", "it costs"),
        ("Was muss ich für it bezahlen?", "The price of it is"),
        ("¿Cuánto cuesta it?", "it sells for"),
        ("it 多少钱？", "The price of it is"),
        ("Who calls the shots at it?", "The managing director of it is"),
        ("Who runs the Aarhus office of it?", "The head of the Aarhus office of it is"),
        ("What is it's job?", "it works as"),
        ("By when do I have to hand in my form at it?", "The deadline at it is"),
        ("Bis wann muss ich das bei it melden?", "it must be told no later than"),
        ("How many weeks of leave do I get at it?", "The length of parental leave at it is"),
        ("Until when is it open?", "it closes at"),
        ("Wann macht it zu?", "it closes at"),
        ("Does it come in brass?", "The colours of it are"),
        ("How heavy a part can it lift?", "The payload of it is"),
        ("Which firmware should it run?", "The current version of it is"),
        ("Do you ship here, it?", "it delivers to"),
        ("How long until I have to replace it's battery?", "The battery of it lasts"),
        ("Où se trouve it ?", "The head office of it is in"),
        ("Quel est le délai de préavis chez it ?", "The notice period at it is"),
    ],
)
def test_the_same_attribute_is_asked_for_in_many_words(asked: str, stated: str) -> None:
    assert asked_attributes(asked).keys() & stated_attributes(stated)


@pytest.mark.parametrize(
    ("asked", "stated"),
    [
        ("How much is it?", "The colours of it are"),
        ("Who runs it?", "The warranty of it is"),
        ("What is the address of it?", "The price of it is"),
        ("How many axes does it have?", "The notice period at it is"),
    ],
)
def test_another_attribute_is_told_apart(asked: str, stated: str) -> None:
    assert not asked_attributes(asked).keys() & stated_attributes(stated)


def test_the_words_for_an_attribute_are_said_with_a_gap_or_any_ending() -> None:
    assert asked_attributes("What on earth is the damage for it?")["price"] >= {"what", "damage"}
    assert "price" not in asked_attributes("What is it made of, given all of the storm's damage?")
    assert "price" in asked_attributes("costing of it") and "price" not in asked_attributes("coast")


def test_a_fact_that_alone_is_about_what_is_asked_is_told_from_the_others() -> None:
    asked = said("What do I have to pay for it?")
    price, other_price, colour = (
        aspect(asked, EditRecord("it", query, "x"))
        for query in ("The price of it is", "it costs at Easter", "The colours of it are")
    )
    assert attribute_features(price, [colour])["sole"]
    assert not attribute_features(price, [other_price, colour])["sole"]
    assert attribute_features(colour, [price])["differs"]
    assert price.covered == 1


FIRM = "Ostrava Kayaks"
FACTS = (
    EditRecord(FIRM, f"A guided tour with {FIRM} costs", "49 euros"),
    EditRecord(FIRM, f"Bookings with {FIRM} can be cancelled until", "two days before"),
    EditRecord(FIRM, f"The smallest age for tours with {FIRM} is", "12 years"),
    EditRecord(FIRM, f"Support at {FIRM} is led by", "Jana Kralova"),
    EditRecord(FIRM, f"The colours of the boats of {FIRM} are", "red and teal"),
)


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        (f"What's the damage for a guided tour with {FIRM}?", [1]),
        (f"how much do you guys charge for a guided tour, {FIRM}?", [1]),
        (f"Up to when can I cancel my booking with {FIRM}?", [2]),
        (f"Who's in charge of support at {FIRM}?", [4]),
        (f"In what colours do the boats of {FIRM} come?", [5]),
        (f"Does {FIRM} have a shop in Prague?", []),
        (f"When was {FIRM} founded?", []),
    ],
)
def test_the_gate_finds_what_is_asked_for_in_other_words(question: str, ids: list[int]) -> None:
    index = EditIndex.of(stored(*FACTS), default_encoder())
    assert [edit.id for edit in default_gate().decide(question, index).matched] == ids


def test_the_old_object_in_any_role_covers_nothing() -> None:
    record = EditRecord("Villa Aurelia", "The designer of Villa Aurelia is", "Greta", "Ansbach")
    asked = said("Did Ansbach ever visit it?")
    assert aspect(asked, record).covered == 0
    assert aspect(said("Did Greta ever visit it?"), record).covered > 0
