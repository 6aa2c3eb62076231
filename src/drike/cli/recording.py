"""A run while it works: a bar for each phase, what its model used, and its folder, which `--resume` continues.

What was done already is not repeated.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_args

from drike.cli.console import complain, note, progress, say, this_command
from drike.cli.dry_run import usage_sentence
from drike.cli.opening import OpenedModel, describe_model
from drike.cli.options import Command, RunOptions, as_flags
from drike.errors import RunError, UsageError
from drike.evaluation.evaluate import CaseAnswers
from drike.models.protocols import LanguageModel
from drike.runs.evaluating import CaseEvaluated
from drike.runs.folder import add_usage, has_begun, locked, total_usage
from drike.runs.run import PhaseStarted, Run, Setup, TrainedRun
from drike.support.records import read
from drike.training.algorithm1 import Episode

Event = TypeVar("Event")
_RECORDS = (Episode, CaseAnswers, CaseEvaluated)  # one step of a phase each
# Options that may change when a run continues, since no result depends on them.
_CHANGEABLE = {"allow_http", "concurrency", "deadline", "no_cache", "price_in", "price_out", "max_calls", "max_cost"}
_PLACES = {"out", "resume"}  # where a run is, rather than what it is
# Options of older versions, with their defaults.
_RETIRED: Mapping[str, object] = {
    "credit": "prefix", "soft": False, "reward": "rewrite", "selection": "top", "renormalise": False,
    "stop_on_flip": False, "delay": 0, "noise": 0.0, "order": None,
}  # fmt: skip


def watch(events: Generator[Event], show: Callable[[Event], str | None], model: LanguageModel) -> Event:
    """Run work to its end, with a bar for each phase; return its last event. show: prints one, or returns figures."""
    with ExitStack() as phase, closing(events):
        for event in events:
            if not isinstance(event, _RECORDS):
                phase.close()
            figures = show(event)
            if isinstance(event, PhaseStarted):
                bar, task = phase.enter_context(progress(event.name, live_usage(model)))
                bar.update(task, total=event.total, completed=event.done)
            elif isinstance(event, _RECORDS):
                bar.update(task, advance=1, status=figures or "")
    return event


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used since it was opened, however the block ends.

    folder: of a run, where the calls made while opening the model are recorded; its parts record all others.
    """
    opened = model.usage
    if folder is not None and opened.requests:
        add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {usage_sentence(model.usage)}")


def live_usage(model: LanguageModel) -> Callable[[], str] | None:
    """The figures that a progress bar shows while a served model works; None for a model on this machine."""

    def status() -> str:
        used = model.usage
        cost = "" if used.money is None else f" {used.money:.3f}"
        return f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"

    return status if model.info.served else None


class Resumable(Command):
    """A command with --resume, which takes the options the run began with. Raises UsageError for others, RunError."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        folder, known = ctx.params["resume"], ctx.params.keys() - _PLACES
        if folder is None:
            return super().invoke(ctx)
        flags = {param.name: (*param.opts, *param.secondary_opts)[0] for param in self.params}
        named = {name for name in known | {"out"} if ctx.get_parameter_source(name).name == "COMMANDLINE"}
        for name in sorted(named - _CHANGEABLE):
            raise UsageError(f"--resume keeps the run's options: leave {flags[name]} out, or start a new run")
        began = Run.open(folder).record.options
        if began is None:
            raise RunError(f"{folder} cannot be resumed, since its run.json holds no options: start a new run")
        if "editors" in known and "epochs" in began:
            again = f"evaluate it with --run {folder}, or continue training with drike train --resume {folder}"
            raise RunError(f"{folder} is a training run: {again}")
        if "epochs" in known and "editors" in began:
            raise RunError(f"{folder} is an evaluation: continue it with drike evaluate --resume {folder}")
        if used := [name for name, default in _RETIRED.items() if began.get(name, default) != default]:
            gone = " and ".join(f"--{name.replace('_', '-')}" for name in used)
            remedy = "start a new run, or continue it with the version of drike in its run.json"
            raise RunError(f"{folder} cannot be resumed, since drike no longer has {gone}: {remedy}")
        began = {name: value for name, value in began.items() if name not in _RETIRED}
        if began.keys() != known:
            raise RunError(f"{folder} was written by another command or another version of drike: start a new run")
        parameters = signature(self.callback).parameters  # type: ignore[arg-type]
        for param in self.params:  # the options as the command line would take them
            if param.name not in began or param.name in named:
                continue
            try:
                value = read(get_args(parameters[param.name].annotation)[0], began[param.name])
                if param.callback is not None:
                    param.callback(ctx, param, value)
            except (ValueError, UsageError) as problem:
                what = f"its option {flags[param.name]} cannot be used ({as_flags(str(problem))})"
                raise RunError(f"{folder} cannot be resumed, since {what}: start a new run") from problem
            ctx.params[param.name] = value
        return super().invoke(ctx)


def options_in(arguments: Mapping[str, Any]) -> dict[str, object]:
    """A command's options from its `locals()`, the fields of groups among them, as run.json keeps them."""
    options: dict[str, object] = {}
    for name, value in arguments.items():
        options |= vars(value) if is_dataclass(value) else {name: value}
    for place in _PLACES:
        del options[place]
    return {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}


@contextmanager
def recorded_at(
    folder: Path, setup: Setup, opened: OpenedModel, settings: Mapping[str, object], options: Mapping[str, object], *,
    command: str, at: RunOptions, base: TrainedRun | None = None,
) -> Iterator[None]:  # fmt: skip
    """`alone_at` a run's folder, write its run.json, and print what its model used. Raises RunError.

    Of a resumed run it checks that data and model are the same, and notes changed packages.
    """
    described, policy = describe_model(opened.name, opened.model), base.trained_sha256 if base else None
    with alone_at(folder, command):
        if at.resume is None:
            Run.create(folder, setup, described, settings, options=options, trained_sha256=policy)
        elif changed := Run.open(folder).check_same(setup, described, policy):
            note(f"begun with another version of {', '.join(changed)}")
        with metered(opened.model, folder):
            yield


@contextmanager
def alone_at(folder: Path, command: str | None) -> Iterator[None]:
    """Keep other processes out of a run's folder, and say how to continue if an error, a limit or Ctrl-C stops the run.

    A new folder in which nothing was recorded or paid for is removed. Raises RunError if another process uses it.
    """
    is_new = not folder.exists()
    with locked(folder):
        try:
            yield
        except BaseException:
            if has_begun(folder):
                complain(f"What was done so far is in {folder}", "yellow")
                if command is not None:
                    complain(f"Continue with: {this_command()} {command} --resume {folder}", "yellow")
            elif is_new and not total_usage(folder).tokens:
                shutil.rmtree(folder, ignore_errors=True)
            raise
