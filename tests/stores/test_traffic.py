"""Counts in a store: added up by whoever counts, kept, bounded, and made in stores that had none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from drike.edits.record import StoreError
from drike.stores.edit_store import EditStore
from drike.stores.sqlite import SqliteStore
from drike.stores.traffic import MODELS, OTHER, Counted, TrafficCounts
from tests.fakes.stores import NOON, PERU, Opener

DAY = NOON.date()


def counted(what: str = "new", day: str = "2026-11-22", edit: int = 1, model: str = "m") -> Counted:
    return Counted(day, edit, 1, model, "on", what)


def test_numbers_add_up_and_outlive_their_store(opener: Opener, tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(opener(path)) as store:
        assert TrafficCounts(store.database).since(DAY) == {}
        store.put(PERU)
        TrafficCounts(store.database).add(Counter({counted(): 2, counted("old"): 1}))
        TrafficCounts(store.database).add(Counter({counted(): 3, counted(edit=2): 2**40}))
    with closing(opener(path)) as store:
        assert TrafficCounts(store.database).since(DAY) == {
            counted(): 5,
            counted("old"): 1,
            counted(edit=2): 2**40,
        }
        assert TrafficCounts(store.database).since(date(2026, 11, 23)) == {}
        assert (
            store.put(PERU.__class__("Chad", "The capital of Chad is", "Rome"))[0].id == 2
        )  # the log is as it was


def test_many_rows_are_added_at_once(store: EditStore) -> None:
    many = Counter({counted(edit=edit): edit for edit in range(1, 2_001)})
    TrafficCounts(store.database).add(many)
    assert TrafficCounts(store.database).since(DAY) == many


def test_a_day_tells_so_many_models_apart_and_no_more(store: EditStore) -> None:
    for begin in (0, 40):  # of two gateways
        TrafficCounts(store.database).add(
            Counter({counted(model=f"m{i:02}"): 1 for i in range(begin, begin + 40)})
        )
    TrafficCounts(store.database).add(
        Counter({counted(model="m00"): 1, counted(day="2026-11-23", model="late"): 1})
    )
    by_model = {
        key.model: number for key, number in TrafficCounts(store.database).since(DAY).items()
    }
    assert len(by_model) == MODELS + 2 and by_model[OTHER] == 80 - MODELS
    assert by_model["m00"] == 2 and by_model["late"] == 1


def test_old_counts_are_dropped(store: EditStore) -> None:
    TrafficCounts(store.database).add(Counter({counted(day="2025-01-01"): 1}))
    TrafficCounts(store.database).add(Counter({counted(day="2026-11-22"): 1}))
    assert set(TrafficCounts(store.database).since(date(2020, 1, 1))) == {counted()}


def test_what_fails_in_the_middle_adds_nothing(store: EditStore) -> None:
    TrafficCounts(store.database).add(Counter({counted(): 1}))
    broken = {counted(edit=1_000_000)._replace(what=None): 1}  # in the second statement
    with pytest.raises(StoreError):
        TrafficCounts(store.database).add(
            Counter({counted(edit=edit): 1 for edit in range(1, 700)} | broken)
        )
    assert TrafficCounts(store.database).since(DAY) == {counted(): 1}


ADDING = """
import sys
from collections import Counter
from drike.stores.opening import open_store
from drike.stores.traffic import Counted, TrafficCounts
store = open_store(sys.argv[1])
for i in range(int(sys.argv[2])):
    TrafficCounts(store.database).add(Counter({Counted("2026-11-22", 1, 1, "m", "on", "new"): 1}))
    print(i + 1, flush=True)
"""


def test_two_processes_lose_nothing_and_a_killed_one_only_what_it_had_not_added(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "edits.db")
    SqliteStore(Path(path)).close()
    command = [sys.executable, "-c", ADDING, path]
    whole = [subprocess.Popen([*command, "40"], stdout=subprocess.DEVNULL) for _ in range(2)]
    killed = subprocess.Popen([*command, "100000"], stdout=subprocess.PIPE, text=True)
    assert killed.stdout
    acknowledged = [next(killed.stdout) for _ in range(20)]
    os.kill(killed.pid, signal.SIGKILL)
    rest = killed.stdout.read().splitlines()
    assert [process.wait(60) for process in whole] == [0, 0]
    [number] = TrafficCounts(SqliteStore(Path(path)).database).since(DAY).values()
    least = 80 + int([*acknowledged, *rest][-1])
    assert least <= number <= least + 1  # one may have been added and not been acknowledged
