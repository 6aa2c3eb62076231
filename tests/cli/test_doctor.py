"""`drike doctor`."""

from __future__ import annotations

import pytest

from tests.fakes.commands import run


def test_data_inspect_and_doctor_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "inspect", "tinyfacts") == 0
    shown = capsys.readouterr().out
    assert "rewrite probes" in shown and "dropped: nothing" in shown
    run("doctor")
    assert "torch" in capsys.readouterr().out


def test_doctor_fails_if_the_named_model_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--model", "/nope") == 1
    assert "missing" in capsys.readouterr().out
