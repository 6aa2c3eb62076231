"""A PostgreSQL server for tests, from the programs that the distribution installs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

PROGRAMS = (
    next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
    or Path(shutil.which("initdb") or "initdb").parent
)
ACCESS = (
    "local all guarded scram-sha-256\nlocal all all trust\n"  # the user "guarded" needs a password
)
OPTIONS = {"fsync": "off", "listen_addresses": "", "shared_buffers": "16MB", "lc_messages": "C"}


def why_missing() -> str:
    """Why no server can be started; empty if one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    return "" if (PROGRAMS / "initdb").exists() else "no PostgreSQL server is installed"


@dataclass
class Database:
    """A server with its data and its socket in `folder`; `start` and `stop` may be called again."""

    folder: Path
    user: str | None = None  # the system's user that runs the server: PostgreSQL refuses root
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(
        self,
        schema: str = "public",
        user: str = "postgres",
        database: str = "postgres",
        rest: str = "",
    ) -> str:
        search_path = f"options=-csearch_path%3D{schema}"
        return f"postgresql://{user}@/{database}?host={self.folder}&{search_path}{rest}"

    def of(self, path: Path) -> str:
        """The address of a store of its own, for a test that has a path."""
        schema = f"s{sha256(str(path).encode()).hexdigest()[:12]}"
        self.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        return self.url(schema)

    def run(self, *statements: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run statements; return the rows of the last one."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def guard(self, password: str, rights: str = "") -> None:
        """Make the user "guarded" anew, without what an earlier test has left of it."""
        self.run(
            "DO $$ BEGIN DROP OWNED BY guarded CASCADE; EXCEPTION WHEN undefined_object THEN END $$",
            "DROP ROLE IF EXISTS guarded", f"CREATE ROLE guarded LOGIN {rights} PASSWORD '{password}'",
        )  # fmt: skip

    @contextmanager
    def monitor(self) -> Iterator[Callable[[], bool]]:
        """Yield a function that says whether a store is in a transaction."""
        import psycopg

        query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'drike' AND backend_xid IS NOT NULL)"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            yield lambda: bool(connection.execute(query).fetchone()[0])  # type: ignore[index]

    def start(self) -> None:
        import psycopg

        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command = [PROGRAMS / "postgres", "-D", self.folder / "data", "-k", self.folder, *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, user=self.user
            )
        for _ in range(1000):
            try:
                self.run("SELECT 1")
                return
            except psycopg.OperationalError:
                time.sleep(0.01)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: int = signal.SIGQUIT) -> None:
        """End the server: at once, without closing its files properly, unless `how` is SIGINT."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()


@contextmanager
def database() -> Iterator[Database]:
    """Yield a running server with an empty database; remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="drike-"))
    user = None
    if os.geteuid() == 0:
        user = next(one.pw_name for one in pwd.getpwall() if one.pw_name in ("postgres", "nobody"))
        shutil.chown(folder, user)
    server = Database(folder, user)
    try:
        initialise = [
            PROGRAMS / "initdb",
            "-D",
            folder / "data",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
            "-A",
            "trust",
        ]
        subprocess.run(initialise, check=True, capture_output=True, cwd=folder, user=user)
        (folder / "data" / "pg_hba.conf").write_text(ACCESS)
        server.start()
        yield server
    finally:
        if server._process is not None:
            server.stop()
        shutil.rmtree(folder)
