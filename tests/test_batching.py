"""Threads that share an encoder get the vectors that each would get alone, in fewer calls."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from drike.encoders import FloatArray, HashingEncoder
from drike.encoders.base import Progress
from drike.serving.batching import Batching


class Slow(HashingEncoder):
    """Waits in its first call until all threads have asked, and refuses a bad text."""

    def __init__(self, waiting: threading.Barrier) -> None:
        super().__init__(16)
        self.calls: list[int] = []
        self.waiting = waiting

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self.calls.append(len(texts))
        if len(self.calls) == 1:
            self.waiting.wait(5)
        if "bad" in texts:
            raise ValueError("a bad text")
        return super().encode(texts, progress)


def asked_together(texts: Sequence[Sequence[str]], most: int) -> tuple[Slow, list[FloatArray | Exception]]:
    """What each of several threads gets for its texts, all asked while the first is encoded."""
    barrier = threading.Barrier(2)
    encoder = Slow(barrier)
    shared = Batching(encoder, most)

    def ask(one: Sequence[str]) -> FloatArray | Exception:
        try:
            return shared.encode(one)
        except ValueError as error:
            return error

    with ThreadPoolExecutor(len(texts)) as threads:
        first = threads.submit(ask, texts[0])
        while not encoder.calls:
            pass
        rest = []
        for one in texts[1:]:
            rest.append(threads.submit(ask, one))
            while len(shared._queue) < len(rest):
                pass
        barrier.wait(5)
        return encoder, [future.result() for future in (first, *rest)]


def test_texts_that_wait_are_encoded_together_and_each_thread_gets_its_own() -> None:
    texts = [[f"text {i}", f"query {i}"] for i in range(5)]
    encoder, found = asked_together(texts, most=8)
    assert encoder.calls == [2, 8]
    for one, vectors in zip(texts, found, strict=True):
        assert np.array_equal(vectors, HashingEncoder(16).encode(one))


def test_a_batch_has_at_most_so_many_texts_and_larger_requests_are_encoded_alone() -> None:
    encoder, found = asked_together([["a"], ["b"] * 3, ["c"] * 3], most=4)
    assert encoder.calls == [1, 3, 3]
    assert [len(vectors) for vectors in found if isinstance(vectors, np.ndarray)] == [1, 3, 3]
    assert Batching(encoder, 4).encode(["d"] * 9).shape == (9, 16)
    assert encoder.calls[-1] == 9


def test_an_error_reaches_every_thread_of_its_batch_and_no_other() -> None:
    _, found = asked_together([["a"], ["bad"], ["b"]], most=8)
    assert isinstance(found[0], np.ndarray)
    assert [str(error) for error in found[1:]] == ["a bad text"] * 2


def test_it_is_known_as_the_encoder_that_it_shares() -> None:
    encoder = HashingEncoder(16)
    shared = Batching(encoder, 4)
    assert (shared.name, shared.dim, shared.identity) == (encoder.name, encoder.dim, encoder.identity)


@pytest.mark.parametrize("texts", [[], [""]])
def test_no_text_and_an_empty_one_have_their_shapes(texts: list[str]) -> None:
    assert Batching(HashingEncoder(16), 4).encode(texts).shape == (len(texts), 16)
