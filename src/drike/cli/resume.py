"""`--resume RUN`: continue a stopped run with the options in its folder; what was done already is not repeated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from drike.cli.console import complain, note, this_command
from drike.cli.opening import OpenedModel, describe_model
from drike.cli.options import Command, RunOptions, as_flags
from drike.cli.watching import metered
from drike.errors import RunError, UsageError
from drike.runs.folder import has_begun, locked, total_usage
from drike.runs.run import Run, Setup, TrainedRun
from drike.support.records import read

# Options that may change when a run continues, since no result depends on them.
_CHANGEABLE = {"allow_http", "concurrency", "deadline", "no_cache", "price_in", "price_out", "max_calls", "max_cost"}
_PLACES = {"out", "resume"}  # where a run is, rather than what it is
# Options of older versions, with their defaults.
_RETIRED: Mapping[str, object] = {
    "credit": "prefix", "soft": False, "reward": "rewrite", "selection": "top", "renormalise": False,
    "stop_on_flip": False, "delay": 0, "noise": 0.0, "order": None,
}  # fmt: skip


class Resumable(Command):
    """A command with --resume, which takes the options the run began with. Raises UsageError for others, RunError."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        folder, known = ctx.params["resume"], ctx.params.keys() - _PLACES
        if folder is None:
            return super().invoke(ctx)
        sources = {name: ctx.get_parameter_source(name) for name in known | {"out"}}
        named = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
        flags = {param.name: (*param.opts, *param.secondary_opts)[0] for param in self.params}
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
        used = [
            f"--{name.replace('_', '-')}" for name, default in _RETIRED.items() if began.get(name, default) != default
        ]
        if used:
            remedy = "start a new run, or continue it with the version of drike in its run.json"
            raise RunError(f"{folder} cannot be resumed, since drike no longer has {' and '.join(used)}: {remedy}")
        began = {name: value for name, value in began.items() if name not in _RETIRED}
        if began.keys() != known:
            raise RunError(f"{folder} was written by another command or another version of drike: start a new run")
        ctx.params |= {name: value for name, value in self._checked(ctx, began).items() if name not in named}
        return super().invoke(ctx)

    def _checked(self, ctx: Any, began: Mapping[str, Any]) -> dict[str, Any]:
        """The options in a run's folder, as the command line would take them. Raises RunError, UsageError."""
        parameters = signature(self.callback).parameters  # type: ignore[arg-type]
        options = {}
        try:
            for param in self.params:
                if param.name in began:
                    kind = get_args(parameters[param.name].annotation)[0]
                    options[param.name] = read(kind, began[param.name])
                    if param.callback is not None:
                        param.callback(ctx, param, options[param.name])
        except (ValueError, UsageError) as problem:
            what = f"its option {(*param.opts, *param.secondary_opts)[0]} cannot be used ({as_flags(str(problem))})"
            raise RunError(f"{ctx.params['resume']} cannot be resumed, since {what}: start a new run") from problem
        return options


def options_in(arguments: Mapping[str, Any]) -> dict[str, object]:
    """A command's options from its `locals()`, the fields of groups among them, as run.json keeps them."""
    options: dict[str, object] = {}
    for name, value in arguments.items():
        options |= asdict(value) if is_dataclass(value) and not isinstance(value, type) else {name: value}
    kept = ((name, value) for name, value in options.items() if name not in _PLACES)
    return {name: str(value) if isinstance(value, Path) else value for name, value in kept}


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
