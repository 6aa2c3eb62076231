"""Files written so that a crash, a full disk or Ctrl-C leaves the old content or the new; and their hashes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, sync, rename over it. Makes missing folders.

    Raises OSError with the file's name in it; what stood at `path` before is then untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
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


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for UTF-8 text."""
    write_bytes(path, text.encode("utf-8"))
