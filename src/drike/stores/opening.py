"""Open a store of edits by its address."""

from pathlib import Path

from drike.edits.record import StoreError
from drike.stores.addresses import is_postgres
from drike.stores.edit_store import EditStore

TENANT = "default"


def open_store(
    address: str | Path, *, tenant: str = TENANT, create: bool = True, wait: float = 10.0
) -> EditStore:
    """A store in the SQLite file at a path, or in a PostgreSQL database.

    address: a path, or postgresql://USER@HOST/DATABASE. tenant: another one than the default has a
    file beside that one, or a schema drike-TENANT in the database. create: make the store if it is
    missing. wait: seconds for others that hold it. Raises StoreError.
    """
    if not is_postgres(str(address)):
        from drike.stores.sqlite import SqliteStore

        path = Path(address)
        if tenant != TENANT:
            path = path.with_name(f"{path.stem}.{tenant}{path.suffix}")
        return SqliteStore(path, create=create, wait=wait)
    try:
        from drike.stores.postgres import PostgresStore
    except ImportError:
        raise StoreError(
            "a PostgreSQL store needs psycopg: pip install 'drike[postgres]'"
        ) from None
    return PostgresStore(
        str(address),
        schema=None if tenant == TENANT else f"drike-{tenant}",
        create=create,
        wait=wait,
    )
