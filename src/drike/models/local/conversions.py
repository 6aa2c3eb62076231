"""Converted models in drike's cache: folders that are made once, whole or not at all.

A folder is named by the SHA-256 of the file that its model came from, and by the versions of what
converted it. It may be removed at any time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from drike.errors import ModelError, reason
from drike.support import progress
from drike.support.files import cache_folder, checksum_ok, sha256, with_checksum, write_text

_FORMAT = 2  # of a folder's content; after a change all models are converted again
_MANIFEST = "drike.json"
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_NO_ROOM_TEXTS = ("No space left", "File too large", "quota")  # of errors without a number
_UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def conversions() -> Path:
    """The folder for all of them, in `files.cache_folder()`."""
    return cache_folder() / "models"


def folder_for(digest: str) -> Path:
    """The folder of the model from the file with this SHA-256, whether it is there or not."""
    return conversions() / f"{digest}-{_FORMAT}-transformers-{version('transformers')}"


def is_whole(folder: Path) -> bool:
    """Whether a converted folder has all its files, as long as they were when written."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        if not checksum_ok(manifest, needed=True):
            return False
        sizes: Mapping[str, int] = manifest["sizes"]
        return all((folder / file).stat().st_size == size for file, size in sizes.items())
    except _UNUSABLE:
        return False


def make(folder: Path, name: str, fill: Callable[[Path, Path], None]) -> None:
    """Make a converted folder unless it is whole; one process does, and others wait for it.

    name: of the model in messages. fill: writes the model into an empty folder, and what it needs
    meanwhile into another one. A failure or Ctrl-C leaves nothing. Raises ModelError.
    """
    with room_in_cache(name), _alone(folder, name):
        if is_whole(folder):
            return
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        made, scratch = temporary / "model", temporary / "scratch"
        try:
            made.mkdir(parents=True)
            scratch.mkdir()
            fill(made, scratch)
            _finish(made)
            shutil.rmtree(folder, ignore_errors=True)  # one that is not whole
            made.replace(folder)
            _sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def require_room(size: int, name: str) -> None:
    """Raise ModelError unless the cache has room for so many bytes."""
    if shutil.disk_usage(conversions()).free < size:
        raise _unwritable(name, f"has no room for {size >> 20:,} MB")


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, which is remembered while its place, size and times stay."""
    state = file.stat()
    seen = {
        "path": os.fsencode(file.resolve()).hex(),
        "inode": state.st_ino,
        "size": state.st_size,
        "modified": state.st_mtime_ns,
        "changed": state.st_ctime_ns,
    }
    key = hashlib.sha256(str(seen["path"]).encode()).hexdigest()
    remembered = conversions() / "checksums" / f"{key[:32]}.json"
    try:
        known = json.loads(remembered.read_text("utf-8"))
        if checksum_ok(known, needed=True) and known["of"] == seen:
            return str(known["digest"])
    except _UNUSABLE:
        pass  # it is read again
    digest = sha256(file)
    with room_in_cache(str(file)):
        write_text(remembered, json.dumps(with_checksum({"of": seen, "digest": digest})))
    return digest


@contextmanager
def room_in_cache(name: str) -> Iterator[None]:
    """Say in one sentence why the cache cannot be written to. Raises ModelError."""
    from safetensors import SafetensorError

    try:
        conversions().mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as problem:
        number = getattr(problem, "errno", None)
        file = getattr(problem, "filename", None)
        if file and number not in _NO_ROOM and conversions() not in Path(file).parents:
            raise ModelError(f"{name} cannot be read ({problem}): check its files") from problem
        is_full = number in _NO_ROOM or any(text in str(problem) for text in _NO_ROOM_TEXTS)
        what = "has no room for it" if is_full else f"cannot be used ({reason(problem)})"
        raise _unwritable(name, what) from problem


def _unwritable(name: str, what: str) -> ModelError:
    remedy = "make room, or set XDG_CACHE_HOME to a folder elsewhere"
    return ModelError(f"{conversions()}, where {name} is converted, {what}: {remedy}")


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time make a folder, and remove what killed ones have left of it."""
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.tell(f"Another process is converting {name}: waiting for it")
        lock.acquire()
    try:
        for left in folder.parent.glob(f".{folder.name}.*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        lock.release()


def _finish(folder: Path) -> None:
    """Write what a folder must hold, and let the disk have all of it."""
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    (folder / _MANIFEST).write_text(json.dumps(with_checksum({"sizes": sizes})), "utf-8")
    for file in folder.iterdir():
        _sync(file)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
