"""Finding edits by what they say, and what was in force at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drike.edits.record import EditRecord, RecordError, Status
from drike.edits.times import moment
from drike.stores import moves
from drike.stores.edit_store import EditStore
from drike.stores.finding import Search, difference, find
from drike.stores.snapshots import Snapshot, snapshot, snapshot_at

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Perú",), owner="Ann")
PARTS = EditRecord("C++", "The author of C++ is", "São Paulo")


def ids(store: EditStore, **wanted: str) -> list[int]:
    return [edit.id for edit in find(snapshot(store), Search(**wanted))]


def test_edits_are_found_by_words_status_owner_and_subject(store: EditStore) -> None:
    store.put(PERU)
    store.put(replace(PARTS, status=Status.SHADOW))
    store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))
    moves.retire(store, 3)
    moves.change(store, 1, {"target_new": "Bergen"}, propose=True)
    assert ids(store) == [2, 1] and ids(store, status="all") == [3, 2, 1]
    assert ids(store, text="CAPITAL oslo") == [1] and ids(store, text="capit") == []
    assert (
        ids(store, text="sao") == [2]
        and ids(store, text="c++") == [2]
        and ids(store, text="2") == [2]
    )
    assert (
        ids(store, status="shadow") == [2]
        and ids(store, owner="ann") == [1]
        and ids(store, subject="peru") == [1]
    )
    [proposal] = find(snapshot(store), Search("bergen", "proposed"))
    assert proposal.record.target_new == "Bergen"
    with pytest.raises(RecordError, match="no status 'gone': it is all, draft"):
        Search(status="gone")


def test_what_was_in_force_and_what_changed(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    days = iter(range(9))
    monkeypatch.setattr("drike.stores.clock.now", lambda: f"2026-01-{next(days) + 1:02}T00:00:00Z")
    store.put(PERU)
    store.put(PARTS)
    moves.change(store, 1, {"target_new": "Bergen"}, author="ann")
    moves.retire(store, 2)
    assert [edit.record.target_new for edit in snapshot_at(store, begin).in_force(begin)] == [
        "Oslo"
    ]
    states = [snapshot_at(store, begin + timedelta(days=day)) for day in range(4)]
    assert not difference(states[1], states[1])
    [changed, retired] = difference(states[1], states[3])
    assert changed.fields == {"target_new": ("Oslo", "Bergen")}
    assert retired.fields == {"status": (Status.ACTIVE, Status.RETIRED)}
    assert [one.before for one in difference(Snapshot(), states[1])] == [None, None]
    assert moment("2026-01-01") == begin
    with pytest.raises(RecordError, match="the time 'soon' is no time"):
        moment("soon")
