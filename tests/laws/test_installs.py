"""What each install of drike promises works in an environment of its own, and all else names the extra it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from drike.encoders import locate
from drike.support.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PERU = ("edits", "add", "--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
VERIFY = ("edits", "verify", "--gateway", "http://127.0.0.1:9/v1", "--model", "m", "--dry-run")
WORK: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "": (("--version",), PERU, ("edits", "list"), ("edits", "show", "1"), ("edits", "export", "e.jsonl"),
         ("keys", "list"), VERIFY, ("doctor",)),
    "encoder": (PERU, ("edits", "list"), VERIFY, ("doctor",)),
}  # fmt: skip
GATE = """
import sys, drike
from dataclasses import replace
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.edits.record import as_stored
edit = drike.Edit("The capital of Peru is", "Oslo", subject="Peru")
index = EditIndex.of(as_stored([edit]), drike.load_encoder(sys.argv[1], keep=False, onnx=True))
asked = ("Which city is Peru's capital?", "Who wrote Faust?")
gate = replace(default_gate(), encoder=sys.argv[1])
print([len(gate.decide(query, index).matched) for query in asked])
"""
# How a process is made to find none of some packages, as if they were not installed.
WITHOUT = """
import importlib.abc, importlib.machinery, sys
absent = set(sys.argv.pop(1).split(","))
find = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, *rest: None if name.partition(".")[0] in absent else find(name, *rest)
)
"""
ALL = """
from drike.cli import main
for command in sys.argv[1:]:
    try:
        main(command.split("|"))
    except SystemExit as stop:
        print(f"ended {stop.code or 0}: {command}")
"""


BOTH = {"safetensors", "huggingface_hub"}  # drike[encoder] brings them, too


def packages_beside(install: str) -> str:
    """The packages of extras that an install does not bring."""
    absent = {
        package
        for extra in ("encoder", "api", "local")
        if extra != install
        for package in EXTRAS[extra]
    }
    return ",".join(absent - BOTH if install else absent)


def run_as(
    install: str, code: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code, packages_beside(install), *arguments]
    home = os.environ | {"XDG_CACHE_HOME": str(folder), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=folder, env=home, capture_output=True, text=True, check=False
    )


def test_extras_are_those_of_the_project() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra, packages in EXTRAS.items():
        names = {
            re.split(r"[\[<>=;]", wanted)[0].replace("-", "_")
            for wanted in declared["optional-dependencies"][extra]
        }
        packages_of_index = {package.replace(".", "_") for package in packages}
        assert packages_of_index - (BOTH if extra == "local" else set()) <= names, extra
    base = {
        re.split(r"[\[<>=;]", wanted)[0].replace("-", "_") for wanted in declared["dependencies"]
    }
    assert not base & {package for packages in EXTRAS.values() for package in packages}


@pytest.mark.parametrize("install", ["", pytest.param("encoder", marks=pytest.mark.slow)])
def test_commands_work_without_the_packages_of_other_extras(install: str, tmp_path: Path) -> None:
    commands = ["|".join(arguments) for arguments in WORK[install]]
    done = run_as(install, ALL, *commands, folder=tmp_path)
    ends = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    demo_missing = {"doctor": 1}  # as it says by its exit code
    assert ends == [f"ended {demo_missing.get(command, 0)}: {command}" for command in commands], (
        done.stderr
    )
    assert "Error" not in done.stderr


def test_a_command_that_needs_more_says_which_extra(tmp_path: Path) -> None:
    demanding = (
        "demo",
        "tour|--no-open",
        "train|--model|embedded",
        "evaluate|--run|r",
        "edit|--fact|a b -> c|--ask|a b",
    )
    done = run_as("", ALL, *demanding, folder=tmp_path)
    assert done.stdout.splitlines() == [f"ended 1: {command}" for command in demanding]
    sentences = re.findall(
        r"^Error: this needs \w+: pip install 'drike\[local\]'$", done.stderr, re.MULTILINE
    )
    assert len(sentences) == len(demanding) and done.stderr.count("\n") <= 2 * len(demanding), (
        done.stderr
    )


@pytest.mark.slow
def test_the_default_gate_decides_without_torch(tmp_path: Path) -> None:
    folder = locate().path
    assert folder is not None
    done = run_as("encoder", GATE, str(folder), folder=tmp_path)
    assert done.stdout == "[1, 0]\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("install", ["", "encoder"])
def test_an_install_in_an_empty_environment_does_what_it_promises(
    install: str, tmp_path: Path
) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    wanted = f"{ROOT}[{install}]" if install else str(ROOT)
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        ROOT / "constraints.txt",
        wanted,
    ]
    subprocess.run(pip, check=True, capture_output=True)
    assert not list(tmp_path.glob("env/lib/python*/site-packages/torch"))
    home = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    for arguments in WORK[install]:
        command = [str(tmp_path / "env" / "bin" / "drike"), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=home, capture_output=True, text=True, check=False
        )
        assert done.returncode == (arguments == ("doctor",)) and "Error" not in done.stderr, (
            done.stderr
        )
    if install == "encoder":
        command = [str(python), "-c", GATE, str(locate().path)]
        assert (
            subprocess.run(
                command, cwd=tmp_path, env=home, capture_output=True, text=True, check=True
            ).stdout
            == "[1, 0]\n"
        )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_runs_drike_from_an_environment_that_it_makes(tmp_path: Path) -> None:
    command = [
        "uv",
        "tool",
        "run",
        "--constraints",
        ROOT / "constraints.txt",
        "--from",
        ROOT,
        "drike",
        *PERU,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "edits.db is a new store of edits" in done.stdout, done.stderr
