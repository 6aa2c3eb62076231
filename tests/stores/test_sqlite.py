"""Laws of the SQLite file that keeps a store."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from drike.edits.conflicts import ConflictError, conflict_keys
from drike.edits.record import EditRecord, StoreError, UnavailableError
from drike.gates.by_name import Named
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import open_keys
from drike.stores.log import CLAIMS
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore
from tests.fakes.stores import PERU, active
from tests.fakes.tally import Tally


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
def test_another_database_is_refused_and_left_as_it_was(
    tmp_path: Path, statements: list[str], message: str
) -> None:
    path = tmp_path / "edits.db"
    prepare(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "edits.db").write_bytes(content)
    with pytest.raises(
        StoreError, match=r"is damaged or no store of edits .*: restore it from a copy"
    ):
        SqliteStore(tmp_path / "edits.db")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened .*: check the path"):
        SqliteStore(tmp_path)


def damaged(path: Path, every: int, masks: tuple[int, ...]) -> tuple[int, int]:
    """Change bytes of a store one by one; return how many changes were refused, and how many made no difference."""
    store = SqliteStore(path)
    for n in range(8):
        store.put(
            EditRecord(f"Town {n}", f"The river of Town {n} is", f"River {n}", reason="x" * 200)
        )
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
    store.database._connection.execute("PRAGMA max_page_count = 8")
    with pytest.raises(
        StoreError, match=r"cannot be written \(database or disk is full\): make room"
    ):
        store.put(
            EditRecord(
                "Chile", "The capital of Chile is", "Rome", reason="x" * 9_999, source="y" * 9_999
            )
        )
    assert active(store) == {"Oslo"}
    store.database._connection.execute("PRAGMA max_page_count = 1000")
    store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))


def test_a_store_that_could_not_be_written_is_opened_anew(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(PERU)
        store.database._connection.execute(
            "PRAGMA query_only = ON"
        )  # fails as a file system does that is read-only
        with pytest.raises(UnavailableError, match="check the path and its permissions"):
            store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))
        assert store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))


def test_the_store_never_uses_a_write_ahead_log(tmp_path: Path) -> None:
    """SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset."""
    SqliteStore(tmp_path / "edits.db").put(PERU)
    prepare(tmp_path / "edits.db", "PRAGMA journal_mode = WAL")
    store = SqliteStore(tmp_path / "edits.db")
    assert store.database._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert store.database._connection.execute("PRAGMA synchronous").fetchone() == (3,)


def test_the_store_needs_no_torch() -> None:
    code = "import sys, drike.stores.tables, drike.stores.sqlite; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("checksum", [None, 3, 1.5, b"x"])
def test_a_checksum_that_is_no_text_is_reported(tmp_path: Path, checksum: object) -> None:
    path = tmp_path / "edits.db"
    three_edits(path).close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "CREATE TABLE damaged AS SELECT * FROM changes"
        )  # without the constraints of the other
        file.execute("UPDATE damaged SET checksum = ? WHERE number = 2", [checksum])
        file.execute("DROP TABLE changes")
        file.execute("ALTER TABLE damaged RENAME TO changes")
    with pytest.raises(StoreError, match="damaged"), closing(SqliteStore(path)) as store:
        store.changes()


@pytest.mark.reliability
def test_any_damaged_byte_is_reported_or_changes_nothing(tmp_path: Path, tally: Tally) -> None:
    found = damaged(tmp_path / "edits.db", every=1, masks=(0x01, 0x80))
    tally("damaged bytes of a store", sum(found))


def three_edits(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    for name in ("Peru", "Chile", "Cuba"):
        store.put(EditRecord(name, f"The capital of {name} is", "Oslo"))
    return store


LAST = "(SELECT max(number) FROM changes)"


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM changes WHERE number = {LAST}",
        "DELETE FROM changes",
        "UPDATE changes SET entry = replace(entry, 'Oslo', 'Rome'), checksum = :forged WHERE number = 2",
        "UPDATE changes SET entry = replace(entry, 'Oslo', 'Rome'), checksum = :forged WHERE number = 3",
        "INSERT INTO changes SELECT 4, 4, 1, created_at, replace(entry, 'Cuba', 'Mali'), :forged FROM changes LIMIT 1",
        "DELETE FROM settings WHERE name = 'head'",
        "UPDATE settings SET value = '2 ' || (SELECT checksum FROM changes WHERE number = 2) WHERE name = 'head'",
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_a_log_that_is_cut_or_rewritten_is_refused_when_opened_and_while_it_is_used(
    tmp_path: Path, statement: str, running: bool
) -> None:
    path = tmp_path / "edits.db"
    store = three_edits(path)
    seen = snapshot(store)
    with closing(sqlite3.connect(path)) as file:
        number, edit, version, made, entry = file.execute(
            "SELECT number, edit, version, created_at, entry FROM changes WHERE number = 3"
        ).fetchone()
        content = [
            2 if "= 2" in statement else number,
            edit,
            version,
            made,
            entry.replace("Oslo", "Rome"),
        ]
        forged = hashlib.sha256(json.dumps(content).encode()).hexdigest()[
            :16
        ]  # as a store without a chain has it
        file.execute("DROP TRIGGER no_update")
        file.execute("DROP TRIGGER no_delete")
        file.execute(statement, {"forged": forged} if ":forged" in statement else {})
        file.commit()
    with pytest.raises(
        StoreError, match=r"is damaged or no store of edits \(.*\): restore it from a copy"
    ):
        if not running:
            SqliteStore(path).changes()
        elif "number = 2" in statement and "entry" in statement:
            store.changes()
        else:
            store.put(PERU, supersede=True)
    if "DELETE FROM changes" in statement:
        with pytest.raises(StoreError, match="is damaged"):
            snapshot(store, seen)
    store.close()


@pytest.mark.parametrize(
    "statement", ["DELETE FROM claims", "UPDATE claims SET key = key || 'x' WHERE edit = 2"]
)
def test_claims_that_were_lost_are_made_again_from_the_log(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "edits.db"
    three_edits(path).close()
    with closing(sqlite3.connect(path)) as file:
        before = file.execute("SELECT * FROM claims ORDER BY key").fetchall()
        file.execute(statement)
        file.commit()
    store = SqliteStore(path)
    with pytest.raises(ConflictError, match="contradicts edit 2"):
        store.put(EditRecord("Chile", "The capital of Chile is", "Rome"))
    store.put(EditRecord("Mali", "The river of Mali is", "Niger"))
    assert (
        store.database._connection.execute(
            "SELECT * FROM claims WHERE edit < 4 ORDER BY key"
        ).fetchall()
        == before
    )
    store.close()


def test_a_chain_goes_on_from_an_old_store_and_covers_its_last_change(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(
            (Path(__file__).parents[1] / "golden/data/stores/version-2.sql").read_text("utf-8")
        )
    with closing(SqliteStore(path)) as store:
        [added] = store.put(EditRecord("Chad", "The capital of Chad is", "Rome"))
        changes = store.changes()
        assert [len(change.checksum) for change in changes] == [16] * 9 + [32] and changes[
            -1
        ] == added
    with closing(sqlite3.connect(path)) as file:
        file.executescript(
            "DROP TRIGGER no_update; UPDATE changes SET checksum = 'x' || checksum WHERE number = 9"
        )
    with (
        closing(SqliteStore(path)) as store,
        pytest.raises(StoreError, match=r"is damaged .*change 9"),
    ):
        store.changes()


@pytest.mark.reliability
def test_a_hundred_thousand_edits_are_imported_listed_and_served_in_time(tmp_path: Path) -> None:
    """All are compared with reading, writing and hashing JSON, so that a slow machine fails nothing."""
    path, store = tmp_path / "facts.jsonl", tmp_path / "edits.db"
    with path.open("w") as file:
        for i in range(100_000):
            name = f"Town {i} on the River {i % 977}"
            fact = {
                "subject": name,
                "query": f"The mayor of {name} is",
                "target_new": f"Person {i % 97}",
            }
            file.write(
                json.dumps({**fact, "aliases": [f"T{i}"], "negatives": [f"Who lives in {name}?"]})
                + "\n"
            )
    seconds: dict[str, float] = {"JSON": 0.0}
    for line in path.read_text("utf-8").splitlines():
        began = time.process_time()
        hashlib.sha256(json.dumps(json.loads(line)).encode()).hexdigest()
        seconds["JSON"] += time.process_time() - began
    for command in (["edits", "import", str(path)], ["edits", "list"], ["edits", "--help"]):
        with (tmp_path / "out").open("w") as out:
            before = os.times()
            arguments = [sys.executable, "-m", "drike", *command]
            arguments += ["--store", str(store)] if command[1] != "--help" else []
            subprocess.run(arguments, check=True, stdout=out)
            after = os.times()
        used = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        seconds[command[1]] = used
    began = time.process_time()
    with closing(SqliteStore(store)) as opened:
        seconds["open"] = time.process_time() - began
        EditFeed(opened, Named())
    seconds["feed"] = time.process_time() - began
    print({name: round(value, 1) for name, value in seconds.items()})
    assert seconds["import"] < 160 * seconds["JSON"] and seconds["feed"] < 40 * seconds["JSON"]
    assert seconds["list"] - seconds["--help"] < 8 * seconds["JSON"]


def test_a_change_of_what_claims_are_compared_by_renames_their_setting() -> None:
    query, aliases = "The spouse of J. K. Rowling, née An Lee: is", ("São Paulo's: U.S.",)
    keys = {
        "query\nspouse of j k rowling nee lee is",
        "relation\nspouse of it nee lee is\njk rowling",
        "relation\nspouse of it nee lee is\nsao paulo s u s",
    }
    record = EditRecord("J. K. Rowling", query, "A", aliases=aliases)
    assert (CLAIMS, conflict_keys(record)) == ("claims by initials", keys), (
        "else old ones would stay as they are"
    )


def test_a_store_of_an_earlier_version_compares_its_edits_as_new_ones(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(EditRecord("São Paulo", "The mayor of São Paulo is", "Ann"))
    with closing(sqlite3.connect(tmp_path / "edits.db")) as file, file:
        file.execute("DELETE FROM settings WHERE name = ?", [CLAIMS])
        file.execute("UPDATE claims SET key = replace(key, 'sao', 'são')")
    with closing(SqliteStore(tmp_path / "edits.db")) as store, pytest.raises(ConflictError):
        store.put(EditRecord("São Paulo", "The mayor of São Paulo is", "Bob"))


@pytest.mark.parametrize(
    "address",
    [
        "POSTGRESQL://ann:hunter2@localhost:1/db",
        "Postgres://ann:hunter2@localhost:1/db",
        "postgresql+psycopg://ann:hunter2@localhost/db",
        "postgresql:/ann:hunter2@localhost/db",
        "mysql://ann:hunter2@localhost/db",
        "host=localhost password=hunter2",
    ],
)
def test_no_message_shows_the_password_of_an_address(address: str) -> None:
    for opened in (open_store, open_keys):
        with pytest.raises(StoreError) as caught:
            opened(address)
        assert "hunter2" not in str(caught.value) and "postgresql://" in str(caught.value)
