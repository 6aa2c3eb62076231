"""Figures that the README and the page of findings claim are those of the pages of results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def cells(page: str, row: str, *, last: bool = False) -> list[str]:
    """The cells of the first (or last) row of a page that begins so."""
    text = (ROOT / f"docs/results/{page}.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in rows[-1 if last else 0].strip("|").split("|")]


def short(figure: str) -> str:
    """A figure without the zero before its point."""
    return re.sub(r"\b0\.", ".", figure)


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_dr_ike_q_is_compared_with_the_simplest_rule_as_measured(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    rows = (ROOT / "docs/results/rivals.md").read_text("utf-8").split("minus each, paired")[1]
    row = next(
        line
        for line in rows.splitlines()
        if line.startswith("| named: copies and updates, else alone |")
    )
    for figures in row.split("|")[2:4]:  # the probes of S; with short names and other facts
        difference, low, high = re.findall(r"[-+][\d.]+", figures)
        assert short(f"{difference} [{low}, {high}]").replace("+", "") in text


def test_rewritten_neighbours_are_no_harder_to_keep() -> None:
    _, rewritten, others, difference = cells("embedded_model", "IKE")
    text = " ".join((ROOT / "docs/results.md").read_text("utf-8").split())
    assert difference.startswith("+")
    assert (
        short(f"IKE keeps {rewritten[:5]} of them and {others[:5]} of the others ({difference[:6]}")
        in text
    )


def test_the_gates_figures_of_clean_data_come_first() -> None:
    _, _, right, false, *_ = cells(
        "gate", "HalluEditBench, subjects of Llama-3's rows only", last=True
    )
    for page in ("docs/results.md", "docs/gate.md"):
        text = " ".join((ROOT / page).read_text("utf-8").split())
        first = re.search(rf"{short(right[:5])} \[.*?{short(false[:5])} \[", text)
        assert first, page
        assert not re.search(r"\.943 .{0,20}\.049", text[: first.start()])
