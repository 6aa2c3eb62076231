"""The `drike` command: it prints, saves, and turns errors into one-sentence messages.

There is a module for each command: `train`, `evaluate`, `ceiling`, `edit`, `serve`, `keys`, `report` (with `case`),
`data`, `edits` (with `edits_test`, `reword`, `replay`), `doctor`, `demo`, `paper` and `cache`. They share
`options`, `opening` (of data, models, encoders and runs), `resume`, `dry_run` and `console` (tables and progress).
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

# Set before torch is loaded, so that its waiting threads sleep: on a busy machine, spinning threads make a small model
# many times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import typer
from typer import rich_utils

from drike.cli import cache, data, demo, doctor, edits, edits_test, keys, paper, replay  # noqa: F401 - commands of `edits`
from drike.cli import ceiling as ceilings
from drike.cli import edit as editing
from drike.cli import evaluate as evaluating
from drike.cli import report as reporting
from drike.cli import serve as serving
from drike.cli import train as training
from drike.cli.console import SafeConsole, accept_all_text, complain
from drike.cli.options import RUN_DECIDES, VALUES_OF_DATA, VALUES_OF_MODEL, Command, as_flags
from drike.cli.resume import Resumable
from drike.errors import DrikeError, SpendingLimitError, UsageError
from drike.support.signals import ending_signals

SPENT, STOPPED, TERMINATED = 3, 130, 143
_BROKEN = re.compile(r"[\0\ud800-\udfff]")  # bytes of a command line that are no text come as halves of characters
_EMPTY = re.compile(r"(--[\w-]+=)?")  # as an unset variable leaves it; as a path it would be the working directory
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

rich_utils.Console = SafeConsole  # type: ignore[attr-defined]  # for typer's own messages
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"drike {version('drike')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, metavar="", help="Print the version and exit")
    ] = False,
) -> None:
    """In-context knowledge editing for language models whose weights you cannot touch."""


TRY, RUN, READ, MORE = "Start here", "Edit models", "Read results", "Data, caches"
_VALUES = f"{VALUES_OF_DATA}\n\n{VALUES_OF_MODEL}"
for panel, command, epilog, kind in (
    (TRY, demo.demo, "", Command),
    (TRY, doctor.doctor, VALUES_OF_MODEL, Command),
    (RUN, training.train, _VALUES, Resumable),
    (RUN, evaluating.evaluate, f"{RUN_DECIDES}\n\n{evaluating.VALUES_OF_EDITORS}\n\n{_VALUES}", Resumable),
    (RUN, ceilings.ceiling, f"{RUN_DECIDES}\n\n{_VALUES}", Resumable),
    (RUN, editing.edit, f"{RUN_DECIDES}\n\n{_VALUES}", Command),
    (RUN, serving.serve, VALUES_OF_MODEL, Command),
    (READ, reporting.report, "", Command),
    (READ, reporting.case, "", Command),
    (READ, paper.paper, "", Command),
):
    app.command(cls=kind, rich_help_panel=panel, epilog=epilog)(command)
app.add_typer(edits.app, name="edits", rich_help_panel=RUN)
app.add_typer(keys.app, name="keys", rich_help_panel=RUN)
app.add_typer(data.app, name="data", rich_help_panel=MORE)
app.add_typer(cache.app, name="cache", rich_help_panel=MORE)


def main(arguments: Sequence[str] | None = None, command: typer.Typer = app, name: str = "drike") -> None:
    """Run a command of `drike`, or of another command line, with the same exit codes.

    0: done, 1: a problem reported in one sentence, 2: wrong usage, 3: a limit on calls or money was reached, 130:
    stopped by Ctrl-C, 143: by SIGTERM or SIGHUP, which are handled like Ctrl-C.
    """
    warnings.showwarning = _warn
    accept_all_text()
    words = sys.argv[1:] if arguments is None else list(arguments)
    _refuse_unusable(words)
    signals: list[int] = []

    def end(number: int, frame: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for ending in ending_signals():
            signal.signal(ending, end)
    try:
        command(args=words, prog_name=name)
    except UsageError as problem:
        _fail(str(problem), code=2)
    except SpendingLimitError as problem:
        _fail(f"{problem}; what was done is saved", code=SPENT)
    except DrikeError as problem:
        _fail(str(problem))
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        remedy = "make room" if problem.errno in _FULL else "check the path, or choose another one"
        _fail(f"{problem.strerror or problem}{where}: {remedy}; what was saved stays")
    except MemoryError:
        _fail("there is not enough memory for this: ask for less at once, or for a smaller model or encoder")
    except SystemExit as stop:  # typer's way to end, also after Ctrl-C
        if stop.code == STOPPED:
            complain("Stopped.", "yellow")
            sys.exit(TERMINATED if signals else STOPPED)
        if isinstance(stop.__context__, BrokenPipeError):  # whoever read the output has seen enough, as `head` has
            sys.exit(0)
        raise


def _refuse_unusable(arguments: Sequence[str]) -> None:
    """Fail where an argument is empty or is no text."""
    for argument in arguments:
        if _BROKEN.search(argument):  # neither a terminal nor a run's folder could hold it
            remedy = "write it, or rename the file, in UTF-8"
            if sys.getfilesystemencoding() != "utf-8":
                remedy = "set PYTHONUTF8=1, since this locale is not UTF-8"
            _fail(f"the argument {argument!a} is not UTF-8 text: {remedy}", code=2)
        if _EMPTY.fullmatch(argument):
            _fail("an argument is empty: give it a value, or leave its option out", code=2)


def _fail(sentence: str, *, code: int = 1) -> None:
    complain(f"Error: {as_flags(sentence)}")
    sys.exit(code)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    complain(f"Note: {message}", "yellow")
