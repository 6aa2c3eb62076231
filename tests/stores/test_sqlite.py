"""Laws of the SQLite file that keeps a store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from drike.stores.records import EditRecord, StoreError
from drike.stores.sqlite import SqliteStore
from tests.worlds.stores import PERU, active


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    store = SqliteStore(path)
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    store.close()
    with closing(sqlite3.connect(path)) as file:
        file.executescript("DROP TABLE gates; DROP TABLE settings; PRAGMA user_version = 1")
    store = SqliteStore(path, create=False)
    store.save_gate("a gate")
    assert active(store) == {"Oslo"} and store.gate() == (1, "a gate")
    store.close()


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store of edits"):
        SqliteStore(tmp_path / "edits.db", create=False)
    assert list(tmp_path.iterdir()) == []


def prepare(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)
    file.close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE theirs (x)"], "is a database of another program: give another --store"),
        (["PRAGMA application_id = 1", "CREATE TABLE x (x)"], "is a database of another program"),
        (
            [f"PRAGMA application_id = {0x64726B65}", "PRAGMA user_version = 99"],
            "written by a newer drike: update drike",
        ),
    ],
)
def test_another_database_is_refused_and_left_as_it_was(tmp_path: Path, statements: list[str], message: str) -> None:
    path = tmp_path / "edits.db"
    prepare(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "edits.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged or no store of edits .*: restore it from a copy"):
        SqliteStore(tmp_path / "edits.db")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened .*: check the path"):
        SqliteStore(tmp_path)


def damaged(path: Path, every: int, masks: tuple[int, ...]) -> tuple[int, int]:
    """Change bytes of a store one by one; return how many changes were refused, and how many made no difference."""
    store = SqliteStore(path)
    for n in range(8):
        store.put(EditRecord(f"Town {n}", f"The river of Town {n} is", f"River {n}", reason="x" * 200))
    store.put(EditRecord("Town 1", "The river of Town 1 is", "Nile"), supersede=True)
    good = store.changes()
    store.close()
    content = path.read_bytes()
    refused = same = 0
    for at in range(0, len(content), every):
        for mask in masks:
            path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
            try:
                store = SqliteStore(path)
                try:
                    assert store.changes() == good, (at, mask)
                    same += 1
                finally:
                    store.close()
            except StoreError:
                refused += 1
    return refused, same


def test_a_damaged_byte_is_reported_or_changes_nothing(tmp_path: Path) -> None:
    refused, same = damaged(tmp_path / "edits.db", every=211, masks=(0x80,))
    assert refused > 9 and same > 9


def test_sqlite_itself_refuses_to_rewrite_the_log(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "edits.db").put(PERU)
    for statement in ("DELETE FROM changes", "UPDATE changes SET entry = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="the log only grows"):
            prepare(tmp_path / "edits.db", statement)


def test_a_store_in_use_is_reported_after_a_while(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "edits.db"), SqliteStore(tmp_path / "edits.db", wait=0.01)
    with store.transaction():
        store.put(PERU)
        assert other.changes() == [], "readers do not wait"
        with pytest.raises(StoreError, match="is in use by another process: wait for it to end"):
            other.put(PERU)
    assert len(other.changes()) == 1


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "edits.db")
    store.put(PERU)
    store._file.execute("PRAGMA max_page_count = 8")
    with pytest.raises(StoreError, match=r"cannot be written \(database or disk is full\): make room"):
        store.put(EditRecord("Chile", "The capital of Chile is", "Rome", reason="x" * 9_999, source="y" * 9_999))
    assert active(store) == {"Oslo"}
    store._file.execute("PRAGMA max_page_count = 1000")
    store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))


def test_the_store_never_uses_a_write_ahead_log(tmp_path: Path) -> None:
    """SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset."""
    SqliteStore(tmp_path / "edits.db").put(PERU)
    prepare(tmp_path / "edits.db", "PRAGMA journal_mode = WAL")
    store = SqliteStore(tmp_path / "edits.db")
    assert store._file.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert store._file.execute("PRAGMA synchronous").fetchone() == (3,)


def test_the_store_needs_no_torch() -> None:
    code = "import sys, drike.stores.importing, drike.stores.sqlite; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.reliability
def test_any_damaged_byte_is_reported_or_changes_nothing(tmp_path: Path) -> None:
    print(damaged(tmp_path / "edits.db", every=1, masks=(0x01, 0x80)))
