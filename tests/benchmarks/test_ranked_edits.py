"""The edits that a question may need, in an order, for the benchmark of chains."""

from __future__ import annotations

from benchmarks.lib.ranked_edits import ranked
from drike.edits.record import EditRecord
from drike.encoders import HashingEncoder
from drike.gates.index import EditIndex
from tests.fakes.indexes import stored
from tests.gates.test_chains import DEEP, WORLD


def test_ranked_edits_begin_with_the_chain_and_go_on_with_the_nearest() -> None:
    far = EditRecord("Mount Ember", "The height of Mount Ember is", "12")
    index = EditIndex.of(stored(far, *WORLD), HashingEncoder())
    ids = [edit.id for edit in ranked(DEEP, index, 6)]
    assert {2, 3, 5} < set(ids[:5]) and ids[0] == 2 and sorted(ids) == [1, 2, 3, 4, 5, 6]
    assert ranked("What is the height of the mountain?", index, 1)[0].id == 1
