"""What is printed: progress, tables, and commands to copy."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from drike.cli import console as showing
from drike.encoders import HashingEncoder
from drike.research.report.tables import COLUMNS
from drike.support import progress
from drike.support.table import Table


def test_progress_is_printed_as_lines_where_no_bar_can_be_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "_LINES_EVERY", 0.0)
    monkeypatch.setattr(progress, "show", showing.encoding_bar)
    HashingEncoder().encode([f"text {number}" for number in range(199)])
    assert not capsys.readouterr().err
    HashingEncoder().encode([f"text {number}" for number in range(1_200)])
    assert "encoding: 1,200 of 1,200\n" in capsys.readouterr().err


def test_many_texts_have_a_bar_unless_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(width=80, force_terminal=True, file=StringIO())
    monkeypatch.setattr(showing, "errors", terminal)
    with showing.progress("asking"), showing.encoding_bar(1_200) as count:
        count(1_200)
    assert "encoding" not in terminal.file.getvalue()  # type: ignore[attr-defined]
    with showing.encoding_bar(1_200) as count:
        count(600)
    assert "encoding" in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_sentence_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    showing.say("target_new: [red] :key: 1,000")
    assert capsys.readouterr().out == "target_new: [red] :key: 1,000\n"


@pytest.mark.parametrize("interval", ["[.00,1.00]", "[-.25,-.01]", "[-1.00,-.01]"])
def test_tables_break_no_name_or_number_at_80_columns(
    interval: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    names = ("FactPrompt", "EditCoT-full", "DR-IKE (similarity)")
    rows = tuple((name, *(f"-0.434 {interval}" for _ in COLUMNS)) for name in names)
    showing.draw(Table("x", ("Editor", *COLUMNS), rows))
    text = showing.console.export_text()
    words, low = text.split(), interval.split(",", maxsplit=1)[0]
    assert {"FactPrompt", "EditCoT-full", "DR-IKE", "(similarity)"} <= {*words}
    assert (
        text.count("-0.434")
        == len(names) * len(COLUMNS)
        == sum(word.startswith(f"{low},") for word in words)
    )
    assert all(len(line) <= 80 for line in text.splitlines())


def test_suggested_commands_name_an_executable_drike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "drike"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert showing.this_command() == f"{sys.executable} -P -m drike"
    monkeypatch.setenv("PATH", "")
    script.touch()
    script.chmod(0o755)
    assert showing.this_command() == str(script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert showing.this_command() == "drike"
