"""The similarity of demonstrations, as the benchmark measures it."""

from __future__ import annotations

import pytest

from benchmarks.similarity import similarities
from drike.encoders import HashingEncoder
from drike.errors import DataError
from drike.research.datasets import TINYFACTS, load


def test_nearer_rows_and_more_rows_are_more_similar() -> None:
    mean, first, last, others = similarities(load(TINYFACTS), HashingEncoder(), 4, 3).values()
    assert last <= mean <= first <= 1 and mean <= others + 1e-6


@pytest.mark.parametrize(("editable", "k"), [(0, 3), (10**6, 3), (4, 0)])
def test_no_editable_rows_no_other_rows_and_no_neighbours_are_refused(
    editable: int, k: int
) -> None:
    with pytest.raises(DataError, match="change these numbers"):
        similarities(load(TINYFACTS), HashingEncoder(), editable, k)
