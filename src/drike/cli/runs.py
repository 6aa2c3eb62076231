"""Record the run of a command in a folder, with bars while it works, and continue it: --resume."""

import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import is_dataclass
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from drike.cli.commands import Command, as_flags
from drike.cli.console import complain, note, progress, this_command
from drike.cli.models import OpenedModel, live_usage, metered
from drike.cli.options import RunOptions
from drike.errors import RunError, UsageError
from drike.models import LanguageModel
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.runs.evaluation_run import CaseEvaluated, NeighboursAnswered
from drike.research.runs.events import PhaseStarted
from drike.research.runs.files import EVALUATIONS
from drike.research.runs.folders import has_begun, locked, require_new
from drike.research.runs.run import Run, TrainedRun
from drike.research.runs.setup import Setup
from drike.research.runs.usage import total_usage
from drike.research.training.algorithm1 import Episode
from drike.support.records import read

Event = TypeVar("Event")
_RECORDS = (Episode, CaseAnswers, NeighboursAnswered, CaseEvaluated)  # one step of a phase each
# Options that may change when a run continues, since no result depends on them.
CHANGEABLE = {
    "allow_http", "concurrency", "deadline", "no_cache", "price_in", "price_out", "max_calls",
    "max_cost",
}  # fmt: skip
_PLACES = {"out", "resume"}  # where a run is, rather than what it is
# Options of older versions, with their defaults.
_RETIRED: Mapping[str, object] = {
    "credit": "prefix", "soft": False, "reward": "rewrite", "selection": "top",
    "renormalise": False, "stop_on_flip": False, "delay": 0, "noise": 0.0, "order": None,
    "ask": False,
}  # fmt: skip
# Options that older versions did not have, with what these did.
_ADDED: Mapping[str, object] = {"retention": "all"}

_NEVER_USED = {"named"}  # options of older versions that had no effect, whatever they were


def new_run(out: Path | None, command: str, run: Path | None = None) -> Path:
    """The folder of a new run: `out`, or <date>-<command>, with the evaluations of `run` if any.

    The first write creates it. Raises RunError if it holds a run; one that recorded nothing is
    begun again.
    """
    if out is None:
        parent = run / EVALUATIONS if run else Path("runs")
        out = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{command}"
    require_new(out)
    return out


def watch(
    events: Generator[Event], show: Callable[[Event], str | None], model: LanguageModel
) -> Event:
    """Run work to its end, with a bar for each phase; return its last event.

    show: prints an event, or returns figures for the bar.
    """
    with ExitStack() as phase, closing(events):
        for event in events:
            if not isinstance(event, _RECORDS):
                phase.close()
            figures = show(event)
            if isinstance(event, PhaseStarted):
                bar, task = phase.enter_context(progress(event.name, partial(live_usage, model)))
                bar.update(task, total=event.total, completed=event.done)
            elif isinstance(event, _RECORDS):
                bar.update(task, advance=1, status=figures or "")
    return event


def options_in(arguments: Mapping[str, Any]) -> dict[str, object]:
    """A command's options from its `locals()`, as run.json keeps them.

    Of a group of options there are its fields.
    """
    options: dict[str, object] = {}
    for name, value in arguments.items():
        options |= vars(value) if is_dataclass(value) else {name: value}
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if name not in _PLACES
    }


