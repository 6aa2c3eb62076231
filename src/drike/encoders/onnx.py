"""A frozen encoder in ONNX Runtime, which needs no torch and half of its time for a single text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from drike.encoders.base import FloatArray
from drike.encoders.bert import INPUTS, OUTPUTS, BertFolder, graph
from drike.encoders.frozen import BATCH, Forward, by_torch


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
        content = graph(bert, tokenizer).SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:  # of a missing package, a broken file or onnxruntime, whose errors have no common base
        return by_torch(folder)  # which says what is wrong

    def computed(output: str, texts: Sequence[str]) -> FloatArray:
        encodings = tokenizer.encode_batch(list(texts))
        inputs = np.array([[encoding.ids, encoding.attention_mask] for encoding in encodings], dtype=np.int64)
        [vectors] = session.run([output], {name: inputs[:, i] for i, name in enumerate(INPUTS)})
        return np.asarray(vectors)

    def vectors(output: str, texts: Sequence[str]) -> FloatArray:
        return np.concatenate([computed(output, texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])

    return Forward(*(partial(vectors, output) for output in OUTPUTS))
