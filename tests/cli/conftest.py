"""A run that several files of tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.commands import SMALL, run


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the demo on the closed-form reader."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    code = run("demo", *SMALL, "--edits", "20", "--test", "10", "--epochs", "2", "--out", str(folder))
    assert code == 0
    return folder
