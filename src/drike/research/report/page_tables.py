"""Tables as the page shows them: in blocks of rows, with best values and differences marked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.edits.edit import Aspect
from drike.research.report.groups import UNEDITED
from drike.research.report.tables import COLUMNS, SCORES
from drike.support.table import Cell, Difference, Estimate, Noted, Table, as_text, parts

# The columns whose best value is marked, and the first columns of tables that have such.
_SHARES = {*COLUMNS, *(f"deployed {name}" for name in SCORES), "RR known", *Aspect}
_OF_SHARES = ("Editor", "Retains", "Model", "Setting")
# A difference above 0, below 0, or not significant.
Direction = Literal["up", "down", "level"]
_SHAPES: dict[Direction, str] = {"up": "▲", "down": "▼", "level": "○"}


@dataclass(frozen=True)
class PageCell:
    """A cell of a table on the page.

    small: its interval and note. kind: its CSS class: the best of its column, the direction of a
    difference, or none. rank: by which it is compared with the rest of its column, None where it
    is not compared.
    """

    column: str
    value: str
    small: str
    kind: Literal["", "best"] | Direction = ""
    rank: float | None = None


Row = tuple[str, list[PageCell]]
Block = tuple[str, list[Row]]


def blocks(table: Table) -> list[Block]:
    """A table's rows under their headings, "" above the first, with all marks."""
    of_shares = table.header[0] in _OF_SHARES
    rows_by_block: list[Block] = []
    for first, *cells in table.rows:
        name = as_text(first)
        if not cells:  # a heading
            rows_by_block.append((name, []))
            continue
        if not rows_by_block:
            rows_by_block.append(("", []))

        is_ranked = of_shares and name != UNEDITED
        page_cells = []
        for column, cell in zip(table.header[1:], cells, strict=True):
            page_cells.append(_page_cell(column, cell, is_ranked=is_ranked))
        _, rows = rows_by_block[-1]
        rows.append((name, page_cells))
    return [(heading, _with_best(rows)) for heading, rows in rows_by_block]


def _page_cell(column: str, cell: Cell, *, is_ranked: bool) -> PageCell:
    """A cell as the page has it. is_ranked: whether the best of its column may be marked."""
    if isinstance(cell, Difference):
        return _difference_cell(column, cell)
    value, small = parts(cell)
    rank = None
    if is_ranked and column in _SHARES:
        rank = _rank(cell, is_measured=bool(small))
    return PageCell(column, value, small, rank=rank)


def _difference_cell(column: str, difference: Difference) -> PageCell:
    value, small = parts(difference.estimate, signed=True)
    if not small:  # not measured
        return PageCell(column, value, small)
    direction: Direction = "level"
    if difference.significant:
        direction = "up" if (difference.estimate.low or 0) > 0 else "down"
    return PageCell(column, f"{_SHAPES[direction]} {value}", small, direction)


def _rank(cell: Cell, *, is_measured: bool) -> float | None:
    """A number as it is shown, by which cells of a column are compared; None for other cells."""
    if isinstance(cell, str | Noted | Difference):
        return None
    if isinstance(cell, Estimate) and not is_measured:
        return None
    return None if cell.value is None else round(cell.value, 3)


def _with_best(rows: Sequence[Row]) -> list[Row]:
    """The rows with the best value of each column marked, if it has several.

    Values that are shown as equal are all best.
    """
    columns = zip(*(cells for _, cells in rows), strict=True)
    best_by_column = [_best_rank(column) for column in columns]
    marked_rows = []
    for name, cells in rows:
        marked = []
        for cell, best in zip(cells, best_by_column, strict=True):
            is_best = cell.rank is not None and cell.rank == best
            marked.append(replace(cell, kind="best") if is_best else cell)
        marked_rows.append((name, marked))
    return marked_rows


def _best_rank(column: Sequence[PageCell]) -> float | None:
    """The highest rank of a column; None if it has fewer than two ranked cells."""
    ranks = [cell.rank for cell in column if cell.rank is not None]
    return max(ranks) if len(ranks) > 1 else None
