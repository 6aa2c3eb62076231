"""What is dropped and cut while the rows of a data set are read."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from drike.support.rows import Row

How = Literal["unchanged", "template", "sentence", "subject"]  # where a paraphrase was cut


@dataclass(frozen=True)
class Dropped:
    """How many rows or probes were dropped for one reason; `example` is the first place."""

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
    """Collects, while files are read, the rows that are dropped or lack a probe, and the cuts.

    dropped: the rows by what is dropped of them, and the reason.
    """

    dropped: defaultdict[tuple[str, str], list[Row]] = field(
        default_factory=lambda: defaultdict(list)
    )
    cuts: list[Cut] = field(default_factory=list)

    def drop(self, what: str, reason: str, row: Row) -> None:
        """Record that a row, or one of its probes, is dropped; `what` says which of them."""
        self.dropped[what, reason].append(row)
