"""A database as the tables of a store use it: SQLite (`sqlite`) or PostgreSQL (`postgres`)."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from drike.edits.record import UnavailableError

SECONDS_TO_CLOSE = 1.0  # for what another thread is doing


class Database(Protocol):
    """A database that keeps the tables of a store. Threads and processes may share it.

    Statements have %s for values and the prefix `drike_` before tables. name: where it is, for
    messages, without a password. generation: grows when another database takes the place of the
    one that was open, such as a file that was restored from a copy. sum_of_marks_query: a
    statement by which the database sums what `claims.mark_of` gives, if it can. Every method
    raises StoreError, in one sentence with the remedy, if the database cannot be used.
    """

    name: str
    generation: int
    sum_of_marks_query: str | None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, in whatever thread."""

    def key_of(self, text: str) -> str | bytes:
        """A text, of any length and with any characters, as a key in a table."""

    def use(self) -> AbstractContextManager[None]:
        """Keep other threads away during the block, for statements that belong together."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes of the block at once, or none if it raises.

        Other writers wait before they change anything. One inside another is part of that.
        """

    def execute(self, query: str, values: Sequence[object] = ()) -> Any:
        """Run a statement, inside `use` or `transaction`; return its cursor."""

    def wait(self, query: str, values: Sequence[object], timeout: float) -> bool:
        """Wait until a query finds a row, for at most `timeout` seconds; return whether it does."""

    def beside(self, create: bool) -> "Database | None":
        """The database for what is kept beside the edits, so that it does not fill theirs.

        None if there is none. create: make it then.
        """

    def close(self) -> None:
        """Close all connections; one that another thread waits for, as soon as that is possible."""


def select(database: Database, query: str, values: Sequence[object] = ()) -> list[Any]:
    """All rows that a statement returns. Raises StoreError."""
    with database.use():
        return list(database.execute(query, values))


def insert(
    database: Database, table: str, rows: Sequence[Sequence[object]], on_conflict: str = ""
) -> None:
    """Add rows to a table by one statement, inside a transaction. Raises StoreError.

    on_conflict: the clause that says what to do about a key that the table has.
    """
    placeholders = ", ".join(["%s"] * len(rows[0]))
    all_placeholders = ", ".join([f"({placeholders})"] * len(rows))
    statement = f"INSERT INTO {table} VALUES {all_placeholders} {on_conflict}"  # noqa: S608 - no values
    database.execute(statement, [value for row in rows for value in row])


@contextmanager
def held(
    lock: threading.RLock, seconds: float, name: str, why: str = "is in use by another thread"
) -> Iterator[None]:
    """Hold the lock of the database `name`. Raises UnavailableError if others hold it so long."""
    if not lock.acquire(timeout=seconds):
        raise UnavailableError(f"{name} {why}: try again")
    try:
        yield
    finally:
        lock.release()


def migrations(file: str) -> list[str]:
    """What leads from each version of a schema to the next, from an SQL file beside this one."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    steps = re.split(r"-- to version \d+\n", text)[1:]
    return [step.strip() for step in steps]
