"""The forward pass of a BERT in ONNX Runtime.

The graph for it, built from the files of the model's folder, maps token ids to vectors, of which
means (or the first one) are the vectors that sentence-transformers would give, and the salient
vectors. Several texts stand in one row: a token attends to those of its own text alone, so that
short texts need no padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, unit
from drike.encoders.bert import BertFolder
from drike.encoders.frozen import Forward
from drike.encoders.salience import token_weights
from drike.encoders.torch_pass import by_torch

if TYPE_CHECKING:
    from onnx import ModelProto
    from tokenizers import Encoding

_BATCH = 64  # texts
_MOST_THREADS = 2
_ROW = 64  # tokens of several texts that stand in one row, if no text has more

# The inputs of the graph, for each token: its id, its place in its text, the number of its text.
_INPUTS = ("ids", "places", "texts")
_PADDING = (0, 0, -1)
_OPSET, _IR = 17, 10
_ONNX_RUNTIME = "com.microsoft"  # domain of the operations that it adds to the standard ones
_FLOAT = 1  # the number of float32 among ONNX's types


def by_onnx(folder: Path) -> Forward:
    """The forward pass with ONNX Runtime, or with torch if it is missing or this is no BERT.

    Raises EncoderError.
    """
    # A missing package, a broken file and onnxruntime have errors with no common base.
    with suppress(Exception):
        bert = BertFolder.read(folder)
        if bert:
            # The graph is built at each start, in half a second: no file of it has to be kept,
            # trusted and renewed.
            return _OnnxModel(bert).vectors
    return by_torch(folder)  # which says what is wrong


class _OnnxModel:
    """The token vectors of a BERT, and the means of them that are vectors of texts."""

    def __init__(self, bert: BertFolder) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        self._bert = bert
        self._tokenizer = Tokenizer.from_file(str(bert.path / "tokenizer.json"))
        self._tokenizer.enable_truncation(bert.max_tokens)
        self._tokenizer.no_padding()
        self._weights = self._token_weights()

        options = SessionOptions()
        options.intra_op_num_threads = min(_MOST_THREADS, cpu_count() or 1)
        options.inter_op_num_threads = 1
        # Other requests need the cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        graph = _graph(bert).SerializeToString()
        self._session = InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def _token_weights(self) -> FloatArray:
        """What each token counts for; special ones count for nothing."""

        def tokens_of(word: str) -> Sequence[int]:
            tokens: Sequence[int] = self._tokenizer.encode(word, add_special_tokens=False).ids
            return tokens

        weights = token_weights(tokens_of, self._tokenizer.get_vocab_size())
        added_tokens = self._tokenizer.get_added_tokens_decoder()
        special_ids = [token_id for token_id, token in added_tokens.items() if token.special]
        weights[special_ids] = 0
        return weights

    def vectors(self, texts: Sequence[str], salient: bool) -> FloatArray:
        """The model's own vectors [n, d] of some texts, or their salient vectors."""
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        return np.concatenate([self._vectors_of_batch(batch, salient) for batch in batches])

    def _vectors_of_batch(self, texts: Sequence[str], salient: bool) -> FloatArray:
        encodings = self._tokenizer.encode_batch(list(texts))
        tokens = self._token_vectors(encodings)
        sizes = [len(encoding.ids) for encoding in encodings]
        starts = np.cumsum([0, *sizes[:-1]])  # of the tokens of each text
        if salient:
            ids = np.array([token_id for encoding in encodings for token_id in encoding.ids])
            return _means(unit(tokens), self._weights[ids], starts)

        if self._bert.mean:
            vectors = _means(tokens, np.ones(len(tokens), np.float32), starts)
        else:
            vectors = tokens[starts]
        return unit(vectors) if self._bert.normalised else vectors

    def _token_vectors(self, encodings: Sequence[Encoding]) -> FloatArray:
        """The vectors [tokens, d] of all tokens of some texts, one text after the other."""
        rows = _rows(encodings)
        width = max(len(row) for row in rows)
        padded_rows = [row + [_PADDING] * (width - len(row)) for row in rows]
        inputs = np.array(padded_rows, np.int64)  # [rows, tokens, inputs]
        inputs_by_name = {name: inputs[..., number] for number, name in enumerate(_INPUTS)}
        vectors: FloatArray = self._session.run(None, inputs_by_name)[0]
        is_token = inputs_by_name["texts"] >= 0
        return vectors[is_token]


def _rows(encodings: Sequence[Encoding]) -> list[list[tuple[int, int, int]]]:
    """The inputs of all tokens, with as many texts in a row as have room there."""
    length = max(_ROW, *(len(encoding.ids) for encoding in encodings))
    rows: list[list[tuple[int, int, int]]] = []
    for text_number, encoding in enumerate(encodings):
        if not rows or len(rows[-1]) + len(encoding.ids) > length:
            rows.append([])
        rows[-1] += [(token_id, place, text_number) for place, token_id in enumerate(encoding.ids)]
    return rows


