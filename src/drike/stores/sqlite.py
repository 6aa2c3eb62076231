"""A store of edits in one SQLite file."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from drike.edits import record as records
from drike.edits.record import MissingStoreError, StoreError, UnavailableError, damaged
from drike.stores import log
from drike.stores.log import EditStore

_PAUSE = 0.05  # seconds between looks for another process's changes
_APPLICATION = 0x64726B65  # "drke", in the header of the file
_MIGRATIONS = [step.split("\n\n") for step in log.migrations("sqlite.sql")]
_CLOSED = "cannot be opened ({}): check the path and its permissions, or give another --store"
_REMEDIES: records.Remedies = (  # by how names of SQLite's errors begin
    (("SQLITE_BUSY", "SQLITE_LOCKED"), UnavailableError, records.BUSY),
    (("SQLITE_FULL", "SQLITE_IOERR"), UnavailableError, records.FULL.format("{}", "disk")),
    (("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"), UnavailableError, _CLOSED),
    ("", StoreError, records.DAMAGED),
)


class SqliteStore(EditStore):
    """An `EditStore` in the file `path`; one that was put in its place is read from then on.

    create: make the file if it is missing, readable by its owner only. wait: seconds for another process's or thread's
    changes. Raises StoreError if the file cannot be used, is damaged, or is no store of edits.
    """

    def __init__(self, path: Path, *, create: bool = True, wait: float = 10.0) -> None:
        self.name, self._path, self._wait = str(path), path.absolute(), wait
        self._lock = threading.RLock()
        if create:
            with suppress(OSError):  # SQLite says what is wrong with the path
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o600))
        elif not path.is_file():
            raise MissingStoreError(path)
        self._open(create)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:  # SQLite crashes if another thread is using it
            self._file.close()

    def wait(self, after: int, timeout: float) -> bool:
        """As in `EditStore`."""
        query, end = (
            "SELECT 1 FROM drike_changes WHERE number > %s LIMIT 1",
            time.monotonic() + timeout,
        )
        while not (found := self._rows(query, [after])) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE))
        return bool(found)

    @contextmanager
    def _committed(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            self._begin()
            yield
            self._save_end()
            self._require_current()
            self._file.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # the journal is rolled back when the file is next opened
                self._file.execute("ROLLBACK")
            raise
        self._require_current()

    def _open(self, create: bool) -> None:
        with self._explained():
            current = self._at_path()
            file = sqlite3.connect(
                self._path, timeout=self._wait, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(file, create)
                self._check_end(file.execute(_own(log.END)).fetchone())
                [[version]] = file.execute("PRAGMA data_version")
            except BaseException:
                file.close()
                raise
            self._file, self._version, self._verified = file, version, False
            self._opened, self._written = current

    def _prepare(self, file: sqlite3.Connection, create: bool) -> None:
        """Make the tables in a new file; refuse a file that is no store of this version."""
        file.execute("PRAGMA synchronous = EXTRA")  # a change that returned survives a power cut
        file.execute(
            "PRAGMA cache_spill = OFF"
        )  # readers need not wait for a large transaction until it commits
        if _header(file) != (_APPLICATION, len(_MIGRATIONS)):
            file.execute("BEGIN IMMEDIATE")  # another process may have made the tables meanwhile
            application, version = _header(file)
            [[tables]] = file.execute("SELECT count(*) FROM sqlite_master")
            if application != _APPLICATION and (version or tables):
                raise StoreError(
                    f"{self.name} is a database of another program: give another --store"
                )
            if version > len(_MIGRATIONS):
                raise StoreError(
                    f"{self.name} was written by a newer drike: update drike to use it"
                )
            if not (tables or create):
                raise damaged(self.name, "it is empty")
            for statement in (statement for step in _MIGRATIONS[version:] for statement in step):
                file.execute(statement)
            file.execute(f"PRAGMA application_id = {_APPLICATION}")
            file.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
            file.execute("COMMIT")
        file.execute(
            "PRAGMA journal_mode = DELETE"
        )  # SQLite before 3.51.3 can corrupt a file with a write-ahead log

    def _at_path(self) -> tuple[object, object]:
        """Which file is at the path, and when it was written; None, None if there is none."""
        with suppress(OSError):
            status = self._path.stat()
            return (status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_size)
        return None, None

    def _require_current(self) -> None:
        which, self._written = self._at_path()
        if which is None or which != self._opened:
            raise StoreError(
                f"{self.name} was replaced during a change, which may be lost: look, and try again"
            )

    @property
    def _writing(self) -> bool:
        return self._file.in_transaction

    def _run(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._file.execute(_own(query), values)

    def _follow(self) -> None:
        """Open the file anew if another one has taken its place. Raises StoreError."""
        if self._writing:
            return
        which, written = self._at_path()
        if which is None:
            raise UnavailableError(f"{self.name} is gone: put it back, or a copy in its place")
        [[version]] = self._file.execute("PRAGMA data_version")
        # A file that was overwritten may look to SQLite like the one whose pages it has in memory.
        overwritten = written != self._written and version == self._version
        if (
            which != self._opened
            or overwritten
            or _header(self._file) != (_APPLICATION, len(_MIGRATIONS))
        ):
            old = self._file
            self._open(create=False)
            old.close()
        else:
            self._written, self._version = written, version

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter from a damaged file
            if isinstance(problem, sqlite3.ProgrammingError):
                raise StoreError(f"{self.name} was closed: open it again") from problem
            kind = getattr(problem, "sqlite_errorname", "")
            if kind.startswith("SQLITE_READONLY"):
                self._opened = None  # so that it is opened anew: it may be writable by then
            raise records.explained(self.name, kind, str(problem), _REMEDIES) from problem


def _own(query: str) -> str:
    """A statement of `log` as SQLite has it: a file holds one store, whose tables need no prefix."""
    return query.replace("drike_", "").replace("%s", "?")


def _header(file: sqlite3.Connection) -> tuple[int, int]:
    [[application]], [[version]] = map(
        file.execute, ("PRAGMA application_id", "PRAGMA user_version")
    )
    return application, version
