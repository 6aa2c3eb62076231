"""The frozen text encoder: texts -> vectors, where its weights come from, and features kept on disk.

`base` says what an encoder is and finds nearest records; `frozen` is a transformer, `hashing` needs no weights;
`sources` finds files, `features` keeps vectors between runs. Importing this loads no torch.
"""

from __future__ import annotations

import os
from pathlib import Path

from drike.encoders import hashing
from drike.encoders.base import FloatArray, Progress, TextEncoder, nearest
from drike.encoders.features import FeatureStore
from drike.encoders.frozen import FrozenEncoder
from drike.encoders.hashing import HashingEncoder
from drike.encoders.sources import MINILM, SMALL_BERT, Source, download, identity, locate
from drike.errors import EncoderError

__all__ = [
    "MINILM",
    "SMALL_BERT",
    "EncoderError",
    "FeatureStore",
    "FloatArray",
    "FrozenEncoder",
    "HashingEncoder",
    "Progress",
    "Source",
    "TextEncoder",
    "features_folder",
    "load_encoder",
    "locate",
    "nearest",
]


def features_folder() -> Path:
    """Where features are kept: `$XDG_CACHE_HOME/drike/features`, by default below `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drike" / "features"


def load_encoder(
    name: str | Path = MINILM, *, device: str | None = None, features: Path | None = None, keep: bool = True
) -> TextEncoder:
    """The encoder called `name`: a folder, a hub name, or "hashing".

    Computed vectors are kept in the folder `features` (default `features_folder()`) unless `keep` is False. Raises
    EncoderError with the remedy if the encoder is nowhere to be had.
    """
    source = locate(name)
    if source.kind == "builtin":
        return hashing.named(source.name)
    folder = source.path or download(source.name)
    store = FeatureStore(features or features_folder(), identity(folder)) if keep else None
    return FrozenEncoder(source.name, folder, device=device, features=store)
