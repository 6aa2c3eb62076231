"""Runs that are killed with SIGKILL or hit a full disk resume to the same results (`killing.py` stops them)."""

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
    """Run a series in a process of its own, which starts no threads before it forks. Nothing may differ or fail."""
    result = result_of(HARNESS, *arguments, "--times", str(times))
    assert result["times"] >= times and result["resumed"] > 0
    assert result["requests"] <= result["allowed"]


def result_of(script: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(script), *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(result))
    assert not result["differing"] and not result["failed"] and done.returncode == 0
    return result


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_killed_runs_resume_to_the_results_of_an_unstopped_run(command: str) -> None:
    check(command, times=2)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_runs_stopped_by_a_full_disk_resume_to_the_results_of_an_unstopped_run(command: str) -> None:
    check(command, "--how", "full", times=2)


def test_killed_runs_on_a_served_model_repeat_no_finished_request() -> None:
    check("train", "--served", times=2)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_killed_runs_resume(command: str, seed: int) -> None:
    check(command, "--seed", str(100 + seed), times=20)


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_hundred_runs_on_full_disks_resume(command: str) -> None:
    check(command, "--how", "full", "--seed", "7", times=100)


@pytest.mark.reliability
def test_every_other_writer_leaves_the_old_file_or_the_new_on_a_full_disk() -> None:
    assert result_of(HARNESS.with_name("filling.py"))["times"] > 40


@pytest.mark.reliability
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_killed_runs_on_other_models_resume(command: str) -> None:
    check(command, "--model", "embedded", "--seed", "7", times=20)
    check(command, "--served", "--seed", "7", times=20)
