"""A frozen transformer as encoder, run without remote code, and the vectors that are kept of it.

Its weights are loaded when a text is first computed. It runs with torch (`torch_pass`) or, if it is
a BERT, in ONNX Runtime (`onnx_pass`), which needs no torch, and half the time for a single text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

import numpy as np

from drike.encoders.base import FloatArray, Identity
from drike.encoders.salience import salience_version
from drike.errors import require_unicode
from drike.support import progress
from drike.support.key_value_file import KeyValueFile

# The forward pass of a model: its own vectors [n, d] of texts, one at least, or where this is true
# the salient ones.
Forward = Callable[[Sequence[str], bool], FloatArray]
Load = Callable[[], Forward]

_CHUNK = 1024  # texts that are computed before their vectors are kept
_REMEMBERED = 200_000  # texts, so that a server does not grow without end


class FeatureStore:
    """The vectors of one model on disk, by the texts' hashes.

    model: a hash of everything that affects a vector.
    """

    def __init__(self, folder: Path, model: str) -> None:
        self.path = folder / f"{model[:32]}.sqlite"
        self._model = model
        self._file = KeyValueFile(self.path, "features", "set XDG_CACHE_HOME")

    def beside(self, kind: str) -> FeatureStore:
        """The store for another kind of vectors of the same model."""
        return FeatureStore(self.path.parent, _key(f"{kind} {self._model}"))

    def read(self, texts: Iterable[str]) -> dict[str, FloatArray]:
        """Return the vectors of those `texts` that are stored."""
        text_by_key = {_key(text): text for text in texts}
        stored = self._file.get(text_by_key)
        return {
            text_by_key[key]: np.frombuffer(value, dtype="<f4").astype(np.float32)
            for key, value in stored.items()
        }

    def write(self, vectors: Mapping[str, FloatArray]) -> None:
        """Store vectors [d] by text, replacing older ones."""
        values_by_key = {
            _key(text): np.ascontiguousarray(vector, "<f4").tobytes()
            for text, vector in vectors.items()
        }
        self._file.put(values_by_key)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class FrozenEncoder:
    """A sentence-transformers model with its own pooling, or a plain BERT's CLS vector.

    Threads may share it. load: makes its forward pass when a text is first computed. features:
    where vectors are kept between runs. bulk: if not 0, vectors of fewer texts at once are not
    kept, and others on disk alone, as a server of users' texts wants it.
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        load: Load,
        *,
        features: FeatureStore | None = None,
        bulk: int = 0,
    ) -> None:
        self.name = name
        self.identity = identity
        self._load = cache(load)
        self._features = features
        self._bulk = bulk
        self._known: dict[str, FloatArray] = {}
        self._filling = Lock()
        self._loading = Lock()

    @cached_property
    def dim(self) -> int:
        """Numbers per text."""
        return int(self.encode([""]).shape[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors [n, d] of `texts`. Raises EncoderError, UsageError."""
        require_unicode(texts)
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        if len(texts) < self._bulk:  # it does not wait for a long list
            return self._forward(texts, False)
        with self._filling:
            self._fill(texts)
            vectors = np.stack([self._known[text] for text in texts])
            if self._bulk or len(self._known) > _REMEMBERED:
                self._known.clear()
        return vectors

    def _fill(self, texts: Sequence[str]) -> None:
        """Make the vectors of some texts known, from disk or by the model."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing and self._features:
            self._known.update(self._features.read(missing))
            missing = [text for text in missing if text not in self._known]

        # Texts of similar length together, to pad little; chunk by chunk, so that an interrupted
        # run keeps its work.
        missing.sort(key=len, reverse=True)
        with progress.show(len(missing)) as count:
            for start in range(0, len(missing), _CHUNK):
                chunk = missing[start : start + _CHUNK]
                computed = dict(zip(chunk, self._forward(chunk, False), strict=True))
                if self._features:
                    self._features.write(computed)
                self._known.update(computed)
                count(start + len(chunk))

    @cached_property
    def salient(self) -> FrozenEncoder:
        """The encoder with the same model that gives salient vectors."""
        features = None
        if self._features:
            features = self._features.beside(f"salient {salience_version()}")

        def forward(texts: Sequence[str], _salient: bool) -> FloatArray:
            return self._forward(texts, True)

        return FrozenEncoder(
            self.name, self.identity, lambda: forward, features=features, bulk=self._bulk
        )

    @property
    def _forward(self) -> Forward:
        with self._loading:  # from Python 3.12 on, a cached property has no lock of its own
            return self._load()
