"""Find an encoder by name and load it; importing this loads no torch."""

from functools import partial
from pathlib import Path

from drike.encoders.base import FloatArray, TextEncoder
from drike.encoders.frozen import FeatureStore, FrozenEncoder
from drike.encoders.hashing import HashingEncoder, hashing_encoder
from drike.encoders.onnx_pass import by_onnx
from drike.encoders.sources import (
    MINILM,
    SMALL_BERT,
    EncoderSource,
    download,
    identity,
    locate,
)
from drike.encoders.torch_pass import by_torch
from drike.support.files import cache_folder

__all__ = [
    "MINILM",
    "SMALL_BERT",
    "EncoderSource",
    "FloatArray",
    "HashingEncoder",
    "TextEncoder",
    "features_folder",
    "load_encoder",
    "locate",
]


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
    """Load the encoder called `name`: a folder, a hub name, perhaps with @REVISION, or "hashing".

    features: the folder of vectors (default `features_folder()`); keep: use it, but for fewer texts
    at once than `bulk`, which are not even kept in memory. onnx: run it with ONNX Runtime, which
    suits single texts. Raises EncoderError.
    """
    source = locate(name)
    if source.kind == "builtin":
        return hashing_encoder(source.name)

    folder = source.path or download(source.name)
    model_identity = identity(folder)
    store = None
    if keep:
        # Vectors of both ways to run a model are kept apart, as they differ in the last digits:
        # training is repeated exactly.
        sha256 = str(model_identity["sha256"])
        store = FeatureStore(features or features_folder(), f"onnx-{sha256}" if onnx else sha256)
    load = partial(by_onnx if onnx else by_torch, folder)
    return FrozenEncoder(source.name, model_identity, load, features=store, bulk=bulk)
