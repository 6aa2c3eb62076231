"""Several copies of a local model as one, for work that is split by edit.

A call has the prompts of one edit and goes to one replica, so that shared prefixes are still read once. Its home is a
hash of the first prompt's beginning, so an edit usually returns to the replica that has it cached. The answers are
those of one model, up to rounding in the last digits, which depends on what a replica has cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition
from zlib import crc32

from drike.models.protocols import ANSWER_TOKENS, Completion, LanguageModel, Prompts, Request, Score, Usage

_BEGINNING = 200  # characters of a prompt that identify its edit: the first demonstration, or its fact


class Replicas:
    """Equal models as one, threads may share it; callers beyond `info.calls_at_once` wait. Raises ValueError."""

    def __init__(self, models: Sequence[LanguageModel]) -> None:
        if not models:
            raise ValueError("replicas of nothing: give at least one model")
        self.models = tuple(models)
        self._room = [model.info.calls_at_once for model in models]
        self.info = replace(models[0].info, calls_at_once=sum(self._room))
        self._busy = [0] * len(models)
        self._changed = Condition()

    @property
    def usage(self) -> Usage:
        """The work of all replicas; `seconds` adds up, so it can exceed the clock's."""
        return sum((model.usage for model in self.models), Usage())

    def forget(self) -> None:
        """Clear the caches of all replicas."""
        for model in self.models:
            model.forget()

    def generate(self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n") -> list[Completion]:
        """Complete the prompts on one of the replicas."""
        first = prompts[0] if prompts else ""
        with self._replica_for(first if isinstance(first, str) else first[0]) as model:
            return model.generate(prompts, max_tokens, stop)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score requests on one of the replicas."""
        with self._replica_for("".join((*requests[0].earlier, requests[0].prompt)) if requests else "") as model:
            return model.score(requests)  # type: ignore[misc]  # local models score

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Count the tokens of prompts on one of the replicas."""
        with self._replica_for(prompts[0] if prompts else "") as model:
            return model.count_tokens(prompts)  # type: ignore[misc]

    @contextmanager
    def _replica_for(self, prompt: str) -> Iterator[LanguageModel]:
        """Choose the replica for a call; it counts as busy until the call is done."""
        home = crc32(prompt[:_BEGINNING].encode(errors="surrogatepass")) % len(self.models)
        with self._changed:
            self._changed.wait_for(lambda: sum(self._busy) < sum(self._room))
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

    busy: calls each is working on; room: calls each takes at once. At least one must have room.
    """
    idle = min(busy) == 0
    if busy[home] == 0 or (not idle and busy[home] < room[home]):
        return home
    return min((i for i in range(len(busy)) if busy[i] < room[i]), key=lambda i: busy[i])
