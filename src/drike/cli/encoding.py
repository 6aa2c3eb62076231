"""Encode texts with a bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drike.cli.console import progress as progress_bar
from drike.encoders import FloatArray, Progress, TextEncoder, load_encoder


class WatchedEncoder:
    """A frozen text encoder with its features on disk; it shows a bar while it encodes many texts."""

    def __init__(self, name: str, open_encoder: Callable[[str], TextEncoder] = load_encoder) -> None:
        self._encoder = open_encoder(name)
        self.name, self.dim, self.identity = self._encoder.name, self._encoder.dim, self._encoder.identity

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Encode, with a bar unless the caller shows one."""
        if progress is not None or len(texts) < 200:
            return self._encoder.encode(texts, progress)
        with progress_bar("encoding") as (bar, task):
            return self._encoder.encode(texts, lambda done, total: bar.update(task, completed=done, total=total))
