"""A whole store as a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.record import EditRecord, Status, StoreError
from drike.stores import moves
from drike.stores.edit_store import EditStore, require_approvals, required_approvals
from drike.stores.export import lines_of, restore, whole_store
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore
from tests.fakes.stores import Opener

PERU = EditRecord(
    "Peru", "The capital of Peru is", "Oslo", aliases=("Perú",), author="ann", reason="decree"
)
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome")


def written(store: EditStore, path: Path) -> str:
    path.write_text("".join(f"{line}\n" for line in lines_of(store)), "utf-8")
    return path.read_text("utf-8")


def test_a_store_goes_to_another_one_and_back(
    store: EditStore, opener: Opener, tmp_path: Path
) -> None:
    for record in (PERU, CHILE, replace(PERU, target_new="Bergen", status=Status.DRAFT)):
        store.put(record)
    moves.retire(store, 2)
    moves.change(store, 1, {"target_new": "Lima"}, propose=True)
    store.save_gate("a gate")
    require_approvals(store, 2)
    text = written(store, tmp_path / "a.jsonl")
    whole = whole_store(tmp_path / "a.jsonl")
    assert whole is not None
    with pytest.raises(StoreError, match="has edits, or requires approvals, already"):
        restore(store, whole)
    other = SqliteStore(tmp_path / "other.db")
    restore(other, whole)
    assert snapshot(other) == snapshot(store) and other.gate() == store.gate()
    assert written(other, tmp_path / "b.jsonl") == text
    back = opener(tmp_path / "back.db")
    restored = whole_store(tmp_path / "b.jsonl")
    assert restored is not None
    restore(back, restored)
    assert written(back, tmp_path / "c.jsonl") == text and snapshot(back) == snapshot(store)
    back.close()
    assert required_approvals(other) == 2
    require_approvals(other, 0)
    strict = SqliteStore(tmp_path / "strict.db")
    require_approvals(strict, 1)
    with pytest.raises(StoreError, match="requires approvals, already"):
        restore(strict, whole)
    with pytest.raises(StoreError, match="contradicts edit 1"):
        other.put(replace(PERU, target_new="Quito"))
    assert [(place, record.target_new) for place, record in whole.edits("a")] == [
        ("a, edit 1", "Oslo"), ("a, edit 3", "Bergen"),
    ]  # fmt: skip


def test_a_damaged_export_is_refused(store: EditStore, tmp_path: Path) -> None:
    store.put(PERU)
    store.put(CHILE)
    path = tmp_path / "a.jsonl"
    lines = written(store, path).splitlines()
    path.write_text("\n".join(lines[:-1]), "utf-8")
    with pytest.raises(StoreError, match="1 of 2 changes"):
        whole_store(path)
    path.write_text("\n".join(lines).replace("Oslo", "Olso"), "utf-8")
    whole = whole_store(path)
    assert whole is not None
    other = SqliteStore(tmp_path / "other.db")
    with pytest.raises(StoreError, match="damaged"):
        restore(other, whole)
    assert not other.changes()
    path.write_text('{"subject": "Peru"}\n', "utf-8")
    assert whole_store(path) is None
    path.write_text('{"drike_store":' + "[" * 100_000, "utf-8")
    with pytest.raises(StoreError, match=r"damaged .* nested too deeply"):
        whole_store(path)