def _means(vectors: FloatArray, weights: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """The means of vectors [tokens, d] with weights [tokens], of the tokens from each start on."""
    sums: FloatArray = np.add.reduceat(vectors * weights[:, None], starts)
    weight_sums = np.maximum(np.add.reduceat(weights, starts), 1e-9)
    return np.asarray(sums / weight_sums[:, None], np.float32)


def _graph(bert: BertFolder) -> ModelProto:
    """The model from `_INPUTS` [rows, tokens] to vectors [rows, tokens, d].

    Raises KeyError for missing weights.
    """
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    stored = load_file(bert.path / "model.safetensors")
    weights = {
        name.removeprefix("bert."): values.astype(np.float32) for name, values in stored.items()
    }
    graph = _Graph(weights, float(bert.config["layer_norm_eps"]))

    output = _embeddings(graph)
    hidden = _hidden_pairs(graph)
    for number in range(bert.config["num_hidden_layers"]):
        output = _layer(graph, output, hidden, f"encoder.layer.{number}", bert.config)

    shape = ["rows", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in _INPUTS]
    vector_shape = [*shape, bert.config["hidden_size"]]
    vectors = helper.make_tensor_value_info(output, TensorProto.FLOAT, vector_shape)
    made = helper.make_graph(graph.nodes, "bert", inputs, [vectors], graph.constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_ONNX_RUNTIME, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=_IR)


class _Graph:
    """The nodes of a graph and its constants; a value is named by the node that computes it."""

    def __init__(self, weights: Mapping[str, FloatArray], epsilon: float) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._epsilon = epsilon

    def add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node. inputs: names of values, or constants (a list holds integers)."""
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        input_names = [
            value if isinstance(value, str) else self._constant(value) for value in inputs
        ]
        self.nodes.append(helper.make_node(kind, input_names, [name], **attributes))
        return name

    def _constant(self, value: Any) -> str:
        from onnx import numpy_helper

        kind = np.float32 if isinstance(value, float) else None
        array = np.asarray(value, kind, order="C")
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, x: str, name: str) -> str:
        """A layer with a matrix and a bias."""
        product = self.add("MatMul", x, self.weights[f"{name}.weight"].T)
        return self.add("Add", product, self.weights[f"{name}.bias"])

    def normed(self, x: str, name: str) -> str:
        """A layer normalisation."""
        scale = self.weights[f"{name}.weight"]
        shift = self.weights[f"{name}.bias"]
        return self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=self._epsilon)


def _embeddings(graph: _Graph) -> str:
    """The sum of what a token, its place and its segment are looked up as."""
    word = graph.weights["embeddings.word_embeddings.weight"]
    position = graph.weights["embeddings.position_embeddings.weight"]
    segment = graph.weights["embeddings.token_type_embeddings.weight"]
    tokens = graph.add("Gather", word, "ids")
    places = graph.add("Gather", position + segment[0], "places")
    return graph.normed(graph.add("Add", tokens, places), "embeddings.LayerNorm")


def _hidden_pairs(graph: _Graph) -> str:
    """What hides tokens of other texts from each other [rows, 1, tokens, tokens]."""
    of_key = graph.add("Unsqueeze", "texts", [1, 2])
    of_query = graph.add("Unsqueeze", "texts", [1, 3])
    in_other_texts = graph.add("Not", graph.add("Equal", of_key, of_query))
    as_numbers = graph.add("Cast", in_other_texts, to=_FLOAT)
    return graph.add("Mul", as_numbers, float(np.finfo(np.float32).min))


def _layer(graph: _Graph, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    """A transformer layer: attention, then two linear layers, each added to what they read."""
    attended = _attention(graph, x, hidden, f"{name}.attention.self", config)
    attended = graph.linear(attended, f"{name}.attention.output.dense")
    x = graph.normed(graph.add("Add", attended, x), f"{name}.attention.output.LayerNorm")

    widened = graph.linear(x, f"{name}.intermediate.dense")
    activated = graph.add("Gelu", widened, domain=_ONNX_RUNTIME)
    narrowed = graph.linear(activated, f"{name}.output.dense")
    return graph.normed(graph.add("Add", narrowed, x), f"{name}.output.LayerNorm")


def _attention(graph: _Graph, x: str, hidden: str, name: str, config: Mapping[str, Any]) -> str:
    """Self-attention of several heads, whose three matrices ONNX Runtime takes as one."""
    parts = [f"{name}.{part}" for part in ("query", "key", "value")]
    weights = np.concatenate([graph.weights[f"{part}.weight"] for part in parts]).T
    biases = np.concatenate([graph.weights[f"{part}.bias"] for part in parts])
    heads = config["num_attention_heads"]
    inputs = (x, weights, biases, "", "", hidden)
    return graph.add("Attention", *inputs, num_heads=heads, domain=_ONNX_RUNTIME)
