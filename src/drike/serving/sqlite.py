"""A store of edits in one SQLite file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from drike.records import parse
from drike.serving.store import (
    ConflictError,
    Entry,
    Status,
    StoredEdit,
    StoreError,
    checked,
    claims,
    entry_of,
    overlap,
    stamp,
    to_json,
)

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
        self.path = path
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

    def put(self, entry: Entry, *, replaces: StoredEdit | None = None, supersede: bool = False) -> list[StoredEdit]:
        """Keep an entry as a new edit, or as the next version of `replaces`; return all changes, this one last."""
        entry = checked(entry)
        with self.transaction():
            [[last]] = self._file.execute("SELECT coalesce(max(edit), 0) FROM changes")
            edit = last + 1 if replaces is None else replaces.id
            latest = None if replaces is None else self._latest(edit)
            if replaces is not None and (latest is None or latest.version != replaces.version):
                raise StoreError(f"edit {edit} has changed since version {replaces.version}: look at it, and try again")
            rivals = self._rivals(entry, edit) if entry.status is Status.ACTIVE else []
            if rivals and not (supersede and all(one.entry.differs(entry) for one in rivals)):
                raise ConflictError(entry, rivals)
            why = f"superseded by edit {edit}"
            retired = (replace(one.entry, status=Status.RETIRED, author=entry.author, reason=why) for one in rivals)
            changes = [self._append(one.id, entry, one) for one, entry in zip(rivals, retired, strict=True)]
            return [*changes, self._append(edit, entry, latest)]

    def changes(self, after: int = 0, edit: int | None = None) -> list[StoredEdit]:
        """The log after its first `after` changes, of all edits or of one."""
        where, values = ("number > ?", [after]) if edit is None else ("number > ? AND edit = ?", [after, edit])
        query = f"SELECT number, edit, version, created_at, entry, checksum FROM changes WHERE {where} ORDER BY number"  # noqa: S608
        with self._lock, self._explained():
            least = 0 if after or edit else self._file.execute("SELECT count(*) FROM changes").fetchone()[0]
            rows = self._file.execute(query, values).fetchall()
        if len(rows) < least:
            raise self._damaged("changes are missing")
        for expected, (*content, checksum) in enumerate(rows, after + 1):
            if checksum != _checksum(content) or (edit is None and content[0] != expected):
                raise self._damaged(f"change {expected}" if edit is None else f"edit {edit}")
        try:
            return [StoredEdit(n, one, version, at, entry_of(parse(text))) for n, one, version, at, text, _ in rows]
        except ValueError as problem:
            raise self._damaged(str(problem)) from None

    def _latest(self, edit: int) -> StoredEdit | None:
        return next(reversed(self.changes(edit=edit)), None)

    def _rivals(self, entry: Entry, edit: int) -> list[StoredEdit]:
        """The active edits but `edit` that answer a question of the entry while it holds."""
        query = "SELECT DISTINCT edit FROM claims WHERE key IN (SELECT value FROM json_each(?)) AND edit != ?"
        found = self._file.execute(query, [json.dumps(list(claims(entry))), edit]).fetchall()
        rivals = [self._latest(one) for [one] in sorted(found)]
        return [rival for rival in rivals if rival and overlap(rival.entry, entry)]

    def _append(self, edit: int, entry: Entry, latest: StoredEdit | None) -> StoredEdit:
        """Write the version after the latest one, inside a transaction, and what it claims instead."""
        [[number]] = self._file.execute("SELECT coalesce(max(number), 0) + 1 FROM changes")
        stored = StoredEdit(number, edit, latest.version + 1 if latest else 1, stamp(self._clock()), entry)
        row = [number, edit, stored.version, stored.created_at, to_json(entry)]
        self._file.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)", [*row, _checksum(row)])
        self._file.execute("DELETE FROM claims WHERE edit = ?", [edit])
        if entry.status is Status.ACTIVE:
            self._file.executemany("INSERT INTO claims VALUES (?, ?)", [(key, edit) for key in claims(entry)])
        return stored

    def _prepare(self) -> None:
        """Make the tables in a new file; refuse a file that is no store of this version."""
        with self._explained():
            self._file.execute("PRAGMA synchronous = EXTRA")  # a change that returned survives a power cut
            if self._header() != (_APPLICATION, len(_MIGRATIONS)):
                with self.transaction():  # another process may have made the tables meanwhile
                    application, version = self._header()
                    [[tables]] = self._file.execute("SELECT count(*) FROM sqlite_master")
                    if application != _APPLICATION and (version or tables):
                        raise StoreError(f"{self.path} is a database of another program: give another --store")
                    if version > len(_MIGRATIONS):
                        raise StoreError(f"{self.path} was written by a newer drike: update drike to use it")
                    for statement in (statement for step in _MIGRATIONS[version:] for statement in step):
                        self._file.execute(statement)
                    self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._file.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
            # On purpose: SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset.
            self._file.execute("PRAGMA journal_mode = DELETE")

    def _header(self) -> tuple[int, int]:
        [[application]], [[version]] = map(self._file.execute, ("PRAGMA application_id", "PRAGMA user_version"))
        return application, version

    def _damaged(self, what: str) -> StoreError:
        remedy = "restore it from a copy, or give another --store"
        return StoreError(f"{self.path} is damaged or no store of edits ({what}): {remedy}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter from a damaged file
            kind = getattr(problem, "sqlite_errorname", "")
            if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                remedy = "is in use by another process: wait for it to end, and try again"
            elif kind.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
                remedy = f"cannot be written ({problem}): make room, or check the disk; what was acknowledged stays"
            elif kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
                remedy = f"cannot be opened ({problem}): check the path and its permissions, or give another --store"
            else:
                raise self._damaged(str(problem)) from problem
            raise StoreError(f"{self.path} {remedy}") from problem


def _checksum(content: Collection[object]) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]
