"""Runs that were killed with SIGKILL, again and again, end as if they had not been (`killing.py` does it)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("killing.py")


def check(*arguments: str, kills: int) -> None:
    """A series in a process of its own, which has no threads but the forks' own. Nothing may differ or fail."""
    command = [sys.executable, str(HARNESS), *arguments, "--kills", str(kills)]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    print(json.dumps(told))
    assert not told["differing"] and not told["failed"] and done.returncode == 0
    assert told["kills"] >= kills and told["taken_up"] > 0
    assert told["requests"] <= told["allowed"]


def test_a_training_that_is_killed_ends_as_if_it_had_not_been() -> None:
    check("train", kills=20)


def test_nor_does_a_model_with_weights_or_behind_a_socket_notice() -> None:
    check("train", "--model", "embedded", kills=2)
    check("train", "--served", kills=4)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_kills_of_trainings(seed: int) -> None:
    check("train", "--seed", str(100 + seed), kills=20)


@pytest.mark.reliability
def test_twenty_kills_of_trainings_on_other_models() -> None:
    check("train", "--model", "embedded", "--seed", "7", kills=20)
    check("train", "--served", "--seed", "7", kills=20)
