"""Files that are written whole or not at all, whatever happens, and checksums of what they hold."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_CHECKSUM = "sha256"  # the key of a JSON object's own checksum


def cache_folder() -> Path:
    """Where drike keeps what can be fetched or computed again.

    It is `$XDG_CACHE_HOME/drike`, by default `~/.cache/drike`.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drike"


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Let every OSError of the block name `path`.

    That of a full disk names no file, and others name a temporary one.
    """
    try:
        yield
    except OSError as problem:
        problem.filename = str(path)
        raise


def write_bytes(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file at once or not at all, and make its folders.

    A crash, a full disk or Ctrl-C leaves the old content or the new. private: a new file is
    readable by its owner only, and an old one keeps its mode. Raises OSError, which names the file.
    """
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


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """`write_bytes` for UTF-8 text."""
    write_bytes(path, text.encode("utf-8"), private=private)


def sha256(path: Path) -> str:
    """The hex digest of a file's content, read piece by piece."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def with_checksum(record: Mapping[str, object]) -> dict[str, object]:
    """A JSON object with the sha256 of all else in it, so that a damaged character is noticed."""
    rest = {name: value for name, value in record.items() if name != _CHECKSUM}
    text = json.dumps(rest, sort_keys=True, default=str)
    return {**rest, _CHECKSUM: hashlib.sha256(text.encode()).hexdigest()}


def checksum_ok(record: Mapping[str, object], *, needed: bool = False) -> bool:
    """Whether an object matches its checksum; one without a checksum passes unless `needed`."""
    if _CHECKSUM not in record:
        return not needed
    return record[_CHECKSUM] == with_checksum(record)[_CHECKSUM]
