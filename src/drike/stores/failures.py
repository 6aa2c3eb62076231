"""What is said of databases that cannot be used: errors and remedies for all stores."""

from collections.abc import Sequence

from drike.edits.record import StoreError

# Which error a database's error becomes, and its remedy, by how its code begins.
Remedies = Sequence[tuple[str | tuple[str, ...], type[StoreError], str]]

BUSY = "is in use by another process: wait for it to end, and try again"
DAMAGED = "is damaged or no store of edits ({}): restore it from a copy, or give another --store"
FULL = "cannot be written ({}): make room, or check the {}; what was acknowledged stays"


def damaged(name: str, what: str) -> StoreError:
    """The error for a store whose content cannot be that of a store."""
    return StoreError(f"{name} {DAMAGED.format(what)}")


def explained(name: str, code: str, why: str, remedies: Remedies) -> StoreError:
    """The error for one that a database raised with a code."""
    for beginnings, error, remedy in remedies:
        if code.startswith(beginnings):
            return error(f"{name} {remedy.format(why)}")
    raise LookupError(f"no remedy for {code}")
