"""`make real` goes on where it was stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests.fakes.resuming import Resuming

def pytest_configure(config):
    config.addinivalue_line("markers", "real: takes minutes")
    config.pluginmanager.register(Resuming(config.cache, {sources!r}))
"""
TESTS = """
import pathlib, pytest

@pytest.mark.real
def test_first():
    pass

@pytest.mark.real
def test_second():
    assert pathlib.Path("right").exists()

def test_third():
    pass
"""


def ran(folder: Path, sources: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST.format(sources=sources), "utf-8")
    command = [sys.executable, "-m", "pytest", "-s", "-rs", "-p", "no:xdist", "-c", "pytest.ini"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""}
    return subprocess.run(
        [*command, "test_it.py"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


@pytest.mark.slow
def test_what_passed_with_the_same_sources_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    shown = ran(tmp_path, "a")
    assert "test_it.py::test_first: passed in 0 s" in shown and "1 failed, 2 passed" in shown
    (tmp_path / "right").touch()
    shown = ran(tmp_path, "a")
    assert "2 passed, 1 skipped" in shown and "passed before, in 0 s, with the same" in shown
    assert "1 passed, 2 skipped" in ran(tmp_path, "a")
    assert "3 passed" in ran(tmp_path, "b"), "other sources are tried from the beginning"
    assert "3 passed" in ran(tmp_path, "") and "3 passed" in ran(tmp_path, "")
