"""How things look in a terminal: tables, a training run as it goes, an evaluation as it goes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.table import Table as Drawn
from rich.text import Text

from drike.report import Table
from drike.report.training import by_epoch
from drike.training.reinforce import Episode

console = Console(highlight=False)
errors = Console(stderr=True)
_BOUNDS = re.compile(r"(\[[-.\d]+,)([-.\d]+\])")


def say(what: str, style: str | None = None) -> None:
    """Print a sentence as it is. The terminal wraps it, so that a path in it can be copied."""
    console.print(what, style=style, markup=False, soft_wrap=True)


def complain(what: str, style: str = "red") -> None:
    """The same on standard error."""
    errors.print(what, style=style, markup=False, highlight=False, soft_wrap=True)


def note(what: str) -> None:
    """Say what a user should know about a result, on a line of its own."""
    say(f"Note: {what}", "yellow")


def this_command() -> str:
    """The `drike` to name in a command that can be copied: on PATH, as it was called, or as a module."""
    called = Path(sys.argv[0])
    if shutil.which("drike"):
        return "drike"
    return str(called) if called.name == "drike" and os.access(called, os.X_OK) else f"{sys.executable} -m drike"


def draw(table: Table) -> None:
    """Print a table with its notes. Intervals go on a second line of their cell, so that narrow terminals show them.

    If the table is still too wide, the ends of an interval and the words of a heading go on a line each; if that is not
    enough, the columns continue below, beside the names again.
    """
    padding = 0 if console.width < 100 else 1
    rows = [[cell.replace(" [", "\n[") for cell in row] for row in [table.header, *table.rows]]
    columns = [list(cells) for cells in zip_longest(*rows, fillvalue="")]
    if not table.wide and sum(_widths(columns, padding)) > console.width:
        columns[1:] = [[heading.replace(" ", "\n"), *cells] for heading, *cells in columns[1:]]
        columns = [[_BOUNDS.sub(r"\1\n\2", cell) for cell in cells] for cells in columns]
    if table.title:
        console.print(f"\n{table.title}", style="bold", markup=False)
    for part in [columns] if table.wide else _parts(columns, padding):
        drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, padding, 0, 0))
        for i, (heading, *_) in enumerate(part):
            numeric = i > 0 and not table.wide
            drawn.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
        for row in list(zip(*part, strict=True))[1:]:
            drawn.add_row(*map(Text, row))
        console.print(drawn)
    for note in table.notes:
        console.print(note, style="dim", markup=False)


def _parts(columns: list[list[str]], padding: int) -> Iterator[list[list[str]]]:
    """The columns in parts that fit the terminal, each with the first column, which holds the names."""
    names, *widths = _widths(columns, padding)
    part, room = columns[:1], console.width - names
    for column, width in zip(columns[1:], widths, strict=True):
        if width > room and len(part) > 1:
            yield part
            part, room = columns[:1], console.width - names
        part, room = [*part, column], room - width
    yield part


def _widths(columns: Iterable[Sequence[str]], padding: int) -> list[int]:
    """The width of each column with the space before it, if no word of a name and no line of a number is broken."""
    parts = (" ".join(cells).split() if i == 0 else "\n".join(cells).split("\n") for i, cells in enumerate(columns))
    widths = [max(map(cell_len, of_column), default=0) for of_column in parts]
    return [width + (1 + padding) * (i > 0) for i, width in enumerate(widths)]


@contextmanager
def progress(what: str, live: Callable[[], str] | None = None) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar on standard error if that is a terminal. `live` returns more figures to show."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([] if errors.width < 120 else [BarColumn(bar_width=24)]),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        _Status(table_column=Column(no_wrap=True)),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    with bar:
        yield bar, bar.add_task(what, total=None, live=live)


class _Status(ProgressColumn):
    """The figures after a progress bar."""

    def render(self, task: Task) -> Text:
        live = task.fields.get("live")
        figures = [str(task.fields.get("status", "")), live() if live else ""]
        return Text("  ".join(filter(None, figures)), style="cyan")


def watch_training(
    episodes: Iterable[Episode], total: int, per_epoch: int, live: Callable[[], str] | None = None
) -> None:
    """Train until the end; show the running epoch as a bar and every finished one as a line."""
    console.print(
        f"{'epoch':>5} {'ESR':>6} {'mean k':>7} {'sigma':>7} {'tokens':>10} {'calls':>7} {'seconds':>8}", style="bold"
    )
    epoch: list[Episode] = []
    with progress("training", live) as (bar, task):
        bar.update(task, total=total)
        for episode in episodes:
            epoch.append(episode)
            bar.update(task, advance=1, status=f"epoch {episode.epoch}  " + "  ".join(_figures(epoch)))
            if len(epoch) == per_epoch:
                esr, k, sigma, tokens, calls = (figure.split()[-1] for figure in _figures(epoch))
                seconds = sum(e.seconds for e in epoch)
                console.print(f"{episode.epoch:>5} {esr:>6} {k:>7} {sigma:>7} {tokens:>10} {calls:>7} {seconds:>8.1f}")
                epoch = []


def _figures(episodes: list[Episode]) -> tuple[str, ...]:
    """Of an epoch's episodes: ESR under the prompt the budget gives, mean k kept, sigma, prompt tokens, calls."""
    [one] = by_epoch(episodes)
    return (
        f"ESR {one.esr:.3f}",
        f"k {one.mean_k:.2f}",
        one.cut if one.share is not None else f"sigma {one.cut}",
        "tokens n/a" if one.prompt_tokens is None else f"tokens {one.prompt_tokens:,}",
        f"calls {one.calls:,}",
    )
