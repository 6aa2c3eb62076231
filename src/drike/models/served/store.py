"""Answers on disk: an SQLite table of JSON by key, and who is asking for which.

Answers are written as they arrive, so that a failure or Ctrl-C loses none, by a thread of their own in short
transactions, so that several processes can share the file; what comes while one is written goes into the next, and is
all that a process that is killed can lose of what was answered. Where the file cannot be written (a full disk, no
rights) the run goes on with a warning, and with its answers in memory.

The rollback journal is used on purpose: SQLite before 3.51.3 can corrupt a database whose write-ahead log is reset.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from drike.errors import ModelError
from drike.parallel import ATTENTION, StoppedError, current_group

BUSY_SECONDS = 10.0
_PATIENCE = 30.0  # seconds until a file that could not be written is tried again
_LINGERING = 0.05  # seconds for which the thread that writes stays when there is nothing to write


def answers_path() -> Path:
    """Where answers are kept: `$XDG_CACHE_HOME/drike/answers.sqlite`, by default below `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drike" / "answers.sqlite"


@dataclass(frozen=True)
class Contents:
    """What a file of answers holds."""

    path: Path
    answers: int
    bytes: int


class Answers:
    """Answers by key, on disk and in memory, and who is asking for which; threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._memory: dict[str, str] = {}
        self._unsaved: dict[str, str] = {}
        self._asking: dict[str, object] = {}  # by whom: a token of each `asking`
        self._writer: threading.Thread | None = None  # while there is something to write
        self._failed = 0.0
        self._warned = False
        self._changed = threading.Condition()  # guards all of these, and tells when they change
        self._file: sqlite3.Connection | None = None
        self._filing = threading.Lock()  # guards the file

    def get(self, keys: Collection[str]) -> dict[str, str]:
        """The answers there are."""
        found = {key: self._memory[key] for key in keys if key in self._memory}
        try:
            with self._filing:
                for key in keys:
                    if key not in found:
                        row = self._open().execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
                        if row is not None and isinstance(row[0], str):
                            found[key] = row[0]
        except (sqlite3.Error, OSError) as problem:
            self._warn(problem)
        return found

    def put(self, key: str, answer: str) -> None:
        """Keep an answer; it is written soon (see `settle`), with those that could not be written before."""
        with self._changed:
            self._memory[key] = self._unsaved[key] = answer
            self._asking.pop(key, None)
            if self._writer is None and not self._rests():
                self._start()
            self._changed.notify_all()

    def settle(self, keys: Collection[str]) -> None:
        """Until the answers to `keys` are written, or cannot be. Raises as `wait_for`."""
        self._wait_until(lambda: self._writer is None or self._unsaved.keys().isdisjoint(keys))

    @contextmanager
    def asking(self, keys: Collection[str]) -> Iterator[list[str]]:
        """Those of `keys` that nobody else asks for; until this ends, or they are put, everyone else waits for them."""
        token = object()
        try:
            with self._changed:
                ours = [key for key in keys if key not in self._asking]
                self._asking.update(dict.fromkeys(ours, token))
            yield ours
        finally:
            with self._changed:
                for key in keys:
                    if self._asking.get(key) is token:
                        del self._asking[key]
                self._changed.notify_all()

    def wait_for(self, keys: Collection[str]) -> None:
        """Until nobody asks for any of `keys`. Raises StoppedError where the caller's lot is abandoned before."""
        self._wait_until(lambda: self._asking.keys().isdisjoint(keys))

    def _wait_until(self, so: Callable[[], bool]) -> None:
        lot = current_group()
        with self._changed:
            while not self._changed.wait_for(so, ATTENTION):
                if lot.abandoned:
                    raise StoppedError

    def close(self) -> None:
        """Try once more to write what could not be written, and let go of the file."""
        with self._changed:
            self._changed.wait_for(lambda: self._writer is None)
            if self._unsaved:
                self._start()
            self._changed.wait_for(lambda: self._writer is None)
        with self._filing:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _rests(self) -> bool:
        """Whether writing has failed a moment ago."""
        return bool(self._failed) and time.monotonic() - self._failed < _PATIENCE

    def _start(self) -> None:
        # Not a daemon: Python waits for it before it ends.
        self._failed, self._writer = 0.0, threading.Thread(target=self._write, name="drike-answers")
        self._writer.start()

    def _write(self) -> None:
        """Write what is not yet written, until nothing comes for a while, or the file cannot be written."""
        try:
            while not self._failed:
                with self._changed:
                    if not self._changed.wait_for(lambda: self._unsaved, _LINGERING):
                        self._writer = None
                        return
                    unsaved = dict(self._unsaved)
                try:
                    with self._filing, self._open() as file:  # one short transaction
                        file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", list(unsaved.items()))
                except (sqlite3.Error, OSError) as problem:
                    self._failed = time.monotonic()
                    self._warn(problem)
                else:
                    with self._changed:
                        for key, answer in unsaved.items():
                            if self._unsaved[key] is answer:
                                del self._unsaved[key]
                        self._changed.notify_all()
        finally:
            with self._changed:
                if self._writer is threading.current_thread():
                    self._writer = None
                self._changed.notify_all()

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            self._file = _connect(self.path)
        return self._file

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"answers cannot be kept in {self.path} ({problem}): they stay in memory for this run; "
                "make room, set XDG_CACHE_HOME, or run `drike cache clear`",
                RuntimeWarning,
                stacklevel=2,
            )


def contents(path: Path | None = None) -> Contents:
    """How much is kept. Raises ModelError for a file that holds no answers."""
    path = path or answers_path()
    if not path.exists():
        return Contents(path, 0, 0)
    try:
        with closing(_connect(path)) as file:
            [count] = file.execute("SELECT count(*) FROM answers").fetchone()
    except sqlite3.Error as problem:
        raise ModelError(f"{path} cannot be read ({problem}): run `drike cache clear`") from problem
    return Contents(path, count, path.stat().st_size)


def clear(path: Path | None = None) -> None:
    """Forget everything; another process that uses the file goes on with an empty one. Raises ModelError, OSError."""
    path = path or answers_path()
    if not path.exists():
        return
    try:
        with closing(_connect(path)) as file:
            file.execute("DELETE FROM answers")
            file.commit()
            file.execute("VACUUM")
    except sqlite3.OperationalError as problem:
        raise ModelError(f"{path} cannot be cleared ({problem}): end what uses it, or remove the file") from problem
    except sqlite3.DatabaseError:  # not a database, or a damaged one
        path.unlink()


def _connect(path: Path) -> sqlite3.Connection:
    """An open file of answers that only its owner may read. Raises sqlite3.Error, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)  # SQLite gives its journal the same
    file = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)  # `Answers` lets in one at a time
    try:
        file.execute("PRAGMA journal_mode = DELETE")
        file.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID")
        file.commit()
    except sqlite3.Error:
        file.close()
        raise
    return file
