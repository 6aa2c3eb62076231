"""Text encoders, their weights, and features kept on disk. Importing this loads no torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from drike.encoders.base import FloatArray, HashingEncoder, Progress, TextEncoder, hashing_encoder
from drike.encoders.frozen import FeatureStore, FrozenEncoder, by_torch
from drike.encoders.onnx import by_onnx
from drike.encoders.sources import MINILM, download, identity, locate
from drike.support.files import cache_folder

__all__ = ["MINILM", "FloatArray", "HashingEncoder", "Progress", "TextEncoder", "features_folder", "load_encoder"]


def features_folder() -> Path:
    """The folder for features, in `files.cache_folder()`."""
    return cache_folder() / "features"


def load_encoder(
    name: str | Path = MINILM, *, features: Path | None = None, keep: bool = True, bulk: int = 0, onnx: bool = False
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
    load = partial(by_onnx if onnx else by_torch, folder)
    # Kept apart, as they differ in the last digits: training is repeated exactly.
    store = FeatureStore(features or features_folder(), f"onnx-{model}" if onnx else model) if keep else None
    return FrozenEncoder(source.name, own, load, features=store, bulk=bulk)
