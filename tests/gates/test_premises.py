"""Laws of questions that hold the old object of an edit: as what it is about, or as something else's."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.encoders.base import TextEncoder
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.gates.premises import Held, held, presupposes
from drike.text.masking import masked
from tests.fakes.indexes import default_encoder, stored

PRICE = EditRecord(
    "BeanPass", "How much does BeanPass cost per month?", "21.50 euros", "19.90 euros"
)
CAPITAL = EditRecord("Peru", "What is the capital of Peru?", "Arequipa", "Lima")
CLOSING = EditRecord("support", "When does support close?", "8 pm", "5 pm")
HEAD = EditRecord("Marlow", "Where is the head office of Marlow?", "Bristol", "Leeds")
DEPTH = EditRecord("Lake Orava", "What is the maximum depth of Lake Orava?", "52 m", "38 metres")
CHIEF = EditRecord("Vantor", "Who is the CEO of Vantor?", "Ingrid Solheim", "Dana Moss")
DAY = EditRecord("the museum", "On which weekday is the museum closed?", "Tuesday", "Monday")


@pytest.mark.parametrize(
    ("question", "record", "how"),
    [
        ("My BeanPass is 19.90, right?", PRICE, Held.ALONE),
        ("Is BeanPass still 19.90 euros a month?", PRICE, Held.ALONE),
        ("If BeanPass costs 19.90, what do I pay in a year?", PRICE, Held.ALONE),
        ("Is the 19.90 for BeanPass due on the 1st?", PRICE, Held.MEANT),
        ("I won 19.90 euros and BeanPass in a raffle. Is that taxed?", PRICE, Held.OTHERWISE),
        ("I bought a mug for 19.90 euros in the BeanPass app, may I return it?", PRICE, Held.OTHERWISE),
        ("What does BeanPass cost?", PRICE, Held.NOT),
        ("What can I do with 119.90 euros in BeanPass?", PRICE, Held.NOT),
        ("Why is Lima the capital of Peru?", CAPITAL, Held.MEANT),
        ("Which party rules Lima in Peru?", CAPITAL, Held.NAMED),
        ("Is the bus from Lima to Cusco in Peru slow?", CAPITAL, Held.OTHERWISE),
        ("I live in Lima. Is Peru warm?", CAPITAL, Held.OTHERWISE),
        ("Since support closes at 5, whom do I call at 6?", CLOSING, Held.MEANT),
        ("Our taxi to support comes at 5 pm, who is there?", CLOSING, Held.OTHERWISE),
        ("Which tram goes to the head office of Marlow in Leeds?", HEAD, Held.MEANT),
        ("Does Marlow have a shop in Leeds?", HEAD, Held.OTHERWISE),
        ("Lake Orava is only 38 metres deep, so does it freeze?", DEPTH, Held.MEANT),
        ("Is there a tower 38 metres high by Lake Orava?", DEPTH, Held.OTHERWISE),
        ("Did the museum call me on Monday?", DAY, Held.IN_DOUBT),
        ("Is the 19.90 that BeanPass takes refunded?", PRICE, Held.MEANT),
        ("Tea at support ends at 5 pm, right?", CLOSING, Held.OTHERWISE),
        ("Is there parking near Leeds for visitors of Marlow?", HEAD, Held.OTHERWISE),
        ("Since Peru has a coast, where may I surf?", CAPITAL, Held.OTHERWISE),
        ("Since Peru has changed, what is its capital?", CAPITAL, Held.NOT),
        ("As Peru is ruled from LIMA City, do we fly there?", CAPITAL, Held.NAMED),
        ("As the team moved to Cusco with Peru, do we fly there?", CAPITAL, Held.NOT),
        ("Why does support die after 3 h when it should last 5 pm?", CLOSING, Held.MEANT),
        ("Is there a night bus near support at 5 pm?", CLOSING, Held.OTHERWISE),
        ("Is Monday a good day to call the museum?", DAY, Held.OTHERWISE),
        ("How long has Dana Moss been running Vantor?", CHIEF, Held.MEANT),
        ("As Peru is all about Lima, is it fun?", CAPITAL, Held.NAMED),
        ("Does Peru have a coast?", EditRecord("Peru", "The capital of Peru is", "Oslo"), Held.NOT),
    ],
)  # fmt: skip
def test_how_a_question_holds_the_old_object(question: str, record: EditRecord, how: Held) -> None:
    assert held(masked(question, record.names), record) is how


@pytest.mark.parametrize(
    ("statement", "record", "expected"),
    [
        ("BeanPass takes 19.90 euros each month.", PRICE, True),
        ("BeanPass takes me 19.90 euros.", PRICE, True),
        ("BeanPass lets us pay 19.90 euros.", PRICE, True),
        ("My BeanPass plan only holds 10 of its 19.90 euros.", PRICE, True),
        ("I'm writing to Dana Moss as head of Vantor.", CHIEF, True),
        ("We'd like to stay at support until it closes at 5 pm.", CLOSING, True),
        ("Dana Moss gave me a box of Vantor cookies.", CHIEF, False),
        ("I bought BeanPass tea for 19.90 euros.", PRICE, False),
        ("I bought museum tickets on Monday.", DAY, False),
        ("My order came at 5 pm.", CLOSING, False),
        ("Is BeanPass 19.90 euros?", PRICE, False),
        ("BeanPass is good.", PRICE, False),
    ],
)
def test_a_statement_before_a_question_may_take_the_old_object_for_granted(
    statement: str, record: EditRecord, expected: bool
) -> None:
    assert presupposes(masked(statement, record.names), record) is expected


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return default_encoder()


@pytest.mark.parametrize(
    ("question", "edits"),
    [
        ("My BeanPass is 19.90, right?", [1]),
        ("Where did Lima get its place as the capital of Peru from?", [2]),
        ("BeanPass takes 19.90 euros from me every month. Can I deduct that?", [1]),
        ("I bought BeanPass tea for 19.90 euros. Can I send it back?", []),
        ("How long has Lima been the capital of Peru?", [2]),
        ("I bought a mug for 19.90 euros with my BeanPass app, can I still send it back?", []),
        ("Is the bus from Lima to Cusco in Peru comfortable enough for a night trip?", []),
        ("Is there a tower 38 metres high by Lake Orava?", []),
    ],
)
def test_a_premise_gets_the_fact_and_another_use_of_its_object_does_not(
    question: str, edits: list[int], encoder: TextEncoder
) -> None:
    index = EditIndex.of(stored(PRICE, CAPITAL, DEPTH), encoder)
    applied = default_gate().decide(question, index).applied
    assert [edit.id for edit in applied] == edits
