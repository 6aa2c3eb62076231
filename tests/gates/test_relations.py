"""Laws of what a text asks for."""

from __future__ import annotations

import pytest

from drike.stores.records import EditRecord
from tests.worlds.indexes import GATE, indexed


@pytest.mark.parametrize(
    ("query", "excludes"),
    [("The mother of Ann Lee is", True), ("Who is Ann Lee's dad?", False), ("The mayor of Ann Lee is", False)],
)
def test_relations_that_exclude_each_other_are_told_apart(query: str, excludes: bool) -> None:
    [candidate] = GATE.candidates(query, indexed(EditRecord("Ann Lee", "The father of Ann Lee is", "Bob")))
    assert candidate.features["contrary"] == excludes
