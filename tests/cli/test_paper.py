"""`drike paper`."""

from __future__ import annotations

import pytest

from drike.report.paper import STUDIES
from tests.worlds.commands import run


def test_the_paper_command_lists_studies_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("paper") == 0
    shown = capsys.readouterr().out
    assert all(study.name in shown for study in STUDIES) and "sh recipes/table2.sh" in " ".join(shown.split())
    assert run("paper", "table7") == 0
    shown = capsys.readouterr().out
    assert ".7533" in shown and "recipes/table7.sh" in shown and "Llama-3.1-8B-Instruct" in shown
