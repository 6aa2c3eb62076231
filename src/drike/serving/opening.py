"""Open a store of edits by its address."""

from __future__ import annotations

from pathlib import Path

from drike.serving.store import EditStore, StoreError

POSTGRES = ("postgresql://", "postgres://")


def open_store(address: str | Path, *, create: bool = True) -> EditStore:
    """A store in the SQLite file at a path, or in a PostgreSQL database at postgresql://USER@HOST/DATABASE.

    create: make the store if it is missing. Raises StoreError if it cannot be used.
    """
    if not str(address).startswith(POSTGRES):
        from drike.serving.sqlite import SqliteStore

        return SqliteStore(Path(address), create=create)
    try:
        from drike.serving.postgres import PostgresStore
    except ImportError:
        raise StoreError("a PostgreSQL store needs psycopg: pip install 'drike[postgres]'") from None
    return PostgresStore(str(address), create=create)
