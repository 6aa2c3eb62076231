"""Values by key in an SQLite file, for caches that threads and processes share."""

import hashlib
import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
_BUSY_SECONDS = 10.0  # of waiting for another process's write
_CHECKSUM_BYTES = 8  # before a value


class KeyValueFile:
    """Values by key in the file `path`, readable by its owner only.

    A damaged value is taken for a missing one, and a damaged file is renamed to `.damaged`. A file
    that cannot be used keeps nothing, with one warning. what, advice: its subject and its remedy.
    """

    def __init__(self, path: Path, what: str, advice: str) -> None:
        self.path = path
        self._warning = f"{what} cannot be kept in {path} ({{}}): {advice}"
        self._warned = False
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def get(self, keys: Collection[str]) -> dict[str, bytes]:
        """Return the intact values of those `keys` that have one."""
        if not keys or not self.path.is_file():
            return {}
        query = "SELECT key, value FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        keys_as_json = json.dumps(list(keys))
        rows = self._use(lambda file: file.execute(query, [keys_as_json]).fetchall())
        values = {}
        for key, sealed in rows or []:
            if isinstance(sealed, bytes):
                value = sealed[_CHECKSUM_BYTES:]
                if sealed == _sealed(value):
                    values[key] = value
        return values

    def put(self, values: Mapping[str, bytes]) -> bool:
        """Store values, replacing older ones, in one transaction; return False if that failed."""
        rows = [(key, _sealed(value)) for key, value in values.items()]
        query = "INSERT OR REPLACE INTO entries VALUES (?, ?)"
        return self._use(lambda file: file.executemany(query, rows)) is not None

    def close(self) -> None:
        """Close the file; using it opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _use(self, act: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """What a function does with the open file; None if that failed."""
        try:
            with self._lock, self._open() as connection:
                return act(connection)
        except (sqlite3.Error, OSError) as problem:
            if not isinstance(problem, sqlite3.OperationalError | OSError):  # it is damaged
                self.close()
                with suppress(OSError):
                    self.path.replace(self.path.with_suffix(".damaged"))
                    return None
            if not self._warned:
                self._warned = True
                warnings.warn(self._warning.format(problem), RuntimeWarning, stacklevel=4)
            return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            if not self.path.is_symlink():  # whose target has its owner's mode
                self.path.chmod(0o600)  # SQLite gives its journal the same
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        # Other threads may use the connection, one at a time by the lock.
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            # SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS entries "
                "(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
            )
            connection.commit()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _sealed(value: bytes) -> bytes:
    """A value as the file has it, behind its checksum."""
    return hashlib.sha256(value).digest()[:_CHECKSUM_BYTES] + value
