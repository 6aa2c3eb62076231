"""What is said of databases that cannot be used: errors and remedies for all stores."""

import re
from collections.abc import Sequence

from drike.edits.record import StoreError

POSTGRES = ("postgresql://", "postgres://")  # how addresses of stores in PostgreSQL begin

# Which error a database's error becomes, and its remedy, by how its code begins.
Remedies = Sequence[tuple[str | tuple[str, ...], type[StoreError], str]]

BUSY = "is in use by another process: wait for it to end, and try again"
DAMAGED = "is damaged or no store of edits ({}): restore it from a copy, or give another --store"
FULL = "cannot be written ({}): make room, or check the {}; what was acknowledged stays"


# The addresses of other databases, which may hold a password, and are no paths.
_ADDRESS = re.compile(r"[a-z][\w+.-]*://|postgres\w*:|(?:.*\s)?password\s*=", re.IGNORECASE)


def is_postgres(store: str) -> bool:
    """Whether a store's address is that of a PostgreSQL database; otherwise it is a path.

    Raises StoreError, which does not show it, for one that is neither.
    """
    if store.casefold().startswith(POSTGRES):
        return True
    if _ADDRESS.match(store):
        form = "postgresql://USER@HOST/DATABASE"
        raise StoreError(f"the address of the store cannot be read: write {form}, or a path")
    return False


def damaged(name: str, what: str) -> StoreError:
    """The error for a store whose content cannot be that of a store."""
    return StoreError(f"{name} {DAMAGED.format(what)}")


def explained(name: str, code: str, why: str, remedies: Remedies) -> StoreError:
    """The error for one that a database raised with a code."""
    for beginnings, error, remedy in remedies:
        if code.startswith(beginnings):
            return error(f"{name} {remedy.format(why)}")
    raise LookupError(f"no remedy for {code}")
