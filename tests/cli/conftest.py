"""A run that several files of tests read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.commands import SMALL, run


def make(folder: Path) -> None:
    assert (
        run("demo", *SMALL, "--edits", "20", "--test", "10", "--epochs", "2", "--out", str(folder))
        == 0
    )


@pytest.fixture(scope="session")
def demo(once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A small run of the demo on the closed-form reader."""
    return once("demo-of-commands", make)
