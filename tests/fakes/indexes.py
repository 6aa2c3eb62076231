"""Edits as a store would hold them, indexes of these, and what the gates match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from drike.edits.record import EditRecord, EditVersion
from drike.encoders import MINILM, HashingEncoder, load_encoder, locate
from drike.encoders.base import FloatArray, TextEncoder
from drike.errors import EncoderError
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gates.index import EditIndex

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))


def stored(*entries: EditRecord) -> list[EditVersion]:
    return [
        EditVersion(i, i, 1, "2026-11-22T12:00:00Z", entry) for i, entry in enumerate(entries, 1)
    ]


def default_encoder() -> TextEncoder:
    """The default gate's encoder; skips the test where it is not installed."""
    try:
        locate(MINILM, hub=False)
    except EncoderError:
        pytest.skip("needs the encoder of the offline extra")
    return load_encoder(MINILM, keep=False)


class CountingEncoder(HashingEncoder):
    """Keeps the texts it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        return super().encode(texts)


GATE = replace(default_gate(), encoder="hashing")


def indexed(*entries: EditRecord) -> EditIndex:
    return EditIndex.of(stored(*entries), HashingEncoder())


def matched(
    query: str, *entries: EditRecord, gate: Gate | None = None, **options: Any
) -> list[int]:
    return [
        one.id
        for one in (gate or Named())
        .decide(query, EditIndex.of(stored(*entries), **options))
        .matched
    ]
