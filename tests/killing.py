"""Kills real runs with SIGKILL at random moments, takes them up again until they are done, and compares the ends.

    python tests/killing.py train --kills 200 --seed 1
    python tests/killing.py evaluate --kills 200
    python tests/killing.py train --served --kills 20

Everything is imported once; every run is a fork of this process, in a process group of its own, so that a kill costs
what a run costs and not the imports. Moments are drawn from a seed: a third anywhere in the time that a whole run
takes, a third right behind the n-th change in the run's folder, a third behind a change in its checkpoint or outcomes.
A run that was taken up is itself killed with probability 1/2. The machine's timing is not seeded: a series hits other
places each time.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROWS = 120  # of TinyFacts: reading all of them would take longer than the runs
OPTIONS = ["--encoder", "hashing", "--editable", "40", "--test", "5", "--selection", "sample", "--seed", "3"]
SIZE = ["--edits", "10", "--epochs", "3"]
SMALL = ["--edits", "4", "--epochs", "2"]  # for models that take their time
CONCURRENCY = 4
LONGEST = 300.0  # seconds for one run
_SPAN = struct.Struct("q")


@dataclass
class Series:
    """What a series of kills did. `differing`: what was not as in the whole run; a good series has none."""

    command: str
    model: str
    kills: int = 0
    runs: int = 0  # begun and ended in the same folder, whatever happened in between
    taken_up: int = 0
    begun_again: int = 0  # killed before there was a run.json
    killed_by: dict[str, int] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    requests: int = 0
    allowed: int = 0
    seconds: float = 0.0


def start(arguments: Sequence[str], log: Path) -> int:
    """A fork that runs `drike` with these arguments, in a process group of its own; its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        with log.open("ab", buffering=0) as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        sys.argv = ["drike", *arguments]
        from drike.cli import main

        try:
            main(arguments)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def ended(pid: int) -> int | None:
    """The exit code of a child that has ended, minus the signal that ended it; None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return None if found == 0 else os.waitstatus_to_exitcode(status)


def whole(arguments: Sequence[str], log: Path) -> float:
    """Run to the end; the seconds it took. Raises RuntimeError for any exit code but 0."""
    began = time.monotonic()
    pid = start(arguments, log)
    while (code := ended(pid)) is None:
        time.sleep(0.001)
        if time.monotonic() - began > LONGEST:
            os.kill(pid, signal.SIGKILL)
    if code != 0:
        raise RuntimeError(f"exit code {code}: {log.read_text('utf-8')[-2000:]}")
    return time.monotonic() - began


def killed(arguments: Sequence[str], log: Path, moment: Callable[[], bool]) -> bool:
    """Run until `moment` says so, then SIGKILL; False if the run ended first."""
    pid = start(arguments, log)
    while (code := ended(pid)) is None:
        if moment():
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            return os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    if code != 0:
        raise RuntimeError(f"exit code {code}: {log.read_text('utf-8')[-2000:]}")
    return False


def look(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the files of a folder and the folders in it; a change of any is a change."""
    found = []
    for place in (folder, folder / "checkpoint", folder / "outcomes"):
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    told = entry.stat(follow_symlinks=False)
                    found.append((entry.name, told.st_size, told.st_mtime_ns))
        except FileNotFoundError:  # not there yet, or a file went while we looked
            found.append((place.name, 0, 0))
    return tuple(found)


def moment(rng: random.Random, seconds: float, folder: Path) -> tuple[str, Callable[[], bool]]:
    """When to kill: after so much of `seconds`, or behind a change of the folder, or of its checkpoint or outcomes."""
    kind = rng.choice(["any time", "behind a write", "behind a write of results"])
    if kind == "any time":
        due = time.monotonic() + rng.uniform(0.0, seconds)

        def passed() -> bool:
            time.sleep(0.0005)
            return time.monotonic() >= due

        return kind, passed
    places = [folder / "checkpoint", folder / "outcomes"] if kind == "behind a write of results" else [folder]
    left, last, wait = rng.randint(1, 25), [look(place) for place in places], rng.choice([0.0, 0.0, 0.0005, 0.002])

    def changed() -> bool:
        nonlocal left, last
        now = [look(place) for place in places]
        left -= now != last
        last = now
        if left > 0:
            return False
        time.sleep(wait)
        return True

    return kind, changed


