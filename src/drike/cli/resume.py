"""Runs that were stopped and go on: `--resume RUN` of `train` and `evaluate`.

A run's folder holds the options it was asked for. It goes on with these, on the same rows, split, weights and trained
policy, or not at all; what it has done already is not done again.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from drike.cli.console import errors, note
from drike.cli.options import flat
from drike.cli.setup import Setup
from drike.datasets.splits import SplitIds
from drike.errors import RunError, UsageError
from drike.runs.folder import has_begun, options_of, recorded, versions

# What may be another when a run goes on, as it decides no result; everything else stays as it was asked for.
_FREE = {"allow_http", "concurrency", "deadline", "no_cache", "price_in", "price_out", "max_calls", "max_cost"}
_OWN = ("out", "resume")  # where a run is, rather than what it is


def resumable(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the options that the run under --resume began with.

    Raises UsageError for an option given beside --resume that could change the result, RunError where the folder is of
    another command.
    """
    signature = inspect.signature(command, eval_str=True)  # typer reads the annotations themselves
    known = {name for name in signature.parameters if name not in _OWN}

    @wraps(command)
    def with_options(context: typer.Context, **given: Any) -> None:
        folder = given["resume"]
        if folder is None:
            return command(**given)
        named = {name for name in given if _source(context, name) == "COMMANDLINE"} - {"resume"}
        for name in sorted(named - _FREE):
            flag = name.replace("_", "-")
            raise UsageError(f"--resume goes on as the run was asked for: leave --{flag} out, or start a new run")
        began = options_of(folder)
        if began.keys() != known:
            raise RunError(f"{folder} was written by another command or another version of drike: start a new run")
        return command(**(began | {name: given[name] for name in named}), resume=folder)

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    taken = signature.replace(parameters=[first, *signature.parameters.values()])
    with_options.__signature__ = taken  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in taken.parameters.values()}
    return with_options


def options_in(given: Mapping[str, Any]) -> dict[str, object]:
    """A command's options, of its `locals()`, as run.json keeps them for `resumable`."""
    options = {name: value for name, value in flat(given).items() if name not in _OWN}
    return {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}


def check_same(folder: Path, setup: Setup, described: Mapping[str, object], trained: str | None = None) -> None:
    """Raise RunError unless rows, split, weights and trained policy are those a run began with.

    Other versions of packages are told and used: what they compute may differ in the last digits.
    """
    record = recorded(folder)
    weights = record["model"].get("weights_sha256")
    if record["data_fingerprint"] != setup.dataset.fingerprint:
        raise RunError(f"{folder} was begun on other rows: give it the data it began with, or start a new run")
    if SplitIds.load(folder / "split.json") != setup.split:
        raise RunError(f"{folder} was begun on another split of its rows: start a new run")
    if weights != described.get("weights_sha256"):
        raise RunError(f"{folder} was begun with other weights of its model: start a new run")
    if record.get("trained_sha256") != trained:
        raise RunError(f"{folder} was begun with another trained policy than its --run holds now: start a new run")
    before = record.get("versions")
    now = versions()
    other = [name for name in now if isinstance(before, dict) and before.get(name) != now[name]]
    if other:
        note(f"begun with another version of {', '.join(other)}")


@contextmanager
def alone_at(folder: Path, command: str) -> Iterator[None]:
    """Keep other processes out of a run's folder, and say how to go on where what is inside is stopped.

    Be it by an error, a limit or Ctrl-C; a run that recorded nothing has nothing to go on with, and may need other
    options than it was given. Raises RunError where another process works there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        try:
            yield
        except BaseException:
            if has_begun(folder):
                errors.print(
                    f"Go on with: drike {command} --resume {folder}", markup=False, highlight=False, soft_wrap=True
                )
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system takes back however a process ends; nothing where it has no such lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process works at {folder}: let it end, or stop it first") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name
