"""Edits in force, kept up to date with the store, its gate and the time."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from drike.edits.record import EditRecord, StoreError
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.calibration import to_json
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.gateway.feed import EditFeed
from drike.gateway.options import Mode, Switch, switch, switches
from drike.stores.edit_store import EditStore
from drike.stores.moves import retire
from drike.stores.sqlite import SqliteStore
from tests.fakes.gateways import ENTRY, Running, decided, running
from tests.fakes.indexes import GATE
from tests.fakes.upstreams import Recorded
from tests.fakes.waiting import HANG, wait_until

ABOUT = "What is the capital of Peru?"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("Who governs New  York?", True),
        ("Who governs NÉW YORK?", True),
        ("Who governs New-York?", True),
        ("Who governs New\u00a0York?", True),
        ("Who governs Ｎｅｗ Ｙｏｒｋ?", True),
        ("Who governs New\nYork?", True),
        ("Who governs 京都の市?", True),
        ("Who governs 東京都?", False),
        ("What do New Yorkers eat?", False),
        ("x " * 20_000 + "New York" + " x" * 20_000, True),
    ],
)
def test_enforced_edits_are_named_as_the_gate_reads_names(
    query: str, named: bool, tmp_path: Path
) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(
            EditRecord(
                "New York", "New York is governed by", "Ann", aliases=("京都",), enforce=True
            )
        )
        store.put(EditRecord("Peru", "Peru is governed by", "Ann"))
        feed = EditFeed(store, Named())
        assert feed.enforced(["Hello", query], {}) == bool(decided(feed, query).matched) == named
        assert not feed.enforced(["Who governs Peru?"], {})


def test_a_change_of_another_process_is_in_force_soon(gateway: Running) -> None:
    other = SqliteStore(Path(gateway.feed.store.name))
    [added] = other.put(EditRecord("Togo", "The capital of Togo is", "Rome"))
    other.close()
    wait_until(lambda: gateway.chat("Where is Togo?")[1]["x-drike-scope"] != "abstained")
    assert gateway.chat("Where is Togo?")[1]["x-drike-edits"] == f"{added.id}@1"


def test_a_damaged_store_keeps_the_edits_and_is_reported(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        path = tmp_path / "edits.db"
        path.write_bytes(b"damaged!" * 4096)
        wait_until(lambda: gateway.manage("GET", "/readyz")[0] != 200)
        status, answer = gateway.manage("GET", "/readyz")
        assert status == 503 and str(path) in answer["problems"][0]
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "fired"


def test_a_mode_that_was_read_earlier_never_takes_the_place_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        feed = EditFeed(store, Named())
        has_read = threading.Event()
        may_go_on = threading.Event()

        def slow_switches(store: EditStore) -> Sequence[Switch]:
            made = switches(store)
            if threading.current_thread() is earlier:
                has_read.set()
                may_go_on.wait(HANG)
            return made

        monkeypatch.setattr("drike.gateway.feed.switches", slow_switches)
        earlier = threading.Thread(target=feed.refresh)
        later = threading.Thread(target=feed.refresh)
        earlier.start()
        assert has_read.wait(HANG)
        switch(store, Switch(Mode.OFF))
        later.start()
        later.join(0.2)  # it waits for the earlier one, or ends before it
        may_go_on.set()
        for thread in (earlier, later):
            thread.join(HANG)
        assert feed.switch.mode is Mode.OFF


def test_a_problem_of_a_store_is_named_once(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, gate=None) as gateway:
        (tmp_path / "edits.db").write_bytes(b"damaged!" * 4096)
        wait_until(lambda: gateway.feed.problem and gateway.feed.gate_problem)
        problems = gateway.manage("GET", "/readyz")[1]["problems"]
        assert len(problems) == len(set(problems)) > 0


def test_a_gate_calibrated_meanwhile_decides_without_a_restart(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: GATE)
    strict = replace(GATE, threshold=1.0, grey=(1.0, 1.0))
    with (
        running(above.url, tmp_path, ENTRY, gate=None) as gateway,
        closing(SqliteStore(tmp_path / "edits.db")) as store,
    ):
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "fired"
        store.save_gate(to_json(strict))
        wait_until(lambda: gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained")
        store.save_gate("{}")
        wait_until(lambda: gateway.manage("GET", "/readyz")[0] != 200)
        assert "holds no calibration" in gateway.manage("GET", "/readyz")[1]["problems"][0]
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained"
        store.save_gate(to_json(replace(strict, threshold=0.0)))
        wait_until(
            lambda: (
                not (
                    gateway.chat(ABOUT)[1]["x-drike-scope"] != "fired"
                    or gateway.manage("GET", "/readyz")[0] != 200
                )
            )
        )


def test_edits_of_other_processes_do_not_wait_while_a_new_gate_is_prepared(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: GATE)
    with (
        running(above.url, tmp_path, ENTRY, gate=None) as gateway,
        closing(SqliteStore(tmp_path / "edits.db")) as store,
    ):
        preparing, prepared = threading.Event(), threading.Event()

        def slow(gate: Gate) -> HashingEncoder:
            preparing.set()
            assert prepared.wait(2 * HANG)
            return HashingEncoder()

        gateway.feed.live.encoder_of_gate = slow
        store.save_gate(to_json(replace(GATE, threshold=0.3)))
        assert preparing.wait(HANG)
        retire(store, 1)
        wait_until(lambda: gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained")
        prepared.set()


def test_no_query_is_looked_at_after_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("drike.gateway.feed.time", clock)

    class Slow:
        def decide(self, query: str, index: EditIndex) -> Decision:
            seen.append(query)
            clock.now += 5.0
            return Decision(query)

    feed = EditFeed(SqliteStore(tmp_path / "edits.db"), Slow())
    decided(feed, "first", until=2.0)
    with pytest.raises(TimeoutError):
        decided(feed, "second", until=2.0)
    assert seen == ["first"] and decided(feed, "third").query == "third"
    feed.close()


def test_edits_begin_and_end_to_hold_without_a_change_of_the_store(tmp_path: Path) -> None:
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 3, 5)]
    store = SqliteStore(tmp_path / "edits.db")
    store.put(replace(ENTRY, valid_from="2026-01-02", valid_to="2026-01-04"))
    now = times[0]
    feed = EditFeed(store, Named(), clock=lambda: now)
    in_force = []
    for now in times:  # noqa: B007 - the clock reads it
        feed.refresh()
        in_force.append(bool(decided(feed, ABOUT).matched))
    assert in_force == [False, True, False]


def follow(feed: EditFeed, other: Path, path: Path, *, rename: bool) -> None:
    """Put a copy of another file in the place of the feed's store, and let the feed look."""
    if rename:
        shutil.copy(other, path.with_suffix(".copy")).replace(path)
    else:
        path.write_bytes(other.read_bytes())
    feed.refresh()


