"""Events that several kinds of long work yield; what only one kind yields is defined beside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prepared:
    """All texts are encoded. notes: sentences about the demonstrations."""

    notes: tuple[str, ...]


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins: `total` records will follow, less the `done` ones that a stopped run has saved already."""

    name: str
    total: int
    done: int = 0
