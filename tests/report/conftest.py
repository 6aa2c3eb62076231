"""A small run that the tests of reports share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.worlds.commands import run as cli


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "15", "--test", "8", "--epochs", "2")
    assert cli("demo", *small, "--out", str(folder)) == 0
    return folder


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "copy"))
