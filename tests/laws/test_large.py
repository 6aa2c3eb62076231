"""Work grows with the number of rows, not with its square: CounterFact's 21,919 rows are read, split and trained on."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from benchmarks.large_data import (
    ROWS,
    counterfact,
    invented_facts,
    measured,
    published_facts,
    steps,
)
from benchmarks.report import EDITORS, made_up, make_run
from drike.encoders import HashingEncoder
from drike.research.datasets import description, load
from drike.research.editors.pool import Pool
from drike.research.evaluation.metrics import counted, summary_of
from tests.datasets.test_datasets import FLAT
from tests.fakes.commands import run

SECONDS, MEGABYTES = 90, 1500


def written(folder: Path, rows: int) -> Path:
    """A file in CounterFact's form, of published facts where they are at hand."""
    facts = (
        published_facts(FLAT)
        if all(file.is_file() for file in FLAT)
        else invented_facts(random.Random(0))
    )
    path = folder / f"{rows}.json"
    path.write_text(json.dumps(counterfact(rows, facts)), "utf-8")
    return path


def seconds_of(path: Path) -> float:
    """CPU seconds of reading, inspecting and splitting a file, and of demonstrations for 20 edits."""
    began = time.process_time()
    data = load(path)
    assert any("cut to a known wording" in line for line in description(data))
    split = data.split()
    Pool(split.demonstrations, HashingEncoder(16)).candidates(
        [case.edit for case in split.train[:20]]
    )
    return time.process_time() - began


@pytest.mark.reliability
def test_four_times_the_rows_take_about_four_times_as_long(tmp_path: Path) -> None:
    few, many = written(tmp_path, 400), written(tmp_path, 1600)
    assert min(seconds_of(many) for _ in range(2)) < 8 * min(seconds_of(few) for _ in range(3))


@pytest.mark.reliability
def test_all_of_counterfact_fits_time_and_memory(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    for step, arguments in steps(path, tmp_path / "run").items():
        seconds, memory = measured(arguments)
        print(f"{step}: {seconds:.1f} s, {memory:,.0f} MB")
        assert seconds <= SECONDS and memory <= MEGABYTES


@pytest.mark.reliability
def test_the_intervals_of_2_000_cases_take_less_than_half_a_second() -> None:
    """So those of 6 editors take less than 3 s."""
    outcomes = list(made_up("DR-IKE", 2000))
    began = time.process_time()
    summary_of(counted(outcomes))
    assert time.process_time() - began < 0.5


def test_the_made_up_run_can_be_reported(tmp_path: Path) -> None:
    make_run(tmp_path, 3, EDITORS)
    assert run("report", str(tmp_path)) == 0


@pytest.mark.reliability
def test_a_report_of_20_000_cases_fits_time_and_memory(tmp_path: Path) -> None:
    """A sixth of the time is that of parsing JSON, on whatever machine; so the bound is a multiple of that."""
    make_run(tmp_path, 20_000, EDITORS)
    before = parsing(tmp_path)
    seconds, memory = measured(("-m", "drike", "report", str(tmp_path)))
    parsed = max(before, parsing(tmp_path))
    print(
        f"drike report, 20,000 cases x {len(EDITORS)} editors: {seconds:.1f} s, {memory:,.0f} MB; JSON: {parsed:.1f} s"
    )
    assert seconds <= 10 * parsed and memory <= 1000


def parsing(run: Path) -> float:
    """Seconds of parsing the outcomes of a run, and nothing else."""
    began = time.perf_counter()
    for file in sorted((run / "outcomes").iterdir()):
        for line in file.read_bytes().splitlines():
            json.loads(line)
    return time.perf_counter() - began
