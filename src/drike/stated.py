"""What an answer in free text says of an edit: its new object, the old one, both, neither, or that it refuses.

`matching` judges answers that begin with the object, as rewards and metrics ask for; this reads what a deployed model
writes to a person, from which nobody asked for a form.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from drike.matching import normalise


class Stated(StrEnum):
    """Which object of an edit an answer states."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"
    NEITHER = "neither"
    REFUSED = "refused"


def stated(answer: str, new: Collection[str], old: Collection[str] = ()) -> Stated:
    """What an answer says. new, old: the names of the new object and of the old one, any of which states it."""
    said = f" {normalise(answer)} "
    states_new, states_old = (any(f" {normalise(name)} " in said for name in names) for names in (new, old))
    if states_new:
        return Stated.BOTH if states_old else Stated.NEW
    return Stated.OLD if states_old else Stated.NEITHER
