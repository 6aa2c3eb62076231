"""Vectors kept on disk between runs: one file per model (see `keyvalue`), keyed by the text's hash, as float32."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from drike.encoders.base import FloatArray
from drike.support.keyvalue import KeyValueFile


class FeatureStore:
    """The features of one model; `model` is a hash of everything that affects a vector."""

    def __init__(self, folder: Path, model: str) -> None:
        self.path = folder / f"{model[:32]}.sqlite"
        self._model = model
        self._file = KeyValueFile(self.path, "features", "set XDG_CACHE_HOME", set_aside=True)

    def beside(self, kind: str) -> FeatureStore:
        """The store for another kind of vectors of the same model."""
        return FeatureStore(self.path.parent, hashlib.sha256(f"{kind} {self._model}".encode()).hexdigest())

    def read(self, texts: Iterable[str]) -> dict[str, FloatArray]:
        """Return the vectors of those `texts` that are stored."""
        by_key = {_key(text): text for text in texts}
        stored = self._file.get(by_key)
        return {by_key[key]: np.frombuffer(value, dtype="<f4").astype(np.float32) for key, value in stored.items()}

    def write(self, vectors: Mapping[str, FloatArray]) -> None:
        """Store vectors [d] by text, replacing older ones."""
        self._file.put({_key(text): np.ascontiguousarray(row, "<f4").tobytes() for text, row in vectors.items()})


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
