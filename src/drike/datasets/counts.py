"""What was dropped and cut while a data set was read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from drike.datasets.rows import Row

How = Literal["unchanged", "template", "sentence", "subject"]  # where a paraphrase was cut


@dataclass(frozen=True)
class Dropped:
    """A count of rows, paraphrases or neighbours that were dropped for one reason; `example` is the first place."""

    what: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class Cut:
    """One paraphrase: as published, as kept, how it was cut, and whether the cut may be wrong."""

    before: str
    after: str
    how: How
    suspicious: bool


@dataclass(frozen=True)
class ReadLog:
    """Collects the dropped rows and probes, by what and reason, and the cuts, while files are read."""

    dropped: dict[tuple[str, str], Dropped] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)

    def drop(self, what: str, reason: str, row: Row) -> None:
        """Record that a row, or a probe of it, is left out."""
        known = self.dropped.get((what, reason)) or Dropped(what, reason, 0, row.place)
        self.dropped[what, reason] = replace(known, count=known.count + 1)
