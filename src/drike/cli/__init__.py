"""The `drike` command: prints, saves, and says errors in one sentence.

A module of a command is imported when that command runs.
"""

import errno
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

# Set before numpy and torch are loaded: threads that spin while they wait keep the cores from all
# other work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import typer

from drike.cli.console import accept_all_text, complain, encoding_bar, typer_messages
from drike.cli.tree import app
from drike.errors import DrikeError, SpendingLimitError, UsageError
from drike.support import progress
from drike.support.extras import ending_signals, missing_extra

# Exit codes.
FAILED, MISUSED, SPENT, STOPPED, TERMINATED = 1, 2, 3, 130, 143

# Bytes of a command line that are no text come as halves of characters.
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
# As an unset variable leaves it; as a path it would be the working directory.
_EMPTY = re.compile(r"(--[\w-]+=)?")
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def main(
    arguments: Sequence[str] | None = None, command: Callable[..., Any] = app, name: str = "drike"
) -> None:
    """Run a command of `drike`, or of another command line, with the same exit codes.

    0: done, 1: a problem reported in one sentence, 2: wrong usage, 3: a limit on calls or money was
    reached, 130: stopped by Ctrl-C, 143: by SIGTERM or SIGHUP, which are handled like Ctrl-C.
    """
    warnings.showwarning = _show_warning
    accept_all_text()
    progress.show = encoding_bar
    progress.tell = partial(complain, style="dim")
    words = sys.argv[1:] if arguments is None else list(arguments)
    _refuse_unusable(words)
    signals = _interrupted_by_signals()
    try:
        sys.exit(command(args=words, prog_name=name, standalone_mode=False) or 0)
    except SystemExit as end:  # typer's way to end, also after Ctrl-C
        if end.code == STOPPED:
            complain("Stopped.", "yellow")
            sys.exit(TERMINATED if signals else STOPPED)
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(0)  # whoever read the output has seen enough, as `head` has
        raise
    except typer.TyperException as problem:
        typer_messages().rich_format_error(problem)
        sys.exit(problem.exit_code)
    except typer.Abort:
        typer_messages().rich_abort_error()
        sys.exit(FAILED)
    except (DrikeError, ModuleNotFoundError, OSError, MemoryError) as problem:
        _end_with(problem)


def _show_warning(message: object, *_: object, **__: object) -> None:
    complain(f"Note: {message}", "yellow")


def _interrupted_by_signals() -> list[int]:
    """Let signals that end a process interrupt this one; return a list of those that will come."""
    signals: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for ending in ending_signals():
            signal.signal(ending, interrupt)
    return signals


def _refuse_unusable(arguments: Sequence[str]) -> None:
    """Fail where an argument is empty or is no text."""
    for argument in arguments:
        if _NO_TEXT.search(argument):  # neither a terminal nor a run's folder could hold it
            if sys.getfilesystemencoding() == "utf-8":
                remedy = "write it, or rename the file, in UTF-8"
            else:
                remedy = "set PYTHONUTF8=1, since this locale is not UTF-8"
            _fail(f"the argument {argument!a} is not UTF-8 text: {remedy}", code=MISUSED)
        if _EMPTY.fullmatch(argument):
            _fail("an argument is empty: give it a value, or leave its option out", code=MISUSED)


def _end_with(problem: Exception) -> NoReturn:
    """Say what is wrong, in a sentence, and exit."""
    match problem:
        case UsageError():
            _fail(str(problem), code=MISUSED)
        case SpendingLimitError():
            _fail(f"{problem}; what was done is saved", code=SPENT)
        case ModuleNotFoundError():
            _fail(missing_extra(problem))
        case OSError():
            file = f" ({problem.filename})" if problem.filename else ""
            has_no_room = problem.errno in _NO_ROOM
            remedy = "make room" if has_no_room else "check the path, or choose another one"
            _fail(f"{problem.strerror or problem}{file}: {remedy}; what was saved stays")
        case MemoryError():
            remedy = "ask for less at once, or for a smaller model or encoder"
            _fail(f"there is not enough memory for this: {remedy}")
    _fail(str(problem))


def _fail(sentence: str, *, code: int = FAILED) -> NoReturn:
    from drike.cli.commands import as_flags

    complain(f"Error: {as_flags(sentence)}")
    sys.exit(code)
