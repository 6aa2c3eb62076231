"""What the series of `make reliability` tried and what failed, by attack class, as one table.

A series says `tally("made-up requests", 200_000)` before it asserts, with `failed=` where it counts
failures itself. `--attacks FILE` puts the table between the markers of that page
(benchmarks/notes/reliability.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

BEGIN, END = "<!-- attacks: written by `--attacks` -->", "<!-- end of attacks -->"
Tally = Callable[..., None]


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Record what a series tried: its attack class, how many times, and how many failed."""

    def record(attack: str, tried: int, failed: int = 0) -> None:
        record_property("attack", [attack, tried, failed])

    return record


def attacks(reports: Iterable[Any]) -> str:
    """The table of these reports, "" without any; a test that fails counts as one failure at least."""
    rows: dict[str, list[int]] = {}
    for report in reports:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == "attack":
                attack, tried, failed = value
                row = rows.setdefault(attack, [0, 0])
                row[0] += tried
                row[1] += max(failed, report.failed)
    body = [
        f"| {attack} | {tried:,} | {failed:,} |" for attack, (tried, failed) in sorted(rows.items())
    ]
    return (
        "\n".join(["| attack class | tried | failed |", "|---|---:|---:|", *body]) if body else ""
    )


def with_attacks(page: str, table: str) -> str:
    """The page with this table; rows of classes that it does not have stay as they are."""
    before, rest = page.split(BEGIN)
    old, behind = rest.split(END)
    new = {
        row.split(" | ")[0]: row
        for part in (old, table)
        for row in re.findall(r"^\| .*\|$", part, re.MULTILINE)
    }
    first = new.pop("| attack class", "")
    rows = "\n".join([first, "|---|---:|---:|", *sorted(new.values())])
    return f"{before}{BEGIN}\n{rows}\n{END}{behind}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--attacks`."""
    parser.addoption(
        "--attacks", type=Path, metavar="FILE", help="page to put the table of attacks into"
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table, and write it where asked to."""
    reports = (
        report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)
    )
    if table := attacks(reports):
        terminalreporter.write_line(f"\n{table}")
        if page := config.getoption("--attacks"):
            page.write_text(with_attacks(page.read_text("utf-8"), table), "utf-8")
