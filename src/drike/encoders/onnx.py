"""A frozen BERT in ONNX Runtime, which needs no torch and half of its time for a single text.

Its graph is built from the files of its folder. It maps token ids to the vectors that sentence-transformers would give
(mean or CLS pooling, perhaps normalised; a plain BERT's CLS vector) and to the salient vectors of
`drike.encoders.salience`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray
from drike.encoders.frozen import BATCH, Forward, by_torch
from drike.encoders.salience import token_weights

if TYPE_CHECKING:
    from onnx import ModelProto
    from tokenizers import Tokenizer

_INPUTS, _OUTPUTS = ("input_ids", "attention_mask"), ("own", "salient")
_OPSET, _IR = 17, 10
_TINY = 1e-9  # the least sum of weights that is divided by
_KINDS = {"Transformer", "Pooling", "Normalize"}
_MEAN, _FIRST = {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_cls_token", "cls"}


def by_onnx(folder: Path) -> Forward:
    """The forward pass with ONNX Runtime; with torch without it, or for another model than a BERT. Raises EncoderError.

    The graph is built at each start, in half a second: no file of it has to be kept, trusted and renewed.
    """
    try:
        import onnxruntime

        bert = BertFolder.read(folder)
        if bert is None:
            return by_torch(folder)
        tokenizer = bert.tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = _model(bert, tokenizer).SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:  # of a missing package, a broken file or onnxruntime, whose errors have no common base
        return by_torch(folder)  # which says what is wrong

    def computed(output: str, texts: Sequence[str]) -> FloatArray:
        encodings = tokenizer.encode_batch(list(texts))
        inputs = np.array([[encoding.ids, encoding.attention_mask] for encoding in encodings], dtype=np.int64)
        [vectors] = session.run([output], {name: inputs[:, i] for i, name in enumerate(_INPUTS)})
        return np.asarray(vectors)

    def vectors(output: str, texts: Sequence[str]) -> FloatArray:
        return np.concatenate([computed(output, texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])

    return Forward(*(partial(vectors, output) for output in _OUTPUTS))


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

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which cuts texts to the model's length and pads them to each other's."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
        padding = _json(self.path / "tokenizer_config.json").get("pad_token", "[PAD]")
        tokenizer.enable_truncation(self.max_tokens)
        tokenizer.enable_padding(pad_id=tokenizer.token_to_id(padding), pad_token=padding)
        return tokenizer


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _model(bert: BertFolder, tokenizer: Tokenizer) -> ModelProto:
    """The model from `_INPUTS` [n, tokens] to `_OUTPUTS` [n, d]. Raises KeyError for weights that are not there."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()}
    op = _Graph(weights, float(bert.config["layer_norm_eps"]))
    tokens = _encoded(op, bert.config)
    own = op.mean(tokens, "mask") if bert.mean else op("Gather", tokens, np.array(0), axis=1)
    op("Identity", op.unit(own) if bert.normalised else own, name="own")
    of_word = lambda word: tokenizer.encode(word, add_special_tokens=False).ids  # noqa: E731
    rarity = token_weights(of_word, tokenizer.get_vocab_size())
    rarity[[id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special]] = 0
    shares = op("Mul", op("Gather", rarity, "input_ids"), "mask")
    op("Identity", op.mean(op.unit(tokens), shares), name="salient")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "tokens"]) for name in _INPUTS]
    size = bert.config["hidden_size"]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in _OUTPUTS]
    made = helper.make_graph(op.nodes, "bert", inputs, outputs, op.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


class _Graph:
    """The nodes of a graph and its constants; a value is named by the node that computes it."""

    def __init__(self, weights: Mapping[str, FloatArray], epsilon: float) -> None:
        self.weights, self._epsilon = weights, epsilon
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """Add a node; inputs: names of values, or constants (a list holds integers)."""
        from onnx import helper

        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def _constant(self, value: float | list[int] | NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        array = np.asarray(value, np.float32 if isinstance(value, float) else None, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, name: str) -> str:
        product = self("MatMul", x, self.weights[f"{name}.weight"].T)
        return self("Add", product, self.weights[f"{name}.bias"])

    def normed(self, x: str, name: str) -> str:
        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self("LayerNormalization", x, scale, shift, axis=-1, epsilon=self._epsilon)

    def unit(self, x: str) -> str:
        """The directions of vectors."""
        return self("Div", x, self("Max", self("ReduceL2", x, axes=[-1], keepdims=1), 1e-12))

    def mean(self, x: str, weights: str) -> str:
        """The mean [n, d] of vectors [n, tokens, d] with weights [n, tokens]."""
        by_vector = self("Unsqueeze", weights, [-1])
        total = self("ReduceSum", self("Mul", x, by_vector), [1], keepdims=0)
        return self("Div", total, self("Max", self("ReduceSum", by_vector, [1], keepdims=0), _TINY))


def _encoded(op: _Graph, config: Mapping[str, Any]) -> str:
    """The vectors of tokens [n, tokens, d] behind the last layer."""
    word, position, kind = (
        op.weights[f"embeddings.{table}_embeddings.weight"] for table in ("word", "position", "token_type")
    )
    length = op("Slice", op("Shape", "input_ids"), [1], [2])
    places = op("Slice", position + kind[0], [0], length, [0])
    x = op.normed(op("Add", op("Gather", word, "input_ids"), places), "embeddings.LayerNorm")
    mask = op("Cast", "attention_mask", name="mask", to=1)
    hidden = op("Mul", op("Sub", 1.0, mask), float(np.finfo(np.float32).min))
    hidden = op("Unsqueeze", hidden, [1, 2])  # [n, 1, 1, tokens]
    for layer in range(config["num_hidden_layers"]):
        x = _layer(op, x, hidden, f"encoder.layer.{layer}", config)
    return x


def _layer(op: _Graph, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    heads, size = config["num_attention_heads"], config["hidden_size"]

    def heads_of(part: str, *order: int) -> str:
        values = op("Reshape", op.linear(x, f"{name}.attention.self.{part}"), [0, 0, heads, size // heads])
        return op("Transpose", values, perm=order)

    scores = op("MatMul", heads_of("query", 0, 2, 1, 3), heads_of("key", 0, 2, 3, 1))
    scores = op("Div", scores, math.sqrt(size // heads))
    shares = op("Softmax", op("Add", scores, hidden), axis=-1)
    read = op("Transpose", op("MatMul", shares, heads_of("value", 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    read = op.linear(op("Reshape", read, [0, 0, size]), f"{name}.attention.output.dense")
    x = op.normed(op("Add", read, x), f"{name}.attention.output.LayerNorm")
    inner = op.linear(x, f"{name}.intermediate.dense")
    erf = op("Erf", op("Div", inner, math.sqrt(2)))
    gelu = op("Mul", op("Mul", inner, op("Add", erf, 1.0)), 0.5)
    return op.normed(op("Add", op.linear(gelu, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
