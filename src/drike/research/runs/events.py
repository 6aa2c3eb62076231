"""What a run says of its progress, beside its records."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prepared:
    """All texts are encoded.

    notes: on the demonstrations. recovered: episodes or edits in the folder, of `total`.
    """

    notes: tuple[str, ...]
    recovered: int
    total: int


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins: `total` records will follow, less the `done` ones.

    done: how many a stopped run has saved already.
    """

    name: str
    total: int
    done: int = 0
