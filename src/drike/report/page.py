"""A report as one HTML file that needs no network: style, script, figures and data are all inside.

jinja2 or `cases.as_script` escapes every text. In addition, the page's content security policy allows no script but the
viewer, which it names by hash, and loads nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drike.edits import Aspect
from drike.evaluation.case_study import CaseStudy
from drike.report.cases import as_script, packed, unwritten
from drike.report.document import Document
from drike.report.findings import gaps, overall
from drike.report.groups import UNEDITED
from drike.report.overview import overview
from drike.report.tables import COLUMNS, STARRED, shown
from drike.support.table import Table

_HERE = Path(__file__).parent
_SHARES = {*COLUMNS, "RR known", *Aspect}  # the columns whose best value is bold
_OF_SHARES = ("Editor", "Retains", "Model", "Setting")  # the first columns of tables that have such
_SHAPES = {"up": "▲", "down": "▼", "level": "○"}
_MARKS = f"{STARRED.replace('*', '▲ above 0, ▼ below 0').removesuffix('.')}; ○: it includes 0."


@dataclass(frozen=True)
class Cell:
    """A table's cell. kind: best of its column; up, down, level: a difference and what its interval says; or ""."""

    column: str
    value: str
    interval: str
    kind: str


Block = tuple[str, list[tuple[str, list[Cell]]]]


def html(document: Document, studies: Sequence[CaseStudy] = ()) -> str:
    """Write the page of a report with its case studies; the same input gives the same text."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (_HERE / "viewer.js").read_text("utf-8")
    groups = document.groups
    page = environment.get_template("page.html").render(
        document=document,
        verdict=overall(groups),
        gaps=[sentence for group in groups for sentence in gaps(group)],
        overviews=[overview(group) for group in groups],
        sections=[section for section in document.sections if section.id != "summary"],
        studies=[
            {"title": one.title, "tables": list(one.tables()),
             "prompts": [(side.editor, side.prompt.blocks) for side in one.columns]}
            for one in studies
        ],
        style=(_HERE / "style.css").read_text("utf-8"),
        script=script,
        script_hash="sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=as_script(packed(groups)),
        unwritten=unwritten(groups),
        blocks=blocks,
        columns=columns,
        shown=shown,
        starred=STARRED,
        marks=_MARKS,
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no UTF-8


def columns(count: int) -> int:
    """How many stand beside each other where there is room: up to four, so that the last row has the fewest gaps."""
    return count if count < 5 else min((4, 3), key=lambda beside: -count % beside)


def blocks(table: Table) -> list[Block]:
    """A table's rows under their headings, "" above the first, with the best values and the differences marked."""
    found: list[Block] = []
    for row in table.rows:
        if len(row) == 1 or not found:
            found.append((row[0] if len(row) == 1 else "", []))
        if len(row) > 1:
            found[-1][1].append((row[0], [_cell(table, *one) for one in zip(table.header[1:], row[1:], strict=True)]))
    return [(heading, _with_best(rows) if table.header[0] in _OF_SHARES else rows) for heading, rows in found]


def _cell(table: Table, column: str, text: str) -> Cell:
    value, interval = split_interval(text)
    kind = ""
    if interval and (" minus " in column or "paired" in table.title.casefold()) and value[0] in "+-":
        kind = "level" if value[-1] != "*" else "up" if value[0] == "+" else "down"
    return Cell(column, f"{_SHAPES[kind]} {value.rstrip('*')}" if kind else value, interval, kind)


def _with_best(rows: list[tuple[str, list[Cell]]]) -> list[tuple[str, list[Cell]]]:
    """The rows with the highest value of every column of shares marked, where it has several."""
    values = [
        [_number(cell) if name != UNEDITED and cell.column in _SHARES and not cell.kind else None for cell in cells]
        for name, cells in rows
    ]
    numbers = [[value for value in column if value is not None] for column in zip(*values, strict=True)]
    best = [max(column) if len(column) > 1 else None for column in numbers]
    return [
        (name, [Cell(one.column, one.value, one.interval, "best") if value is not None and value == most else one
                for one, value, most in zip(cells, of_row, best, strict=True)])
        for (name, cells), of_row in zip(rows, values, strict=True)
    ]  # fmt: skip


def _number(cell: Cell) -> float | None:
    try:
        return float(cell.value)
    except ValueError:
        return None


def split_interval(cell: str) -> tuple[str, str]:
    """Split a cell into its value and its interval, which is "" if there is none."""
    value, bracket, interval = cell.partition(" [")
    return (value, f"[{interval}") if bracket and interval.endswith("]") else (cell, "")
