"""Laws of a PostgreSQL store beside those in test_log: servers, users, lost connections and several writers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, StoreError
from drike.gates.by_name import Named
from drike.stores.edit_store import EditStore
from drike.stores.moves import retire
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from tests.fakes.postgres_servers import Database
from tests.fakes.waiting import wait_until

pytestmark = pytest.mark.postgres
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo")
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome")
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'drike'"
PASSWORD = "pass-canary-0123"


@pytest.fixture
def address(postgres: Database, tmp_path: Path) -> str:
    return postgres.of(tmp_path)


@pytest.fixture
def store(address: str) -> Iterator[EditStore]:
    opened = open_store(address)
    yield opened
    opened.close()


def targets(store: EditStore) -> list[str]:
    return [one.record.target_new for one in store.changes()]


# Addresses, servers and users


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"database": "nowhere"},
            r'cannot be reached \(database "nowhere" does not exist\): create it with createdb',
        ),
        (
            {"user": "nobody"},
            r'cannot be reached \(role "nobody" does not exist\): create it with createuser',
        ),
        (
            {"schema": "nowhere"},
            r"cannot hold a store \(no schema has been selected to create in\): create the schema",
        ),
        (
            {"user": f"guarded:{PASSWORD}"},
            r"\(password authentication failed .*\): set PGPASSWORD, write the password",
        ),
        ({"user": "guarded"}, r"cannot be reached \(.*no password supplied\): set PGPASSWORD"),
        ({"database": "latin"}, r"is encoded in LATIN1: create the database with --encoding=UTF8"),
        (
            {"rest": "&port=1"},
            r"cannot be reached \(.*\): check the address, and that the server is running",
        ),
    ],
)
def test_a_database_that_cannot_be_used_is_explained_in_a_sentence(
    postgres: Database, change: dict[str, Any], message: str
) -> None:
    postgres.guard("other")
    if change.get("database") == "latin":
        postgres.run("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0")
    with pytest.raises(StoreError, match=message) as error:
        open_store(postgres.url(**change))
    assert (
        "\n" not in str(error.value) and PASSWORD not in f"{error.value!r}{error.value.__cause__}"
    )


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("the database system is starting up", "try again later"),
        ("sorry, too many clients already", "try again later"),
        (
            'no pg_hba.conf entry for host "::1", user "ann", database "edits", no encryption',
            "let the server accept",
        ),
        ('permission denied for database "edits"', "let the server accept this user and host"),
        ("Connection refused", "check the address, and that the server is running"),
    ],
)
def test_a_refused_connection_is_explained_with_what_to_do(
    said: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = pytest.importorskip("psycopg")
    problem = psycopg.OperationalError(
        f'connection failed: connection to server at "::1" failed: FATAL:  {said}\nmore'
    )
    monkeypatch.setattr(
        psycopg.Connection, "connect", lambda **settings: (_ for _ in ()).throw(problem)
    )
    with pytest.raises(StoreError) as error:
        open_store("postgresql://ann@db.example:5433/edits")
    expected = f"postgresql://db.example:5433/edits cannot be reached ({said}): {remedy}"
    assert str(error.value).startswith(expected)


@pytest.mark.parametrize(
    "rest", ["/x y", ":port/x", "/x?unknown=1", "/x?connect_timeout=a", "/%zz", "/x?port=7:8"]
)
def test_an_unreadable_address_is_refused_without_its_password(
    postgres: Database, rest: str
) -> None:
    with pytest.raises(StoreError) as error:
        open_store(f"postgresql://ann:{PASSWORD}@127.0.0.1{rest}")
    assert PASSWORD not in f"{error.value!r}{error.value.__cause__!r}"


def test_a_password_comes_from_the_environment_or_the_address_and_is_never_shown(
    postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.guard(PASSWORD, "SUPERUSER")
    schema = postgres.of(tmp_path).rpartition("%3D")[2]
    opened = open_store(postgres.url(schema, f"guarded:{PASSWORD}"))
    assert opened.name == f"postgresql://{postgres.folder}/postgres"
    assert PASSWORD not in f"{opened!r}{opened}{opened.name}"
    opened.close()
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_store(postgres.url(schema, "guarded")).close()


def test_a_missing_driver_is_reported_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "drike.stores.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg: pip install 'drike\[postgres\]'"):
        open_store("postgresql://127.0.0.1/edits")


def test_a_missing_store_is_not_made_by_reading(postgres: Database, address: str) -> None:
    with pytest.raises(StoreError, match="there is no store of edits at postgresql://"):
        open_store(address, create=False)
    open_store(address).close()
    open_store(address, create=False).close()


def test_a_user_who_may_only_read_reads_and_is_refused_to_write(
    postgres: Database, store: EditStore, address: str
) -> None:
    store.put(PERU)
    schema = address.rpartition("%3D")[2]
    postgres.run(
        "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$",
        f"GRANT USAGE ON SCHEMA {schema} TO reader", f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader",
    )  # fmt: skip
    opened = open_store(postgres.url(schema, "reader"), create=False)
    assert opened.changes() == store.changes() and opened.wait(0, 1) and opened.gate() is None
    for write in (lambda: opened.put(CHILE), lambda: opened.save_gate("{}")):
        with pytest.raises(
            StoreError,
            match=r"does not allow this \(permission denied .*\): connect as a user with",
        ):
            write()
    opened.close()
    replica = open_store(f"{address}%20-cdefault_transaction_read_only%3Don", create=False)
    with pytest.raises(
        StoreError, match=r"does not allow this \(cannot execute .* in a read-only transaction\)"
    ):
        replica.put(CHILE)
    replica.close()
    assert targets(store) == ["Oslo"]


def test_a_store_of_a_newer_drike_is_refused(
    postgres: Database, store: EditStore, address: str
) -> None:
    postgres.run("UPDATE drike_schema SET version = 99", url=address)
    with pytest.raises(StoreError, match="was written by a newer drike: update drike to use it"):
        open_store(address)


def test_several_processes_that_open_a_new_store_make_it_once(
    postgres: Database, address: str
) -> None:
    opened: list[EditStore] = []
    threads = [
        threading.Thread(target=lambda: opened.append(open_store(address))) for _ in range(4)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(opened) == 4 and postgres.run("SELECT version FROM drike_schema", url=address) == [
        (4,)
    ]
    [one.close() for one in opened]


# What the database holds


@pytest.mark.parametrize(
    "statement",
    ["UPDATE drike_changes SET entry = ''", "DELETE FROM drike_changes", "TRUNCATE drike_changes"],
)
def test_postgresql_itself_refuses_to_rewrite_the_log(
    postgres: Database, store: EditStore, address: str, statement: str
) -> None:
    with pytest.raises(Exception, match="the log only grows"):
        postgres.run(statement, url=address)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE drike_changes SET entry = replace(entry, 'Oslo', 'Oslp')",
        "UPDATE drike_changes SET created_at = '2020-01-01T00:00:00Z'",
        "DELETE FROM drike_changes WHERE number = 1",
        "ALTER TABLE drike_changes RENAME entry TO theirs",
    ],
)
def test_rows_that_drike_has_not_written_are_reported(
    postgres: Database, store: EditStore, address: str, statement: str
) -> None:
    store.put(PERU)
    store.put(CHILE)
    postgres.run("ALTER TABLE drike_changes DISABLE TRIGGER ALL", statement, url=address)
    with pytest.raises(
        StoreError, match=r"is damaged or no store of edits \(.*\): restore it from a copy"
    ):
        store.changes()


def test_of_writers_at_the_same_time_one_adds_a_fact_and_the_others_see_it(address: str) -> None:
    refused: list[ConflictError] = []

    def add(name: int) -> None:
        store = open_store(address)
        for town in range(5):
            try:
                store.put(
                    EditRecord(f"Town {town}", f"The river of Town {town} is", f"River {name}")
                )
            except ConflictError as problem:
                refused.append(problem)
        store.close()

    open_store(address).close()
    threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    store = open_store(address)
    assert (len(store.changes()), len(refused)) == (5, 15)
    assert len({one.record.query for one in snapshot(store).edits.values()}) == 5
    store.close()


def test_a_store_in_use_is_reported_after_a_while(address: str) -> None:
    from drike.stores.postgres import PostgresStore

    store, other = PostgresStore(address), PostgresStore(address, wait=0.05)
    with store.transaction():
        store.put(PERU)
        assert other.changes() == [], "readers do not wait"
        with pytest.raises(StoreError, match="is in use by another process: wait for it to end"):
            other.put(CHILE)
    other.put(CHILE)
    assert targets(store) == ["Oslo", "Rome"]
    store.close()
    other.close()


def test_stores_in_two_schemas_of_a_database_share_nothing(
    postgres: Database, tmp_path: Path
) -> None:
    one, other = (open_store(postgres.of(tmp_path / name)) for name in "ab")
    with one.transaction():
        one.put(PERU)
        other.put(CHILE)
    assert (targets(one), targets(other)) == (["Oslo"], ["Rome"])
    one.close()
    other.close()


# Lost connections


def test_a_lost_connection_is_made_again(postgres: Database, store: EditStore) -> None:
    store.put(PERU)
    postgres.run(CUT)
    assert targets(store) == ["Oslo"]
    postgres.run(CUT)
    store.put(CHILE)
    assert targets(store) == ["Oslo", "Rome"]


def test_a_connection_lost_in_a_transaction_leaves_nothing_behind(
    postgres: Database, store: EditStore
) -> None:
    message = r"lost its connection .*, so nothing of the change was kept: try again"
    with pytest.raises(StoreError, match=message), store.transaction():
        store.put(PERU)
        postgres.run(CUT)
        store.put(CHILE)
    assert targets(store) == []
    store.put(CHILE)
    assert targets(store) == ["Rome"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_connection_lost_while_committing_tells_the_truth(
    postgres: Database, store: Any, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute: Callable[..., Any] = store.database._connection.execute

    def cut(query: str, *values: Any) -> Any:
        if query != "COMMIT":
            return execute(query, *values)
        if kept:
            execute(query)
        postgres.run(CUT)
        return execute("COMMIT")

    monkeypatch.setattr(store.database._connection, "execute", cut)
    if kept:
        store.put(PERU)
    else:
        with pytest.raises(StoreError, match="so nothing of the change was kept"):
            store.put(PERU)
    assert targets(store) == (["Oslo"] if kept else [])


def test_a_transaction_whose_error_was_ignored_is_not_reported_as_done(store: Any) -> None:
    with pytest.raises(StoreError, match="none of it was kept"), store.transaction():
        store.put(PERU)
        with pytest.raises(StoreError), store.database.use():
            store.database.execute("SELECT 1/0")
    assert targets(store) == []


def test_a_change_is_noticed_within_a_second_although_the_connection_was_lost(
    postgres: Database, store: EditStore, address: str
) -> None:
    other = open_store(address)
    seen: list[float] = []
    watcher = threading.Thread(target=lambda: other.wait(0, 20) and seen.append(time.monotonic()))
    watcher.start()
    time.sleep(0.1)
    postgres.run(CUT)
    made = time.monotonic()
    store.put(PERU)
    watcher.join()
    assert seen and seen[0] - made < 1
    other.close()


@pytest.mark.slow
def test_acknowledged_changes_survive_a_server_that_dies_and_gateways_go_on(
    postgres: Database, store: EditStore, address: str
) -> None:
    other = open_store(address)
    store.put(PERU)
    postgres.stop()
    try:
        with pytest.raises(
            StoreError,
            match=r"cannot be reached .*: check the address, and that the server is running",
        ):
            store.put(CHILE)
        with pytest.raises(StoreError, match="cannot be reached"):
            other.wait(1, 0.3)
        found: list[bool] = []
        watcher = threading.Thread(target=lambda: found.append(other.wait(1, 20)))
        watcher.start()
    finally:
        postgres.start()
    store.put(CHILE)
    watcher.join()
    assert found == [True] and targets(other) == ["Oslo", "Rome"]
    postgres.stop(signal.SIGINT)
    postgres.start()
    assert targets(store) == ["Oslo", "Rome"]
    retire(store, 1)
    other.close()


def test_each_tenant_has_a_schema_of_its_own(postgres: Database) -> None:
    postgres.run('DROP SCHEMA IF EXISTS "drike-acme-2" CASCADE')
    with pytest.raises(StoreError, match="there is no store of edits"):
        open_store(postgres.url(), tenant="acme-2", create=False)
    tenant = open_store(postgres.url(), tenant="acme-2")
    tenant.put(PERU)
    tenant.close()
    assert postgres.run('SELECT count(*) FROM "drike-acme-2".drike_changes') == [(1,)]
    again = open_store(postgres.url(), tenant="acme-2", create=False)
    assert targets(again) == ["Oslo"]
    again.close()
    with pytest.raises(StoreError, match="there is no store of edits"):
        open_store(postgres.url(), create=False)


def test_a_gate_calibrated_in_the_database_is_taken_up_by_all_gateways(
    address: str, store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drike.encoders import HashingEncoder
    from drike.gates.calibrated import Calibrated
    from drike.gates.calibration import default_gate
    from drike.gateway.feed import EditFeed
    from tests.fakes.commands import run
    from tests.fakes.gateways import decided

    for name in ("Peru", "Chile", "Bolivia", "Ecuador", "Brazil", "Uruguay"):
        store.put(
            EditRecord(
                name, f"The capital of {name} is", "Oslo", negatives=(f"The mother of {name} is",)
            )
        )
    other = open_store(address)
    gateways = [EditFeed(one, encoder=lambda gate: HashingEncoder()) for one in (store, other)]
    shipped = replace(default_gate(), encoder="hashing")
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: shipped)
    for asked, expected in ((("--false-fire", ".5", "--confidence", ".5"), 6), (("--remove",), 0)):
        assert run("edits", "calibrate", "--store", address, *asked) == 0
        for gateway in gateways:
            gateway.follow_gate()
            assert (
                isinstance(gateway.gate, Calibrated)
                and gateway.gate.edits == expected
                and decided(gateway, "The capital of Peru is").matched
            )
    other.close()


@pytest.mark.slow
def test_an_edit_added_at_one_gateway_is_in_force_at_the_other_within_a_second(
    postgres: Database, address: str
) -> None:
    from tests.fakes.gateways import running
    from tests.fakes.upstreams import upstream

    def edited(gateway: Any) -> str | None:
        return gateway.chat("What is the capital of Peru?")[1].get("x-drike-edits")

    fields = {"subject": PERU.subject, "query": PERU.query, "target_new": PERU.target_new}
    with (
        upstream() as above,
        running(above.url, address) as one,
        running(above.url, address) as other,
    ):
        for lost in (False, True):
            assert edited(other) is None
            if lost:
                postgres.run(CUT)
            status, found = one.manage("POST", "/admin/v1/edits", fields)
            acknowledged = time.monotonic()
            assert status == 200, found
            [*_, change] = found["changes"]
            expected = f"{change['id']}@{change['version']}"
            assert edited(one) == expected, "in force where it was added, at once"
            while edited(other) != expected:
                assert time.monotonic() - acknowledged < 1
                time.sleep(0.005)
            print(f"{1e3 * (time.monotonic() - acknowledged):.0f} ms")
            one.manage("POST", f"/admin/v1/edits/{change['id']}/retire", {})
            while edited(other) or edited(one):
                assert time.monotonic() - acknowledged < 2


@pytest.mark.slow
def test_a_gateway_goes_on_without_its_database_and_reads_what_it_missed(
    postgres: Database, address: str
) -> None:
    from tests.fakes.gateways import running
    from tests.fakes.upstreams import upstream

    def edited(gateway: Any) -> str | None:
        return gateway.chat("What is the capital of Peru?")[1].get("x-drike-edits")

    with upstream() as above, running(above.url, address, PERU) as gateway:
        postgres.stop()
        try:
            wait_until(lambda: gateway.manage("GET", "/readyz")[0] != 200)
            assert edited(gateway) == "1@1"
            status, found = gateway.manage("POST", "/admin/v1/edits/1/retire", {})
            assert status == 503 and "cannot be reached" in found["error"]["message"]
        finally:
            postgres.start()
        writer = open_store(address)
        retire(writer, 1)
        writer.close()
        back = time.monotonic()
        while edited(gateway):
            assert time.monotonic() - back < 2
        while gateway.manage("GET", "/readyz")[0] != 200:
            assert time.monotonic() - back < 5


# Logs that were cut, other histories, and servers that say nothing


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM drike_changes WHERE number = 2",
        "DELETE FROM drike_changes",
        "DELETE FROM drike_settings WHERE name = 'head'",
        "UPDATE drike_settings SET value = '1 x' WHERE name = 'head'",
    ],
)
def test_a_log_that_is_cut_is_refused_when_opened_and_while_it_is_used(
    postgres: Database, store: EditStore, address: str, statement: str
) -> None:
    store.put(PERU)
    store.put(CHILE)
    seen = snapshot(store)
    postgres.run("ALTER TABLE drike_changes DISABLE TRIGGER ALL", statement, url=address)
    uses: tuple[Callable[[], object], ...] = (
        lambda: open_store(address), store.changes, lambda: retire(store, 1), lambda: store.put(PERU, supersede=True),
    )  # fmt: skip
    for use in (
        (*uses, lambda: snapshot(store, seen)) if "FROM drike_changes" in statement else uses[:2]
    ):
        with pytest.raises(StoreError, match=r"is damaged|there is no edit 1"):
            use()


def test_claims_that_were_lost_are_made_again_from_the_log(
    postgres: Database, store: EditStore, address: str
) -> None:
    store.put(PERU)
    before = postgres.run("SELECT * FROM drike_claims ORDER BY key", url=address)
    postgres.run("DELETE FROM drike_claims", url=address)
    other = open_store(address)
    with pytest.raises(ConflictError, match="contradicts edit 1"):
        other.put(replace(PERU, target_new="Rome"))
    other.put(CHILE)
    assert (
        postgres.run("SELECT * FROM drike_claims WHERE edit = 1 ORDER BY key", url=address)
        == before
    )
    other.close()


def test_a_database_with_another_history_is_read_anew_and_one_of_a_newer_drike_not_written(
    postgres: Database, store: EditStore, address: str
) -> None:
    from drike.gateway.feed import EditFeed

    tables = ("changes", "claims", "settings")
    store.put(PERU)
    backup = [f"CREATE TABLE old_{name} AS SELECT * FROM drike_{name}" for name in tables]
    postgres.run(*backup, url=address)
    store.put(CHILE)
    feed = EditFeed(store, Named())
    assert len(feed.index.edits) == 2
    restore = [
        f"DELETE FROM drike_{name}; INSERT INTO drike_{name} SELECT * FROM old_{name}"
        for name in tables
    ]
    off, on = (
        f"ALTER TABLE drike_changes {what} TRIGGER drike_log_only_grows"
        for what in ("DISABLE", "ENABLE")
    )
    postgres.run(off, *restore, on, url=address)
    feed.refresh()
    assert (feed.problem, feed.snapshot.revision, [*feed.index.edits]) == (None, 1, [1])
    postgres.run("UPDATE drike_schema SET version = 99", url=address)
    with pytest.raises(StoreError, match="was written by a newer drike"):
        store.put(CHILE)


@pytest.fixture
def frozen(postgres: Database) -> Iterator[Callable[[], None]]:
    """Freezes the server, which goes on after the test."""
    stopped: list[int] = []

    def freeze() -> None:
        assert postgres._process
        listing = "SELECT pid FROM pg_stat_activity WHERE application_name = 'drike'"
        pids = [int(str(pid)) for [pid] in postgres.run(listing)]
        for pid in (postgres._process.pid, *pids):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    yield freeze
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_one_thread_waits_for_a_silent_server_and_closing_waits_for_none(
    address: str, frozen: Callable[[], None]
) -> None:
    store = open_store(address, wait=0.2)
    waiting = threading.Thread(target=lambda: store.wait(0, 60), daemon=True)
    waiting.start()
    frozen()
    began = time.monotonic()
    with pytest.raises(StoreError, match="cannot be reached"):
        store.settings.get("x")
    assert time.monotonic() - began < 1.9, "no second connection is tried"

    def probe() -> None:
        with pytest.raises(StoreError):
            store.changes()

    threading.Thread(target=probe, daemon=True).start()
    time.sleep(0.05)
    for _ in range(20):
        with pytest.raises(StoreError, match="does not answer: try again"):
            store.settings.get("x")
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < 2.2


@pytest.mark.slow
def test_a_frozen_database_holds_up_neither_readiness_nor_health_nor_the_end(
    address: str, frozen: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fakes.gateways import running
    from tests.fakes.upstreams import upstream

    monkeypatch.setattr("tests.fakes.gateways.open_store", partial(open_store, wait=1.0))
    with upstream() as above, running(above.url, address, PERU) as gateway:
        frozen()
        began = time.monotonic()
        wait_until(lambda: gateway.manage("GET", "/readyz")[0] == 503, seconds=6)
        for path in ("health", "mode", "inbox", "inbox/1", "approvals", "edits/1"):
            status, found = gateway.manage("GET", f"/admin/v1/{path}")
            assert status == 503, found
        assert time.monotonic() - began < 18
        ending = time.monotonic()
    assert time.monotonic() - ending < 7


@pytest.mark.slow
def test_a_frozen_server_is_reported_in_time_and_keeps_nothing_of_what_was_given_up(
    postgres: Database, store: EditStore, address: str
) -> None:
    from tests.fakes.gateways import running
    from tests.fakes.upstreams import upstream

    fields = {"subject": CHILE.subject, "query": CHILE.query, "target_new": CHILE.target_new}
    with upstream() as above, running(above.url, address, PERU) as gateway:
        assert postgres._process
        listing = "SELECT pid FROM pg_stat_activity WHERE application_name = 'drike'"
        frozen = [postgres._process.pid, *(int(str(pid)) for [pid] in postgres.run(listing))]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert [gateway.manage("POST", "/admin/v1/edits", fields)[0] for _ in range(2)] == [
                503
            ] * 2
            assert (
                gateway.manage("GET", "/admin/v1/edits/1")[0] == 503
                and time.monotonic() - began < 20
            )
            assert gateway.chat("What is the capital of Peru?")[1]["x-drike-edits"] == "1@1"
            while gateway.manage("GET", "/readyz")[0] == 200:
                assert time.monotonic() - began < 40
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: gateway.manage("GET", "/readyz")[0] == 200)
        time.sleep(0.5)
        assert targets(store) == ["Oslo"]
