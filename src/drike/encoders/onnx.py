"""A frozen BERT in ONNX Runtime, which needs no torch and half of its time for a single text.

Its graph, built from the files of its folder, maps token ids to vectors, of which means (or the first one) are the
vectors that sentence-transformers would give, and the salient vectors. Several texts stand in one row: a token attends
to those of its own text alone, so that short texts need no padding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, token_weights, unit
from drike.encoders.frozen import BATCH, Forward, by_torch

if TYPE_CHECKING:
    from onnx import ModelProto
    from tokenizers import Encoding

_INPUTS = ("ids", "places", "texts")  # of tokens: places in their texts, and numbers of these
_TABLES = ("word", "position", "token_type")  # of vectors that are added up for each token
_OPSET, _IR = 17, 10
_OWN = "com.microsoft"  # domain of the operations that ONNX Runtime adds to the standard ones
_ROW = 64  # tokens of several texts that stand in one row, if no text has more
_KINDS = {"Transformer", "Pooling", "Normalize"}
_MEAN, _FIRST = {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_cls_token", "cls"}


def by_onnx(folder: Path) -> Forward:
    """The forward pass with ONNX Runtime, or with torch if it is missing or this is no BERT. Raises EncoderError."""
    try:  # the graph is built at each start, in half a second: no file of it has to be kept, trusted and renewed
        bert = BertFolder.read(folder)
        model = _Model(bert) if bert else None
    except Exception:  # of a missing package, a broken file or onnxruntime, whose errors have no common base
        model = None
    return model.vectors if model else by_torch(folder)  # which says what is wrong


class _Model:
    """The token vectors of a BERT, and the means of them that are vectors of texts."""

    def __init__(self, bert: BertFolder) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._bert = bert
        self._tokenizer = Tokenizer.from_file(str(bert.path / "tokenizer.json"))
        self._tokenizer.enable_truncation(bert.max_tokens)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = _graph(bert).SerializeToString()
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        tokens_of = lambda word: self._tokenizer.encode(word, add_special_tokens=False).ids  # noqa: E731
        self._weights = token_weights(tokens_of, self._tokenizer.get_vocab_size())
        added = self._tokenizer.get_added_tokens_decoder().items()
        self._weights[[id for id, token in added if token.special]] = 0

    def vectors(self, texts: Sequence[str], salient: bool) -> FloatArray:
        """The model's own vectors [n, d] of some texts, or their salient vectors."""
        return np.concatenate([self._pass(texts[at : at + BATCH], salient) for at in range(0, len(texts), BATCH)])

    def _pass(self, texts: Sequence[str], salient: bool) -> FloatArray:
        encodings = self._tokenizer.encode_batch(list(texts))
        tokens = self._tokens(encodings)
        ids = np.array([id for encoding in encodings for id in encoding.ids])
        starts = np.cumsum([0, *(len(encoding.ids) for encoding in encodings[:-1])])
        if salient:
            return _means(unit(tokens), self._weights[ids], starts)
        own = _means(tokens, np.ones(len(ids), np.float32), starts) if self._bert.mean else tokens[starts]
        return unit(own) if self._bert.normalised else own

    def _tokens(self, encodings: Sequence[Encoding]) -> FloatArray:
        """The vectors of all tokens of some texts, one text after the other."""
        length = max(_ROW, *(len(encoding.ids) for encoding in encodings))
        rows = list[list[tuple[int, int, int]]]()
        for number, encoding in enumerate(encodings):
            if not rows or len(rows[-1]) + len(encoding.ids) > length:
                rows.append([])
            rows[-1] += [(id, place, number) for place, id in enumerate(encoding.ids)]
        inputs = np.full((len(rows), max(map(len, rows)), len(_INPUTS)), (0, 0, -1), np.int64)
        for row, filled in zip(rows, inputs, strict=True):
            filled[: len(row)] = row
        parts: dict[str, Any] = {name: inputs[..., i] for i, name in enumerate(_INPUTS)}
        vectors: FloatArray = self._session.run(None, parts)[0]
        return vectors[inputs[..., -1] >= 0]


def _means(vectors: FloatArray, weights: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """The means of vectors [tokens, d] with weights [tokens], of the tokens from each of `starts` on."""
    sums: FloatArray = np.add.reduceat(vectors * weights[:, None], starts)
    totals = np.maximum(np.add.reduceat(weights, starts), 1e-9)
    return np.asarray(sums / totals[:, None], np.float32)


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
        limit = limit or min(config["max_position_embeddings"], tokenizer.get("model_max_length", math.inf))
        if not (path / "modules.json").is_file():
            return cls(path, config, limit, mean=False, normalised=False)
        modules = {str(module["type"]).rpartition(".")[2]: module["path"] for module in _json(path / "modules.json")}
        pooling = _json(path / modules.get("Pooling", "") / "config.json")
        modes = {name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True}
        modes |= {pooling["pooling_mode"]} if "pooling_mode" in pooling else set()  # as newer versions write it
        if not {"Transformer", "Pooling"} <= set(modules) <= _KINDS or len(modes) != 1 or not modes <= _MEAN | _FIRST:
            return None
        return cls(path, config, limit, mean=modes <= _MEAN, normalised="Normalize" in modules)


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _graph(bert: BertFolder) -> ModelProto:
    """The model from `_INPUTS` [rows, tokens] to vectors [rows, tokens, d]. Raises KeyError for missing weights."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()}
    op = _Graph(weights, float(bert.config["layer_norm_eps"]))
    word, position, kind = (weights[f"embeddings.{table}_embeddings.weight"] for table in _TABLES)
    words, places = op("Gather", word, "ids"), op("Gather", position + kind[0], "places")
    x = op.normed(op("Add", words, places), "embeddings.LayerNorm")
    other = op("Not", op("Equal", op("Unsqueeze", "texts", [1, 2]), op("Unsqueeze", "texts", [1, 3])))
    hidden = op("Mul", op("Cast", other, to=1), float(np.finfo(np.float32).min))  # [rows, 1, tokens, tokens]
    for layer in range(bert.config["num_hidden_layers"]):
        x = _layer(op, x, hidden, f"encoder.layer.{layer}", bert.config)
    shape = ["rows", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in _INPUTS]
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, [*shape, bert.config["hidden_size"]])
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
                array = np.asarray(value, np.float32 if isinstance(value, float) else None, order="C")
                self.constants.append(numpy_helper.from_array(array, f"constant_{len(self.constants)}"))
            names.append(value if isinstance(value, str) else self.constants[-1].name)
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def linear(self, x: str, name: str) -> str:
        product = self("MatMul", x, self.weights[f"{name}.weight"].T)
        return self("Add", product, self.weights[f"{name}.bias"])

    def normed(self, x: str, name: str) -> str:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=self._epsilon)


def _layer(op: _Graph, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    weights = np.concatenate([op.weights[f"{part}.weight"] for part in parts]).T
    biases = np.concatenate([op.weights[f"{part}.bias"] for part in parts])
    heads = {"num_heads": config["num_attention_heads"], "domain": _OWN}
    read = op.linear(op("Attention", x, weights, biases, "", "", hidden, **heads), f"{name}.attention.output.dense")
    x = op.normed(op("Add", read, x), f"{name}.attention.output.LayerNorm")
    gelu = op("Gelu", op.linear(x, f"{name}.intermediate.dense"), domain=_OWN)
    return op.normed(op("Add", op.linear(gelu, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
