"""Addresses of stores: a path, or a PostgreSQL database, whose password no message shows."""

from drike.edits.record import StoreError
from drike.support.secrets_in_text import may_hold_password

POSTGRES = ("postgresql://", "postgres://")  # how addresses of stores in PostgreSQL begin


def is_postgres(store: str) -> bool:
    """Whether a store's address is that of a PostgreSQL database; otherwise it is a path.

    Raises StoreError, which does not show it, for one that is neither.
    """
    if store.strip().casefold().startswith(POSTGRES):
        return True
    if may_hold_password(store):
        form = "postgresql://USER@HOST/DATABASE"
        raise StoreError(
            f"the address of the store cannot be read: write {form}, or a path without : and @"
        )
    return False
