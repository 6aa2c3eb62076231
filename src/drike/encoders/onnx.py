"""A frozen encoder in ONNX Runtime, which needs no torch and half of its time for a single text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, unit
from drike.encoders.bert import INPUTS, BertFolder, graph
from drike.encoders.frozen import BATCH, Forward, by_torch
from drike.encoders.salience import token_weights

if TYPE_CHECKING:
    from tokenizers import Encoding

_ROW = 64  # tokens of several texts that stand in one row, if no text has more


def by_onnx(folder: Path) -> Forward:
    """The forward pass with ONNX Runtime; with torch without it, or for another model than a BERT. Raises EncoderError.

    The graph is built at each start, in half a second: no file of it has to be kept, trusted and renewed.
    """
    try:
        bert = BertFolder.read(folder)
        model = _Model(bert) if bert else None
    except Exception:  # of a missing package, a broken file or onnxruntime, whose errors have no common base
        model = None
    if model is None:
        return by_torch(folder)  # which says what is wrong

    def own(texts: Sequence[str]) -> FloatArray:
        return np.concatenate([model.vectors(texts[at : at + BATCH], ())[0] for at in range(0, len(texts), BATCH)])

    def salient(texts: Sequence[str]) -> FloatArray:
        return np.concatenate([model.vectors((), texts[at : at + BATCH])[1] for at in range(0, len(texts), BATCH)])

    return Forward(own, salient, model.vectors)


class _Model:
    """The token vectors of a BERT, and the means of them that are vectors of texts."""

    def __init__(self, bert: BertFolder) -> None:
        import onnxruntime

        self._bert, self._tokenizer = bert, bert.tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = graph(bert).SerializeToString()
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        tokens_of = lambda word: self._tokenizer.encode(word, add_special_tokens=False).ids  # noqa: E731
        self._weights = token_weights(tokens_of, self._tokenizer.get_vocab_size())
        added = self._tokenizer.get_added_tokens_decoder().items()
        self._weights[[id for id, token in added if token.special]] = 0

    def vectors(self, texts: Sequence[str], masked: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """The model's own vectors of some texts, and the salient vectors of others, [n, d] each, in one pass."""
        encodings = self._tokenizer.encode_batch([*texts, *masked])
        tokens = self._tokens(encodings)
        starts = np.cumsum([0, *(len(encoding.ids) for encoding in encodings)])
        first = starts[len(texts)]
        own = _means(tokens[:first], np.ones(first, np.float32), starts[: len(texts)])
        if not self._bert.mean:
            own = tokens[starts[: len(texts)]]
        ids = np.array([id for encoding in encodings[len(texts) :] for id in encoding.ids], int)
        salient = _means(unit(tokens[first:]), self._weights[ids], starts[len(texts) : -1] - first)
        return unit(own) if self._bert.normalised else own, salient

    def _tokens(self, encodings: Sequence[Encoding]) -> FloatArray:
        """The vectors of all tokens of some texts, one text after the other."""
        length = max(_ROW, *(len(encoding.ids) for encoding in encodings))
        rows = list[list[tuple[int, int, int]]]()
        for number, encoding in enumerate(encodings):
            if not rows or len(rows[-1]) + len(encoding.ids) > length:
                rows.append([])
            rows[-1] += [(id, place, number) for place, id in enumerate(encoding.ids)]
        inputs = np.full((len(rows), max(map(len, rows)), len(INPUTS)), (0, 0, -1), np.int64)
        for row, filled in zip(rows, inputs, strict=True):
            filled[: len(row)] = row
        parts: dict[str, Any] = {name: inputs[..., i] for i, name in enumerate(INPUTS)}
        [vectors] = self._session.run(["vectors"], parts)
        found: FloatArray = vectors[inputs[..., -1] >= 0]
        return found


def _means(vectors: FloatArray, weights: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """The means of vectors [tokens, d] with weights [tokens], of the tokens from each of `starts` on."""
    if not len(starts):
        return np.zeros((0, vectors.shape[1]), np.float32)
    sums: FloatArray = np.add.reduceat(vectors * weights[:, None], starts)
    totals = np.maximum(np.add.reduceat(weights, starts), 1e-9)
    return np.asarray(sums / totals[:, None], np.float32)
