"""Public data files: where they are, and local copies of them."""

import csv
import hashlib
from pathlib import Path
from urllib.parse import urlsplit

from drike.errors import DataError
from drike.support.files import cache_folder, sha256, write_bytes, write_text
from drike.support.rows import shown

TIMEOUT = 30.0  # seconds without a byte
DEADLINE = 900.0  # seconds for all of a file
LARGEST = 1 << 30  # bytes; the largest known file is 45 MB
_LONGEST_NAME = 100  # characters of a file's name

# By name: an address, pinned where the host allows it, and a SHA-256, or "" if we never had that
# very revision.
_LINES = Path(__file__).with_name("published.csv").read_text(encoding="utf-8").splitlines()
PUBLISHED = {row["name"]: row for row in csv.DictReader(_LINES)}


def fetch(address: str, *, expected: str | None = None) -> Path:
    """The local copy of a file, which is downloaded unless there is one.

    expected: the SHA-256 that the file must have; a copy with another one is downloaded again.
    Raises DataError, whatever a server sends.
    """
    path = _path_of_copy(address)
    recorded = path.with_name(path.name + ".sha256")
    try:
        if _is_intact(path, recorded, expected):
            return path
        content = _download(address)
        sent = hashlib.sha256(content).hexdigest()
        if expected not in (None, sent):
            remedy = "try again, or download the file by hand, check it and give its path"
            raise DataError(
                f"{address} sent a file with sha256 {sent}, but {expected} is recorded for it; "
                f"{remedy}"
            )
        write_bytes(path, content)
        write_text(recorded, sent + "\n")
    except OSError as error:
        remedy = "make room, or set XDG_CACHE_HOME to another folder"
        raise DataError(f"{path.parent} cannot hold downloads ({error}); {remedy}") from None
    return path


def _path_of_copy(address: str) -> Path:
    """Where the copy of a file is. Raises DataError for an invalid address."""
    try:
        if not address.isprintable():
            raise ValueError("it holds a character that cannot be printed")
        name = Path(urlsplit(address).path).name[-_LONGEST_NAME:] or "data"
    except ValueError as error:
        remedy = "check it, or give the path of a file"
        raise DataError(f"{shown(address)} is not a valid address ({error}); {remedy}") from None
    digest = hashlib.sha256(address.encode()).hexdigest()
    return cache_folder() / "datasets" / f"{digest[:12]}-{name}"


def _is_intact(path: Path, recorded: Path, expected: str | None) -> bool:
    """Whether there is a copy with the SHA-256 that was recorded for it, and that is expected."""
    if not path.is_file() or not recorded.is_file():
        return False
    recorded_sha256 = recorded.read_text(encoding="utf-8", errors="replace").strip()
    return recorded_sha256 == sha256(path) and expected in (None, recorded_sha256)


def _download(address: str) -> bytes:
    import http.client

    from drike.support.parallel import run_with_timeout

    try:
        content, announced = run_with_timeout(DEADLINE, lambda: _read(address))
        if announced not in (None, str(len(content))) and len(content) <= LARGEST:
            raise ConnectionError(f"it announced {announced} bytes and sent {len(content)}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = shown(getattr(error, "reason", None) or error) or type(error).__name__
        remedy = "check the network, or download it by hand and give the path"
        raise DataError(f"{address} could not be downloaded ({reason}); {remedy}") from None
    if len(content) > LARGEST:
        raise DataError(
            f"{address} is larger than {LARGEST >> 20} MB; download it yourself and give the path"
        )
    return content


def _read(address: str) -> tuple[bytes, str | None]:
    """The bytes at an address, one more than LARGEST at most, and how many were announced."""
    import urllib.request

    request = urllib.request.Request(address, headers={"User-Agent": "drike"})  # noqa: S310 - http(s) only
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        return answer.read(LARGEST + 1), answer.headers.get("Content-Length")
