"""Any command line succeeds or is refused in one sentence, never with a traceback.

`make slow` tries 100 command lines, `make reliability` 10,000 (`command_lines.py` makes them up).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.fakes.tally import Tally

FEW, MANY = 100, 10_000


def check_command_lines(number: int, seed: int) -> None:
    """Run `command_lines.py` in a separate process, without keys, hub or the user's cache."""
    command = [
        sys.executable,
        "-m",
        "tests.cli.command_lines",
        "--number",
        str(number),
        "--seed",
        str(seed),
    ]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    print(json.dumps(result))
    assert done.returncode == 0 and not result["wrong"]
    assert result["tried"] == number


@pytest.mark.slow
def test_any_command_line_succeeds_or_is_refused_in_one_sentence() -> None:
    check_command_lines(FEW, 0)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_command_lines_succeed_or_are_refused(seed: int, tally: Tally) -> None:
    tally("made-up command lines", MANY // 10)
    check_command_lines(MANY // 10, seed)
