"""Questions as people ask them, each decided once against a rule that took them for something else."""

from __future__ import annotations

import pytest

from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.stores.records import EditRecord
from tests.worlds.indexes import default_encoder, stored

ACME, NIMBUS = EditRecord("Acme", "The CEO of Acme is", "Ann Lee"), EditRecord("Nimbus", "The price of Nimbus is", "9")
CHILE, KENYA = (EditRecord(name, f"The capital of {name} is", "Oslo") for name in ("Chile", "Kenya"))
ORCHARD = EditRecord("The Glass Orchard", "The author of The Glass Orchard is", "Tom")
TARGET, US = EditRecord("Target", "The CEO of Target is", "Al"), EditRecord("US", "The president of US is", "Al")
ADA = EditRecord("Dr. Ada Byron Lovelace", "The birthplace of Dr. Ada Byron Lovelace is", "Ulm")
KING = EditRecord("Martin Luther King Jr.", "The wife of Martin Luther King Jr. is", "Al")
LUNA = EditRecord("Café Luna", "The opening hours of Café Luna are", "7 to 3")


@pytest.fixture(scope="module")
def index() -> EditIndex:
    edits = stored(ACME, NIMBUS, CHILE, KENYA, ORCHARD, TARGET, US, ADA, KING, LUNA)
    return EditIndex.of(edits, default_encoder())


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        # A question is the one before it about another subject.
        ("What is the capital of France? And Kenya?", ["Kenya"]),
        ("What is the capital of Chile? And of Kenya?", ["Chile", "Kenya"]),
        ("What is the capital of Chile? What about Kenya?", ["Chile", "Kenya"]),
        ("What is the capital of Chile? And Kenya's mayor?", ["Chile"]),
        # Names that are words.
        ("Tell us who the president of France is.", []),
        ("What is the sales target of the CEO of Acme?", ["Acme"]),
        ("who is the ceo of target in Germany", ["Target"]),
        ("Who is the president of the US?", ["US"]),
        # Words that seemed to ask for another case, time or task.
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
        # Forms of names.
        ("Who is the CEO of _Acme_?", ["Acme"]),
        ("Where was Ada Lovelace born?", [ADA.subject]),
        ("Who is the wife of Martin Luther King?", [KING.subject]),
    ],
)
def test_an_ordinary_question_gets_the_edits_that_it_asks_for(query: str, matched: list[str], index: EditIndex) -> None:
    decision = default_gate().decide(query, index)
    assert sorted(edit.record.subject for edit in decision.applied) == matched
