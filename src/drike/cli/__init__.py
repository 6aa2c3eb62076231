"""The `drike` command: prints, saves, and says errors in one sentence. A module is imported when its command runs."""

import errno
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

# Set before numpy and torch are loaded: threads that spin while they wait keep the cores from all other work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import typer
from typer.core import TyperCommand, TyperGroup

from drike.cli.console import SafeHelp, accept_all_text, complain, encoding_bar, typer_messages
from drike.errors import DrikeError, SpendingLimitError, UsageError
from drike.support import progress
from drike.support.extras import ending_signals, missing_extra, version_and_extras

SPENT, STOPPED, TERMINATED = 3, 130, 143
_BROKEN = re.compile(
    r"[\0\ud800-\udfff]"
)  # bytes of a command line that are no text come as halves of characters
_EMPTY = re.compile(
    r"(--[\w-]+=)?"
)  # as an unset variable leaves it; as a path it would be the working directory
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class Listed(TyperCommand):
    """A command as help lists it, by its docstring; `module` of drike.cli is imported when it runs or is asked for."""

    def __init__(self, name: str, module: str = "", panel: str | None = None) -> None:
        self.module = module or name
        source = Path(__file__).with_name(f"{self.module}.py").read_text("utf-8")
        other = re.search(
            rf"^{name} = (\w+)", source, re.MULTILINE
        )  # it is another name for this one, not listed
        function = other[1] if other else name
        docstring = re.search(
            rf'^def {function}_?\(.*?"""(.*?)"""', source, re.DOTALL | re.MULTILINE
        )
        super().__init__(
            name, help=docstring and docstring[1], rich_help_panel=panel, hidden=other is not None
        )

    def imported(self) -> TyperCommand:
        """The command itself; where Python needs its name, it ends in _ there."""
        module = import_module(f"{__name__}.{self.module}")
        command: TyperCommand = getattr(module, f"{self.name}_", None) or getattr(
            module, str(self.name)
        )
        return command

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """The context of the command itself, in which it runs."""
        return self.imported().make_context(*args, **settings)


class CommandGroup(SafeHelp, TyperGroup):
    """A group of commands."""


def _group(name: str, help: str, panel: str, **modules: str) -> CommandGroup:
    """A group of commands, by the modules of drike.cli that they are in."""
    listed = [
        Listed(command, module)
        for module, commands in modules.items()
        for command in commands.split()
    ]
    return CommandGroup(
        name=name, help=help, rich_help_panel=panel, no_args_is_help=True, commands=listed
    )


_typer = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(version_and_extras())
        raise typer.Exit


@_typer.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            metavar="",
            help="Print the version and exit",
        ),
    ] = False,
) -> None:
    """In-context knowledge editing for language models whose weights you cannot touch."""


TRY, RUN, READ, MORE = "Start here", "Edit models", "Read results", "Data"
app = typer.main.get_group(_typer)
for command in (
    Listed("demo", "edit", TRY),
    *(Listed(name, "reading", TRY) for name in ("tour", "doctor")),
    *(Listed(name, "experiments", RUN) for name in ("train", "evaluate")),
    *(Listed(name, panel=RUN) for name in ("edit", "serve")),
    _group(
        "edits", "Keep edits in a store, with their versions and history.", RUN,
        edits="add reword import export sync calibrate",
        edits_life="list show diff propose approve reject change review retire rollback approvals",
        edits_health="due inbox health report replay", edits_tune="tune", edits_verify="verify test",
    ),
    _group("keys", "Make, list and revoke keys of drike serve.", RUN, serve="add list revoke"),
    Listed("report", "reading", READ),
    _group("data", "Look at data sets.", MORE, reading="inspect"),
):  # fmt: skip
    app.add_command(command)


def main(
    arguments: Sequence[str] | None = None, command: Callable[..., Any] = app, name: str = "drike"
) -> None:
    """Run a command of `drike`, or of another command line, with the same exit codes.

    0: done, 1: a problem reported in one sentence, 2: wrong usage, 3: a limit on calls or money was reached, 130:
    stopped by Ctrl-C, 143: by SIGTERM or SIGHUP, which are handled like Ctrl-C.
    """
    warnings.showwarning = lambda message, *_, **__: complain(f"Note: {message}", "yellow")
    accept_all_text()
    progress.show = encoding_bar
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
        sys.exit(command(args=words, prog_name=name, standalone_mode=False) or 0)
    except typer.TyperException as problem:
        typer_messages().rich_format_error(problem)
        sys.exit(problem.exit_code)
    except typer.Abort:
        typer_messages().rich_abort_error()
        sys.exit(1)
    except UsageError as problem:
        _fail(str(problem), code=2)
    except SpendingLimitError as problem:
        _fail(f"{problem}; what was done is saved", code=SPENT)
    except (DrikeError, ModuleNotFoundError) as problem:
        _fail(missing_extra(problem) if isinstance(problem, ModuleNotFoundError) else str(problem))
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        remedy = "make room" if problem.errno in _FULL else "check the path, or choose another one"
        _fail(f"{problem.strerror or problem}{where}: {remedy}; what was saved stays")
    except MemoryError:
        _fail(
            "there is not enough memory for this: ask for less at once, or for a smaller model or encoder"
        )
    except SystemExit as stop:  # typer's way to end, also after Ctrl-C
        if stop.code == STOPPED:
            complain("Stopped.", "yellow")
            sys.exit(TERMINATED if signals else STOPPED)
        if isinstance(
            stop.__context__, BrokenPipeError
        ):  # whoever read the output has seen enough, as `head` has
            sys.exit(0)
        raise


def _refuse_unusable(arguments: Sequence[str]) -> None:
    """Fail where an argument is empty or is no text."""
    for argument in arguments:
        if _BROKEN.search(argument):  # neither a terminal nor a run's folder could hold it
            utf8, other = (
                "write it, or rename the file, in UTF-8",
                "set PYTHONUTF8=1, since this locale is not UTF-8",
            )
            remedy = utf8 if sys.getfilesystemencoding() == "utf-8" else other
            _fail(f"the argument {argument!a} is not UTF-8 text: {remedy}", code=2)
        if _EMPTY.fullmatch(argument):
            _fail("an argument is empty: give it a value, or leave its option out", code=2)


def _fail(sentence: str, *, code: int = 1) -> None:
    from drike.cli.options import as_flags

    complain(f"Error: {as_flags(sentence)}")
    sys.exit(code)
