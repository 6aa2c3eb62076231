"""Runs that were killed with SIGKILL, again and again, end as if they had not been (`killing.py` does it)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set as Linux does it")

HARNESS = Path(__file__).with_name("killing.py")


def check(*arguments: str, times: int) -> None:
    """A series in a process of its own, which has no threads but the forks' own. Nothing may differ or fail."""
    told = told_by(HARNESS, *arguments, "--times", str(times))
    assert told["times"] >= times and told["taken_up"] > 0
    assert told["requests"] <= told["allowed"]


def told_by(script: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(script), *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(told))
    assert not told["differing"] and not told["failed"] and done.returncode == 0
    return told


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_killed_and_resumed_run_ends_like_an_uninterrupted_one(command: str) -> None:
    check(command, times=2)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_run_stopped_by_a_full_disk_and_resumed_ends_like_an_uninterrupted_one(command: str) -> None:
    check(command, "--how", "full", times=2)


def test_a_killed_served_run_resumes_without_repeating_paid_requests() -> None:
    check("train", "--served", times=2)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_killed_runs_resume_to_the_same_end(command: str, seed: int) -> None:
    check(command, "--seed", str(100 + seed), times=20)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_hundred_full_disk_runs_resume_to_the_same_end(command: str) -> None:
    check(command, "--how", "full", "--seed", "7", times=100)


@pytest.mark.reliability
def test_no_other_writer_leaves_a_partial_file_on_a_full_disk() -> None:
    assert told_by(HARNESS.with_name("filling.py"))["times"] > 40


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_twenty_kills_on_the_embedded_and_a_served_model(command: str) -> None:
    check(command, "--model", "embedded", "--seed", "7", times=20)
    check(command, "--served", "--seed", "7", times=20)
