"""Any command line succeeds or is refused in one sentence, never with a traceback.

`make slow` tries 100 command lines, `make reliability` 10,000 (`command_lines.py` makes them up).
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drike.encoders import HashingEncoder
from drike.errors import DataError, ModelError, PoolError
from drike.models.protocols import Request
from drike.research import datasets
from drike.research.datasets import description
from drike.research.datasets.dataset import SplitIds
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.runs.files import append, read_outcomes
from tests.datasets.test_datasets import flat_row, row
from tests.datasets.test_forms import group, known_row, zsre_row
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import Handler, connect, echoed, serve, serving, usage
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
