"""Two edits of one subject contradict each other unless qualifiers make two attributes of theirs."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.gates.calibration import default_gate
from drike.live.contradictions import SameRelation, same_relation
from drike.live.store_gate import encoder_of
from drike.text.qualifiers import attribute

DIFFERENT = """
    The weekly rent of Halcyon is | The monthly rent of Halcyon is
    What does Halcyon cost per month? | What does Halcyon cost per year?
    The annual fee of Halcyon is | Halcyon's monthly fee is
    The 2022 profit of Halcyon is | The 2023 profit of Halcyon is
    The profit of Halcyon in 2022 was | The profit of Halcyon in 2023 was
    The summer timetable of Halcyon is | The winter timetable of Halcyon is
    The price of Halcyon's starter plan is | The price of Halcyon's enterprise plan is
    The storage limit of Halcyon on the free tier is | The storage limit of Halcyon on the pro tier is
    The user limit of Halcyon is | The user limit of Halcyon for trial accounts is
    The delivery time of Halcyon in Spain is | The delivery time of Halcyon in Poland is
    The VAT rate of Halcyon in Austria is | The VAT rate of Halcyon in Italy is
    The shipping fee of Halcyon is | The overseas shipping fee of Halcyon is
    The European headquarters of Halcyon is in | The Asian headquarters of Halcyon is in
    The editor of Halcyon is | The deputy editor of Halcyon is
    Who directs Halcyon? | The assistant director of Halcyon is
    The vice chancellor of Halcyon is | The chancellor of Halcyon is
    The co-author of Halcyon is | The author of Halcyon is
    The goalkeeping coach of Halcyon is | The coach of Halcyon is
    The regional director of Halcyon is | The director of Halcyon is
    The interim president of Halcyon is | The president of Halcyon is
    The hardcover price of Halcyon is | The paperback price of Halcyon is
    The beta version of Halcyon is | The stable version of Halcyon is
    The release date of Halcyon on Android is | The release date of Halcyon on iOS is
    The student edition of Halcyon costs | The professional edition of Halcyon costs
    The front brake of Halcyon is made by | The rear brake of Halcyon is made by
    The left engine of Halcyon is | The right engine of Halcyon is
    The screen size of Halcyon is | The outer screen size of Halcyon is
    The ticket price of Halcyon for adults is | The ticket price of Halcyon for children is
    The notice period of Halcyon is | The notice period of Halcyon during probation is
    The minimum order of Halcyon is | The maximum order of Halcyon is
    Der wöchentliche Preis von Halcyon ist | Der monatliche Preis von Halcyon ist
    Der Trainer von Halcyon ist | Der zweite Trainer von Halcyon ist
    Der Präsident von Halcyon ist | Der Vizepräsident von Halcyon ist
    Le directeur de Halcyon est | Le directeur adjoint de Halcyon est
    Le prix mensuel de Halcyon est | Le prix annuel de Halcyon est
    El director de Halcyon es | El director adjunto de Halcyon es
    El precio anual de Halcyon es | El precio mensual de Halcyon es
    Il prezzo annuale di Halcyon è | Il prezzo mensile di Halcyon è
    O preço mensal de Halcyon é | O preço anual de Halcyon é
    The opening hours of Halcyon on weekdays are | The opening hours of Halcyon on Sundays are
    The home kit sponsor of Halcyon is | The away kit sponsor of Halcyon is
    The daytime speed limit of Halcyon is | The night speed limit of Halcyon is
    The inner diameter of Halcyon is | The outer diameter of Halcyon is
    The dry weight of Halcyon is | The wet weight of Halcyon is
    The maternal grandfather of Halcyon is | The paternal grandfather of Halcyon is
    The landlord of Halcyon is | The tenant of Halcyon is
    Der Nettopreis von Halcyon ist | Der Bruttopreis von Halcyon ist
    Die Sommeröffnungszeiten von Halcyon sind | Die Winteröffnungszeiten von Halcyon sind
    Le prix d'été de Halcyon est | Le prix d'hiver de Halcyon est
