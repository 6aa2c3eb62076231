"""Several copies of a model as one, for work that is split by edit.

A call is an edit's prompts and goes whole to one replica, so that what they share is still read once. Which one:

    home = hash of how the first prompt begins, modulo N
    home, unless it is busy while another is idle, or has as much to do as it takes

so an edit asked about again mostly finds the replica that remembers it, and none idles while others queue. The prompts
of an edit begin alike, whatever its retains are; two edits that begin alike lose nothing by sharing a home.

No call is split, and every replica is the same model: the answers are those of one model, up to rounding in the last
digits, which depends on what a model has kept from earlier calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any, Protocol
from zlib import crc32

from drike.models.protocols import (
    MAX_ANSWER_TOKENS,
    Completion,
    Forgetful,
    Request,
    Score,
    ScoringModel,
    Usage,
    calls_at_once,
)

_HEAD = 200  # characters of a prompt that tell its edit: the first of its demonstrations, or its fact


class Replica(ScoringModel, Forgetful, Protocol):
    """What can be had several times over: a model that does all that a local one does."""

    @property
    def usage(self) -> Usage:
        """What it has done so far."""
        ...

    def describe(self) -> Any:
        """What a run's folder records of it."""
        ...

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Tokens of each prompt as it would be read."""
        ...


class Replicas:
    """Equal models as one `ScoringModel`, safe to share between threads.

    Each is asked by as many threads at once as it takes, and no more: callers beyond that wait. parallel: how many keep
    all of them busy. Raises ValueError for no model at all.
    """

    def __init__(self, models: Sequence[Replica]) -> None:
        if not models:
            raise ValueError("replicas of nothing: give at least one model")
        self.models = tuple(models)
        self.name = models[0].name
        self._room = [calls_at_once(model) for model in models]
        self.parallel = sum(self._room)
        self._busy = [0] * len(models)
        self._changed = Condition()

    @property
    def usage(self) -> Usage:
        """What all replicas have done together; `seconds` adds up, so it can exceed the clock's."""
        return sum((model.usage for model in self.models), Usage())

    def forget(self) -> None:
        """Make every replica forget."""
        for model in self.models:
            model.forget()

    def describe(self) -> Any:
        """What the first replica tells of itself; all are the same model."""
        return self.models[0].describe()

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """As the model does, by one of the replicas."""
        with self._one_for(prompts[0] if prompts else "") as model:
            return model.count_tokens(prompts)

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """As the model does, by one of the replicas."""
        with self._one_for(prompts[0] if prompts else "") as model:
            return model.generate(prompts, max_tokens, stop)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """As the model does, by one of the replicas."""
        with self._one_for(requests[0].prompt if requests else "") as model:
            return model.score(requests)

    @contextmanager
    def _one_for(self, prompt: str) -> Iterator[Replica]:
        """The replica that a call goes to; it counts as busy until the call is done."""
        home = crc32(prompt[:_HEAD].encode(errors="surrogatepass")) % len(self.models)
        with self._changed:
            self._changed.wait_for(lambda: sum(self._busy) < self.parallel)
            chosen = route(home, self._busy, self._room)
            self._busy[chosen] += 1
        try:
            yield self.models[chosen]
        finally:
            with self._changed:
                self._busy[chosen] -= 1
                self._changed.notify()


def route(home: int, busy: Sequence[int], room: Sequence[int]) -> int:
    """Index of the replica for a call: its home unless that is full, or busy while another is idle.

    busy: calls each is at; room: calls each takes at once. At least one must have room.
    """
    idle = min(busy) == 0
    if busy[home] == 0 or (not idle and busy[home] < room[home]):
        return home
    return min((i for i in range(len(busy)) if busy[i] < room[i]), key=lambda i: busy[i])
