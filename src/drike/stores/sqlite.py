"""A store of edits in one SQLite file."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from drike.edits.record import MissingStoreError, StoreError, UnavailableError
from drike.stores.database import SECONDS_TO_CLOSE, held, migrations, select
from drike.stores.edit_store import EditStore
from drike.stores.failures import BUSY, DAMAGED, FULL, Remedies, damaged, explained

_PAUSE = 0.05  # seconds between looks for another process's changes
_BESIDE = "-inbox"  # behind the name of a store's file: the file with its inbox
_CLOSED = "cannot be opened ({}): check the path and its permissions, or give another --store"
_REMEDIES: Remedies = (  # by how names of SQLite's errors begin
    (("SQLITE_BUSY", "SQLITE_LOCKED"), UnavailableError, BUSY),
    (("SQLITE_FULL", "SQLITE_IOERR"), UnavailableError, FULL.format("{}", "disk")),
    (("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"), UnavailableError, _CLOSED),
    ("", StoreError, DAMAGED),
)


@dataclass(frozen=True)
class _Kind:
    """What a file is for. application: the number in its header. steps: of its schema."""

    application: int
    steps: Sequence[Sequence[str]]

    @property
    def header(self) -> tuple[int, int]:
        """The numbers of the program and of the schema in its header."""
        return self.application, len(self.steps)


def _kind(application: int, file: str) -> _Kind:
    return _Kind(application, [step.split("\n\n") for step in migrations(file)])


_EDITS = _kind(0x64726B65, "sqlite.sql")  # "drke"
_INBOX = _kind(0x64726B69, "inbox.sql")  # "drki"


class SqliteStore(EditStore):
    """An `EditStore` in the file `path`; one that was put in its place is read from then on.

    create: make the file if it is missing, readable by its owner only. wait: seconds for another
    process's or thread's changes. Raises StoreError if the file cannot be used, is damaged, or is
    no store of edits.
    """

    def __init__(self, path: Path, *, create: bool = True, wait: float = 10.0) -> None:
        super().__init__(SqliteDatabase(path, create=create, wait=wait))


class _FileState(NamedTuple):
    """Which file is at a path, and when it was written; None for both if there is none."""

    identity: object = None
    written: object = None


class SqliteDatabase:
    """A `Database` in the file `path`; parameters as of `SqliteStore`."""

    # SQLite has no function that hashes.
    sum_of_marks_query: str | None = None

    def __init__(self, path: Path, *, create: bool, wait: float, kind: _Kind = _EDITS) -> None:
        self.name = str(path)
        self._kind = kind
        self._beside: SqliteDatabase | None = None
        self.generation = 0
        self._path = path.absolute()
        self._wait = wait
        self._lock = threading.RLock()
        if create:
            with suppress(OSError):  # SQLite says what is wrong with the path
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o600))
        elif not path.is_file():
            raise MissingStoreError(path)
        self._open(create)

    @property
    def in_transaction(self) -> bool:
        """As in `Database`."""
        return self._connection.in_transaction

    def key_of(self, text: str) -> str:
        """The text itself."""
        return text

    @contextmanager
    def use(self) -> Iterator[None]:
        """As in `Database`."""
        with held(self._lock, self._wait, self.name), self._explained():
            self._follow()
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As in `Database`."""
        with self.use():
            if self.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._require_current()
                self._connection.execute("COMMIT")
            except BaseException:
                # If this fails, the journal is rolled back when the file is next opened.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._require_current()

    def execute(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """As in `Database`."""
        # A file holds one store, whose tables need no prefix.
        return self._connection.execute(query.replace("drike_", "").replace("%s", "?"), values)

    def wait(self, query: str, values: Sequence[object], timeout: float) -> bool:
        """As in `Database`."""
        end = time.monotonic() + timeout
        while True:
            found = bool(select(self, query, values))
            remaining = end - time.monotonic()
            if found or remaining <= 0:
                return found
            time.sleep(min(remaining, _PAUSE))

    def beside(self, create: bool) -> "SqliteDatabase | None":
        """As in `Database`: a file beside this one."""
        path = Path(self.name + _BESIDE)
        with held(self._lock, self._wait, self.name):
            if self._beside and not path.is_file():  # somebody has deleted it
                self._beside.close()
                self._beside = None
            if self._beside is None and (create or path.is_file()):
                # Made also where a kill has left it without tables.
                self._beside = SqliteDatabase(path, create=True, wait=self._wait, kind=_INBOX)
            return self._beside

    def close(self) -> None:
        """Let go of the file, and of the one beside it."""
        # SQLite crashes if another thread is using it; the end of the process lets go of it, too.
        if self._lock.acquire(timeout=SECONDS_TO_CLOSE):
            try:
                if self._beside:
                    self._beside.close()
                self._connection.close()
            finally:
                self._lock.release()

    def _open(self, create: bool) -> None:
        with self._explained():
            state = self._state_at_path()
            connection = sqlite3.connect(
                self._path, timeout=self._wait, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection, create)
                [[data_version]] = connection.execute("PRAGMA data_version")
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        self._opened = state.identity
        self._written = state.written
        self._data_version = data_version
        self.generation += 1

    def _prepare(self, connection: sqlite3.Connection, create: bool) -> None:
        """Make the tables in a new file; refuse a file that is no store of this version."""
        # A change that returned survives a power cut.
        connection.execute("PRAGMA synchronous = EXTRA")
        # Readers need not wait for a large transaction until it commits.
        connection.execute("PRAGMA cache_spill = OFF")
        if _header(connection) != self._kind.header:
            self._migrate(connection, create)
        # SQLite before 3.51.3 can corrupt a file with a write-ahead log.
        connection.execute("PRAGMA journal_mode = DELETE")

    def _migrate(self, connection: sqlite3.Connection, create: bool) -> None:
        """Make the tables, or bring those of an earlier version up to date."""
        connection.execute("BEGIN IMMEDIATE")
        application, version = _header(connection)  # another process may have made the tables
        [[tables]] = connection.execute("SELECT count(*) FROM sqlite_master")
        latest = len(self._kind.steps)
        if application != self._kind.application and (version or tables):
            raise StoreError(f"{self.name} is a database of another program: give another --store")
        if version > latest:
            raise StoreError(f"{self.name} was written by a newer drike: update drike to use it")
        if not (tables or create):
            raise damaged(self.name, "it is empty")
        for statements in self._kind.steps[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self._kind.application}")
        connection.execute(f"PRAGMA user_version = {latest}")
        connection.execute("COMMIT")

    def _state_at_path(self) -> _FileState:
        with suppress(OSError):
            status = self._path.stat()
            identity = (status.st_dev, status.st_ino)
            return _FileState(identity, written=(status.st_mtime_ns, status.st_size))
        return _FileState()

    def _require_current(self) -> None:
        """Raise StoreError if the file at the path is not the one that is open."""
        state = self._state_at_path()
        self._written = state.written
        if state.identity is None or state.identity != self._opened:
            raise StoreError(
                f"{self.name} was replaced during a change, which may be lost: look, and try again"
            )

    def _follow(self) -> None:
        """Open the file anew if another one has taken its place. Raises StoreError."""
        if self.in_transaction:
            return
        state = self._state_at_path()
        if state.identity is None:
            raise UnavailableError(f"{self.name} is gone: put it back, or a copy in its place")
        [[data_version]] = self._connection.execute("PRAGMA data_version")
        if self._is_another(state, data_version):
            old = self._connection
            self._open(create=False)
            old.close()
        else:
            self._written = state.written
            self._data_version = data_version

    def _is_another(self, state: _FileState, data_version: int) -> bool:
        """Whether the file at the path is not the one that is open, as it was left."""
        if state.identity != self._opened:
            return True
        if data_version == self._data_version:
            # A file that was overwritten may look to SQLite like the one whose pages it has in
            # memory. Of the header it would show what it has there, too.
            return state.written != self._written
        return _header(self._connection) != self._kind.header

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise SQLite's errors as StoreError."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter from a damaged file
            if isinstance(problem, sqlite3.ProgrammingError):
                raise StoreError(f"{self.name} was closed: open it again") from problem
            kind = getattr(problem, "sqlite_errorname", "")
            if kind.startswith("SQLITE_READONLY"):
                self._opened = None  # so that it is opened anew: it may be writable by then
            raise explained(self.name, kind, str(problem), _REMEDIES) from problem


def _header(connection: sqlite3.Connection) -> tuple[int, int]:
    """The numbers of the program and of the schema in the header of a file."""
    [[application]] = connection.execute("PRAGMA application_id")
    [[version]] = connection.execute("PRAGMA user_version")
    return application, version
