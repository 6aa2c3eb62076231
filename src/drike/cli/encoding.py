"""Encode texts with a bar."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from drike.cli.console import progress as progress_bar
from drike.encoders import FloatArray, Progress, TextEncoder, load_encoder
from drike.encoders.base import salient
from drike.gates.calibrated import Calibrated
from drike.gates.decision import Gate
from drike.gates.inventory import Relation, WithRelations, read_relations
from drike.gates.store_gate import gate_encoder


class WatchedEncoder:
    """A frozen text encoder with its features on disk; it shows a bar while it encodes many texts."""

    def __init__(self, encoder: str | TextEncoder) -> None:
        self._encoder = load_encoder(encoder) if isinstance(encoder, str) else encoder
        self.name, self.dim, self.identity = self._encoder.name, self._encoder.dim, self._encoder.identity

    @cached_property
    def salient(self) -> WatchedEncoder:
        """The encoder of salient vectors, with a bar; this one, if there is no other."""
        other = salient(self._encoder)
        return self if other is self._encoder else WatchedEncoder(other)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Encode, with a bar unless the caller shows one."""
        if progress is not None or len(texts) < 200:
            return self._encoder.encode(texts, progress)
        with progress_bar("encoding") as (bar, task):
            return self._encoder.encode(texts, lambda done, total: bar.update(task, completed=done, total=total))


def watched_encoder(gate: Gate, relations: Sequence[Path] | None = None) -> TextEncoder | None:
    """The encoder of a gate, with a bar; None for a gate that needs none. relations: files of more relations."""
    return _watched(gate.encoder, tuple(relations or ()), gate.relations) if isinstance(gate, Calibrated) else None


@cache
def _watched(name: str, files: tuple[Path, ...], relations: tuple[Relation, ...]) -> TextEncoder:
    """The same for all gates, so that an index goes on with its vectors."""
    encoder = WatchedEncoder(gate_encoder(name))
    more = (*relations, *read_relations(files))
    return WithRelations(encoder, more) if more else encoder
