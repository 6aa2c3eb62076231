"""A BERT's forward pass as a graph for ONNX Runtime, built from the files of its folder without torch.

The graph maps token ids to the vectors of tokens behind the last layer. Several texts may stand in one row: a token
attends to those of its own text alone, so that short texts need no padding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from tokenizers import Tokenizer

INPUTS = ("ids", "places", "texts")  # of tokens: places in their texts, and numbers of these
_OPSET, _IR = 17, 10
_KINDS = {"Transformer", "Pooling", "Normalize"}
_MEAN, _FIRST = {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_cls_token", "cls"}


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
        """The tokenizer, which cuts texts to the model's length."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
        tokenizer.enable_truncation(self.max_tokens)
        tokenizer.no_padding()
        return tokenizer


def graph(bert: BertFolder) -> ModelProto:
    """The model from `INPUTS` [rows, tokens] to vectors [rows, tokens, d]. Raises KeyError for missing weights."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()}
    nodes = _Nodes(weights, float(bert.config["layer_norm_eps"]))
    nodes.add("Identity", [_encoded(nodes, bert.config)], "vectors")
    shape = ["rows", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS]
    output = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, [*shape, bert.config["hidden_size"]])
    made = helper.make_graph(nodes.nodes, "bert", inputs, [output], nodes.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


@dataclass
class _Nodes:
    """The nodes of a graph and its constants; a value is named by the node that computes it."""

    weights: Mapping[str, NDArray[np.float32]]
    epsilon: float
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, kind: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype, order="C"), name))
        return name

    def linear(self, x: str, name: str) -> str:
        product = self.add("MatMul", [x, self.constant(self.weights[f"{name}.weight"].T)])
        return self.add("Add", [product, self.constant(self.weights[f"{name}.bias"])])

    def normed(self, x: str, name: str) -> str:
        scale, shift = (self.constant(self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.add("LayerNormalization", [x, scale, shift], axis=-1, epsilon=self.epsilon)


def _encoded(nodes: _Nodes, config: Mapping[str, Any]) -> str:
    word, position, kind = (
        nodes.weights[f"embeddings.{table}_embeddings.weight"] for table in ("word", "position", "token_type")
    )
    words, places = (
        nodes.add("Gather", [nodes.constant(table), name])
        for table, name in ((word, "ids"), (position + kind[0], "places"))
    )
    x = nodes.normed(nodes.add("Add", [words, places]), "embeddings.LayerNorm")
    one, other = (nodes.add("Unsqueeze", ["texts", nodes.constant([1, at], np.int64)]) for at in (2, 3))
    strange = nodes.add("Cast", [nodes.add("Not", [nodes.add("Equal", [one, other])])], to=1)
    hidden = nodes.add("Mul", [strange, nodes.constant(np.finfo(np.float32).min)])  # [rows, 1, tokens, tokens]
    for layer in range(config["num_hidden_layers"]):
        x = _layer(nodes, x, hidden, f"encoder.layer.{layer}", config)
    return x


def _layer(nodes: _Nodes, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    heads, size = config["num_attention_heads"], config["hidden_size"]
    split, joined = nodes.constant([0, 0, heads, size // heads], np.int64), nodes.constant([0, 0, size], np.int64)

    def heads_of(part: str, *order: int) -> str:
        values = nodes.add("Reshape", [nodes.linear(x, f"{name}.attention.self.{part}"), split])
        return nodes.add("Transpose", [values], perm=order)

    scores = nodes.add("MatMul", [heads_of("query", 0, 2, 1, 3), heads_of("key", 0, 2, 3, 1)])
    scores = nodes.add("Div", [scores, nodes.constant(math.sqrt(size // heads))])
    shares = nodes.add("Softmax", [nodes.add("Add", [scores, hidden])], axis=-1)
    read = nodes.add("Transpose", [nodes.add("MatMul", [shares, heads_of("value", 0, 2, 1, 3)])], perm=[0, 2, 1, 3])
    read = nodes.linear(nodes.add("Reshape", [read, joined]), f"{name}.attention.output.dense")
    x = nodes.normed(nodes.add("Add", [read, x]), f"{name}.attention.output.LayerNorm")
    inner = nodes.linear(x, f"{name}.intermediate.dense")
    erf = nodes.add("Erf", [nodes.add("Div", [inner, nodes.constant(math.sqrt(2))])])
    doubled = nodes.add("Mul", [inner, nodes.add("Add", [erf, nodes.constant(1)])])
    gelu = nodes.add("Mul", [doubled, nodes.constant(0.5)])
    return nodes.normed(nodes.add("Add", [nodes.linear(gelu, f"{name}.output.dense"), x]), f"{name}.output.LayerNorm")


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
