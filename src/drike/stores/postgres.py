"""A store of edits in a PostgreSQL database (13 or newer), which several gateways may share.

It needs psycopg (extra `postgres`).
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, timeout_from_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from drike.edits.record import MissingStoreError, StoreError, UnavailableError
from drike.stores.database import SECONDS_TO_CLOSE, held, migrations
from drike.stores.edit_store import EditStore
from drike.stores.failures import BUSY, DAMAGED, FULL, Remedies, explained

_MIGRATIONS = [step.encode() for step in migrations("postgres.sql")]
# `claims.mark_of`, summed by the server, which need not send 100,000 claims for that.
_SUM_OF_MARKS: LiteralString = """SELECT coalesce(
    sum((('x' || encode(substr(key, 1, 5), 'hex'))::bit(40)::bigint) # edit), 0)::text
    FROM drike_claims"""
# The key of the advisory lock is "drke" and the table's number.
_LOCK: LiteralString = """SELECT pg_advisory_xact_lock(
    (x'64726b65'::bigint << 32) + coalesce(to_regclass('drike_changes')::oid::bigint, 0))"""
# A writer that hangs in a transaction would block all others: the server ends it after a minute.
_CONFIGURE: LiteralString = """SELECT set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', '60s', false),
    set_config('synchronous_commit',
        replace(current_setting('synchronous_commit'), 'off', 'on'), false),
    set_config('search_path', coalesce(quote_ident(%s), current_setting('search_path')), false)"""
_TIMEOUT = 5  # seconds to connect
_POLL = 0.5  # seconds between looks for changes whose notification was lost
_SETTINGS = {
    "application_name": "drike",
    "connect_timeout": _TIMEOUT,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_RIGHTS = "does not allow this ({}): connect as a user with that right, to the primary server"
_UNKNOWN = "cannot be used ({}): look into the server's log"
_REMEDIES: Remedies = (  # by how codes of errors begin
    # No lock is free, or another writer made a change.
    (("55P03", "23505", "40P01"), UnavailableError, BUSY),
    (("42501", "25006"), StoreError, _RIGHTS),
    ("53", UnavailableError, FULL.format("{}", "server")),
    ("3F000", StoreError, "cannot hold a store ({}): create the schema that search_path names"),
    (("42", "XX"), StoreError, DAMAGED),
    ("57", UnavailableError, _UNKNOWN),
    ("", StoreError, _UNKNOWN),
)
_SHOWN_PARTS = ("host", "hostaddr", "dbname", "service")  # of an address
_HAS_LOGIN = re.compile(r"[@=]|://")
_PORTS = re.compile(r"[\d,\s]*")
_CONNECTION_LOST = ("08", "57P", "25P03")  # how codes of such errors begin
_UNREACHED = (  # for connections that fail: a pattern of the server's message, what to do
    (r"password", "set PGPASSWORD, write the password into ~/.pgpass, or correct the user"),
    (r"database .* does not exist", "create it with createdb, or correct the address"),
    (r"role .* does not exist", "create it with createuser, or correct the user"),
    (r"pg_hba\.conf|permission denied", "let the server accept this user and host"),
    (r"starting up|shutting down|too many|remaining connection", "try again later"),
    ("", "check the address, and that the server is running"),
)


class ImpatientConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed where its server says nothing for `patience` seconds.

    given_up: whether nobody waits for it any more.
    """

    patience = 5.0
    given_up: Callable[[], bool] = staticmethod(lambda: False)

    def wait(self, gen: Generator[Any, Any, Any], *rest: Any, **named: Any) -> Any:
        """Wait for an answer. Raises psycopg.OperationalError for none in time."""
        try:
            return super().wait(_within(gen, self.patience, self.given_up), *rest, **named)
        except psycopg.errors.ConnectionTimeout:
            self.pgconn.finish()
            raise


def _within(
    gen: Generator[Any, Any, Any], seconds: float, given_up: Callable[[], bool]
) -> Generator[Any, Any, Any]:
    """The generator by which psycopg waits, limited to `seconds` without any word.

    Raises ConnectionTimeout.
    """
    end = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() > end or given_up():
                raise psycopg.errors.ConnectionTimeout(f"no answer within {seconds:g} s")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value


class PostgresStore(EditStore):
    """An `EditStore` in the database at `address`, a URL as libpq takes it.

    schema: None for the first searched one. create: make schema and tables if they are missing.
    wait: seconds for another process's or thread's changes, and for any word from the server.
    Raises StoreError if the database cannot be used or holds what no store holds.
    """

    def __init__(
        self, address: str, *, schema: str | None = None, create: bool = True, wait: float = 10.0
    ) -> None:
        super().__init__(PostgresDatabase(address, schema=schema, create=create, wait=wait))


class PostgresDatabase:
    """A `Database` at `address`; parameters as of `PostgresStore`."""

    sum_of_marks_query: str | None = _SUM_OF_MARKS

    def __init__(self, address: str, *, schema: str | None, create: bool, wait: float) -> None:
        params = _params_of(address)
        self.name = _name_of(params)
        self.generation = 0
        self._settings: dict[str, Any] = {
            **_SETTINGS,
            "connect_timeout": min(_TIMEOUT, max(2, round(wait))),
            **params,
        }
        self._schema = schema
        self._wait = wait
        self._lock = threading.RLock()
        self._listening = threading.Lock()
        self._closed = False
        self._is_silent = False  # whether the server said nothing the last time
        self._prepared = False  # whether the tables are there
        self._writing = False
        self._listener: psycopg.Connection | None = None
        with self._explained():
            self._connection = self._connect()
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise
        self._prepared = True

    @property
    def in_transaction(self) -> bool:
        """As in `Database`."""
        return self._writing

    def key_of(self, text: str) -> bytes:
        """A hash: PostgreSQL's text has no NUL character, and its index no long values."""
        return hashlib.sha256(text.encode()).digest()

    def beside(self, create: bool) -> "PostgresDatabase":
        """As in `Database`: this one, which has a table for it."""
        return self

    @contextmanager
    def use(self) -> Iterator[None]:
        """As in `Database`."""
        # While the server says nothing, one thread at a time waits for it, and no other does.
        seconds = 0.0 if self._is_silent else self._wait
        why = "does not answer" if self._is_silent else "is in use by another thread"
        with held(self._lock, seconds, self.name, why), self._explained():
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As in `Database`."""
        with self.use():
            if self._writing:
                yield
                return
            # What is read after the lock was taken is up to date.
            self.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            self._writing = True
            try:
                with self._explained():  # here, so that it knows of the transaction
                    # Numbers of changes are unique, should another program write without the lock.
                    self.execute(_LOCK)
                    [[transaction_id]] = self.execute("SELECT pg_current_xact_id()::text")
                    if self._prepared:
                        self._version()
                    yield
                    self._require_intact()
                    self._commit(transaction_id)
            except BaseException:
                with suppress(psycopg.Error):  # the server rolls back when the connection is lost
                    self._connection.rollback()
                raise
            finally:
                self._writing = False

    def execute(
        self, query: LiteralString | sql.Composed, values: Sequence[object] = ()
    ) -> psycopg.Cursor[TupleRow]:
        """As in `Database`; outside a transaction, on a new connection if the old one was lost."""
        if self._writing:
            self._require_intact()
        elif self._connection.closed:
            self._connection = self._connect()
        try:
            cursor = self._connection.execute(query, values)
        except psycopg.errors.ConnectionTimeout:  # nor would a new connection be answered
            raise
        except psycopg.OperationalError:
            if self._writing or not self._connection.closed:
                raise
            self._connection = self._connect()
            cursor = self._connection.execute(query, values)
        self._is_silent = False
        return cursor

    def wait(self, query: LiteralString, values: Sequence[object], timeout: float) -> bool:
        """As in `Database`. A lost connection is made again; StoreError if it was not in time."""
        end = time.monotonic() + timeout
        with self._listening:
            while True:
                remaining = end - time.monotonic()
                try:
                    with self._explained():
                        listener = self._listening_connection()
                        found = listener.execute(query, values).fetchone() is not None
                        self._is_silent = False
                        if found or remaining <= 0:
                            return found
                        list(listener.notifies(timeout=min(remaining, _POLL), stop_after=1))
                except StoreError:
                    if remaining <= 0 or self._is_silent or self._closed:
                        raise
                    time.sleep(min(remaining, _POLL / 2))

    def close(self) -> None:
        """Close the connections."""
        self._closed = True  # so that no thread goes on waiting for the server
        if self._lock.acquire(timeout=SECONDS_TO_CLOSE):
            try:
                self._connection.close()
            finally:
                self._lock.release()
        if self._listening.acquire(timeout=SECONDS_TO_CLOSE):
            try:
                if self._listener is not None:
                    self._listener.close()
            finally:
                self._listening.release()

    def _connect(self) -> psycopg.Connection:
        self._require_open()
        connection = ImpatientConnection.connect(**self._settings, autocommit=True)
        if self._closed:
            connection.close()
            self._require_open()
        connection.given_up = lambda: self._closed
        connection.patience = self._wait + _POLL  # the server gives up first, and says why
        connection.execute(_CONFIGURE, [f"{self._wait:.3f}s", self._schema])
        return connection

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.name} was closed: open it again")

    def _listening_connection(self) -> psycopg.Connection:
        """The connection that hears of changes, made again if it was lost."""
        if self._listener is None or self._listener.closed or self._closed:
            self._listener = self._connect()
            self._listener.execute("LISTEN drike")
        return self._listener

    def _require_intact(self) -> None:
        """Raise StoreError if a statement of the transaction failed: the server runs no other."""
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            why = "a change of this transaction failed, so none of it was kept"
            raise StoreError(f"{why}: correct it, and try again")

    def _commit(self, transaction_id: str) -> None:
        try:
            self._connection.execute("COMMIT")
        except psycopg.OperationalError:
            # Only the server knows whether it committed before the connection was lost.
            if not self._connection.closed or self._outcome(transaction_id) != "committed":
                raise

    def _outcome(self, transaction_id: str) -> object:
        """Whether a transaction was committed, asked on a new connection once it has ended."""
        end = time.monotonic() + self._wait
        while True:
            try:
                self._connection = self._connect()
                self._connection.execute(_LOCK)
                [[outcome]] = self._connection.execute(
                    "SELECT pg_xact_status(%s::xid8)", [transaction_id]
                )
                return outcome
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise StoreError(
                        f"{self.name} was lost while a change was committed, which may have been "
                        "kept: look at the edit before you try again"
                    ) from None
                time.sleep(_POLL)

    def _prepare(self, create: bool) -> None:
        """Make the tables in a new database, or bring them to this version.

        Raises StoreError for those of a later version.
        """
        with self._explained():
            encoding = self._connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                remedy = "create the database with --encoding=UTF8"
                raise StoreError(f"{self.name} is encoded in {encoding}: {remedy}")
            version = self._version()
            if not version and not create:
                raise MissingStoreError(self.name)
            if version < len(_MIGRATIONS):
                with self.transaction():
                    self._migrate()

    def _migrate(self) -> None:
        """Bring the tables to this version, inside a transaction."""
        if self._schema:
            create_schema = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
            self.execute(create_schema.format(sql.Identifier(self._schema)))
        current = self._version()  # another process may have made the tables meanwhile
        for step in _MIGRATIONS[current:]:
            self._connection.execute(step)
        self._connection.execute("UPDATE drike_schema SET version = %s", [len(_MIGRATIONS)])

    def _version(self) -> int:
        """The version of the tables; 0 if there are none. Raises StoreError for a later one."""
        [[table]] = self.execute("SELECT to_regclass('drike_schema')::text")
        if table is None:
            return 0
        row = self.execute("SELECT version FROM drike_schema").fetchone()
        version: int = row[0] if row else 0
        if version > len(_MIGRATIONS):
            raise StoreError(f"{self.name} was written by a newer drike: update drike to use it")
        return version

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise PostgreSQL's errors as StoreError."""
        try:
            yield
        except psycopg.Error as problem:
            self._require_open()
            self._is_silent = isinstance(problem, psycopg.errors.ConnectionTimeout)
            code = problem.sqlstate or ""
            why = _message_of(problem)
            if code and not code.startswith(_CONNECTION_LOST):
                raise explained(self.name, code, why, _REMEDIES) from problem
            if self._writing:
                what = f"lost its connection ({why}), so nothing of the change was kept: try again"
            else:
                what = f"cannot be reached ({why}): {_remedy_of(why)}"
            raise UnavailableError(f"{self.name} {what}") from problem


def _params_of(address: str) -> dict[str, Any]:
    """The parts of an address. Raises StoreError, which does not show its password."""
    try:
        scheme, separator, rest = address.strip().partition("://")
        params = conninfo_to_dict(f"{scheme.casefold()}{separator}{rest}")
        timeout_from_conninfo(params)
        # A password with a sign that ends it reads as these, which messages show.
        if any(_HAS_LOGIN.search(str(params.get(part, ""))) for part in _SHOWN_PARTS):
            raise psycopg.ProgrammingError
        if not _PORTS.fullmatch(str(params.get("port", ""))):
            raise psycopg.ProgrammingError
    except psycopg.Error:  # its message may show the password
        form = "postgresql://USER@HOST:PORT/DATABASE, special characters as %40 and the like"
        raise StoreError(f"the address of the store cannot be read: write {form}") from None
    return params


def _name_of(params: Mapping[str, Any]) -> str:
    """An address without user and password."""
    host = params.get("host") or ""
    port = f":{params['port']}" if params.get("port") else ""
    return f"postgresql://{host}{port}/{params.get('dbname', '')}"


def _message_of(problem: psycopg.Error) -> str:
    """What the server, or psycopg, says of an error, on one line."""
    lines = str(problem).splitlines() or [type(problem).__name__]
    reason = lines[0].rpartition("failed: ")[2].removeprefix("FATAL:").strip()
    return problem.diag.message_primary or reason


def _remedy_of(message: str) -> str:
    """What to do if a connection fails with a message."""
    return next(remedy for pattern, remedy in _UNREACHED if re.search(pattern, message))
