"""Answers on disk and in memory, and who is asking for which.

Answers are written as they arrive, so that a failure or Ctrl-C loses none, by a thread of their own, in short
transactions; what arrives while one is written goes into the next, and is all that a process that is killed can lose.
If the file cannot be written (a full disk, no rights) the run goes on with a warning, and with its answers in memory.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from drike.errors import ModelError
from drike.keyvalue import KeyValueFile
from drike.parallel import ATTENTION, StoppedError, current_group

_PATIENCE = 30.0  # seconds until a file that could not be written is tried again
_LINGERING = 0.05  # seconds for which the writing thread stays when there is nothing to write


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
    """Answers by key, on disk and in memory; threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _file(path)
        self._memory: dict[str, bytes] = {}
        self._unsaved: dict[str, bytes] = {}
        self._asking: dict[str, object] = {}  # by whom: a token of each `asking`
        self._writer: threading.Thread | None = None  # while there is something to write
        self._failed = 0.0
        self._changed = threading.Condition()  # guards all of these, and signals when they change

    def get(self, keys: Collection[str]) -> dict[str, bytes]:
        """The answers there are."""
        found = {key: self._memory[key] for key in keys if key in self._memory}
        return found | self._file.get([key for key in keys if key not in found])

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer; it is written soon (see `settle`), with those that could not be written before."""
        with self._changed:
            self._memory[key] = self._unsaved[key] = answer
            self._asking.pop(key, None)
            if self._writer is None and not self._failed_recently():
                self._start()
            self._changed.notify_all()

    def settle(self, keys: Collection[str]) -> None:
        """Wait until the answers to `keys` are written, or cannot be. Raises as `wait_for`."""
        self._wait_until(lambda: self._writer is None or self._unsaved.keys().isdisjoint(keys))

    @contextmanager
    def asking(self, keys: Collection[str]) -> Iterator[list[str]]:
        """Claim those of `keys` that nobody else asks for; others wait for them until this ends or they are put."""
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
        """Wait until nobody asks for any of `keys`. Raises StoppedError if the caller's group is abandoned before."""
        self._wait_until(lambda: self._asking.keys().isdisjoint(keys))

    def _wait_until(self, done: Callable[[], bool]) -> None:
        group = current_group()
        with self._changed:
            while not self._changed.wait_for(done, ATTENTION):
                if group.abandoned:
                    raise StoppedError

    def close(self) -> None:
        """Try once more to write what could not be written, and close the file."""
        with self._changed:
            self._changed.wait_for(lambda: self._writer is None)
            if self._unsaved:
                self._start()
            self._changed.wait_for(lambda: self._writer is None)
        self._file.close()

    def _failed_recently(self) -> bool:
        """Whether writing failed a moment ago."""
        return bool(self._failed) and time.monotonic() - self._failed < _PATIENCE

    def _start(self) -> None:
        # Not a daemon: Python waits for it before it ends.
        self._failed, self._writer = 0.0, threading.Thread(target=self._write, name="drike-answers")
        self._writer.start()

    def _write(self) -> None:
        """Write what is unsaved, until nothing arrives for a while, or the file cannot be written."""
        try:
            while not self._failed:
                with self._changed:
                    if not self._changed.wait_for(lambda: self._unsaved, _LINGERING):
                        self._writer = None
                        return
                    unsaved = dict(self._unsaved)
                if not self._file.put(unsaved):
                    self._failed = time.monotonic()
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


def contents(path: Path | None = None) -> Contents:
    """How much is kept. Raises ModelError for a file that holds no answers."""
    path = path or answers_path()
    if not path.exists():
        return Contents(path, 0, 0)
    try:
        with closing(_file(path)) as file:
            return Contents(path, file.count(), path.stat().st_size)
    except sqlite3.Error as problem:
        raise ModelError(f"{path} cannot be read ({problem}): run `drike cache clear`") from problem


def clear(path: Path | None = None) -> None:
    """Delete all answers; another process that uses the file goes on with an empty one. Raises ModelError, OSError."""
    path = path or answers_path()
    if not path.exists():
        return
    try:
        with closing(_file(path)) as file:
            file.clear()
    except sqlite3.OperationalError as problem:
        raise ModelError(f"{path} cannot be cleared ({problem}): end what uses it, or remove the file") from problem


def _file(path: Path) -> KeyValueFile:
    remedy = "they stay in memory for this run; make room, set XDG_CACHE_HOME, or run `drike cache clear`"
    return KeyValueFile(path, "answers", remedy)
