"""Events that training and evaluation yield beside their records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prepared:
    """All texts are encoded. notes: on the demonstrations. recovered: episodes, or edits, that the folder holds."""

    notes: tuple[str, ...]
    recovered: int


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins: `total` records will follow, less the `done` ones that a stopped run has saved already."""

    name: str
    total: int
    done: int = 0
