"""A frozen transformer as encoder, run without remote code. Torch is imported when a text is first computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from drike.encoders.base import FloatArray, Progress, salience_version, token_weights
from drike.errors import EncoderError, require_unicode
from drike.support.files import KeyValueFile
from drike.support.huggingface import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# The forward pass of a model: its own vectors [n, d] of texts, one at least, or where this is true the salient ones.
Forward = Callable[[Sequence[str], bool], FloatArray]

BATCH = 64  # texts
_CHUNK = 1024
_REMEMBERED = 200_000  # texts, so that a server does not grow without end


class FeatureStore:
    """The vectors of one model on disk, by the texts' hashes. model: a hash of everything that affects a vector."""

    def __init__(self, folder: Path, model: str) -> None:
        self.path = folder / f"{model[:32]}.sqlite"
        self._model = model
        self._file = KeyValueFile(self.path, "features", "set XDG_CACHE_HOME")

    def beside(self, kind: str) -> FeatureStore:
        """The store for another kind of vectors of the same model."""
        return FeatureStore(self.path.parent, _key(f"{kind} {self._model}"))

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


class FrozenEncoder:
    """A sentence-transformers model with its own pooling, or a plain BERT's CLS vector; threads may share it.

    load: makes its forward pass when a text is first computed. features: where vectors are kept between runs. bulk: if
    not 0, vectors of fewer texts at once are not kept, and others on disk alone, as a server of users' texts wants it.
    """

    def __init__(
        self,
        name: str,
        identity: Mapping[str, str | None],
        load: Callable[[], Forward],
        *,
        features: FeatureStore | None = None,
        bulk: int = 0,
    ) -> None:
        self.name, self.identity = name, identity
        self._load, self._features, self._bulk = cache(load), features, bulk
        self._known: dict[str, FloatArray] = {}
        self._filling, self._loading = Lock(), Lock()

    @cached_property
    def dim(self) -> int:
        """Numbers per text."""
        return int(self.encode([""]).shape[1])

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Vectors [n, d] of `texts`. progress: counts those to compute. Raises EncoderError, UsageError."""
        require_unicode(texts)
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        if len(texts) < self._bulk:  # it does not wait for a long list
            return self._forward(texts, False)
        with self._filling:
            self._fill(texts, progress)
            vectors = np.stack([self._known[text] for text in texts])
            if self._bulk or len(self._known) > _REMEMBERED:
                self._known.clear()
        return vectors

    def _fill(self, texts: Sequence[str], progress: Progress | None) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing and self._features:
            self._known.update(self._features.read(missing))
            missing = [text for text in missing if text not in self._known]
        # Texts of similar length together, to pad little; chunk by chunk, so that an interrupted run keeps its work.
        missing.sort(key=len, reverse=True)
        for start in range(0, len(missing), _CHUNK):
            chunk = missing[start : start + _CHUNK]
            computed = dict(zip(chunk, self._forward(chunk, False), strict=True))
            if self._features:
                self._features.write(computed)
            self._known.update(computed)
            if progress:
                progress(start + len(chunk), len(missing))

    @cached_property
    def salient(self) -> FrozenEncoder:
        """The encoder with the same model that gives salient vectors."""
        features = self._features.beside(f"salient {salience_version()}") if self._features else None

        def load() -> Forward:
            forward = self._forward
            return lambda texts, _: forward(texts, True)

        return FrozenEncoder(self.name, self.identity, load, features=features, bulk=self._bulk)

    @property
    def _forward(self) -> Forward:
        with self._loading:  # from Python 3.12 on, a cached property has no lock of its own
            return self._load()


def by_torch(folder: Path) -> Forward:
    """The forward pass of a sentence-transformers model, on an accelerator if there is one. Raises EncoderError."""
    model = _load(folder)
    computing = Lock()  # a tokenizer cannot be borrowed twice

    @cache
    def weights() -> Any:
        import torch

        tokenizer = model.tokenizer
        weights = token_weights(lambda word: tokenizer(word, add_special_tokens=False).input_ids, len(tokenizer))
        weights[tokenizer.all_special_ids] = 0
        return torch.from_numpy(weights).to(model.device)

    def mean(row: Any) -> FloatArray:
        """The weighted mean [d] of the directions of a text's tokens."""
        from torch.nn.functional import normalize

        counts = weights()[row["input_ids"]]
        summed = (normalize(row["token_embeddings"], dim=-1) * counts[..., None]).sum(-2)
        pooled: FloatArray = (summed / counts.sum(-1, keepdim=True).clamp(min=1e-9)).cpu().numpy()
        return pooled

    def vectors(texts: Sequence[str], salient: bool) -> FloatArray:
        options: dict[str, Any] = {"batch_size": BATCH, "show_progress_bar": False}
        with computing, quiet():
            if salient:
                rows: Any = model.encode(list(texts), output_value=None, **options)
                return np.stack([mean(row) for row in rows])
            return np.asarray(model.encode(list(texts), convert_to_numpy=True, **options), np.float32)

    return vectors


def _load(folder: Path) -> SentenceTransformer:
    """The model in a folder, in single precision. Raises EncoderError if its files are no model, or without torch."""
    if find_spec("sentence_transformers") is None:
        remedy = "pip install 'drike[encoder]', or 'drike[local]' for one that is no BERT"
        raise EncoderError(f"nothing is installed that runs the encoder in {folder}: {remedy}")
    from safetensors import SafetensorError

    try:
        with quiet():
            import torch
            from sentence_transformers import SentenceTransformer
            from sentence_transformers.base.modules import Transformer
            from sentence_transformers.sentence_transformer.modules import Pooling

            exact = {"dtype": torch.float32}
            if (folder / "modules.json").is_file():
                model = SentenceTransformer(str(folder), local_files_only=True, model_kwargs=exact)
            else:
                bert = Transformer(str(folder), model_kwargs={**exact, "local_files_only": True})
                pooled = Pooling(bert.get_embedding_dimension(), pooling_mode="cls")
                model = SentenceTransformer(modules=[bert, pooled])
            return model.eval().requires_grad_(False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as problem:
        failed = f"the encoder in {folder} cannot be loaded ({str(problem).splitlines()[0]})"
        remedy = "give the folder of a BERT-like or sentence-transformers model, or download it again"
        raise EncoderError(f"{failed}; {remedy}") from problem
