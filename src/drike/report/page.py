"""A report as one HTML file that needs no network: style, script, figures and data are all inside.

jinja2 or `cases.as_script` escapes every text. In addition, the page's content security policy allows no script but the
viewer, which it names by hash, and loads nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drike.edits import Aspect
from drike.report import overview
from drike.report.cases import as_script, packed
from drike.report.document import Document
from drike.report.figures import pareto
from drike.report.groups import UNEDITED
from drike.report.tables import COLUMNS, SCORES, STARRED
from drike.support.table import Cell, Difference, Noted, Number, Table, as_text, parts

_HERE = Path(__file__).parent
# The columns whose best value is bold, and the first columns of tables that have such.
_SHARES = {*COLUMNS, *(f"deployed {name}" for name in SCORES), "RR known", *Aspect}
_OF_SHARES = ("Editor", "Retains", "Model", "Setting")
_SHAPES = {"up": "▲", "down": "▼", "level": "○"}
_MARKS = f"{STARRED.replace('*', '▲ above 0, ▼ below 0').removesuffix('.')}; ○: it includes 0."


@dataclass(frozen=True)
class PageCell:
    """A cell of a table on the page, with its interval and note, which are small.

    kind: best, of its column; up, down, level: a difference and what its interval says; or "". rank: what it is
    compared by with the others of its column; None where it is not compared.
    """

    column: str
    value: str
    small: str
    kind: str = ""
    rank: float | None = None


Row = tuple[str, list[PageCell]]
Block = tuple[str, list[Row]]


def html(document: Document) -> str:
    """Write the page of a report; the same input gives the same text."""
    script = (_HERE / "viewer.js").read_text("utf-8")
    groups = document.groups
    page = rendered(
        "page.html", document=document, groups=groups, shown=overview, pareto=pareto, metrics=SCORES, blocks=blocks,
        as_text=as_text, starred=STARRED, marks=_MARKS, data=as_script(packed(groups)), script=script,
        script_hash="sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no UTF-8


def rendered(template: str, **values: object) -> str:
    """A template of this folder with its values, which it escapes, and the style of all pages."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(style=(_HERE / "style.css").read_text("utf-8"), **values)


def blocks(table: Table) -> list[Block]:
    """A table's rows under their headings, "" above the first, with the best values and the differences marked."""
    of_table: list[Block] = []
    ranked = table.header[0] in _OF_SHARES
    for first, *others in table.rows:
        name = as_text(first)
        if not others or not of_table:
            of_table.append(("" if others else name, []))
        if others:
            named = zip(table.header[1:], others, strict=True)
            cells = [_cell(column, cell, ranked=ranked and name != UNEDITED) for column, cell in named]
            of_table[-1][1].append((name, cells))
    return [(heading, _with_best(rows)) for heading, rows in of_table]


def _cell(column: str, cell: Cell, *, ranked: bool) -> PageCell:
    """A cell as the page has it; ranked: whether its column may mark its best value."""
    if isinstance(cell, Difference):
        value, small = parts(cell.estimate, signed=True)
        kind = "level" if not cell.significant else "up" if (cell.estimate.low or 0) > 0 else "down"
        return PageCell(column, f"{_SHAPES[kind]} {value}", small, kind) if small else PageCell(column, value, small)
    value, small = parts(cell)
    number = cell.value if isinstance(cell, Number) or (small and not isinstance(cell, str | Noted)) else None
    ranked = ranked and column in _SHARES and number is not None
    return PageCell(column, value, small, rank=round(number or 0, 3) if ranked else None)


def _with_best(rows: list[Row]) -> list[Row]:
    """The rows with the best value of each column marked, where it has several; values shown as equal are all best."""
    columns = zip(*(cells for _, cells in rows), strict=True)
    ranks = [[cell.rank for cell in column if cell.rank is not None] for column in columns]
    best = [max(column) if len(column) > 1 else None for column in ranks]
    return [
        (name, [replace(cell, kind="best") if top is not None and cell.rank == top else cell
                for cell, top in zip(cells, best, strict=True)])
        for name, cells in rows
    ]  # fmt: skip
