"""The published numbers are those that the paper prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drike.research.report.paper import TABLES

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "dr-ike.tex"


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.label)
def test_published_numbers_are_those_printed_in_the_paper(table) -> None:  # type: ignore[no-untyped-def]
    source = PAPER.read_text("utf-8")
    [body] = [
        b
        for b in re.findall(r"\\begin\{tabular\}.*?\\label\{[^}]*\}", source, re.DOTALL)
        if table.label in b
    ]
    body = re.sub(
        r"\\makecell(\[l\])?\{([^}]*)\}",
        lambda m: m[2].replace(r"\\", " "),
        body.split("\\caption")[0],
    )
    printed, heading = [], ""
    for line in (
        re.sub(r"\\(textbf|underline|textsc)\s*\{([^{}]*)\}", r"\2", body)
        .replace("\\%", "%")
        .split(r"\\")
    ):
        cells = [
            " ".join(cell.split())
            for cell in re.sub(r"\\hline|\\end\{tabular\}", "", line).split("&")
        ]
        if "multicolumn" in cells[0]:
            heading = re.findall(r"\{([^{}]*)\}", cells[0])[-1]
        elif len(cells) > 1 and re.fullmatch(r"-?[\d.]+|--|0|20M|49M", cells[-1]):
            numbers = [None if cell == "--" else cell for cell in cells[1:]]
            if table.number == 1:
                del numbers[0]  # extra parameters
            printed.append(
                (
                    heading,
                    cells[0].removesuffix(" (Ours)"),
                    [n and float(n) for n in numbers],
                )
            )
    assert len(printed) == len(table.rows)
    for (heading, name, numbers), row in zip(printed, table.rows, strict=True):
        assert numbers == [row.values.get(column) for column in table.columns]
        assert heading in ("", row.model, row.data)
        label = row.variant or (row.model if table.number == 3 else row.editor)
        assert re.sub(r"\W|sigma", "", label) == re.sub(
            r"\W|sigma", "", name.replace(r"$\sigma$", "")
        )


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_all_tables_of_the_paper_are_included() -> None:
    assert re.findall(r"\\label\{(tab:[^}]*)\}", PAPER.read_text("utf-8")) == [
        table.label for table in TABLES
    ]
