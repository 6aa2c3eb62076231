"""A frozen encoder in ONNX Runtime: half of torch's time for a single text. Only its conversion needs torch."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drike.encoders.base import FloatArray
from drike.encoders.frozen import BATCH, Forward, forward_of, load_model, salient_mean, weights_of
from drike.encoders.salience import version
from drike.support.files import cache_folder, sha256, write_bytes
from drike.support.huggingface import quiet

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_TOKENIZER = "tokenizer"  # the model's metadata that holds it
_NAMES, _OUTPUTS = ("input_ids", "attention_mask"), ("own", "salient")
_SAMPLES = ("", "Ångström", "The capital of Peru is", "What is it? " * 200)
_CLOSE = 1e-4  # to torch's vectors


def by_onnx(folder: Path, identity: str) -> Forward:
    """The forward pass with ONNX Runtime, else torch. identity: of the files, for the cache. Raises EncoderError."""
    models = cache_folder() / "onnx"
    kept_as = hashlib.sha256(f"{identity} {version()}".encode()).hexdigest()
    path = _kept(models, kept_as)
    if path is None:
        model = load_model(folder, device="cpu")
        content = _converted(model)
        if content is None or not _agree(content, model):
            return forward_of(load_model(folder))
        path = models / f"{kept_as}.{hashlib.sha256(content).hexdigest()}.onnx"
        try:
            write_bytes(path, content)
        except OSError:  # a service may have no folder to write to: it converts at each start
            return _forward(content)
    return _forward(path)


def _kept(models: Path, name: str) -> Path | None:
    """The file of an encoder that was converted, if it is as it was written: its own SHA-256 is in its name."""
    for path in models.glob(f"{name}.*.onnx"):
        with suppress(OSError):  # it may be another user's
            if path.stem.endswith(sha256(path)):
                return path
    return None


def _forward(model: Path | bytes) -> Forward:
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_str(session.get_modelmeta().custom_metadata_map[_TOKENIZER])

    def computed(output: str, texts: Sequence[str]) -> FloatArray:
        encodings = tokenizer.encode_batch(list(texts))
        inputs = np.array([[encoding.ids, encoding.attention_mask] for encoding in encodings], dtype=np.int64)
        [vectors] = session.run([output], {name: inputs[:, i] for i, name in enumerate(_NAMES)})
        return np.asarray(vectors)

    def vectors(output: str, texts: Sequence[str]) -> FloatArray:
        return np.concatenate([computed(output, texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])

    return Forward(*(partial(vectors, output) for output in _OUTPUTS))


def _converted(model: SentenceTransformer) -> bytes | None:
    """The model from token ids to vectors, with its tokenizer; None if torch cannot convert it."""
    import torch

    class Vectors(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.register_buffer("weights", weights := weights_of(model))
            self.weights: Any = weights

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            read = self.model(dict(zip(_NAMES, (input_ids, attention_mask), strict=True)))
            weights = self.weights[input_ids] * attention_mask
            return read["sentence_embedding"], salient_mean(read["token_embeddings"], weights)

    sample = model.preprocess(list(_SAMPLES[1:3]))
    any_size = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    try:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            program: Any = torch.onnx.export(
                Vectors().eval(), tuple(sample[name] for name in _NAMES), input_names=_NAMES, output_names=_OUTPUTS,
                dynamic_shapes=(any_size, any_size), dynamo=True, verbose=False,
            )  # fmt: skip
            tokenizer = model.tokenizer.backend_tokenizer
            tokenizer.enable_truncation(model.max_seq_length)
            tokenizer.enable_padding(pad_id=model.tokenizer.pad_token_id, pad_token=model.tokenizer.pad_token)
            program.model.metadata_props[_TOKENIZER] = tokenizer.to_str()
            return bytes(program.model_proto.SerializeToString())
    except Exception:  # whatever an exporter raises
        return None


def _agree(content: bytes, model: SentenceTransformer) -> bool:
    """Whether ONNX Runtime can run what the model was converted to, and gives its vectors."""
    expected = forward_of(model)
    try:
        found = _forward(content)
        pairs = ((found.own, expected.own), (found.salient, expected.salient))
        return all(np.allclose(given(_SAMPLES), wanted(_SAMPLES), atol=_CLOSE) for given, wanted in pairs)
    except Exception:  # onnxruntime's errors have no common base
        return False
