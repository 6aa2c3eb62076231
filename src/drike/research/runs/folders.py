"""Whether a folder holds a run, and the lock that keeps a second process out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drike.errors import RunError
from drike.research.runs.files import ANSWERS, EPISODES, OUTCOMES, RUN, SUMMARY

_RECORDS = (EPISODES, ANSWERS, f"{OUTCOMES}/*.jsonl", SUMMARY)


def has_records(folder: Path) -> bool:
    """Whether a folder has episodes or results of a run, even where its run.json is gone."""
    return any(any(folder.glob(pattern)) for pattern in _RECORDS)


def has_begun(folder: Path) -> bool:
    """Whether a run is in the folder that recorded anything."""
    return (folder / RUN).exists() and has_records(folder)


def require_new(folder: Path) -> None:
    """Raise RunError if a folder holds a run; one that recorded nothing is begun again."""
    if has_begun(folder):
        raise RunError(
            f"{folder} already holds a run: choose another --out, continue it with --resume, "
            "or remove it"
        )
    if has_records(folder):
        raise RunError(
            f"{folder} holds results of a run whose run.json is gone: choose another --out, "
            "or remove them"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, if the system has such locks.

    Raises RunError if another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process works at {folder}: let it end, or stop it first"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
