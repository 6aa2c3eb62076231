"""Equal models that answer as one, for work that is split by edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partialmethod
from threading import Condition
from typing import Any
from zlib import crc32

from drike.models.protocols import ModelInfo, Request, Usage

# Characters of a prompt that identify its edit: the first demonstration, or its fact.
_BEGINNING = 200


class Replicas:
    """Equal models that score and count, as one; callers beyond `info.calls_at_once` wait.

    A call has the prompts of one edit and goes to one replica, so that shared prefixes are still
    read once. A hash of the first prompt's beginning chooses it, so that an edit usually returns to
    the replica that has it cached. The answers are those of one model, up to rounding in the last
    digits. Raises ValueError for no models.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        if not models:
            raise ValueError("replicas of nothing: give at least one model")
        self.models = tuple(models)
        self._room = [model.info.calls_at_once for model in models]
        self.info: ModelInfo = replace(models[0].info, calls_at_once=sum(self._room))
        self._busy = [0] * len(models)  # calls that each replica is answering
        self._changed = Condition()

    @property
    def usage(self) -> Usage:
        """The work of all replicas; `seconds` adds up, so it can exceed the clock's."""
        return sum((model.usage for model in self.models), Usage())

    def forget(self) -> None:
        """Clear the caches of all replicas."""
        for model in self.models:
            model.forget()

    def _on_one(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the replica for these prompts, and mark it busy meanwhile."""
        prompts = (*arguments, *named.values())[0]
        home = self._home(prompts)
        with self._changed:
            self._changed.wait_for(lambda: sum(self._busy) < sum(self._room))
            chosen = route(home, self._busy, self._room)
            self._busy[chosen] += 1
        try:
            return getattr(self.models[chosen], method)(*arguments, **named)
        finally:
            with self._changed:
                self._busy[chosen] -= 1
                self._changed.notify()

    def _home(self, prompts: Sequence[Any]) -> int:
        """The replica to which an edit's prompts or requests belong."""
        first = prompts[0] if prompts else ""
        turns = (*first.earlier, first.prompt) if isinstance(first, Request) else first
        beginning = "".join(turns)[:_BEGINNING]
        return crc32(beginning.encode(errors="surrogatepass")) % len(self.models)

    generate = partialmethod(_on_one, "generate")
    score = partialmethod(_on_one, "score")
    count_tokens = partialmethod(_on_one, "count_tokens")


def route(home: int, busy: Sequence[int], room: Sequence[int]) -> int:
    """Index of the replica for a call, one of those with room.

    It is the call's home unless that is full, or busy while another one is idle.
    """
    others_are_busy = min(busy) > 0
    if busy[home] == 0 or (others_are_busy and busy[home] < room[home]):
        return home
    with_room = [i for i in range(len(busy)) if busy[i] < room[i]]
    return min(with_room, key=lambda i: busy[i])
