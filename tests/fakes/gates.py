"""Gates that do what no real gate should: break, take long, or be in doubt about everything."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from drike.gates.by_name import Named
from drike.gates.decision import Decision
from drike.gates.index import EditIndex
from tests.fakes.waiting import HANG


class Failing:
    """A gate that is broken."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        raise ZeroDivisionError


@dataclass
class Held:
    """A gate by names that does not end with a query that has this word until it is released."""

    word: str = "wait"
    begun: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def decide(self, query: str, index: EditIndex) -> Decision:
        if self.word in query:
            self.begun.set()
            assert self.released.wait(2 * HANG)
        return Named().decide(query, index)


@dataclass(frozen=True)
class Doubting:
    """Names the subjects as `Named` does, and is in doubt about each. fires: they match."""

    fires: bool = False

    def decide(self, query: str, index: EditIndex) -> Decision:
        decision = Named().decide(query, index)
        candidates = tuple(replace(c, probability=0.5, uncertain=True) for c in decision.candidates)
        return replace(
            decision, matched=decision.matched if self.fires else (), candidates=candidates
        )
