"""A whole report of a run: its sections, its files, its options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drike.report.groups import grouped, read_runs
from tests.worlds.commands import run as cli
from tests.worlds.reports import QUALITY, Page


def test_a_report_written_twice_has_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("report", str(demo), "--out", str(tmp_path / name / "r.html")) == 0
    for suffix in ("html", "md"):
        first, second = ((tmp_path / name / f"r.{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 2000


def test_a_report_has_all_sections_and_tables(copy: Path) -> None:
    assert cli("report", str(copy)) == 0
    page = Page((copy / "report.html").read_text("utf-8"))
    assert [section["id"] for section in page.all("section")] == ["summary", "tables", "cases"]
    folded = [fold["id"] for fold in page.all("details")]
    assert folded == ["paper", "differences", "cost", "training", "budget", "runs"]
    text = (copy / "report.md").read_text("utf-8")
    for expected in ("Table 1 of the paper", "Table 2 of the paper", "DR-IKE minus IKE", "| 2 |", "0.775", "3.02"):
        assert expected in text


def test_wrong_options_are_explained(demo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong = {
        ("report", str(demo), "--out", str(tmp_path / "r.pdf")): ("end in .html", 2),
        ("report", str(demo), "--across", "maze"): ("no run has a setting 'maze'", 1),
    }
    for arguments, (expected, code) in wrong.items():
        assert cli(*arguments) == code
        assert expected in " ".join(capsys.readouterr().err.split())


def test_a_report_of_the_demo_has_its_editors(demo: Path) -> None:
    [group] = grouped(read_runs([demo]))
    names = ["Unedited", "FactPrompt", "EditCoT", "IKE", "Rank-50%", "DR-IKE", "DR-IKE-Q", "Nearest (k of DR-IKE)"]
    assert list(group.summaries) == names
    assert set(QUALITY) <= set(group.summaries)


def test_importing_the_command_line_does_not_load_what_renders_reports() -> None:
    code = "import sys, drike.cli, drike.report; sys.exit('jinja2.loaders' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
