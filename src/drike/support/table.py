"""Tables for terminals, notebooks, logs and Markdown files; text from elsewhere, safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

NOT_MEASURED = "n/a"
Z95 = 1.959964  # half the width of a 95 % interval, in standard errors
_NARROW = 100  # columns of a terminal below which tables have no space to spare
# What moves a cursor, starts a terminal's command, reorders or breaks the text around it, or is
# half a character.
_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Write control and bidirectional characters, but line breaks and tabs, as \x1b or \u202e."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % interval; `value` is None where nothing was measured."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def share(cls, part: int, whole: int) -> Estimate:
        """A share of independent cases, with Wilson's interval."""
        if not whole:
            return cls(None)
        share = part / whole
        spread = Z95**2 / whole
        middle = share + spread / 2
        half = Z95 * (share * (1 - share) / whole + spread / (4 * whole)) ** 0.5
        low = (middle - half) / (1 + spread)
        high = (middle + half) / (1 + spread)
        return cls(share, max(0.0, low), min(1.0, high))


@dataclass(frozen=True)
class Number:
    """A number without an interval, such as a count or seconds, and its format.

    value: None where nothing was measured.
    """

    value: float | None
    spec: str = ","


@dataclass(frozen=True)
class Difference:
    """A paired difference; it is written with its sign, and with a star if it is significant."""

    estimate: Estimate

    @property
    def significant(self) -> bool:
        """Whether its unrounded interval excludes 0; false without an interval."""
        low = self.estimate.low
        high = self.estimate.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True)
class Noted:
    """A cell with a note, which is set smaller after it."""

    cell: Cell
    note: str


Cell = str | Number | Difference | Noted | Estimate


def parts(cell: Cell, *, signed: bool = False, comma: str = ",") -> tuple[str, str]:
    """A cell's text, and its interval and note, which are set smaller.

    signed: a plus before positive numbers. comma: within intervals.
    """
    if isinstance(cell, str):
        return cell, ""
    if isinstance(cell, Number):
        return NOT_MEASURED if cell.value is None else format(cell.value, cell.spec), ""
    if isinstance(cell, Noted):
        value, small = parts(cell.cell, signed=signed, comma=comma)
        return value, f"{small} {cell.note}".strip()
    if isinstance(cell, Difference):
        value, small = parts(cell.estimate, signed=True, comma=comma)
        return f"{value}*" if cell.significant else value, small
    return _parts_of_estimate(cell, signed=signed, comma=comma)


def _parts_of_estimate(estimate: Estimate, *, signed: bool, comma: str) -> tuple[str, str]:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return NOT_MEASURED, ""
    value = f"{estimate.value:{'+' if signed else ''}.3f}"
    interval = f"[{_short(estimate.low)}{comma}{_short(estimate.high)}]"
    return value, interval


def _short(end: float) -> str:
    """An end of an interval, without the zero before the point: columns are narrow."""
    text = f"{end:.2f}"
    return text.replace("0.", ".", 1) if abs(end) < 1 else text


def as_text(cell: Cell, *, signed: bool = False) -> str:
    """A cell on one line, as in "0.775 [.71,.83]"."""
    return " ".join(part for part in parts(cell, signed=signed) if part)


