"""`drike data inspect`."""

from __future__ import annotations

import pytest

from tests.fakes.commands import run


def test_inspecting_data_prints_counts_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "inspect", "tinyfacts") == 0
    shown = capsys.readouterr().out
    assert (
        shown.startswith("TinyFacts: ")
        and "\nexample: case " in shown
        and "dropped: nothing" in shown
    )