# What must be the same at the end


def differences(first: Path, second: Path) -> list[str]:
    """The files of two runs that are not the same, up to seconds, the command line and hidden remains of a kill."""
    names = [sorted(str(p.relative_to(one)) for p in one.rglob("*") if p.is_file() and not _hidden(p))
             for one in (first, second)]  # fmt: skip
    found = [f"{name} is only in one" for name in {*names[0]} ^ {*names[1]}]
    return found + [name for name in names[0] if name in names[1] and _read(first / name) != _read(second / name)]


def unreadable(folder: Path) -> Iterator[str]:
    """What cannot be used of a run right after a kill: a checkpoint or a split without its like, or damaged."""
    from drike import checkpoint
    from drike.datasets import DataError
    from drike.datasets.splits import Split
    from drike.encoder import HashingEncoder
    from drike.retriever import CheckpointError
    from drike.runs import RunError, settings_of

    try:
        if (folder / "run.json").exists():
            settings_of(folder)
            Split.load(folder / "split.json")
        if (folder / "checkpoint" / "budget.json").exists():
            checkpoint.load(folder / "checkpoint", encoder=HashingEncoder())
    except (CheckpointError, DataError, RunError) as problem:
        yield str(problem)


def _hidden(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _read(path: Path) -> object:
    """A file's content without what may differ between two equal runs."""
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        return [_without_seconds(json.loads(line)) for line in content.splitlines()]
    if path.name in ("usage.json", "spending.json"):
        return path.name  # what this process did: less, if it was taken up
    if path.name == "run.json":
        told = json.loads(content)
        return {name: value for name, value in told.items() if name not in ("command", "started", "sha256")}
    if path.name == "summary.json":
        return _without_seconds(json.loads(content))
    if path.name == "table.md":
        return _without_second_columns(content.decode())
    return content


def _without_seconds(told: object) -> object:
    if isinstance(told, dict):
        return {name: _without_seconds(value) for name, value in told.items() if "seconds" not in name}
    return [_without_seconds(one) for one in told] if isinstance(told, list) else told


def _without_second_columns(text: str) -> list[list[str]]:
    """The lines of Markdown tables as cells, without those of columns of seconds."""
    found: list[list[str]] = []
    timed: set[int] = set()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not line.startswith("|"):
            timed = set()
        elif not timed and any(cell.startswith("s/") for cell in cells):
            timed = {i for i, cell in enumerate(cells) if cell.startswith("s/")}
        found.append([cell for i, cell in enumerate(cells) if i not in timed])
    return found


# Series


def series(command: str, model: str, kills: int, seed: int, place: Path, *, served: bool = False) -> Series:
    """So many kills of `command` on `model`, each run taken up until it is done and compared with a whole one."""
    told, began, log = Series(command, model), time.monotonic(), place / "log"
    told.killed_by = {"any time": 0, "behind a write": 0, "behind a write of results": 0}
    count: Callable[[], int] = lambda: 0  # noqa: E731
    with _server() if served else _nothing() as server:
        if server is not None:
            model, count = server
        arguments = _arguments(command, model, place, log)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache-whole")
        before = count()
        seconds = whole([*arguments, "--out", str(place / "whole")], log)
        paid = count() - before
        number = 0
        while told.kills < kills:
            number += 1
            rng, folder = random.Random(f"{seed}|{command}|{number}"), place / f"run-{number}"
            os.environ["XDG_CACHE_HOME"] = str(place / f"cache-{number}")
            before, hits = count(), told.kills
            try:
                _one(told, arguments, command, folder, log, rng, seconds)
            except RuntimeError as problem:
                told.failed.append(f"run {number}: {problem}")
                told.kills += 1  # a series that fails must end, too
                continue
            if told.kills == hits:
                shutil.rmtree(folder)  # it ended before its moment came
                continue
            told.runs += 1
            told.differing += [f"run {number}: {name}" for name in differences(place / "whole", folder)]
            told.requests += count() - before
            told.allowed += paid + (told.kills - hits) * CONCURRENCY
            if count() - before > paid + (told.kills - hits) * CONCURRENCY:
                told.differing.append(f"run {number}: {count() - before} requests, {paid} in a whole run")
            shutil.rmtree(folder)
            shutil.rmtree(place / f"cache-{number}", ignore_errors=True)
    told.seconds = time.monotonic() - began
    return told


def _one(
    told: Series, arguments: Sequence[str], command: str, folder: Path, log: Path, rng: random.Random, seconds: float
) -> None:
    """One run, killed once or more if the moments come, and taken up until it is done."""
    again = True
    while True:
        fresh = not (folder / "run.json").exists()
        now = [*arguments, "--out", str(folder)] if fresh else [command, "--resume", str(folder)]
        if not again:
            whole(now, log)
            return
        kind, due = moment(rng, seconds, folder)
        if not killed(now, log, due):
            return
        told.kills += 1
        told.killed_by[kind] += 1
        told.differing += [f"{folder.name}, killed {kind}: {problem}" for problem in unreadable(folder)]
        if (folder / "run.json").exists():
            told.taken_up += 1
        else:
            told.begun_again += 1
        again = rng.random() < 0.5


def _arguments(command: str, model: str, place: Path, log: Path) -> list[str]:
    from drike import tinyfacts

    rows = json.loads(tinyfacts.rows_path().read_text("utf-8"))
    (place / "rows.json").write_text(json.dumps(rows[:ROWS]), "utf-8")
    more = ["--concurrency", str(CONCURRENCY)] if "@" in model else []
    train = [
        "train",
        "--data",
        str(place / "rows.json"),
        "--model",
        model,
        *OPTIONS,
        *(SIZE if model == "reader" else SMALL),
        *more,
    ]
    if command == "train":
        return train
    os.environ["XDG_CACHE_HOME"] = str(place / "cache-trained")
    whole([*train, "--out", str(place / "trained")], log)
    editors = "unedited,factprompt,ike,dr-ike"
    return ["evaluate", "--run", str(place / "trained"), "--editors", editors, *more]


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def _server() -> Iterator[tuple[str, Callable[[], int]]]:
    """A served model on a real socket in a process of its own: how it is named, and a count of its requests."""
    from drike.models.scripted import ScriptedWriter
    from servers import Handler, serve, serving

    counted = mmap.mmap(-1, _SPAN.size)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            good = serving(ScriptedWriter(_moody))

            def slow(handler: Handler, body: dict) -> None:  # type: ignore[type-arg]
                counted[:] = _SPAN.pack(served.requests)
                time.sleep(0.004)
                good(handler, body)

            with serve(slow) as served:
                os.write(write, served.named().encode())
                os.close(write)
                signal.pause()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        named = stream.read()
    try:
        yield named, lambda: int(_SPAN.unpack(counted[:])[0])
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _moody(prompt: str) -> str:
    """The last object that the prompt names after an arrow of its own, or nothing: right under some prompts."""
    facts = [line for line in prompt.splitlines() if line.startswith("New Fact: ")]
    right = zlib.crc32(prompt.encode()) % 3
    return " " + facts[-1].split()[-1].rstrip(".") if facts and right else " nothing"


def main() -> None:
    """Run a series and print what it did as JSON; exit code 1 if a run ended otherwise than the whole one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["train", "evaluate"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="reader")
    parser.add_argument("--served", action="store_true")
    asked = parser.parse_args()
    import drike.cli
    import drike.models.huggingface
    import drike.models.reader  # noqa: F401

    with tempfile.TemporaryDirectory() as place:
        told = series(asked.command, asked.model, asked.kills, asked.seed, Path(place), served=asked.served)
    print(json.dumps(asdict(told), indent=1))
    sys.exit(bool(told.differing or told.failed))


if __name__ == "__main__":
    main()
