"""A BERT's forward pass as a graph for ONNX Runtime, built from the files of its folder without torch.

The graph maps token ids to the vectors that sentence-transformers would give (mean or CLS pooling, perhaps normalised;
a plain BERT's CLS vector) and to the salient vectors of `drike.encoders.salience`.
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

from drike.encoders.salience import token_weights

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from tokenizers import Tokenizer

INPUTS, OUTPUTS = ("input_ids", "attention_mask"), ("own", "salient")
_OPSET, _IR = 17, 10
_TINY = 1e-9  # the least sum of weights that is divided by
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
        """The tokenizer, which cuts texts to the model's length and pads them to each other's."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
        padding = _json(self.path / "tokenizer_config.json").get("pad_token", "[PAD]")
        tokenizer.enable_truncation(self.max_tokens)
        tokenizer.enable_padding(pad_id=tokenizer.token_to_id(padding), pad_token=padding)
        return tokenizer


def graph(bert: BertFolder, tokenizer: Tokenizer) -> ModelProto:
    """The model from `INPUTS` [n, tokens] to `OUTPUTS` [n, d]. Raises KeyError for weights that are not there."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()}
    nodes = _Nodes(weights, float(bert.config["layer_norm_eps"]))
    tokens = _encoded(nodes, bert.config)
    own = _pooled(nodes, tokens, bert.mean)
    nodes.add("Identity", [nodes.unit(own) if bert.normalised else own], "own")
    nodes.add("Identity", [_salient(nodes, tokens, _token_weights(tokenizer))], "salient")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "tokens"]) for name in INPUTS]
    size = bert.config["hidden_size"]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in OUTPUTS]
    made = helper.make_graph(nodes.nodes, "bert", inputs, outputs, nodes.constants)
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

    def unit(self, x: str) -> str:
        """The directions of vectors."""
        length = self.add("ReduceL2", [x], axes=[-1], keepdims=1)
        return self.add("Div", [x, self.add("Max", [length, self.constant(1e-12)])])

    def mean(self, x: str, weights: str) -> str:
        """The mean [n, d] of vectors [n, tokens, d] with weights [n, tokens]."""
        by_vector = self.add("Unsqueeze", [weights, self.constant([-1], np.int64)])
        axis = self.constant([1], np.int64)
        total, weight = (
            self.add("ReduceSum", [summed, axis], keepdims=0) for summed in (self.add("Mul", [x, by_vector]), by_vector)
        )
        return self.add("Div", [total, self.add("Max", [weight, self.constant(_TINY)])])


def _encoded(nodes: _Nodes, config: Mapping[str, Any]) -> str:
    """The vectors of tokens [n, tokens, d] behind the last layer."""
    word, position, kind = (
        nodes.weights[f"embeddings.{table}_embeddings.weight"] for table in ("word", "position", "token_type")
    )
    zero, one, two = (nodes.constant([at], np.int64) for at in (0, 1, 2))
    length = nodes.add("Slice", [nodes.add("Shape", ["input_ids"]), one, two])
    places = nodes.add("Slice", [nodes.constant(position + kind[0]), zero, length, zero])
    words = nodes.add("Gather", [nodes.constant(word), "input_ids"])
    x = nodes.normed(nodes.add("Add", [words, places]), "embeddings.LayerNorm")
    mask = nodes.add("Cast", ["attention_mask"], "mask", to=1)
    hidden = nodes.add("Mul", [nodes.add("Sub", [nodes.constant(1), mask]), nodes.constant(np.finfo(np.float32).min)])
    hidden = nodes.add("Unsqueeze", [hidden, nodes.constant([1, 2], np.int64)])  # [n, 1, 1, tokens]
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


def _pooled(nodes: _Nodes, tokens: str, mean: bool) -> str:
    if mean:
        return nodes.mean(tokens, "mask")
    return nodes.add("Gather", [tokens, nodes.constant(0, np.int64)], axis=1)


def _salient(nodes: _Nodes, tokens: str, weights: NDArray[np.float32]) -> str:
    each = nodes.add("Mul", [nodes.add("Gather", [nodes.constant(weights), "input_ids"]), "mask"])
    return nodes.mean(nodes.unit(tokens), each)


def _token_weights(tokenizer: Tokenizer) -> NDArray[np.float32]:
    """The weights of a tokenizer's tokens in salient vectors, those of special ones 0."""
    weights = token_weights(
        lambda word: tokenizer.encode(word, add_special_tokens=False).ids, tokenizer.get_vocab_size()
    )
    weights[[id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special]] = 0
    return weights


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
