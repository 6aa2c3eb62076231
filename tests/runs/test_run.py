"""A run's run.json."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drike.errors import RunError
from drike.runs.run import Run


def test_a_run_json_that_cannot_be_read_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "none", Path(__file__)):
        with pytest.raises(RunError, match=r"is not a run, as it holds no run\.json: give a folder"):
            Run.open(folder)

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(RunError, match=r"run\.json cannot be read \(Permission denied\): check its permissions"):
        Run.open(tmp_path)
