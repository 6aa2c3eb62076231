"""Stopped runs, resumed again and again, end like uninterrupted ones (`killed_runs.py` compares them)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.tally import Tally

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of another process are set as Linux does it"
)

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Harness:
    """A process that runs one series after another. It has no threads, so that its runs can be forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.runs.killed_runs", "--lines"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT, cwd=ROOT
        )

    def check(self, *arguments: str, times: int) -> None:
        """Run a series; no run in it may differ or fail."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(*arguments, "--times", times, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "the harness ended without a result: see its error above"
        result = json.loads(line)
        print(line)
        assert not result["differing"] and not result["failed"]
        assert result["times"] >= times and result["resumed"] > 0
        assert result["requests"] <= result["allowed"]


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    """One process for all series of this file, as its imports take longer than a short series."""
    harness = Harness()
    yield harness
    harness.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "balanced", "evaluate"])
def test_a_killed_and_resumed_run_ends_like_an_uninterrupted_one(
    harness: Harness, command: str
) -> None:
    harness.check(command, times=1)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "balanced", "evaluate"])
def test_a_run_stopped_by_a_full_disk_and_resumed_ends_like_an_uninterrupted_one(
    harness: Harness, command: str
) -> None:
    harness.check(command, "--how", "full", times=2)


@pytest.mark.slow
def test_a_killed_served_run_resumes_without_repeating_paid_requests(harness: Harness) -> None:
    harness.check("train", "--served", times=2)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "balanced", "evaluate"])
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_killed_runs_resume_to_the_same_end(
    harness: Harness, command: str, seed: int, tally: Tally
) -> None:
    tally("killed runs", 20)
    harness.check(command, "--seed", str(100 + seed), times=20)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "balanced", "evaluate"])
def test_a_hundred_full_disk_runs_resume_to_the_same_end(
    harness: Harness, command: str, tally: Tally
) -> None:
    tally("full disks", 100)
    harness.check(command, "--how", "full", "--seed", "7", times=100)


@pytest.mark.reliability
def test_no_other_writer_leaves_a_partial_file_on_a_full_disk(tally: Tally) -> None:
    command = [sys.executable, "-m", "tests.runs.full_disks"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(result))
    tally("full disks", result["times"])
    assert not result["differing"] and not result["failed"] and done.returncode == 0
    assert result["times"] > 40


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_twenty_kills_on_the_embedded_and_a_served_model(
    harness: Harness, command: str, tally: Tally
) -> None:
    tally("killed runs", 40)
    harness.check(command, "--model", "embedded", "--seed", "7", times=20)
    harness.check(command, "--served", "--seed", "7", times=20)
