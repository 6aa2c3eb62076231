"""A frozen transformer as encoder, run without remote code; its weights are loaded when a text is first computed.

It runs with torch or, if it is a BERT, in ONNX Runtime, which needs no torch, and half the time for a single text.
The graph for that, built from the files of its folder, maps token ids to vectors, of which means (or the first one) are
the vectors that sentence-transformers would give, and the salient vectors. Several texts stand in one row: a token
attends to those of its own text alone, so that short texts need no padding.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, Identity, salience_version, token_weights, unit
from drike.errors import EncoderError, require_unicode
from drike.support import progress
from drike.support.huggingface import quiet
from drike.support.key_value_file import KeyValueFile

if TYPE_CHECKING:
    from onnx import ModelProto
    from sentence_transformers import SentenceTransformer
    from tokenizers import Encoding

# The forward pass of a model: its own vectors [n, d] of texts, one at least, or where this is true the salient ones.
Forward = Callable[[Sequence[str], bool], FloatArray]
Load = Callable[[], Forward]

BATCH = 64  # texts
_CHUNK = 1024
_REMEMBERED = 200_000  # texts, so that a server does not grow without end
_INPUTS = ("ids", "places", "texts")  # of tokens: places in their texts, and numbers of these
_OPSET, _IR = 17, 10
_OWN = "com.microsoft"  # domain of the operations that ONNX Runtime adds to the standard ones
_ROW = 64  # tokens of several texts that stand in one row, if no text has more
_KINDS = {"Transformer", "Pooling", "Normalize"}
_MEAN, _FIRST = {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_cls_token", "cls"}


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
        return {
            by_key[key]: np.frombuffer(value, dtype="<f4").astype(np.float32)
            for key, value in stored.items()
        }

    def write(self, vectors: Mapping[str, FloatArray]) -> None:
        """Store vectors [d] by text, replacing older ones."""
        self._file.put(
            {
                _key(text): np.ascontiguousarray(row, "<f4").tobytes()
                for text, row in vectors.items()
            }
        )


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
        identity: Identity,
        load: Load,
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
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing and self._features:
            self._known.update(self._features.read(missing))
            missing = [text for text in missing if text not in self._known]
        # Texts of similar length together, to pad little; chunk by chunk, so that an interrupted run keeps its work.
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
        features = (
            self._features.beside(f"salient {salience_version()}") if self._features else None
        )
        forward: Load = lambda: lambda texts, _: self._forward(texts, True)  # noqa: E731
        return FrozenEncoder(self.name, self.identity, forward, features=features, bulk=self._bulk)

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
        weights = token_weights(
            lambda word: tokenizer(word, add_special_tokens=False).input_ids, len(tokenizer)
        )
        weights[tokenizer.all_special_ids] = 0
        return torch.from_numpy(weights).to(model.device)

    def mean(row: Any) -> FloatArray:
        """The weighted mean [d] of the directions of a text's tokens."""
        from torch.nn.functional import normalize

        counts = weights()[row["input_ids"]]
        summed = (normalize(row["token_embeddings"], dim=-1) * counts[..., None]).sum(-2)
        return np.asarray((summed / counts.sum(-1, keepdim=True).clamp(min=1e-9)).cpu(), np.float32)

    def vectors(texts: Sequence[str], salient: bool) -> FloatArray:
        options: dict[str, Any] = {"batch_size": BATCH, "show_progress_bar": False}
        with computing, quiet():
            if salient:
                rows: Any = model.encode(list(texts), output_value=None, **options)
                return np.stack([mean(row) for row in rows])
            return np.asarray(
                model.encode(list(texts), convert_to_numpy=True, **options), np.float32
            )

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
                model = SentenceTransformer(
                    modules=[bert, Pooling(bert.get_embedding_dimension(), pooling_mode="cls")]
                )
            return model.eval().requires_grad_(False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as problem:
        failed = f"the encoder in {folder} cannot be loaded ({str(problem).splitlines()[0]})"
        remedy = (
            "give the folder of a BERT-like or sentence-transformers model, or download it again"
        )
        raise EncoderError(f"{failed}; {remedy}") from problem


def by_onnx(folder: Path) -> Forward:
    """The forward pass with ONNX Runtime, or with torch if it is missing or this is no BERT. Raises EncoderError."""
    with suppress(
        Exception
    ):  # of a missing package, a broken file or onnxruntime, whose errors have no common base
        if bert := BertFolder.read(folder):
            # The graph is built at each start, in half a second: no file of it has to be kept, trusted and renewed.
            return _Model(bert).vectors
    return by_torch(folder)  # which says what is wrong


class _Model:
    """The token vectors of a BERT, and the means of them that are vectors of texts."""

    def __init__(self, bert: BertFolder) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        self._bert = bert
        self._tokenizer = Tokenizer.from_file(str(bert.path / "tokenizer.json"))
        self._tokenizer.enable_truncation(bert.max_tokens)
        self._tokenizer.no_padding()
        options = SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = min(2, cpu_count() or 1), 1
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # other requests need the cores
        self._session = InferenceSession(
            _graph(bert).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        tokens_of = lambda word: self._tokenizer.encode(word, add_special_tokens=False).ids  # noqa: E731
        self._weights = token_weights(tokens_of, self._tokenizer.get_vocab_size())
        self._weights[
            [
                id
                for id, token in self._tokenizer.get_added_tokens_decoder().items()
                if token.special
            ]
        ] = 0

    def vectors(self, texts: Sequence[str], salient: bool) -> FloatArray:
        """The model's own vectors [n, d] of some texts, or their salient vectors."""
        return np.concatenate(
            [self._pass(texts[at : at + BATCH], salient) for at in range(0, len(texts), BATCH)]
        )

    def _pass(self, texts: Sequence[str], salient: bool) -> FloatArray:
        encodings = self._tokenizer.encode_batch(list(texts))
        tokens = self._tokens(encodings)
        ids = np.array([id for encoding in encodings for id in encoding.ids])
        starts = np.cumsum([0, *(len(encoding.ids) for encoding in encodings[:-1])])
        if salient:
            return _means(unit(tokens), self._weights[ids], starts)
        own = (
            _means(tokens, np.ones(len(ids), np.float32), starts)
            if self._bert.mean
            else tokens[starts]
        )
        return unit(own) if self._bert.normalised else own

    def _tokens(self, encodings: Sequence[Encoding]) -> FloatArray:
        """The vectors of all tokens of some texts, one text after the other."""
        length = max(_ROW, *(len(encoding.ids) for encoding in encodings))
        rows = list[list[tuple[int, int, int]]]()
        for number, encoding in enumerate(encodings):
            if not rows or len(rows[-1]) + len(encoding.ids) > length:
                rows.append([])
            rows[-1] += [(id, place, number) for place, id in enumerate(encoding.ids)]
        width = max(map(len, rows))
        inputs = np.array([row + [(0, 0, -1)] * (width - len(row)) for row in rows], np.int64)
        vectors: FloatArray = self._session.run(
            None, {name: inputs[..., i] for i, name in enumerate(_INPUTS)}
        )[0]
        return vectors[inputs[..., -1] >= 0]


def _means(vectors: FloatArray, weights: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """The means of vectors [tokens, d] with weights [tokens], of the tokens from each of `starts` on."""
    sums: FloatArray = np.add.reduceat(vectors * weights[:, None], starts)
    return np.asarray(
        sums / np.maximum(np.add.reduceat(weights, starts), 1e-9)[:, None], np.float32
    )


@dataclass(frozen=True)
class BertFolder:
    """A BERT and how its tokens become a vector. config: the model's; normalised: whether vectors have length 1."""

    path: Path
    config: Mapping[str, Any]
    max_tokens: int
    mean: bool
    normalised: bool

    @classmethod
    def read(cls, path: Path) -> BertFolder | None:
        """The BERT in a folder; None for another kind of model, or for files that only torch reads."""
        config, tokenizer = _json(path / "config.json"), _json(path / "tokenizer_config.json")
        plain = config.get("model_type") == "bert" and config.get("hidden_act") == "gelu"
        absolute = config.get("position_embedding_type") or "absolute"
        complete = all((path / name).is_file() for name in ("model.safetensors", "tokenizer.json"))
        if not plain or absolute != "absolute" or not complete:
            return None
        limit = _json(path / "sentence_bert_config.json").get("max_seq_length")
        limit = limit or min(
            config["max_position_embeddings"], tokenizer.get("model_max_length", math.inf)
        )
        if not (path / "modules.json").is_file():
            return cls(path, config, limit, mean=False, normalised=False)
        modules = {
            str(module["type"]).rpartition(".")[2]: module["path"]
            for module in _json(path / "modules.json")
        }
        pooling = _json(path / modules.get("Pooling", "") / "config.json")
        modes = {
            name
            for name, value in pooling.items()
            if name.startswith("pooling_mode_") and value is True
        }
        modes |= (
            {pooling["pooling_mode"]} if "pooling_mode" in pooling else set()
        )  # as newer versions write it
        if (
            not {"Transformer", "Pooling"} <= set(modules) <= _KINDS
            or len(modes) != 1
            or not modes <= _MEAN | _FIRST
        ):
            return None
        return cls(path, config, limit, mean=modes <= _MEAN, normalised="Normalize" in modules)


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _graph(bert: BertFolder) -> ModelProto:
    """The model from `_INPUTS` [rows, tokens] to vectors [rows, tokens, d]. Raises KeyError for missing weights."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {
        name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()
    }
    op = _Graph(weights, float(bert.config["layer_norm_eps"]))
    tables = ("word", "position", "token_type")  # of vectors that are added up for each token
    word, position, kind = (weights[f"embeddings.{table}_embeddings.weight"] for table in tables)
    x = op("Add", op("Gather", word, "ids"), op("Gather", position + kind[0], "places"))
    x = op.normed(x, "embeddings.LayerNorm")
    other = op(
        "Not", op("Equal", op("Unsqueeze", "texts", [1, 2]), op("Unsqueeze", "texts", [1, 3]))
    )
    hidden = op(
        "Mul", op("Cast", other, to=1), float(np.finfo(np.float32).min)
    )  # [rows, 1, tokens, tokens]
    for layer in range(bert.config["num_hidden_layers"]):
        x = _layer(op, x, hidden, f"encoder.layer.{layer}", bert.config)
    shape = ["rows", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in _INPUTS]
    output = helper.make_tensor_value_info(
        x, TensorProto.FLOAT, [*shape, bert.config["hidden_size"]]
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_OWN, 1)]
    made = helper.make_graph(op.nodes, "bert", inputs, [output], op.constants)
    return helper.make_model(made, opset_imports=opsets, ir_version=_IR)


class _Graph:
    """The nodes of a graph and its constants; a value is named by the node that computes it."""

    def __init__(self, weights: Mapping[str, FloatArray], epsilon: float) -> None:
        self.weights, self._epsilon = weights, epsilon
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; inputs: names of values, or constants (a list holds integers)."""
        from onnx import helper, numpy_helper

        name, names = f"{kind}_{len(self.nodes)}", []
        for value in inputs:
            if not isinstance(value, str):
                array = np.asarray(
                    value, np.float32 if isinstance(value, float) else None, order="C"
                )
                self.constants.append(
                    numpy_helper.from_array(array, f"constant_{len(self.constants)}")
                )
            names.append(value if isinstance(value, str) else self.constants[-1].name)
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def linear(self, x: str, name: str) -> str:
        return self(
            "Add", self("MatMul", x, self.weights[f"{name}.weight"].T), self.weights[f"{name}.bias"]
        )

    def normed(self, x: str, name: str) -> str:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=self._epsilon)


def _layer(op: _Graph, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    weights = np.concatenate([op.weights[f"{part}.weight"] for part in parts]).T
    biases = np.concatenate([op.weights[f"{part}.bias"] for part in parts])
    heads = {"num_heads": config["num_attention_heads"], "domain": _OWN}
    read = op.linear(
        op("Attention", x, weights, biases, "", "", hidden, **heads),
        f"{name}.attention.output.dense",
    )
    x = op.normed(op("Add", read, x), f"{name}.attention.output.LayerNorm")
    gelu = op("Gelu", op.linear(x, f"{name}.intermediate.dense"), domain=_OWN)
    return op.normed(
        op("Add", op.linear(gelu, f"{name}.output.dense"), x), f"{name}.output.LayerNorm"
    )