@pytest.mark.parametrize("rename", [True, False])
def test_a_store_that_was_replaced_is_read_anew_with_its_gate_and_earlier_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename: bool
) -> None:
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: GATE)
    path, backup, forked = (tmp_path / name for name in ("edits.db", "backup.db", "forked.db"))
    with closing(SqliteStore(path)) as store:
        store.put(ENTRY)
        shutil.copy(path, backup)
        shutil.copy(path, forked)
        store.put(EditRecord("Mali", "The capital of Mali is", "Kyiv"))
        store.save_gate(to_json(replace(GATE, threshold=0.3)))
        with closing(SqliteStore(forked)) as other:
            retire(other, 1)
        feed = EditFeed(store, encoder=lambda gate: HashingEncoder())
        assert len(feed.index.edits) == 2 and feed.gate == replace(GATE, threshold=0.3)
        follow(feed, backup, path, rename=rename)
        assert (feed.problem, feed.snapshot.revision, [*feed.index.edits]) == (None, 1, [1])
        assert feed.gate == GATE and decided(feed, ABOUT).matched
        store.put(EditRecord("Togo", "The capital of Togo is", "Rome"))
        feed.refresh()
        with closing(SqliteStore(path)) as again:
            assert len(again.changes()) == feed.snapshot.revision == 2, (
                "what is written, is in the new file"
            )
        follow(feed, forked, path, rename=rename)
        assert feed.snapshot.revision == 2 and not feed.index.edits, (
            "as many changes, but other ones"
        )
        path.rename(tmp_path / "away.db")
        feed.refresh()
        assert feed.problem and "is gone: put it back" in feed.problem
        with pytest.raises(StoreError, match="is gone"):
            store.put(ENTRY)


def test_a_store_that_a_newer_drike_has_changed_is_no_longer_written(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as file:
        store.put(ENTRY)
        feed = EditFeed(store, Named())
        file.execute("PRAGMA user_version = 99")
        with pytest.raises(StoreError, match="was written by a newer drike: update drike"):
            retire(store, 1)
        feed.refresh()
        assert feed.problem and "newer drike" in feed.problem and decided(feed, ABOUT).matched


def test_a_clock_that_is_set_back_takes_edits_back_that_do_not_hold_yet(tmp_path: Path) -> None:
    now = datetime(2026, 1, 3, tzinfo=UTC)
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(replace(ENTRY, valid_from="2026-01-02"))
        feed = EditFeed(store, Named(), clock=lambda: now)
        assert decided(feed, ABOUT).matched
        now = datetime(2026, 1, 1, tzinfo=UTC)
        feed.refresh()
        assert not decided(feed, ABOUT).matched
