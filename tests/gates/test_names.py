"""Laws of finding names in a query."""

from __future__ import annotations

import pytest

from drike.gates.by_name import Named
from drike.gates.index import ParsedQuery
from drike.gates.short_forms import NameMatch
from drike.stores.records import EditRecord
from tests.worlds.indexes import GATE, indexed


@pytest.mark.parametrize(
    ("name", "query", "kind"),
    [
        ("Danielle Darrieux", "The mother tongue of Daniele Darrieux is", NameMatch.TYPO),
        ("Danielle Darrieux", "The mother tongue of Danielle Darreiux is", NameMatch.TYPO),
        ("Samuel C. MacAulay", "The employer of Samuel MacAulay is", NameMatch.PARTIAL),
        ("Henry Blyde", "The employer of Henry Ernest Blyde is", NameMatch.PARTIAL),
        ("Yoshida Keigo", "The employer of Keigo Yoshida is", NameMatch.PARTIAL),
        ("Nancy Astor, Viscountess Astor", "Who was Nancy Astor?", NameMatch.PARTIAL),
        ("Budapest", "Who governs Budapset?", NameMatch.TYPO),
    ],
)
def test_partial_names_of_people_and_typos_are_found(name: str, query: str, kind: NameMatch) -> None:
    index = indexed(EditRecord(name, f"{name} is", "new"))
    assert [mention.kind for mention in ParsedQuery.of(query, index).mentions] == [kind]
    [candidate] = GATE.candidates(query, index)
    assert candidate.features[kind.value] == 1
    assert Named().decide(query, index).matched == ()


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Bank of America", "Is there a bank in America?"),
        ("Mark Gold", "Is Gold a mark?"),
        ("Paris, Texas", "The mayor of Paris is"),
        ("Henry Blyde", "Is Henry older than Mister Blythe?"),
        ("Turin", "The turing test is"),
    ],
)
def test_other_words_and_parts_of_names_name_nobody(name: str, query: str) -> None:
    index = indexed(EditRecord(name, f"{name} is", "new"))
    assert GATE.candidates(query, index) == []


@pytest.mark.parametrize(
    ("query", "longer"),
    [
        ("The rector of University of Chile is", True),
        ("Chile 2 is", True),
        ("The South-Chile is", True),
        ("In Chile, Ann is", False),
        ("The capital of Chile is", False),
        ("Is Chile larger?", False),
    ],
)
def test_a_name_that_goes_on_is_told_from_one_that_ends(query: str, longer: bool) -> None:
    [candidate] = GATE.candidates(query, indexed(EditRecord("Chile", "The capital of Chile is", "Oslo")))
    assert candidate.features["continued"] == longer
