"""Files written so that a crash, a full disk or Ctrl-C leaves the old content or the new; values by key in SQLite."""

import hashlib
import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
_CHECKSUM = "sha256"
_BUSY_SECONDS = 10.0  # of waiting for another process's write
_BYTES = 8  # of a checksum before a value


def cache_folder() -> Path:
    """Where drike keeps what can be fetched or computed again: `$XDG_CACHE_HOME/drike`, by default `~/.cache/drike`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drike"


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Let every OSError of the block name `path`: that of a full disk names no file, others a temporary one."""
    try:
        yield
    except OSError as problem:
        problem.filename = str(path)
        raise


def write_bytes(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file at once or not at all, with its folders. private: for its owner only. Raises OSError naming it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with named_in_errors(path):
        try:
            if private:
                temporary.touch(0o600)
                temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The hex digest of a file's content, read piece by piece."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """`write_bytes` for UTF-8 text."""
    write_bytes(path, text.encode("utf-8"), private=private)


def with_checksum(record: Mapping[str, object]) -> dict[str, object]:
    """A JSON object with the sha256 of all else in it, so that a damaged letter or digit is noticed."""
    rest = {name: value for name, value in record.items() if name != _CHECKSUM}
    return {
        **rest,
        _CHECKSUM: hashlib.sha256(
            json.dumps(rest, sort_keys=True, default=str).encode()
        ).hexdigest(),
    }


def checksum_ok(record: Mapping[str, object], *, needed: bool = False) -> bool:
    """Whether an object matches its checksum; one without a checksum passes unless `needed`."""
    return (
        record[_CHECKSUM] == with_checksum(record)[_CHECKSUM] if _CHECKSUM in record else not needed
    )


class KeyValueFile:
    """Values by key in the file `path`, readable by its owner only; threads and processes may share it.

    A damaged value is a miss, a damaged file is renamed to `.damaged`, and one that cannot be used keeps nothing, with
    one warning of `what`, and `advice`.
    """

    def __init__(self, path: Path, what: str, advice: str) -> None:
        self.path = path
        self._sentence = f"{what} cannot be kept in {path} ({{}}): {advice}"
        self._warned = False
        self._file: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def get(self, keys: Collection[str]) -> dict[str, bytes]:
        """Return the intact values of those `keys` that have one."""
        if not (keys and self.path.is_file()):
            return {}
        query = "SELECT key, value FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        rows = (
            self._use(lambda file: file.execute(query, [json.dumps(list(keys))]).fetchall()) or []
        )
        whole = [(key, value) for key, value in rows if isinstance(value, bytes)]
        return {key: value[_BYTES:] for key, value in whole if value == _sealed(value[_BYTES:])}

    def put(self, values: Mapping[str, bytes]) -> bool:
        """Store values, replacing older ones, in one transaction; return False if that failed."""
        rows = [(key, _sealed(value)) for key, value in values.items()]
        query = "INSERT OR REPLACE INTO entries VALUES (?, ?)"
        return self._use(lambda file: file.executemany(query, rows)) is not None

    def close(self) -> None:
        """Close the file; using it opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _use(self, act: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """What a function does with the open file; None if that failed."""
        try:
            with self._lock, self._open() as file:
                return act(file)
        except (sqlite3.Error, OSError) as problem:
            if not isinstance(problem, sqlite3.OperationalError | OSError):
                self.close()
                with suppress(OSError):
                    self.path.replace(self.path.with_suffix(".damaged"))
                    return None
            if not self._warned:
                self._warned = True
                warnings.warn(self._sentence.format(problem), RuntimeWarning, stacklevel=4)
            return None

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            if not self.path.is_symlink():  # whose target has its owner's mode
                self.path.chmod(0o600)  # SQLite gives its journal the same
            file = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, check_same_thread=False
            )  # the lock admits one
            try:
                # On purpose: SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset.
                file.execute("PRAGMA journal_mode = DELETE")
                file.execute(
                    "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
                )
                file.commit()
            except sqlite3.Error:
                file.close()
                raise
            self._file = file
        return self._file


def _sealed(value: bytes) -> bytes:
    """A value as the file has it, behind its checksum."""
    return hashlib.sha256(value).digest()[:_BYTES] + value