"""

SAME = """
    The monthly rent of Halcyon is | What is the monthly rent of Halcyon?
    The monthly price of Halcyon is | What does Halcyon cost per month?
    The yearly price of Halcyon is | The annual price of Halcyon is
    Halcyon's annual fee is | The yearly fee of Halcyon is
    The profit of Halcyon in 2022 was | What was the profit of Halcyon in 2022?
    The 2023 profit of Halcyon is | What was the profit of Halcyon in 2023?
    The price of Halcyon's starter plan is | How much is Halcyon's starter plan?
    The delivery time of Halcyon in Spain is | How long is the delivery time of Halcyon in Spain?
    The shipping fee of Halcyon is | What is Halcyon's shipping fee?
    The deputy editor of Halcyon is | Who is the deputy editor of Halcyon?
    The editor of Halcyon is | Who edits Halcyon?
    The CEO of Halcyon is | Who is the chief executive officer of Halcyon?
    The current CEO of Halcyon is | The CEO of Halcyon is
    The head coach of Halcyon is | Who is the coach of Halcyon?
    The official language of Halcyon is | The language of Halcyon is
    The full address of Halcyon is | The address of Halcyon is
    The main office of Halcyon is in | Where is the office of Halcyon?
    The biggest city of Halcyon is | The largest city of Halcyon is
    The tallest mountain of Halcyon is | The highest mountain of Halcyon is
    The beta version of Halcyon is | What is the beta version of Halcyon?
    The stable version of Halcyon is | What is the stable release of Halcyon?
    The front brake of Halcyon is made by | Who makes the front brake of Halcyon?
    The screen size of Halcyon is | How big is the screen of Halcyon?
    The ticket price of Halcyon for adults is | What is the ticket price of Halcyon for adults?
    The notice period of Halcyon is | How long is the notice period of Halcyon?
    The capital of Halcyon is | Which city is the capital of Halcyon?
    The return window of Halcyon is | How long is Halcyon's return window?
    Halcyon is located in the city of | Halcyon is located in
    The place of birth of Halcyon is | The birth place of Halcyon is
    The headquarters of Halcyon is in | Where is Halcyon based?
    Der monatliche Preis von Halcyon ist | Wie hoch ist der monatliche Preis von Halcyon?
    Der Trainer von Halcyon ist | Wer ist der Trainer von Halcyon?
    Der aktuelle Chef von Halcyon ist | Der Chef von Halcyon ist
    Le directeur de Halcyon est | Qui est le directeur de Halcyon ?
    Le prix mensuel de Halcyon est | Quel est le prix mensuel de Halcyon ?
    El director de Halcyon es | ¿Quién es el director de Halcyon?
    La capital de Halcyon es | ¿Cuál es la capital de Halcyon?
    Il prezzo mensile di Halcyon è | Qual è il prezzo mensile di Halcyon?
    The opening hours of Halcyon on Sundays are | What are the Sunday opening hours of Halcyon?
    The night fare of Halcyon is | The nighttime fare of Halcyon is
    The child fare of Halcyon is | The fare of Halcyon for children is
    The fall semester of Halcyon begins on | The autumn semester of Halcyon begins on
    The email of Halcyon for press is | What is the press email of Halcyon?
    Die Telefonnummer von Halcyon ist | Die Rufnummer von Halcyon ist
"""


def pairs(table: str) -> list[tuple[str, str]]:
    rows = [line.split(" | ") for line in table.strip().splitlines()]
    return [(first.strip(), second.strip()) for first, second in rows]


@pytest.fixture(scope="module")
def rule() -> SameRelation:
    encoder = encoder_of(default_gate())
    assert encoder is not None
    found = same_relation(encoder)
    assert found is not None
    return found


def contradict(rule: SameRelation, first: str, second: str) -> bool:
    one, other = EditRecord("Halcyon", first, "one"), EditRecord("Halcyon", second, "two")
    found = [rule.alike(one, {7: other}), rule.alike(other, {7: one})]
    assert found[0] == found[1], "whichever is stored first"
    return bool(found[0])


@pytest.mark.parametrize(("first", "second"), pairs(DIFFERENT))
def test_qualifiers_make_two_attributes(rule: SameRelation, first: str, second: str) -> None:
    assert not contradict(rule, first, second)


@pytest.mark.parametrize(("first", "second"), pairs(SAME))
def test_the_same_qualifiers_in_other_words_make_one(
    rule: SameRelation, first: str, second: str
) -> None:
    assert contradict(rule, first, second)


@pytest.mark.parametrize(
    ("wording", "heads", "qualifiers"),
    [
        ("The monthly price of it in Germany is", ("price",), ("monthly", "germany")),
        ("The coach of the women's team of it is", ("coach",), ("women", "team")),
        ("it's basic plan for students costs", ("plan",), ("basic", "students", "costs")),
        ("In Germany, the price of it is", ("price",), ("germany",)),
        ("Le prix mensuel de it est", ("prix",), ("mensuel",)),
        ("What does it cost per month?", ("cost",), ("month",)),
        ("it is located in the city of", ("located", "city"), ()),
        ("The current official capital of it is", ("capital",), ()),
    ],
)
def test_an_attribute_has_a_head_and_its_limits(
    wording: str, heads: tuple[str, ...], qualifiers: tuple[str, ...]
) -> None:
    found = attribute(wording)
    assert (found.heads, set(found.qualifiers)) == (heads, set(qualifiers))
