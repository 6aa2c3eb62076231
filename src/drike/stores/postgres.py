"""A store of edits in a PostgreSQL database (13 or newer), for several gateways; needs psycopg (extra `postgres`)."""

import re
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, timeout_from_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from drike.edits import record as records
from drike.edits.record import MissingStoreError, StoreError, UnavailableError
from drike.stores import log
from drike.stores.log import EditStore

_MIGRATIONS = [step.encode() for step in log.migrations("postgres.sql")]
_SUM_OF_CLAIMS: LiteralString = """SELECT coalesce(
    sum((('x' || encode(substr(key, 1, 5), 'hex'))::bit(40)::bigint) # edit), 0)::text FROM drike_claims"""
_LOCK: LiteralString = """SELECT pg_advisory_xact_lock(
    (x'64726b65'::bigint << 32) + coalesce(to_regclass('drike_changes')::oid::bigint, 0))"""  # "drke" and the table
_CONFIGURE: LiteralString = """SELECT set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', '60s', false),  -- a writer that hangs would block all others
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false),
    set_config('search_path', coalesce(quote_ident(%s), current_setting('search_path')), false)"""
_TIMEOUT = 5  # seconds to connect
_POLL = 0.5  # seconds between looks for changes whose notification was lost
_SETTINGS = {"application_name": "drike", "connect_timeout": _TIMEOUT, "keepalives_idle": 5, "keepalives_interval": 2,
             "keepalives_count": 3, "tcp_user_timeout": 10_000}  # fmt: skip
_RIGHTS = "does not allow this ({}): connect as a user with that right, to the primary server"
_UNKNOWN = "cannot be used ({}): look into the server's log"
_REMEDIES: records.Remedies = (  # by how codes of errors begin
    (
        ("55P03", "23505", "40P01"),
        UnavailableError,
        records.BUSY,
    ),  # no lock is free, or another made a change
    (("42501", "25006"), StoreError, _RIGHTS),
    ("53", UnavailableError, records.FULL.format("{}", "server")),
    ("3F000", StoreError, "cannot hold a store ({}): create the schema that search_path names"),
    (("42", "XX"), StoreError, records.DAMAGED),
    ("57", UnavailableError, _UNKNOWN),
    ("", StoreError, _UNKNOWN),
)
_UNREACHED = (  # for connections that fail: a pattern of the server's message, what to do
    (r"password", "set PGPASSWORD, write the password into ~/.pgpass, or correct the user"),
    (r"database .* does not exist", "create it with createdb, or correct the address"),
    (r"role .* does not exist", "create it with createuser, or correct the user"),
    (r"pg_hba\.conf|permission denied", "let the server accept this user and host"),
    (r"starting up|shutting down|too many|remaining connection", "try again later"),
    ("", "check the address, and that the server is running"),
)


class ImpatientConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed where its server says nothing for `patience` seconds."""

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


class PostgresStore(EditStore):
    """An `EditStore` in the database at `address`, a URL as libpq takes it. schema: None for the first searched one.

    create: make schema and tables if they are missing. wait: seconds for another process's or thread's changes, and for
    any word from the server. Raises StoreError if the database cannot be used or holds what no store holds.
    """

    _writing = False
    _claim_of = staticmethod(log.claim_hash)

    def __init__(
        self, address: str, *, schema: str | None = None, create: bool = True, wait: float = 10.0
    ) -> None:
        try:
            params = conninfo_to_dict(address)
            timeout_from_conninfo(params)
        except psycopg.Error:  # its message may show the password
            form = "postgresql://USER@HOST:PORT/DATABASE, special characters as %40 and the like"
            raise StoreError(f"the address of the store cannot be read: write {form}") from None
        place = "".join(
            f"{before}{params[key]}"
            for before, key in (("", "host"), (":", "port"))
            if params.get(key)
        )
        self.name = f"postgresql://{place}/{params.get('dbname', '')}"
        self._settings: dict[str, Any] = {
            **_SETTINGS,
            "connect_timeout": min(_TIMEOUT, max(2, round(wait))),
            **params,
        }
        self._schema, self._wait = schema, wait
        self._lock, self._listening = threading.RLock(), threading.Lock()
        self._closed = self._prepared = False
        self._listener: psycopg.Connection | None = None
        with self._explained():
            self._connection = self._connect()
        try:
            self._prepare(create)
            self._prepared = True
            self._check_end()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        with self._lock, self._listening:  # other threads may be using them
            self._connection.close()
            if self._listener is not None:
                self._listener.close()

    def wait(self, after: int, timeout: float) -> bool:
        """As in `EditStore`. A lost connection is made again; StoreError if that did not succeed in time."""
        end = time.monotonic() + timeout
        with self._listening:
            while True:
                left = end - time.monotonic()
                try:
                    with self._explained():
                        if self._listener is None or self._listener.closed or self._closed:
                            self._listener = self._connect()
                            self._listener.execute("LISTEN drike")
                        query = "SELECT EXISTS (SELECT FROM drike_changes WHERE number > %s)"
                        [[changed]] = self._listener.execute(query, [after])
                        if changed or left <= 0:
                            return bool(changed)
                        list(self._listener.notifies(timeout=min(left, _POLL), stop_after=1))
                except StoreError:
                    if left <= 0 or self._closed:
                        raise
                    time.sleep(min(left, _POLL / 2))

    def _run(
        self, query: LiteralString | sql.Composed, values: Sequence[object] = ()
    ) -> psycopg.Cursor[TupleRow]:
        """Run a statement; outside a transaction, on a new connection if the old one was lost."""
        if not self._writing:
            try:
                if not self._connection.closed:
                    return self._connection.execute(query, values)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
            self._connection = self._connect()
        return self._connection.execute(query, values)

    def _connect(self) -> psycopg.Connection:
        if self._closed:
            raise StoreError(f"{self.name} was closed: open it again")
        connection = ImpatientConnection.connect(**self._settings, autocommit=True)
        connection.patience = self._wait + _POLL  # the server gives up first, and says why
        connection.execute(_CONFIGURE, [f"{self._wait:.3f}s", self._schema])
        return connection

    @contextmanager
    def _committed(self) -> Iterator[None]:
        self._run(
            "BEGIN ISOLATION LEVEL READ COMMITTED"
        )  # what is read after the lock was taken, is up to date
        self._writing = True
        try:
            with self._explained():
                self._run(
                    _LOCK
                )  # numbers of changes are unique, should another program write without it
                [[mark]] = self._run("SELECT pg_current_xact_id()::text")
                if self._prepared:
                    self._version()
                    self._begin()
                yield
                if self._connection.info.transaction_status is TransactionStatus.INERROR:
                    why = "a change of this transaction failed, so none of it was kept"
                    raise StoreError(f"{why}: correct it, and try again")
                self._save_end()
                try:
                    self._connection.execute("COMMIT")
                except psycopg.OperationalError:
                    if not self._connection.closed or self._state(mark) != "committed":
                        raise
        except BaseException:
            with suppress(psycopg.Error):  # the server rolls back when the connection is lost
                self._connection.rollback()
            raise
        finally:
            self._writing = False

    def _sum_of_claims(self) -> int:
        [[found]] = self._run(_SUM_OF_CLAIMS)
        return int(found)

    def _state(self, mark: str) -> object:
        """Whether a transaction was committed, asked on a new connection once it has ended."""
        end = time.monotonic() + self._wait
        while True:
            try:
                self._connection = self._connect()
                self._connection.execute(_LOCK)
                [[state]] = self._connection.execute("SELECT pg_xact_status(%s::xid8)", [mark])
                return state
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    lost = f"{self.name} was lost while a change was committed, which may have been kept"
                    raise StoreError(f"{lost}: look at the edit before you try again") from None
                time.sleep(_POLL)

    def _prepare(self, create: bool) -> None:
        """Make the tables in a new database, or bring them to this version; refuse those of a later one."""
        with self._explained():
            if (encoding := self._connection.info.parameter_status("server_encoding")) != "UTF8":
                raise StoreError(
                    f"{self.name} is encoded in {encoding}: create the database with --encoding=UTF8"
                )
            version = self._version()
            if not version and not create:
                raise MissingStoreError(self.name)
            if version < len(_MIGRATIONS):
                with self.transaction():
                    if self._schema:
                        self._run(
                            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(
                                sql.Identifier(self._schema)
                            )
                        )
                    for step in _MIGRATIONS[
                        self._version() :
                    ]:  # another process may have made the tables meanwhile
                        self._connection.execute(step)
                    self._connection.execute(
                        "UPDATE drike_schema SET version = %s", [len(_MIGRATIONS)]
                    )

    def _version(self) -> int:
        [[table]] = self._run("SELECT to_regclass('drike_schema')::text")
        [version] = (
            self._run("SELECT version FROM drike_schema").fetchone() or [0] if table else [0]
        )
        if version > len(_MIGRATIONS):
            raise StoreError(f"{self.name} was written by a newer drike: update drike to use it")
        return version

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as problem:
            code = problem.sqlstate or ""
            lines = str(problem).splitlines() or [type(problem).__name__]
            why = (
                problem.diag.message_primary
                or lines[0].rpartition("failed: ")[2].removeprefix("FATAL:").strip()
            )
            if code and not code.startswith(("08", "57P", "25P03")):
                raise records.explained(self.name, code, why, _REMEDIES) from problem
            if self._writing:
                lost = f"lost its connection ({why}), so nothing of the change was kept: try again"
            else:
                lost = f"cannot be reached ({why}): {next(then for words, then in _UNREACHED if re.search(words, why))}"
            raise UnavailableError(f"{self.name} {lost}") from problem
