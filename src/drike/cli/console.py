"""Print sentences, tables and progress to a terminal."""

import codecs
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderableType
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
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from drike.support.table import Table, visible

NOTHING = "(nothing)"  # for an empty answer
_LINES_EVERY = 10.0  # seconds
_ASCII = {"…": "...", "–": "-", "—": "-", "→": "->"}


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    r"""An error handler of codecs: what an encoding lacks as something similar, or as \u20ac."""
    assert isinstance(problem, UnicodeEncodeError)  # noqa: S101 - output is only written
    lacking = problem.object[problem.start : problem.end]
    written = [_ASCII.get(c) or c.encode("unicode_escape").decode() for c in lacking]
    return "".join(written), problem.end


codecs.register_error("drike", _in_ascii)


def accept_all_text() -> None:
    """Let standard output and standard error take any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="drike")


class SafeConsole(Console):
    """A console that shows control characters, and what its encoding lacks, in ASCII."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape every text before it is laid out."""
        if isinstance(renderable, Text | str):
            text = renderable if isinstance(renderable, Text) else self.render_str(renderable)
            shown = self.in_its_encoding(text.plain)
            if shown != text.plain:
                renderable = Text(
                    shown,
                    text.style,
                    justify=text.justify,
                    overflow=text.overflow,
                    no_wrap=text.no_wrap,
                )
        return super().render(renderable, options)

    def in_its_encoding(self, text: str) -> str:
        """A text as this console can show it."""
        return visible(text).encode(self.encoding, "drike").decode(self.encoding)


console = SafeConsole(highlight=False, emoji=False)
errors = SafeConsole(stderr=True, emoji=False)


def typer_messages() -> Any:
    """What draws typer's own help and messages, with a safe console; it takes long to import."""
    from typer import rich_utils

    rich_utils.Console = SafeConsole  # type: ignore[attr-defined]
    return rich_utils


class SafeHelp:
    """A command, or a group of commands, whose help a safe console draws."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Draw the help."""
        typer_messages()
        super().format_help(ctx, formatter)  # type: ignore[misc]


def say(what: str, style: str | None = None) -> None:
    """Print a sentence as it is. The terminal wraps it, so that a path in it can be copied."""
    console.print(what, style=style, markup=False, soft_wrap=True)


def say_lines(lines: Iterable[str]) -> None:
    """Print many sentences as they are, without the layout of `say`, which takes .2 ms for each."""
    rest = iter(lines)
    while some := list(islice(rest, 1_000)):
        shown = console.in_its_encoding("\n".join(some))
        console.file.write(f"{shown}\n")


def complain(what: str, style: str = "red") -> None:
    """Print a sentence on standard error, as it is."""
    errors.print(what, style=style, markup=False, highlight=False, soft_wrap=True)


def note(what: str) -> None:
    """Say what a user should know about a result, on a line of its own."""
    say(f"Note: {what}", "yellow")


def this_command() -> str:
    """The `drike` to name in a command that can be copied.

    It is the one on PATH, else as it was called, or as a module.
    """
    if shutil.which("drike"):
        return "drike"
    program = Path(sys.argv[0])
    if program.name == "drike" and os.access(program, os.X_OK):
        return str(program)
    return f"{sys.executable} -P -m drike"


def draw(*tables: Table) -> None:
    """Print tables with their notes."""
    console.print(*tables)


@contextmanager
def progress(what: str, live: Callable[[], str] | None = None) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar on standard error, or lines if that is no terminal.

    live: returns more figures to show.
    """
    wide = [] if errors.width < 120 else [BarColumn(bar_width=24)]
    bar = _Bar(
        SpinnerColumn("line"),
        TextColumn("{task.description}"),
        *wide,
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        _Status(table_column=Column(no_wrap=True)),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    _Bar.latest = bar
    with bar:
        yield bar, bar.add_task(what, total=None, live=live)


@contextmanager
def encoding_bar(texts: int) -> Iterator[Callable[[int], None]]:
    """A bar for many texts, which an encoder moves with what this yields.

    There is none for few texts, or below another bar.
    """
    is_below_another = _Bar.latest and _Bar.latest.live.is_started
    if texts < 200 or is_below_another:
        yield lambda done: None
        return
    with progress("encoding") as (bar, task):
        yield lambda done: bar.update(task, completed=done, total=texts)


class _Bar(Progress):
    """A progress bar; where none can be drawn, a line every ten seconds."""

    latest: ClassVar[Progress | None] = None
    _at = 0.0

    def update(self, task_id: TaskID, **values: Any) -> None:
        """Update a task, and print a line if it is time for one."""
        super().update(task_id, **values)
        if not self.disable:
            return
        now = self.get_time()
        task = self.tasks[task_id]
        last_line = self._at or task.start_time or now
        if task.total and now >= last_line + _LINES_EVERY:
            self._at = now
            complain(f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}", "dim")


class _Status(ProgressColumn):
    def render(self, task: Task) -> Text:
        status = task.fields.get("status")
        live = task.fields.get("live")
        figures = live() if live else None
        return Text("  ".join(part for part in (status, figures) if part), style="cyan")
