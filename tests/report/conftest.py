"""A small run that the tests of reports share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.commands import SMALL
from tests.fakes.commands import run as cli


def make(folder: Path) -> None:
    assert (
        cli("demo", *SMALL, "--edits", "15", "--test", "8", "--epochs", "2", "--out", str(folder))
        == 0
    )


@pytest.fixture(scope="session")
def demo(once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    return once("demo-of-reports", make)


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "copy"))
