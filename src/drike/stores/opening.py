"""Open a store of edits by its address."""

from __future__ import annotations

from pathlib import Path

from drike.stores.log import EditStore
from drike.stores.records import POSTGRES, StoreError

TENANT = "default"


def store_path(store: Path, tenant: str) -> Path:
    """The file of a tenant's store: the given one, or one beside it."""
    return store if tenant == TENANT else store.with_name(f"{store.stem}.{tenant}{store.suffix}")


def open_store(address: str | Path, *, tenant: str = TENANT, create: bool = True) -> EditStore:
    """A store in the SQLite file at a path, or in a PostgreSQL database at postgresql://USER@HOST/DATABASE.

    tenant: another one than the default has a file beside that one, or a schema drike-TENANT in the database.
    create: make the store if it is missing. Raises StoreError if it cannot be used.
    """
    if not str(address).startswith(POSTGRES):
        from drike.stores.sqlite import SqliteStore

        return SqliteStore(store_path(Path(address), tenant), create=create)
    try:
        from drike.stores.postgres import PostgresStore
    except ImportError:
        raise StoreError("a PostgreSQL store needs psycopg: pip install 'drike[postgres]'") from None
    return PostgresStore(str(address), schema=None if tenant == TENANT else f"drike-{tenant}", create=create)
