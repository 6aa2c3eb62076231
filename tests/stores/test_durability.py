"""Laws of stores whose writers are killed, run out of space, or write at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import postgres_servers
from tests.fakes.tally import Tally

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="writers are forks, with limits as Linux sets them"
)


def run_series(how: str, times: int, seed: int = 0, *options: str) -> dict[str, Any]:
    """Run a series in a process of its own, which has no threads and may fork."""
    command = [
        sys.executable,
        "-m",
        "tests.stores.killed_writers",
        how,
        "--times",
        str(times),
        "--seed",
        str(seed),
        *options,
    ]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=root)
    assert done.stdout, done.stderr
    print(done.stdout)
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result["wrong"] and done.returncode == 0 and result["acknowledged"] > 0
    return result


@linux
@pytest.mark.parametrize("how", ["kill", "full", "share", "move"])
@pytest.mark.sampled(2)
def test_acknowledged_changes_stay_and_others_leave_nothing(how: str) -> None:
    run_series(how, times=1 if how in ("share", "move") else 3)


without_server = pytest.mark.skipif(
    bool(postgres_servers.why_missing()), reason=postgres_servers.why_missing()
)


@linux
@without_server
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("how", ["kill", "share", "move"])
def test_a_server_keeps_acknowledged_changes_and_nothing_of_others(how: str) -> None:
    run_series(how, 2, 0, "--postgres")


@linux
@pytest.mark.reliability
@pytest.mark.parametrize(
    "options", [(), pytest.param(("--postgres",), marks=[pytest.mark.postgres, without_server])]
)
def test_a_thousand_killed_writers_lose_no_acknowledged_change(
    options: tuple[str, ...], tally: Tally
) -> None:
    tally("killed writers of a store", 1000)
    assert run_series("kill", 1000, 1, *options)["in_a_change"] > 300


@linux
@pytest.mark.reliability
@pytest.mark.parametrize(
    "options", [(), pytest.param(("--postgres",), marks=[pytest.mark.postgres, without_server])]
)
def test_fifty_pairs_of_writers_lose_nothing_and_never_contradict_each_other(
    options: tuple[str, ...], tally: Tally
) -> None:
    tally("pairs of writers of a store", 50)
    run_series("share", 50, 1, *options)


@linux
@pytest.mark.reliability
@pytest.mark.parametrize(
    "options", [(), pytest.param(("--postgres",), marks=[pytest.mark.postgres, without_server])]
)
def test_fifty_pairs_of_people_put_nothing_unapproved_in_use(
    options: tuple[str, ...], tally: Tally
) -> None:
    tally("pairs of writers that approve each other's edits", 50)
    run_series("move", 50, 1, *options)


@linux
@pytest.mark.reliability
def test_two_hundred_full_disks_lose_nothing(tally: Tally) -> None:
    tally("full disks", 200)
    run_series("full", times=200, seed=1)