def counted(number: int, noun: str) -> str:
    """A number of things: "1 edit", "1,200 edits"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True)
class Table:
    """A titled table.

    The first column is text; the others hold numbers, or text too if the table is `wide`. A row of
    one cell is a heading.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    wide: bool = False

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """For `rich.print` and the command line.

        Intervals and notes stand on a second line of their cell. In a table that is too wide, the
        ends of an interval and the words of a heading have lines of their own, too; where that is
        not enough, columns continue below, behind the first one once more.
        """
        from rich.text import Text

        room = options.max_width
        padding = 0 if room < _NARROW else 1
        columns = self._columns(",")
        if not self.wide and sum(_widths(columns, padding)) > room:
            first, *others = self._columns(",\n")
            folded = [[heading.replace(" ", "\n"), *cells] for heading, *cells in others]
            columns = [first, *folded]

        if self.title:
            yield Text(f"\n{visible(self.title)}", style="bold")
        for page in [columns] if self.wide else _pages(columns, room, padding):
            yield self._drawn(page, padding)
        for note in self.notes:
            yield Text(visible(note), style="dim")

    def _drawn(self, page: list[list[str]], padding: int) -> RenderableType:
        """A table of rich with some columns, each a heading and its cells."""
        from rich import box, table
        from rich.text import Text

        drawn = table.Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, padding, 0, 0))
        for number, (heading, *_) in enumerate(page):
            is_numeric = number > 0 and not self.wide
            drawn.add_column(
                heading,
                justify="right" if is_numeric else "left",
                no_wrap=is_numeric,
                overflow="fold",
            )
        _, *rows = zip(*page, strict=True)
        for row in rows:
            drawn.add_row(*[Text(cell) for cell in row])
        return drawn

    def _columns(self, comma: str) -> list[list[str]]:
        """The texts of each column, heading first. comma: within intervals."""
        rows = []
        for row in (self.header, *self.rows):
            lines_of_cells = [parts(cell, comma=comma) for cell in row]
            rows.append([visible("\n".join(filter(None, lines))) for lines in lines_of_cells])
        return [list(cells) for cells in zip_longest(*rows, fillvalue="")]

    def _repr_markdown_(self) -> str:
        return as_markdown(self)

    def __str__(self) -> str:
        from rich.console import Console

        written = StringIO()
        Console(file=written, width=10_000, color_system=None).print(self)
        lines = written.getvalue().strip().splitlines()
        return "\n".join(line.rstrip() for line in lines)


def _pages(columns: list[list[str]], room: int, padding: int) -> Iterator[list[list[str]]]:
    """The columns in groups that fit into `room`, each after the first column, of names."""
    width_of_names, *widths = _widths(columns, padding)
    names, *others = columns
    page = [names]
    free = room - width_of_names
    for column, width in zip(others, widths, strict=True):
        if width > free and len(page) > 1:
            yield page
            page = [names]
            free = room - width_of_names
        page.append(column)
        free -= width
    yield page


def _widths(columns: Sequence[Sequence[str]], padding: int) -> list[int]:
    """The width of each column with the space before it.

    It is wide enough that no word of a name and no line of a number is broken.
    """
    from rich.cells import cell_len

    names, *others = columns
    words = " ".join(names).split()
    widths = [max(map(cell_len, words), default=0)]
    for column in others:
        lines = "\n".join(column).split("\n")
        widths.append(1 + padding + max(map(cell_len, lines)))
    return widths


def as_html(table: Table) -> str:
    """A table of plain rows as HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    body = ""
    for row in table.rows:
        cells = "".join(f"<td>{escape(as_text(cell))}</td>" for cell in row)
        body += f"<tr>{cells}</tr>"
    title = f"<p>{escape(table.title)}</p>"
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_markdown(table: Table) -> str:
    """Write a table with its title and notes as Markdown; text in it is escaped."""
    width = len(table.header)
    header = [markdown_text(name) for name in table.header]
    alignment = ["---", *["---" if table.wide else "---:"] * (width - 1)]
    lines = [header, alignment]
    for row in table.rows:
        cells = [markdown_text(as_text(cell)) for cell in row]
        if len(cells) != width:  # a heading
            cells = [f"**{cells[0]}**", *[""] * (width - 1)]
        lines.append(cells)

    text = f"**{markdown_text(table.title)}**\n\n"
    for cells in lines:
        text += f"| {' | '.join(cells)} |\n"
    notes = "\n".join(markdown_text(note) for note in table.notes)
    if notes:
        text += f"\n{notes}\n"
    return text


def markdown_text(text: str, *, first: bool = False) -> str:
    """Escape text so that Markdown shows it as it is, in one line.

    first: even at the beginning of a line, or as a heading.
    """
    one_line = visible(" ".join(text.split()))
    marked = re.sub(r"([\\|`*_]|~(?=~)|\](?=[(\[]))", r"\\\1", one_line)
    if first:
        marked = re.sub(r"^(\d*)([-+#>=~\[.)])", r"\1\\\2", marked)
        marked = re.sub(r"(?<= )#+$", r"\\\g<0>", marked)  # would close a heading
    return marked.replace("&", "&amp;").replace("<", "&lt;")
