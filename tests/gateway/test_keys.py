"""Keys: changed by several at once, kept in a file or a database, and never lost unnoticed."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from drike.gateway.http.keys import KeyRole, Keys, KeysError, open_keys
from drike.stores.opening import open_store
from tests.fakes.commands import run
from tests.fakes.postgres_servers import Database
from tests.fakes.stores import PERU
from tests.fakes.tally import Tally

RACE = """
import sys
from pathlib import Path
from drike.gateway.http.keys import KeyRole, Keys
print("ready", flush=True)
act = sys.stdin.readline().split()
keys = Keys(Path(sys.argv[1]))
for id in act[1:]:
    print(keys.add("default", KeyRole.USE) if act[0] == "add" else keys.revoke(id).id, flush=True)
"""


def race(keys: Keys, adders: int, each: int, open_again: Callable[[], Keys]) -> None:
    """Add keys and revoke others in several threads; every answer must hold afterwards."""
    others = len(keys.keys)
    before = [keys.add("default", KeyRole.USE) for _ in range(adders * each)]
    held = {key.split("-")[1]: key for key in before}
    made: list[str] = []

    def add() -> None:
        with closing(open_again()) as own:
            made.extend(own.add("default", KeyRole.USE) for _ in range(each))

    def revoke(ids: list[str]) -> None:
        with closing(open_again()) as own:
            for id in ids:
                assert own.revoke(id).id == id

    parts = [list(held)[i::adders] for i in range(adders)]
    threads = [threading.Thread(target=revoke, args=(part,)) for part in parts]
    threads += [threading.Thread(target=add) for _ in range(adders)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    keys.refresh()
    assert len(made) == adders * each and all(map(keys.principal, made))
    assert not any(map(keys.principal, before)) and len(keys.keys) == len(made) + others


def test_of_keys_added_and_revoked_at_the_same_time_none_is_lost(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    race(keys, adders=3, each=6, open_again=lambda: Keys(keys.path))


@pytest.mark.reliability
def test_of_a_thousand_races_between_processes_none_loses_a_key(
    tmp_path: Path, tally: Tally
) -> None:
    tally("keys added and revoked by four processes at once", 1_000)
    path, rng = tmp_path / "edits.keys.json", random.Random(0)
    keys = Keys(path)
    valid = {(key := keys.add("default", KeyRole.USE)).split("-")[1]: key for _ in range(40)}
    for _ in range(25):
        children = [
            subprocess.Popen(
                [sys.executable, "-c", RACE, str(path)], stdin=-1, stdout=-1, text=True
            )
            for _ in range(4)
        ]
        leaving = rng.sample(sorted(valid), 20)
        acts = [
            ["revoke", *leaving[:10]],
            ["revoke", *leaving[10:]],
            ["add", *"1234567890"],
            ["add", *"1234567890"],
        ]
        for child in children:
            assert child.stdout and child.stdout.readline() == "ready\n"
        told = [
            child.communicate(" ".join(act) + "\n")[0].split()
            for child, act in zip(children, acts, strict=True)
        ]
        assert [child.returncode for child in children] == [0] * 4 and {*told[0], *told[1]} == {
            *leaving
        }
        for id in leaving:
            del valid[id]
        valid |= {key.split("-")[1]: key for key in told[2] + told[3]}
        keys.refresh()
        assert {key.id for key in keys.keys} == {*valid} and all(
            map(keys.principal, valid.values())
        )


def test_a_change_within_a_tick_of_the_clock_is_noticed(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    key = keys.add("default", KeyRole.USE)
    follower, status = Keys(keys.path), keys.path.stat()
    assert follower.principal(key)
    old = keys.path.read_bytes()
    keys.revoke(key.split("-")[1])
    keys.path.write_bytes(keys.path.read_bytes().ljust(len(old)))  # the same inode, size and time
    os.utime(keys.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    follower.refresh()
    assert not follower.principal(key)


def test_stores_and_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    keys.add("default", KeyRole.USE)
    with closing(open_store(tmp_path / "edits.db")) as store, store.transaction():
        store.put(PERU)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"edits.db", "edits.db-journal", "edits.keys.json"} <= modes.keys() and {
        *modes.values()
    } == {0o600}
    keys.path.chmod(0o640)
    keys.add("default", KeyRole.USE)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o640, "as its owner has set them"


def test_a_file_of_keys_that_was_there_before_and_is_gone_is_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "edits.db")
    open_store(store).close()
    assert (
        open_keys(store) is None
        and run("keys", "list", "--store", store) == 0
        and open_keys(store) is None
    )
    assert run("keys", "add", "--store", store) == 0
    found = open_keys(store)
    assert found and len(found.keys) == 1
    found.path.unlink()
    with pytest.raises(KeysError, match=r"edits.keys.json is gone: restore it, or make new keys"):
        open_keys(store)
    assert run("keys", "add", "--store", store) == 0 and open_keys(store)


def test_keys_in_another_file_are_remembered_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    store, elsewhere = str(tmp_path / "edits.db"), tmp_path / "secrets" / "keys.json"
    open_store(store).close()
    with pytest.raises(KeysError, match="there is no file of keys at"):
        open_keys(store, elsewhere)
    elsewhere.parent.mkdir()
    assert run("keys", "add", "--store", store, "--keys", str(elsewhere)) == 0
    found = open_keys(store, elsewhere)
    assert found and len(found.keys) == 1
    with pytest.raises(KeysError, match=r"secrets/keys.json is gone"):
        open_keys(store)  # without --keys


@pytest.mark.postgres
def test_keys_of_a_postgresql_store_are_in_its_database(
    postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = postgres.of(tmp_path)
    assert open_keys(store) is None
    (tmp_path / "edits.keys.json").write_text(json.dumps({"keys": []}))
    with pytest.raises(
        KeysError, match=r"are in its database, not in edits.keys.json: give it as --keys"
    ):
        open_keys(store)
    (tmp_path / "edits.keys.json").unlink()
    with (
        closing(open_keys(store, create=True) or pytest.fail()) as keys,
        closing(open_keys(store, create=True) or pytest.fail()) as other,
    ):
        assert not keys.known
        key = keys.add("shop", KeyRole.APPROVE)
        other.refresh()
        assert other.principal(key) and not [*tmp_path.iterdir()]
        race(keys, 2, 3, lambda: open_keys(store) or pytest.fail())
    with closing(open_keys(store) or pytest.fail()) as again:
        assert again.principal(key)
