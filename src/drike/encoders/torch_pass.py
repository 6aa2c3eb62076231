"""The forward pass of an encoder with torch, by sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from drike.encoders.base import FloatArray
from drike.encoders.frozen import Forward
from drike.encoders.salience import token_weights
from drike.errors import EncoderError
from drike.support.huggingface import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_BATCH = 64  # texts


def by_torch(folder: Path) -> Forward:
    """The forward pass of a sentence-transformers model, on an accelerator if there is one.

    Raises EncoderError.
    """
    return _TorchModel(_load(folder)).vectors


class _TorchModel:
    """A model and the weights of its tokens."""

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model
        self._computing = Lock()  # a tokenizer cannot be borrowed twice

    def vectors(self, texts: Sequence[str], salient: bool) -> FloatArray:
        """The model's own vectors [n, d] of some texts, or their salient vectors."""
        options: dict[str, Any] = {"batch_size": _BATCH, "show_progress_bar": False}
        with self._computing, quiet():
            if salient:
                rows: Any = self._model.encode(list(texts), output_value=None, **options)
                return np.stack([self._salient_vector(row) for row in rows])
            own: Any = self._model.encode(list(texts), convert_to_numpy=True, **options)
            return np.asarray(own, np.float32)

    def _salient_vector(self, row: Any) -> FloatArray:
        """The weighted mean [d] of the directions of a text's tokens."""
        from torch.nn.functional import normalize

        weights = self._token_weights[row["input_ids"]]
        directions = normalize(row["token_embeddings"], dim=-1)
        weighted_sum = (directions * weights[..., None]).sum(-2)
        mean = weighted_sum / weights.sum(-1, keepdim=True).clamp(min=1e-9)
        return np.asarray(mean.cpu(), np.float32)

    @cached_property
    def _token_weights(self) -> Any:
        """What each token counts for, on the model's device; special ones count for nothing."""
        import torch

        tokenizer = self._model.tokenizer

        def tokens_of(word: str) -> Sequence[int]:
            tokens: Sequence[int] = tokenizer(word, add_special_tokens=False).input_ids
            return tokens

        weights = token_weights(tokens_of, len(tokenizer))
        weights[tokenizer.all_special_ids] = 0
        return torch.from_numpy(weights).to(self._model.device)


def _load(folder: Path) -> SentenceTransformer:
    """The model in a folder, in single precision.

    Raises EncoderError if its files are no model, or without torch.
    """
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
                pooling = Pooling(bert.get_embedding_dimension(), pooling_mode="cls")
                model = SentenceTransformer(modules=[bert, pooling])
            return model.eval().requires_grad_(False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as problem:
        fault = str(problem).splitlines()[0]
        remedy = "give the folder of a BERT-like or sentence-transformers model"
        raise EncoderError(
            f"the encoder in {folder} cannot be loaded ({fault}); {remedy}, or download it again"
        ) from problem
