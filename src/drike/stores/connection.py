"""Connections to PostgreSQL that give up on a server that says nothing, and its errors in sentences."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from drike.stores.records import StoreError, UnavailableError
from drike.stores.tables import damaged

_BUSY = ("55P03", "23505", "40P01")  # codes of a lock that is not free, and of a change made at the same time
_REMEDIES = (  # for connections that fail: a pattern of the server's message, what to do
    (r"password", "set PGPASSWORD, write the password into ~/.pgpass, or correct the user"),
    (r"database .* does not exist", "create it with createdb, or correct the address"),
    (r"role .* does not exist", "create it with createuser, or correct the user"),
    (r"pg_hba\.conf|permission denied", "let the server accept this user and host"),
    (r"starting up|shutting down|too many|remaining connection", "try again later"),
    ("", "check the address, and that the server is running"),
)


class ImpatientConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed where its server says nothing for `patience` seconds, as if it were frozen."""

    patience = 5.0

    def wait(self, gen: Generator[Any, Any, Any], *rest: Any, **named: Any) -> Any:
        """Wait for an answer. Raises psycopg.OperationalError for none in time."""
        try:
            return super().wait(_within(gen, self.patience), *rest, **named)
        except psycopg.errors.ConnectionTimeout:
            self.pgconn.finish()
            raise


def _within(gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """The generator of psycopg's waiting, which raises ConnectionTimeout once nothing was ready for so many seconds."""
    end = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise psycopg.errors.ConnectionTimeout(f"no answer within {seconds:g} s")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value


def explained(problem: psycopg.Error, name: str, *, writing: bool) -> StoreError:
    """An error of psycopg as a sentence. name: the store's. writing: whether it was in the middle of a change."""
    code = problem.sqlstate or ""
    lines = str(problem).splitlines() or [type(problem).__name__]
    why = problem.diag.message_primary or lines[0].rpartition("failed: ")[2].removeprefix("FATAL:").strip()
    if not code or code.startswith(("08", "57P", "25P03")):
        if writing:
            remedy = f"lost its connection ({why}), so nothing of the change was kept: try again"
        else:
            remedy = f"cannot be reached ({why}): {next(then for words, then in _REMEDIES if re.search(words, why))}"
    elif code in _BUSY:
        remedy = "is in use by another process: wait for it to end, and try again"
    elif code in ("42501", "25006"):
        remedy = f"does not allow this ({why}): connect as a user with that right, to the primary server"
    elif code.startswith("53"):
        remedy = f"cannot be written ({why}): make room, or check the server; what was acknowledged stays"
    elif code == "3F000":
        remedy = f"cannot hold a store ({why}): create the schema that search_path names"
    elif code.startswith(("42", "XX")):
        return damaged(name, why)
    else:
        remedy = f"cannot be used ({why}): look into the server's log"
    later = not code or code.startswith(("08", "53", "57")) or code in _BUSY
    return (UnavailableError if later else StoreError)(f"{name} {remedy}")
