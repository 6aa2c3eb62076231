"""Tables: cells as text, in terminals of any width, and in Markdown."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from drike.cli import console as showing
from drike.models.protocols import Usage
from drike.research.evaluation.metrics import Estimate
from drike.research.report.tables import work
from drike.support.table import (
    Cell,
    Difference,
    Noted,
    Number,
    Table,
    as_markdown,
    as_text,
    markdown_text,
    parts,
    visible,
)
from tests.fakes.reports import Page


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_difference_has_a_star_exactly_if_its_unrounded_interval_excludes_0(
    value: float, below: float, above: float
) -> None:
    estimate = Estimate(value, value - below, value + above)
    assert ("*" in as_text(Difference(estimate))) == (not value - below <= 0 <= value + above)
    assert as_text(Difference(estimate)).replace("*", "") == as_text(estimate, signed=True)
    assert as_text(Difference(Estimate(-0.2, -0.36, -0.0001))) == "-0.200* [-.36,-.00]"
    assert (
        as_text(Difference(Estimate(None))) == "n/a" and not Difference(Estimate(None)).significant
    )


def test_cells_are_written_the_same_in_every_format() -> None:
    cells: dict[str, Cell] = {
        "a [b]": "a [b]",
        "0.775 [.71,.83]": Estimate(0.775, 0.71, 0.83),
        "-0.119* [-.25,-.01]": Difference(Estimate(-0.119, -0.25, -0.01)),
        "1,234": Number(1234),
        "0.0320": Number(0.032, ".4f"),
        "n/a": Number(None),
        "0.500 [.40,1.00] (4 of 8)": Noted(Estimate(0.5, 0.4, 1.0), "(4 of 8)"),
        "right [-1.25]": Noted("right", "[-1.25]"),
    }
    for text, cell in cells.items():
        assert as_text(cell) == text
        table = Table("T", ("a", "b"), (("x", cell),))
        assert markdown_text(text) in as_markdown(table) == table._repr_markdown_()
        assert all(part in str(table) for part in parts(cell))


def test_an_interval_stands_below_its_value_and_is_broken_where_there_is_no_room_and_text_is_not() -> (
    None
):
    cells = (Estimate(0.5, 0.25, 1.5), "a [1.0,2.0]")
    lines = str(Table("", ("a", "b"), (("x", cells[0]),))).splitlines()[2:]
    assert [line.split() for line in lines] == [["x", "0.500"], ["[.25,1.50]"]]
    drawn = Console(width=16, record=True, file=StringIO())
    drawn.print(Table("", ("a", "b", "c"), (("x", *cells),)))
    lines = drawn.export_text()
    assert "[.25,\n" in re.sub(" +\n", "\n", lines) and "a [1.0,2.0]" in lines


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


SPACES = re.compile(r"\s+")


def squeezed(text: str) -> str:
    return SPACES.sub("", text)


@given(TEXT, TEXT)
def test_markdown_shows_the_text_of_a_cell_unchanged(title: str, cell: str) -> None:
    if visible(title + cell) != title + cell or re.search(r"\s", (title + cell).replace(" ", "")):
        return
    table = Table(f"T{title}T", ("a", "b"), ((f"x{cell}x", f"y{cell}"), (f"h{cell}",)), wide=True)
    page = Page(MarkdownIt("commonmark").enable("table").render(as_markdown(table)))
    assert {name for name, _ in page.elements} <= {
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    cells = squeezed(page.text("td"))
    assert (
        squeezed(f"x{cell}x") in cells
        and squeezed(f"y{cell}") in cells
        and len(page.all("tr")) == 3
    )


def test_the_usage_table_fits_80_columns_without_broken_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    used = Usage(
        prompts=12_345,
        forwards=1_234,
        tokens_computed=1_231_251,
        tokens_cached=530_209,
        seconds=232.4,
    )
    showing.draw(work({"training": used, "Nearest (k of DR-IKE)": used}))
    words = showing.console.export_text().split()
    assert {
        "training",
        "Nearest",
        "computed",
        "shared",
        "prefix",
        "cached",
        "seconds",
        "12,345",
        "232.4",
    } <= {*words}


def test_a_table_too_wide_for_the_terminal_continues_below_with_its_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    many = 10**9
    used = Usage(
        prompts=many, forwards=many, tokens_computed=many, tokens_cached=many, seconds=many
    )
    showing.draw(work({"training": used, "Nearest (k of DR-IKE)": used}))
    text = showing.console.export_text()
    assert (
        text.count("training") == text.count("Nearest") == 2
        and text.count("1,000,000,000") == 4 * 2
    )
    assert {"prompts", "forwards", "computed", "shared", "prefix", "cached", "seconds"} <= {
        *text.split()
    }
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (8, 10, "0.800 [.49,.94]"),
        (0, 10, "0.000 [.00,.28]"),
        (10, 10, "1.000 [.72,1.00]"),
        (0, 0, "n/a"),
    ],
)
def test_a_share_has_wilsons_interval(part: int, whole: int, text: str) -> None:
    assert as_text(Estimate.share(part, whole)) == text


@given(st.integers(1, 10**6), st.data())
def test_a_share_lies_in_its_interval(whole: int, data: st.DataObject) -> None:
    estimate = Estimate.share(data.draw(st.integers(0, whole)), whole)
    assert estimate.value is not None and estimate.low is not None and estimate.high is not None
    assert (
        0 <= estimate.low <= estimate.value + 1e-9 and estimate.value - 1e-9 <= estimate.high <= 1
    )
