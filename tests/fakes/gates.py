"""Gates that do what no real gate should: break, take long, or be in doubt about everything."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from drike.gates.by_name import Named
from drike.gates.decision import Decision
from drike.gates.index import EditIndex


class Failing:
    """A gate that is broken, or slow."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def decide(self, query: str, index: EditIndex) -> Decision:
        time.sleep(self.seconds)
        raise ZeroDivisionError


@dataclass(frozen=True)
class Doubting:
    """Names the subjects as `Named` does, and is in doubt about each. fires: without an answer."""

    fires: bool = False

    def decide(self, query: str, index: EditIndex) -> Decision:
        decision = Named().decide(query, index)
        candidates = tuple(replace(c, probability=0.5, uncertain=True) for c in decision.candidates)
        return replace(
            decision, matched=decision.matched if self.fires else (), candidates=candidates
        )