class Resumable(Command):
    """A command with --resume, which takes the options that the run began with.

    Raises UsageError for others, RunError.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        folder = ctx.params["resume"]
        if folder is not None:
            given = {name for name in ctx.params if _is_given(ctx, name)}
            self._refuse_others(given)
            self._take_options(ctx, folder, self._options_of(folder, set(ctx.params)), given)
        return super().invoke(ctx)

    def _refuse_others(self, given: set[str]) -> None:
        """Raises UsageError for options that a resumed run has already."""
        for name in sorted(given - CHANGEABLE - {"resume"}):
            raise UsageError(
                f"--resume keeps the run's options: leave {self._flag_of(name)} out, "
                "or start a new run"
            )

    def _options_of(self, folder: Path, names: set[str]) -> dict[str, object]:
        """The options with which a run began. Raises RunError where this command has others."""
        options = Run.open(folder).record.options
        if options is None:
            raise RunError(
                f"{folder} cannot be resumed, since its run.json holds no options: start a new run"
            )
        if "editors" in names and "epochs" in options:
            remedy = (
                f"evaluate it with --run {folder}, "
                f"or continue training with drike train --resume {folder}"
            )
            raise RunError(f"{folder} is a training run: {remedy}")
        if "epochs" in names and "editors" in options:
            raise RunError(
                f"{folder} is an evaluation: continue it with drike evaluate --resume {folder}"
            )
        _refuse_retired(folder, options)
        usable = {name: value for name, value in _ADDED.items() if name in names}
        gone = _RETIRED.keys() | _NEVER_USED
        usable |= {name: value for name, value in options.items() if name not in gone}
        if usable.keys() != names - _PLACES:
            raise RunError(
                f"{folder} was written by another command or another version of drike: "
                "start a new run"
            )
        return usable

    def _take_options(
        self, ctx: Any, folder: Path, options: Mapping[str, object], given: set[str]
    ) -> None:
        """Take a run's options as the command line would. Raises RunError for what is damaged."""
        parameters = signature(self.callback).parameters  # type: ignore[arg-type]
        for param in self.params:
            name = str(param.name)
            if name not in options or name in given:
                continue
            try:
                value = read(_recorded_type(parameters[name]), options[name])
                if param.callback is not None:
                    param.callback(ctx, param, value)
            except (ValueError, UsageError) as problem:
                what = f"its option {self._flag_of(name)} cannot be used"
                raise RunError(
                    f"{folder} cannot be resumed, since {what} ({as_flags(str(problem))}): "
                    "start a new run"
                ) from problem
            ctx.params[name] = value

    def _flag_of(self, name: str) -> str:
        """The first name of an option, or the one that switches it off if that is its only one."""
        [param] = [param for param in self.params if param.name == name]
        return (*param.opts, *param.secondary_opts)[0]


def _is_given(ctx: Any, name: str) -> bool:
    return bool(ctx.get_parameter_source(name).name == "COMMANDLINE")


def _refuse_retired(folder: Path, options: Mapping[str, object]) -> None:
    """Raises RunError if a run has options that there are no longer."""
    retired = [name for name, default in _RETIRED.items() if options.get(name, default) != default]
    if retired:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in retired)
        remedy = "start a new run, or continue it with the version of drike in its run.json"
        raise RunError(f"{folder} cannot be resumed, since drike no longer has {flags}: {remedy}")


def _recorded_type(parameter: Parameter) -> Any:
    """The type of an option in run.json; of a Literal any text, which the option then refuses."""
    kind = get_args(parameter.annotation)[0]
    if get_origin(kind) is Literal:
        return str
    if any(get_origin(part) is Literal for part in get_args(kind)):
        return str | None
    return kind


@contextmanager
def recorded_at(
    folder: Path,
    setup: Setup,
    opened: OpenedModel,
    settings: Mapping[str, object],
    options: Mapping[str, object],
    *,
    command: str,
    at: RunOptions,
    base: TrainedRun | None = None,
) -> Iterator[None]:
    """`alone_at` a folder: write run.json, or check a resumed run's; print what the model used.

    Raises RunError.
    """
    trained_sha256 = base.trained_sha256 if base else None
    with alone_at(folder, command):
        if at.resume is None:
            Run.create(
                folder,
                setup,
                opened.described,
                settings,
                options=options,
                trained_sha256=trained_sha256,
            )
        else:
            changed = Run.open(folder).check_same(setup, opened.described, trained_sha256)
            if changed:
                note(f"begun with another version of {', '.join(changed)}")
        with metered(opened.model, folder):
            yield


@contextmanager
def alone_at(folder: Path, command: str | None) -> Iterator[None]:
    """Keep other processes out of a run's folder, and say how to continue if the run is stopped.

    A new folder in which nothing was recorded or paid for is removed. Raises RunError if another
    process uses it.
    """
    is_new = not folder.exists()
    with locked(folder):
        try:
            yield
        except BaseException:
            if has_begun(folder):
                complain(f"What was done so far is in {folder}", "yellow")
                if command is not None:
                    again = f"{this_command()} {command} --resume {folder}"
                    complain(f"Continue with: {again}", "yellow")
            elif is_new and not total_usage(folder).tokens:
                shutil.rmtree(folder, ignore_errors=True)
            raise
