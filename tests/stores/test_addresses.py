"""Laws of addresses of stores: each is a path or a database's, and no message shows a password."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from drike.edits.record import StoreError
from drike.gateway.options import GatewayOptions
from drike.stores.addresses import is_postgres
from drike.stores.opening import open_store
from drike.support.secrets_in_text import without_secrets

PASSWORD = "pass-canary-0123"
MISSPELT = (
    "postgresql:/u:{}@h/db", "postgresql//u:{}@h/db", "jdbc:postgresql://u:{}@h/db",
    "postgresql+psycopg://u:{}@h/db", "'postgresql://u:{}@h/db'", "<postgresql://u:{}@h/db>",
    "DATABASE_URL=postgresql://u:{}@h/db", "dbname='postgresql://u:{}@h/db'", "mysql://u:{}@h/db",
    "u:{}@h/db", "u:{}@h:5432/db", "//u:{}@h/db", "u:a/{}@h", "host=h password={}",
    "host=h pwd = {}", "pgsql:host=h;password={}", "\u200bpostgresql://u:{}@h/db",
    "postgresql\uff1a//u:{}@h/db", "postgresql:\\\\u:{}@h/db", "postgresql:u:{}@h", "host=h dbname={}",
)  # fmt: skip
UNREADABLE = (
    "postgresql://u:{}/x@h/db", "postgresql://u:x@h/{}@h2", "postgresql://u:x@{}@h/db",
    "postgresql://u:{}@h:x/db", "POSTGRESQL://u:{}@[::1/db", "postgresql://h/db?host={}@h",
    "postgresql://h/db?dbname=postgres://u:{}@h", "postgresql://u:x@h:{}/db", "postgres://u:1/y?host={}@h",
)  # fmt: skip


@pytest.mark.parametrize("form", MISSPELT)
def test_what_may_be_a_misspelt_address_is_no_path_and_is_not_shown(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for address in (form.format(PASSWORD), Path(form.format(PASSWORD))):
        for create in (False, True):
            with pytest.raises(StoreError, match="write postgresql://USER@HOST") as refusal:
                open_store(address, create=create)
            assert PASSWORD not in "".join(traceback.format_exception(refusal.value))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", UNREADABLE)
def test_a_password_that_reads_as_another_part_of_an_address_is_not_shown(form: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="cannot be read: write postgresql://") as refusal:
        open_store(form.format(PASSWORD), create=False, wait=0.1)
    assert PASSWORD not in f"{refusal.value!r}{refusal.value.__cause__!r}"


@pytest.mark.parametrize(
    "address", ["POSTGRESQL://h/db", " postgres://h/db", "PostgreSql://h/db\n"]
)
def test_an_address_counts_in_any_case_and_with_space_around_it(address: str) -> None:
    assert is_postgres(address)


@pytest.mark.parametrize(
    "path",
    ["edits.db", "/a/b@c/edits.db", "C:\\me@home\\edits.db", "C:/x@y.db", "a:b.db", "a b=c.db"],
)
def test_paths_are_paths(path: str) -> None:
    assert not is_postgres(path)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://host/v1", "https://host/v1"),
        ("htps://u:secret@host/v1", "htps://***@host/v1"),
        ("u:sec/ret@host", "***@host"),
        ("https://u:a@b@host", "https://***@host"),
        ("htps://h?api_key=secret&x=1", "htps://h?api_key=***&x=1"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


def test_options_are_shown_without_their_addresses() -> None:
    options = GatewayOptions(upstream=PASSWORD, store=PASSWORD, notify=PASSWORD)
    assert PASSWORD not in f"{options!r}{options}" and "8800" in repr(options)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where arguments are")
def test_other_users_do_not_see_passwords_among_the_arguments_of_a_process() -> None:
    program = (
        "import sys; from pathlib import Path; from drike.support.secrets_in_text import hide_arguments;"
        "hide_arguments(); print(Path('/proc/self/cmdline').read_text()); print(sys.argv[1:])"
    )
    arguments = [f"postgresql://u:{PASSWORD}@h/db", f"host=h password={PASSWORD}", "--x=a:b@c"]
    command = [sys.executable, "-P", "-c", program, *arguments]
    shown, kept = subprocess.check_output(command, text=True).splitlines()
    stars = "*" * len(PASSWORD)
    assert f"postgresql://u:{stars}@h/db\0host=h password={stars}\0--x=a:b@c" in shown
    assert kept == str(arguments)
