"""A table of strings that can be shown in a terminal, a notebook, a log and a Markdown file.

A row of one cell is a heading for the rows below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING

from drike.support.escape import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_BOUNDS = re.compile(r"(\[[-.\d]+,)([-.\d]+\])")


@dataclass(frozen=True)
class Table:
    """A titled table; the first column is text, the others are numbers, or text too if it is `wide`."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    wide: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """For `rich.print` and the command line.

        Intervals go on a second line of their cell, so that narrow terminals show them. If the table is still too wide,
        the ends of an interval and the words of a heading go on a line each; if that is not enough, the columns
        continue below, beside the names again.
        """
        from rich import box
        from rich.table import Table as Drawn
        from rich.text import Text

        room, padding = options.max_width, 0 if options.max_width < 100 else 1
        rows = [[visible(cell).replace(" [", "\n[") for cell in row] for row in [self.header, *self.rows]]
        columns = [list(cells) for cells in zip_longest(*rows, fillvalue="")]
        if not self.wide and sum(_widths(columns, padding)) > room:
            columns[1:] = [[heading.replace(" ", "\n"), *cells] for heading, *cells in columns[1:]]
            columns = [[_BOUNDS.sub(r"\1\n\2", cell) for cell in cells] for cells in columns]
        if self.title:
            yield Text(f"\n{visible(self.title)}", style="bold")
        for part in [columns] if self.wide else _parts(columns, room, padding):
            drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, padding, 0, 0))
            for i, (heading, *_) in enumerate(part):
                numeric = i > 0 and not self.wide
                drawn.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
            for row in list(zip(*part, strict=True))[1:]:
                drawn.add_row(*map(Text, row))
            yield drawn
        yield from (Text(visible(note), style="dim") for note in self.notes)

    def _repr_html_(self) -> str:
        """For notebooks."""
        width, align = len(self.header), "left" if self.wide else "right"
        head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(
            f"<tr><th colspan='{width}'>{escape(row[0])}</th></tr>" if len(row) == 1 else
            f"<tr><td style='text-align:left'>{escape(row[0])}</td>"
            + "".join(f"<td style='text-align:{align}'>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
            for row in self.rows
        )  # fmt: skip
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes)
        return f"<p>{escape(self.title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def __str__(self) -> str:
        """As plain text, with one line a row."""
        from rich.console import Console

        written = StringIO()
        Console(file=written, width=10_000, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in written.getvalue().strip().splitlines())


def _parts(columns: list[list[str]], room: int, padding: int) -> Iterator[list[list[str]]]:
    """The columns in parts that fit into `room`, each with the first column, which holds the names."""
    names, *widths = _widths(columns, padding)
    part, left = columns[:1], room - names
    for column, width in zip(columns[1:], widths, strict=True):
        if width > left and len(part) > 1:
            yield part
            part, left = columns[:1], room - names
        part, left = [*part, column], left - width
    yield part


def _widths(columns: Iterable[Sequence[str]], padding: int) -> list[int]:
    """The width of each column with the space before it, if no word of a name and no line of a number is broken."""
    from rich.cells import cell_len

    parts = (" ".join(cells).split() if i == 0 else "\n".join(cells).split("\n") for i, cells in enumerate(columns))
    widths = [max(map(cell_len, of_column), default=0) for of_column in parts]
    return [width + (1 + padding) * (i > 0) for i, width in enumerate(widths)]


def as_markdown(table: Table) -> str:
    """Write a table with its title and notes as Markdown; text in it is escaped."""
    width = len(table.header)
    aligned = ["---", *["---" if table.wide else "---:"] * (width - 1)]
    body = (
        tuple(map(markdown_text, row)) if len(row) == width else (f"**{markdown_text(row[0])}**", *[""] * (width - 1))
        for row in table.rows
    )
    lines = [tuple(map(markdown_text, table.header)), tuple(aligned), *body]
    drawn = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "\n".join(map(markdown_text, table.notes))
    return f"**{markdown_text(table.title)}**\n\n{drawn}\n" + (f"\n{notes}\n" if notes else "")


def markdown_text(text: str, *, first: bool = False) -> str:
    """Escape text so that Markdown shows it as it is, in one line; `first`: even as a line or heading."""
    marked = re.sub(r"([\\|`*_]|\](?=[(\[]))", r"\\\1", visible(" ".join(text.split())))
    if first:
        marked = re.sub(r"^(\d*)([-+#>=~\[.)])", r"\1\\\2", marked)
        marked = re.sub(r"(?<= )#+$", r"\\\g<0>", marked)  # would close a heading
    return marked.replace("&", "&amp;").replace("<", "&lt;")
