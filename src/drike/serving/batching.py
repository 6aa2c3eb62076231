"""One encoder for several threads: what they ask for while it is busy is encoded together, as the next batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drike.encoders.base import FloatArray, Progress, TextEncoder


@dataclass(eq=False)
class _Asked:
    """Texts of one thread, and what came of them."""

    texts: Sequence[str]
    vectors: FloatArray | None = None
    error: Exception | None = None


class Batching:
    """An encoder that threads may share. most: texts of a batch; a thread that asks for more gets one of its own."""

    def __init__(self, encoder: TextEncoder, most: int) -> None:
        self._encoder = encoder
        self._most = most
        self._queue: deque[_Asked] = deque()
        self._encoding = threading.Lock()

    @property
    def name(self) -> str:
        """The encoder's."""
        return self._encoder.name

    @property
    def dim(self) -> int:
        """The encoder's."""
        return self._encoder.dim

    @property
    def identity(self) -> Mapping[str, str | None]:
        """The encoder's."""
        return self._encoder.identity

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """Vectors of the texts, together with those that other threads wait for. Raises what the encoder raises."""
        if len(texts) > self._most or progress is not None:
            with self._encoding:
                return self._encoder.encode(texts, progress)
        asked = _Asked(texts)
        self._queue.append(asked)
        while asked.vectors is None and asked.error is None:
            with self._encoding:
                if asked.vectors is None and asked.error is None:
                    self._encode(self._batch())
        if asked.error is not None:
            raise asked.error
        assert asked.vectors is not None  # noqa: S101
        return asked.vectors

    def _batch(self) -> list[_Asked]:
        """The first of the queue, as many as fit; only the thread that encodes takes from it."""
        batch = [self._queue.popleft()]
        size = len(batch[0].texts)
        while self._queue and (size := size + len(self._queue[0].texts)) <= self._most:
            batch.append(self._queue.popleft())
        return batch

    def _encode(self, batch: Sequence[_Asked]) -> None:
        try:
            vectors = self._encoder.encode([text for asked in batch for text in asked.texts])
        except Exception as error:
            for asked in batch:
                asked.error = error
            return
        ends = np.cumsum([len(asked.texts) for asked in batch])
        for asked, part in zip(batch, np.split(vectors, ends[:-1]), strict=True):
            asked.vectors = part
