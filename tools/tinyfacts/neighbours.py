r"""Nearest demonstration rows of every TinyFacts row, stored so that build and check need no encoder.

Similarity is the pool's: cosine of all-MiniLM-L6-v2 embeddings of "New Fact: {fact} {new}\nPrompt: {fact}". A row
with the same subject and relation is never a neighbour. The index is a (rows, 32) uint16 array, nearest first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drike.tinyfacts import EDITABLE, ROWS

NEAREST = 32
Index = npt.NDArray[np.uint16]


def neighbours_path() -> Path:
    """The path of the stored index."""
    return Path(__file__).with_name("neighbours.npy")


def load_neighbours() -> Index:
    """Row numbers of the 32 nearest demonstration rows of each row, nearest first: uint16 of shape (rows, 32)."""
    index: Index = np.load(neighbours_path(), allow_pickle=False)
    return index


def nearest_rows(encode: Callable[[Sequence[str]], npt.NDArray[np.float32]]) -> Index:
    """Compute the index; `encode` gives one unit vector a text (float32, shape (texts, width))."""
    rewrites = [row["requested_rewrite"] for row in json.loads(ROWS.read_text(encoding="utf-8"))]
    facts = [r["prompt"].format(r["subject"]) for r in rewrites]
    texts = [
        f"New Fact: {fact} {r['target_new']['str']}\nPrompt: {fact}"
        for fact, r in zip(facts, rewrites, strict=True)
    ]
    vectors = encode(texts)
    similarity = vectors @ vectors[EDITABLE:].T
    keys = [(r["subject"], r["relation_id"]) for r in rewrites]
    for i, key in enumerate(keys):
        for j, other in enumerate(keys[EDITABLE:]):
            if key == other:
                similarity[i, j] = -2.0
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :NEAREST]
    return (order + EDITABLE).astype(np.uint16)
