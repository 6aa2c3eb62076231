"""Tables for a terminal, a notebook, a log and a Markdown file, and text from elsewhere, made safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

NOT_MEASURED = "n/a"
Z95 = 1.959964  # of a 95 % interval
# What moves a cursor, starts a terminal's command, reorders or breaks the text around it, or is half a character.
_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Write control and bidirectional characters, but line breaks and tabs, as \x1b or \u202e."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


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
        share, spread = part / whole, Z95**2 / whole
        middle, half = (
            share + spread / 2,
            Z95 * (share * (1 - share) / whole + spread / (4 * whole)) ** 0.5,
        )
        return cls(
            share,
            max(0.0, (middle - half) / (1 + spread)),
            min(1.0, (middle + half) / (1 + spread)),
        )


@dataclass(frozen=True)
class Number:
    """A number without an interval, such as a count or seconds, and its format; None where nothing was measured."""

    value: float | None
    spec: str = ","


@dataclass(frozen=True)
class Difference:
    """A paired difference; it is written with its sign, and with a star if it is significant."""

    estimate: Estimate

    @property
    def significant(self) -> bool:
        """Whether its unrounded interval excludes 0; false without an interval."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True)
class Noted:
    """A cell with a note, which is set smaller after it."""

    cell: Cell
    note: str


Cell = str | Number | Difference | Noted | Estimate


def parts(cell: Cell, *, signed: bool = False, comma: str = ",") -> tuple[str, str]:
    """A cell's text, and its interval and note. signed: a plus before positive numbers. comma: within intervals."""
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
    if cell.value is None or cell.low is None or cell.high is None:
        return NOT_MEASURED, ""
    ends = (
        f"{end:.2f}".replace("0.", ".", 1) if abs(end) < 1 else f"{end:.2f}"
        for end in (cell.low, cell.high)
    )
    return f"{cell.value:{'+' if signed else ''}.3f}", f"[{comma.join(ends)}]"  # columns are narrow


def as_text(cell: Cell, *, signed: bool = False) -> str:
    """A cell on one line, as in "0.775 [.71,.83]"."""
    return " ".join(filter(None, parts(cell, signed=signed)))


def counted(number: int, noun: str) -> str:
    """A number of things: "1 edit", "1,200 edits"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Table:
    """A titled table; the first column is text, the others too if it is `wide`; a row of one cell is a heading."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    wide: bool = False

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """For `rich.print` and the command line: intervals and notes on a second line of their cell.

        In a table that is too wide, the ends of an interval and the words of a heading have lines of their own, too;
        where that is not enough, columns continue below, behind the first one once more.
        """
        from rich import box
        from rich.table import Table as Drawn
        from rich.text import Text

        room, padding = options.max_width, 0 if options.max_width < 100 else 1
        columns = self._columns(",")
        if not self.wide and sum(_widths(columns, padding)) > room:
            columns = self._columns(",\n")
            columns[1:] = [[heading.replace(" ", "\n"), *cells] for heading, *cells in columns[1:]]
        if self.title:
            yield Text(f"\n{visible(self.title)}", style="bold")
        for page in [columns] if self.wide else _pages(columns, room, padding):
            drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, padding, 0, 0))
            for i, (heading, *_) in enumerate(page):
                numeric = i > 0 and not self.wide
                drawn.add_column(
                    heading,
                    justify="right" if numeric else "left",
                    no_wrap=numeric,
                    overflow="fold",
                )
            for row in list(zip(*page, strict=True))[1:]:
                drawn.add_row(*map(Text, row))
            yield drawn
        yield from (Text(visible(note), style="dim") for note in self.notes)

    def _columns(self, comma: str) -> list[list[str]]:
        rows = ((parts(cell, comma=comma) for cell in row) for row in (self.header, *self.rows))
        texts = ([visible("\n".join(filter(None, both))) for both in row] for row in rows)
        return [list(cells) for cells in zip_longest(*texts, fillvalue="")]

    def _repr_markdown_(self) -> str:
        return as_markdown(self)

    def __str__(self) -> str:
        from rich.console import Console

        written = StringIO()
        Console(file=written, width=10_000, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in written.getvalue().strip().splitlines())


def _pages(columns: list[list[str]], room: int, padding: int) -> Iterator[list[list[str]]]:
    """The columns in groups that fit into `room`, each after the first column, which holds the names."""
    names, *widths = _widths(columns, padding)
    page, left = columns[:1], room - names
    for column, width in zip(columns[1:], widths, strict=True):
        if width > left and len(page) > 1:
            yield page
            page, left = columns[:1], room - names
        page, left = [*page, column], left - width
    yield page


def _widths(columns: Iterable[Sequence[str]], padding: int) -> list[int]:
    """The width of each column with the space before it, if no word of a name and no line of a number is broken."""
    from rich.cells import cell_len

    unbroken = (
        " ".join(cells).split() if i == 0 else "\n".join(cells).split("\n")
        for i, cells in enumerate(columns)
    )
    widths = [max(map(cell_len, texts), default=0) for texts in unbroken]
    return [width + (1 + padding) * (i > 0) for i, width in enumerate(widths)]


def as_html(table: Table) -> str:
    """A table of plain rows as HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = ("".join(f"<td>{escape(as_text(cell))}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<p>{escape(table.title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_markdown(table: Table) -> str:
    """Write a table with its title and notes as Markdown; text in it is escaped."""
    width = len(table.header)
    aligned = ["---", *["---" if table.wide else "---:"] * (width - 1)]
    body = (
        row if len(row) == width else (f"**{row[0]}**", *[""] * (width - 1))
        for row in (tuple(markdown_text(as_text(cell)) for cell in row) for row in table.rows)
    )
    lines = [tuple(map(markdown_text, table.header)), tuple(aligned), *body]
    drawn = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "\n".join(map(markdown_text, table.notes))
    return f"**{markdown_text(table.title)}**\n\n{drawn}\n" + (f"\n{notes}\n" if notes else "")


def markdown_text(text: str, *, first: bool = False) -> str:
    """Escape text so that Markdown shows it as it is, in one line; `first`: even as a line or heading."""
    marked = re.sub(r"([\\|`*_]|~(?=~)|\](?=[(\[]))", r"\\\1", visible(" ".join(text.split())))
    if first:
        marked = re.sub(r"^(\d*)([-+#>=~\[.)])", r"\1\\\2", marked)
        marked = re.sub(r"(?<= )#+$", r"\\\g<0>", marked)  # would close a heading
    return marked.replace("&", "&amp;").replace("<", "&lt;")
