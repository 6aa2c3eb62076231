"""A store of edits in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from drike.stores.log import Row, append, damaged, read_rows
from drike.stores.records import EditRecord, EditVersion, StoreError, UnavailableError, stamp

_PAUSE = 0.05  # seconds between looks for another process's changes
_APPLICATION = 0x64726B65  # "drke", in the header of the file
_MIGRATIONS = (  # of the schema: the statements that lead from each version to the next
    (
        """CREATE TABLE changes (
            number INTEGER PRIMARY KEY, edit INTEGER NOT NULL, version INTEGER NOT NULL, created_at TEXT NOT NULL,
            entry TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE (edit, version))""",
        "CREATE TRIGGER no_update BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END",
        "CREATE TRIGGER no_delete BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END",
        # The questions that active edits answer; follows from the changes.
        "CREATE TABLE claims (key TEXT, edit INTEGER, PRIMARY KEY (key, edit)) WITHOUT ROWID",
        "CREATE INDEX claims_of_edit ON claims (edit)",
    ),
    ("CREATE TABLE gates (number INTEGER PRIMARY KEY, created_at TEXT NOT NULL, gate TEXT NOT NULL)",),
)


class SqliteStore:
    """An `EditStore` in the file `path`.

    create: make the file if it is missing. wait: seconds for another process's changes. clock: the time of new
    versions. Raises StoreError if the file cannot be used, is damaged, or is no store of edits.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        wait: float = 10.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = str(path)
        self._clock = clock
        self._lock = threading.RLock()
        if not create and not path.is_file():
            raise StoreError(f"there is no store of edits at {path}: add an edit first, or give another --store")
        with self._explained():
            self._file = sqlite3.connect(path.absolute(), timeout=wait, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:  # SQLite crashes if another thread is using it
            self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the block at once, or none if it raises."""
        with self._lock, self._explained():
            if self._file.in_transaction:
                yield
                return
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # the journal is rolled back when the file is next opened
                    self._file.execute("ROLLBACK")
                raise

    def put(
        self, record: EditRecord, *, replaces: EditVersion | None = None, supersede: bool = False
    ) -> list[EditVersion]:
        """Keep a record as a new edit, or as the next version of `replaces`; return all changes, this one last."""
        with self.transaction():
            return append(self, record, replaces, supersede, self._clock())

    def changes(self, after: int = 0, edit: int | None = None) -> list[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""
        where, values = ("number > ?", [after]) if edit is None else ("number > ? AND edit = ?", [after, edit])
        query = f"SELECT number, edit, version, created_at, entry, checksum FROM changes WHERE {where} ORDER BY number"  # noqa: S608
        with self._lock, self._explained():
            least = 0 if after or edit else self._file.execute("SELECT count(*) FROM changes").fetchone()[0]
            rows = self._file.execute(query, values).fetchall()
        if len(rows) < least:
            raise damaged(self.name, "changes are missing")
        return read_rows(self.name, rows, after, edit)

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was saved last: its number, from 1, and its text; None if that number is not above `after`."""
        query = "SELECT number, gate FROM gates WHERE number > ? ORDER BY number DESC LIMIT 1"
        with self._lock, self._explained():
            found: tuple[int, str] | None = self._file.execute(query, [after]).fetchone()
        return found

    def save_gate(self, gate: str) -> None:
        """Save a gate for these edits as the latest one."""
        with self.transaction():
            self._file.execute("INSERT INTO gates (created_at, gate) VALUES (?, ?)", [stamp(self._clock()), gate])

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes, for at most `timeout` seconds; return whether it has."""
        end = time.monotonic() + timeout
        while True:
            with self._lock, self._explained():
                if self.last()[0] > after:
                    return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _PAUSE))

    def last(self) -> tuple[int, int]:
        """The highest number of a change and of an edit; zeros if there is none."""
        query = "SELECT coalesce(max(number), 0), (SELECT coalesce(max(edit), 0) FROM changes) FROM changes"
        number, edit = self._file.execute(query).fetchone()
        return number, edit

    def claimants(self, keys: Collection[str]) -> list[int]:
        """The active edits that have one of these conflict keys."""
        query = "SELECT edit FROM claims WHERE key = ?"
        return list({edit for key in keys for [edit] in self._file.execute(query, [key])})

    def write(self, row: Row, keys: Collection[str]) -> None:
        """Add a change, inside a transaction; its edit now has these conflict keys and no others."""
        edit = row[1]
        self._file.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", row)
        self._file.execute("DELETE FROM claims WHERE edit = ?", [edit])
        self._file.executemany("INSERT INTO claims VALUES (?, ?)", [(key, edit) for key in keys])

    def _prepare(self) -> None:
        """Make the tables in a new file; refuse a file that is no store of this version."""
        with self._explained():
            self._file.execute("PRAGMA synchronous = EXTRA")  # a change that returned survives a power cut
            if self._header() != (_APPLICATION, len(_MIGRATIONS)):
                with self.transaction():  # another process may have made the tables meanwhile
                    application, version = self._header()
                    [[tables]] = self._file.execute("SELECT count(*) FROM sqlite_master")
                    if application != _APPLICATION and (version or tables):
                        raise StoreError(f"{self.name} is a database of another program: give another --store")
                    if version > len(_MIGRATIONS):
                        raise StoreError(f"{self.name} was written by a newer drike: update drike to use it")
                    for statement in (statement for step in _MIGRATIONS[version:] for statement in step):
                        self._file.execute(statement)
                    self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._file.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
            # On purpose: SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset.
            self._file.execute("PRAGMA journal_mode = DELETE")

    def _header(self) -> tuple[int, int]:
        [[application]], [[version]] = map(self._file.execute, ("PRAGMA application_id", "PRAGMA user_version"))
        return application, version

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter from a damaged file
            error: type[StoreError] = StoreError
            kind = getattr(problem, "sqlite_errorname", "")
            if isinstance(problem, sqlite3.ProgrammingError):
                remedy = "was closed: open it again"
            elif kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                error = UnavailableError
                remedy = "is in use by another process: wait for it to end, and try again"
            elif kind.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
                error = UnavailableError
                remedy = f"cannot be written ({problem}): make room, or check the disk; what was acknowledged stays"
            elif kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
                remedy = f"cannot be opened ({problem}): check the path and its permissions, or give another --store"
            else:
                raise damaged(self.name, str(problem)) from problem
            raise error(f"{self.name} {remedy}") from problem
