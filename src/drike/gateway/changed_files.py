"""`ChangedFiles`: which files of stores may have changed since they were last looked at."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_SETTLED = 2 * 10**9  # nanoseconds; what changed later may change again without another time


class _Status(NamedTuple):
    """What changes when a file, a folder, or who may read it does. Times are in nanoseconds."""

    modified: int
    changed: int
    inode: int
    size: int


class ChangedFiles:
    """Remembers how files were at the last look. One thread uses it.

    looks: one in so many is at the files, too, where their folder is as it was.

    SQLite makes a journal beside a file that it writes to, and a change counts once that is
    deleted: so a folder shows each change of all its stores, and a look at it spares a look at each
    of them. What another program writes over, or reaches by another path, only the file shows.
    """

    def __init__(self, looks: int = 1) -> None:
        self._looks = looks
        self._looked = 0
        self._status_by_path: dict[str, _Status | None] = {}
        self._folder_by_name: dict[str, str] = {}
        self._names_by_folder: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, name: str) -> None:
        """Look at a file, too, from now on; what is no file always may have changed."""
        folder = _folder(name)
        self._folder_by_name[name] = folder
        self._names_by_folder[folder].append(name)

    def look(self) -> list[str]:
        """Those that may have changed since the last look, at the first one all."""
        now = time.time_ns()
        changed = []
        for folder, names in self._names_by_folder.items():
            if self._may_have_changed(folder, now) or self._looked % self._looks == 0:
                changed += [name for name in names if self._may_have_changed(name, now)]
        self._looked += 1
        for name in changed:
            self._follow_link(name)
        return changed

    def _follow_link(self, name: str) -> None:
        """See to a file that may lie in another folder now."""
        folder = self._folder_by_name[name]
        if _folder(name) != folder:
            self._names_by_folder[folder].remove(name)
            self.add(name)

    def _may_have_changed(self, path: str, now: int) -> bool:
        before = self._status_by_path.get(path)
        latest = _status(path)
        self._status_by_path[path] = latest
        if latest is None or latest != before:
            return True
        return abs(now - latest.modified) < _SETTLED


def _folder(name: str) -> str:
    """Where SQLite puts the journal of a file: beside the one that a link leads to."""
    return str(Path(os.path.realpath(name)).parent)


def _status(path: str) -> _Status | None:
    """The status of a file or folder; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - ten times as quick as a Path, and done often
    except OSError:
        return None
    return _Status(status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
