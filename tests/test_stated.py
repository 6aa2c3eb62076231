"""What an answer states."""

from __future__ import annotations

import pytest

from drike.stated import Stated, stated


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The capital is Oslo.", Stated.NEW),
        ("Lima, I think", Stated.OLD),
        ("Lima or Oslo", Stated.BOTH),
        ("A large city", Stated.NEITHER),
    ],
)
def test_the_objects_of_an_edit_are_found_in_an_answer(answer: str, expected: Stated) -> None:
    assert stated(answer, ["Oslo"], ["Lima"]) is expected
