"""Recipes match their list in recipes/README.md; they parse, find drike, and repeat no finished step."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from drike.research.runs.folders import has_begun

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
SHELL = shutil.which("sh")


@dataclass(frozen=True)
class Study:
    """A row of the list: a recipe, the models and data that it uses, and of each model the trainings and editors."""

    name: str
    models: list[str]
    data: list[str]
    trainings: int
    editors: int


def listed() -> list[Study]:
    rows = re.findall(
        r"^\| \[(\w+)\.sh\]\(\1\.sh\) (\|.*) \|$",
        (RECIPES / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    cells = [(name, [cell.strip() for cell in rest.split("|")[1:]]) for name, rest in rows]
    names = lambda cell: re.findall(r"`([^`]+)`", cell)  # noqa: E731
    return [Study(name, names(of[2]), names(of[3]), int(of[4]), int(of[5])) for name, of in cells]


STUDIES = listed()

pytestmark = pytest.mark.skipif(SHELL is None, reason="no POSIX shell here")


def sh(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR")
    }
    return subprocess.run(
        ["sh", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """Write a fake drike that records its arguments and creates the run.json and split.json of a run."""
    path = tmp_path / "drike"
    path.write_text(
        '#!/bin/sh\necho "$@" >>"$LOG"\nwhile [ $# -gt 0 ]; do case $1 in --out) out=$2 ;; esac; shift; done\n'
        'case ${out:-} in ""|*.html) exit 0 ;; esac\nmkdir -p "$out/one"\n: >"$out/run.json"; : >"$out/summary.json"\n'
        'echo \'{"train": ["5"], "test": ["77", "8"]}\' >"$out/split.json"\n'
    )
    path.chmod(0o755)
    return path


def test_studies_and_recipes_correspond_one_to_one() -> None:
    named = {RECIPES / f"{one.name}.sh" for one in STUDIES}
    assert named == set(RECIPES.glob("*.sh")) - {RECIPES / "common.sh"}
    assert len({one.name for one in STUDIES}) == len(STUDIES)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_recipes_are_valid_shell(path: Path) -> None:
    done = sh("-n", str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("one", STUDIES, ids=lambda one: one.name)
def test_a_recipe_uses_the_listed_models_and_data(one, echo: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "log"
    done = sh(
        str(RECIPES / f"{one.name}.sh"), DRIKE=str(echo), RUNS=str(tmp_path / "runs"), LOG=str(log)
    )
    assert done.returncode == 0, done.stderr
    calls = log.read_text("utf-8").splitlines()
    asked = " ".join(call for call in calls if call.startswith("train"))
    assert set(re.findall(r"--model (\S+)", asked)) == set(one.models)
    assert set(re.findall(r"--data (\S+)", asked)) == set(one.data)
    for paper in (
        "--edits 300",
        "--test 100",
        "--epochs 5",
        "--policy-encoder google/bert_uncased_L-4_H-512_A-8",
    ):
        full = [call for call in calls if call.startswith("train") and "--subset" not in call]
        assert sum(paper in call for call in full) == len(full)
    trainings = sum(call.startswith("train") for call in calls)
    assert trainings == one.trainings * len(one.models)
    evaluated = [
        len(re.findall(r"[^ ,]+", " ".join(re.findall(r"--(?:editors|sigmas) (\S+)", call)))) for call in calls
        if call.startswith("evaluate")
    ]  # fmt: skip
    if evaluated:
        assert sum(evaluated) == one.editors * len(one.models)


@pytest.mark.parametrize("one", STUDIES, ids=lambda one: one.name)
def test_a_recipe_with_model_embedded_uses_no_other_model(one, echo: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "log"
    where = {
        "DRIKE": str(echo),
        "RUNS": str(tmp_path / "runs"),
        "LOG": str(log),
        "MODEL": "embedded",
    }
    assert sh(str(RECIPES / f"{one.name}.sh"), **where).returncode == 0
    first = log.read_text("utf-8").splitlines()
    asked = " ".join(call for call in first if call.startswith("train"))
    assert set(re.findall(r"--(?:model|data) (\S+)", asked)) == {"embedded", "tinyfacts"}
    assert "--edits 40" in asked and "bert" not in asked
    log.unlink()
    assert sh(str(RECIPES / f"{one.name}.sh"), **where).returncode == 0
    again = log.read_text("utf-8").splitlines()
    assert {call.split()[0] for call in again} <= {"report"}, "finished steps must not be repeated"


def test_a_recipe_stops_at_the_first_failing_step(tmp_path: Path) -> None:
    failing = tmp_path / "drike"
    failing.write_text('#!/bin/sh\necho "$1" >>"$LOG"\nexit 3\n')
    failing.chmod(0o755)
    where = {
        "DRIKE": str(failing),
        "RUNS": str(tmp_path / "runs"),
        "LOG": str(tmp_path / "log"),
        "MODEL": "embedded",
    }
    assert sh(str(RECIPES / "table2.sh"), **where).returncode == 3
    assert (tmp_path / "log").read_text("utf-8") == "train\n"


RECORDS = ("episodes.jsonl", "outcomes/ike.jsonl")


@pytest.mark.parametrize("record", ["", *RECORDS])
def test_a_recipe_resumes_stopped_runs_and_restarts_empty_ones(
    record: str, echo: Path, tmp_path: Path
) -> None:
    log, torn = tmp_path / "log", tmp_path / "runs" / "embedded-tinyfacts-40x2-test20-seed0"
    torn.mkdir(parents=True)
    (torn / "run.json").touch()
    (torn / "split.json").write_text('{"test": ["1"]}', "utf-8")
    if record:
        (torn / record).parent.mkdir(exist_ok=True)
        (torn / record).touch()
    assert has_begun(torn) == bool(record), (
        "drike and the recipes must agree on which runs have records"
    )
    where = {
        "DRIKE": str(echo),
        "RUNS": str(tmp_path / "runs"),
        "LOG": str(log),
        "MODEL": "embedded",
    }
    done = sh(str(RECIPES / "figure3.sh"), **where)
    assert done.returncode == 0, done.stderr
    first = log.read_text("utf-8").splitlines()[0]
    assert first == f"train --resume {torn}" if record else first.endswith(f"--out {torn}")
    log.unlink()
    assert sh(str(RECIPES / "figure3.sh"), **where).returncode == 0
    assert log.read_text("utf-8").startswith("report "), "a resumed run must count as finished"


def test_table3_skips_a_failing_model_and_retries_it_next_time(echo: Path, tmp_path: Path) -> None:
    fails_on_qwen = tmp_path / "fails"
    fails_on_qwen.write_text(
        f'#!/bin/sh\ncase "$*" in *"--model Qwen"*) exit 1 ;; esac\nexec {echo} "$@"\n'
    )
    fails_on_qwen.chmod(0o755)
    where = {"RUNS": str(tmp_path / "runs"), "LOG": str(tmp_path / "log")}
    ended = sh(str(RECIPES / "table3.sh"), **where, DRIKE=str(fails_on_qwen))
    assert ended.returncode == 1 and "Qwen/Qwen2.5-7B-Instruct Qwen/Qwen2.5-1.5B" in ended.stderr
    calls = (tmp_path / "log").read_text("utf-8").splitlines()
    assert [call.split()[0] for call in calls] == ["train", "evaluate"] * 4 + ["report"]
    assert calls[-1].count("-table3 ") == 4
    (tmp_path / "log").unlink()
    assert sh(str(RECIPES / "table3.sh"), **where, DRIKE=str(echo)).returncode == 0
    calls = (tmp_path / "log").read_text("utf-8").splitlines()
    assert [call.split()[0] for call in calls] == ["train", "evaluate"] * 2 + ["report"], (
        "only failed steps are repeated"
    )
    assert calls[-1].count("-table3 ") == 6


def test_a_spending_limit_is_shared_by_all_models_of_a_recipe(echo: Path, tmp_path: Path) -> None:
    spends = tmp_path / "spends"
    usage = json.dumps(
        {part: {"money": money} for part, money in {"training": 0.75, "probe": None}.items()},
        indent=2,
    )
    spends.write_text(
        f'#!/bin/sh\n{echo} "$@"\nwhile [ $# -gt 0 ]; do case $1 in --out) out=$2 ;; esac; shift; done\n'
        f"case $out in *.html) ;; *) echo '{usage}' >\"$out/usage.json\" ;; esac\n"
    )
    spends.chmod(0o755)
    where = {"RUNS": str(tmp_path / "runs"), "LOG": str(tmp_path / "log"), "DRIKE": str(spends)}
    prices = {"MAX_COST": "2", "PRICE_IN": "0.1", "PRICE_OUT": "0.4"}
    assert (
        sh(str(RECIPES / "table3.sh"), **where, **prices, MODEL="openai:one openai:two").returncode
        == 0
    )
    calls = (tmp_path / "log").read_text("utf-8").splitlines()
    assert [re.findall(r"--max-cost (\S+)", call) for call in calls] == [
        ["2"],
        ["1.25"],
        ["0.5"],
        ["0"],
        [],
    ]
    assert all("--price-in 0.1 --price-out 0.4" in call for call in calls[:4])


def test_numerical_edits_always_come_from_counterfact(echo: Path, tmp_path: Path) -> None:
    where = {
        "DRIKE": str(echo),
        "RUNS": str(tmp_path / "runs"),
        "LOG": str(tmp_path / "log"),
        "DATA": "mine.json",
    }
    assert sh(str(RECIPES / "table8.sh"), **where).returncode == 0
    assert "--subset" not in (tmp_path / "log").read_text("utf-8")


@pytest.mark.slow
def test_the_figure3_recipe_runs_on_the_reader_and_its_page_has_the_prompts(tmp_path: Path) -> None:
    drike = tmp_path / "drike"
    drike.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from drike.cli import main; main()" "$@"\n'
    )
    drike.chmod(0o755)
    runs = tmp_path / "runs"
    where = {
        "DRIKE": str(drike), "RUNS": str(runs), "MODEL": "reader", "DATA": "tinyfacts", "EDITS": "6", "TEST": "3",
        "EPOCHS": "1", "POLICY_ENCODER": "hashing", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    done = sh(str(RECIPES / "figure3.sh"), **where)
    assert done.returncode == 0, done.stderr
    assert "New Fact:" in (runs / "figure3.html").read_text("utf-8")
