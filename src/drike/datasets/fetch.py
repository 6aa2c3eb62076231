"""Public data sets by name, downloaded once into the user's cache folder and checked by SHA-256 from then on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from drike.datasets.rows import shown
from drike.errors import DataError
from drike.support.files import cache_folder, sha256, write_bytes, write_text

TIMEOUT, DEADLINE = 30.0, 900.0  # seconds without a byte, and for all of a file
LARGEST = 1 << 30  # bytes; the largest known file is 45 MB
_LONGEST_NAME = 100  # characters of a file's name

_ROME = "https://rome.baulab.info/data/dsets"
_KNOWEDIT = "https://huggingface.co/datasets/zjunlp/KnowEdit/resolve/c3a6bccb5fc37a59dea3197ac36526d44606acd0/benchmark"
_IKE = "https://raw.githubusercontent.com/Zce1112zslx/IKE/9bbda6d75623aeb4fe6e270717206a6ad2fd283e"


@dataclass(frozen=True)
class PublicFile:
    """A public file: its address, pinned where the host allows it, and its SHA-256.

    The SHA-256 was computed from a copy of that very file. None: the host names no revision, or our copy is of another.
    """

    address: str
    sha256: str | None = None


PUBLISHED = {
    "counterfact": PublicFile(f"{_ROME}/counterfact.json"),
    "zsre": PublicFile(f"{_ROME}/zsre_mend_eval.json"),
    "zsre-knowedit": PublicFile(f"{_KNOWEDIT}/ZsRE/ZsRE-test-all.json"),
    "wiki-counterfact": PublicFile(f"{_KNOWEDIT}/wiki_counterfact/train_cf.json"),
    "temporal": PublicFile(
        f"{_IKE}/time_editing.json", "dc9fa0ece6536d3dc835830b1c706eb9a5c8a96891e4e5cf8616d824cdfa4cf2"
    ),
}


def fetch(address: str, *, expected: str | None = None) -> Path:
    """The local copy of a public file with an http(s) address, downloaded unless there is an intact one.

    If `expected` is given, only a file with this SHA-256 is kept. Raises DataError if the server is unreachable,
    answers with an error, stops half way, is too slow, or sends another file.
    """
    folder = cache_folder() / "datasets"
    try:
        if not address.isprintable():
            raise ValueError("it holds a character that cannot be printed")
        name = Path(urlsplit(address).path).name[-_LONGEST_NAME:] or "data"
    except ValueError as error:
        remedy = "check it, or give the path of a file"
        raise DataError(f"{shown(address)} is not a valid address ({error}); {remedy}") from None
    path = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:12]}-{name}"
    recorded = path.with_name(path.name + ".sha256")
    try:
        if path.is_file() and recorded.is_file():
            kept = recorded.read_text(encoding="utf-8", errors="replace").strip()
            if kept == sha256(path) and expected in (None, kept):
                return path
        content = _download(address)
        received = hashlib.sha256(content).hexdigest()
        if expected not in (None, received):
            remedy = "try again, or download the file by hand, check it and give its path"
            sent = f"{address} sent a file with sha256 {received}"
            raise DataError(f"{sent}, but {expected} is recorded for it; {remedy}")
        write_bytes(path, content)
        write_text(recorded, received + "\n")
    except OSError as error:
        remedy = "make room, or set XDG_CACHE_HOME to another folder"
        raise DataError(f"{folder} cannot hold downloads ({error}); {remedy}") from None
    return path


def _download(address: str) -> bytes:
    """The whole content at an address. Raises DataError, whatever the server sends and however slowly."""
    import http.client
    import urllib.request

    from drike.support.parallel import run_with_timeout

    def read() -> tuple[bytes, str | None]:
        request = urllib.request.Request(address, headers={"User-Agent": "drike"})  # noqa: S310 - http(s) only
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return answer.read(LARGEST + 1), answer.headers.get("Content-Length")

    try:
        content, promised = run_with_timeout(DEADLINE, read)
        if promised not in (None, str(len(content))) and len(content) <= LARGEST:
            raise ConnectionError(f"it announced {promised} bytes and sent {len(content)}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = shown(getattr(error, "reason", None) or error) or type(error).__name__
        remedy = "check the network, or download it by hand and give the path"
        raise DataError(f"{address} could not be downloaded ({reason}); {remedy}") from None
    if len(content) > LARGEST:
        raise DataError(f"{address} is larger than {LARGEST >> 20} MB; download it yourself and give the path")
    return content
