"""Stops real runs at random moments, by SIGKILL or by a full disk, resumes them until they are done, and compares
the results with those of a run that was never stopped.

    python tests/killing.py train --times 200 --seed 1
    python tests/killing.py evaluate --times 200
    python tests/killing.py train --served --times 20
    python tests/killing.py train --how full --times 200

Everything is imported once; every run is a fork of this process, in a process group of its own, so that a kill costs
what a run costs and not the imports. Moments are drawn from a seed: a third anywhere in the time that a whole run
takes, a third right behind the n-th change in the run's folder, a third behind a change in its checkpoint or outcomes.
A full disk is a limit on the size of files: of a run from its first byte on (then in place of "any time"), or of none
at all from such a moment on; it must end with one sentence. A resumed run is itself stopped with probability 1/2. The
machine's timing is not seeded: a series hits other places each time.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import mmap
import os
import random
import resource
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
_AGAIN = 2 * CONCURRENCY  # requests a kill may cost: on their way, and arrived while those before were being written
LONGEST = 300.0  # seconds for one run
_SPAN = struct.Struct("q")


@dataclass
class Series:
    """What a series of stops did. `differing`: what was not as in the whole run; a good series has none."""

    command: str
    model: str
    how: str
    times: int = 0  # that a run was stopped
    runs: int = 0  # begun and ended in the same folder, whatever happened in between
    resumed: int = 0
    begun_again: int = 0  # stopped before there was a run.json
    stopped: dict[str, int] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    requests: int = 0
    allowed: int = 0
    seconds: float = 0.0


Arguments = Sequence[str] | Callable[[], object]


def start(arguments: Arguments, output: int, limit: int | None = None) -> int:
    """A fork that runs `drike` with these arguments, or does something else, in a process group of its own; its pid.

    output: a file descriptor for what it says. limit: bytes of the longest file that it may write.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it may have done so itself, and ended
            os.setpgid(pid, pid)
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        from drike.cli import main

        try:
            if callable(arguments):
                arguments()
            else:
                sys.argv = ["drike", *arguments]
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


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, or minus the signal; what it said last; whether its moment had come."""

    code: int
    said: str
    hit: bool
    seconds: float


def run(
    arguments: Arguments,
    moment: Callable[[], bool] = lambda: False,
    stop: Callable[[int], None] = lambda pid: None,
    limit: int | None = None,
) -> Ended:
    """Run until the end; `stop` it when `moment` says so, once. What it says goes through a pipe: disks may be full."""
    began, hit, said = time.monotonic(), False, b""
    read, write = os.pipe()
    os.set_blocking(read, False)
    pid = start(arguments, write, limit)
    os.close(write)
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(read, 1 << 16):
                said += chunk
        if found:
            os.close(read)
            code = os.waitstatus_to_exitcode(status)
            return Ended(code, " ".join(said.decode()[-4000:].split()), hit, time.monotonic() - began)
        if not hit and moment():
            hit = True
            stop(pid)
        elif hit:
            time.sleep(0.001)
        if time.monotonic() - began > LONGEST:
            os.killpg(pid, signal.SIGKILL)


def whole(arguments: Sequence[str]) -> float:
    """Run to the end; the seconds it took. Raises RuntimeError for any exit code but 0."""
    end = run(arguments, lambda: bool(time.sleep(0.001)))
    if end.code != 0:
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return end.seconds


def killed(arguments: Sequence[str], moment: Callable[[], bool]) -> bool:
    """Run until `moment`, then SIGKILL; False if the run ended first. Raises RuntimeError if that was no good end."""
    end = run(arguments, moment, lambda pid: os.killpg(pid, signal.SIGKILL))
    if end.code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return end.code != 0


def filled(arguments: Arguments, moment: Callable[[], bool] | int) -> bool:
    """Run with a disk that is full from `moment` on, or for files of so many bytes; False if that was no hindrance.

    Raises RuntimeError if it was one, and the run did not end with a sentence that asks for room.
    """
    if isinstance(moment, int):
        end = run(arguments, lambda: bool(time.sleep(0.001)), limit=moment)
    else:
        end = run(arguments, moment, lambda pid: resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, -1)) and None)
    if end.code == 0:
        return False
    if end.code != 1 or "Traceback" in end.said or "make room" not in end.said or end.said.count("Error: ") != 1:
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return True


def look(place: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of a file, or of the files in a folder and in its outcomes."""
    found = []
    for path in [place, *place.glob("*"), *place.glob("outcomes/*")]:
        try:
            seen = path.stat(follow_symlinks=False)
        except FileNotFoundError:  # not there yet, or removed meanwhile
            found.append((path.name, 0, 0))
        else:
            found.append((path.name, seen.st_size, seen.st_mtime_ns))
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
    places = (
        [folder / "checkpoint.safetensors", folder / "outcomes"] if kind == "behind a write of results" else [folder]
    )
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
    from drike.encoders import HashingEncoder
    from drike.errors import CheckpointError, DataError, RunError
    from drike.runs import checkpoint
    from drike.runs.run import Run

    try:
        if (folder / "run.json").exists():
            Run.open(folder).split()
        if (folder / checkpoint.FILE).exists():
            checkpoint.load(folder, encoder=HashingEncoder())
    except (CheckpointError, DataError, RunError) as problem:
        yield str(problem)


def _hidden(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _read(path: Path) -> object:
    """A file's content without what may differ between two equal runs."""
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        return [_without_seconds(json.loads(line)) for line in content.splitlines()]
    if path.name == "usage.json":
        return path.name  # what this process did: less, if it was resumed
    if path.name == "run.json":
        record = json.loads(content)
        return {name: value for name, value in record.items() if name not in ("command", "started", "sha256")}
    if path.name == "summary.json":
        return _without_seconds(json.loads(content))
    if path.name == "table.md":
        return _without_second_columns(content.decode())
    return content


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_seconds(inner) for name, inner in value.items() if "seconds" not in name}
    return [_without_seconds(one) for one in value] if isinstance(value, list) else value


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


def series(
    command: str, model: str, times: int, seed: int, place: Path, *, how: str = "kill", served: bool = False
) -> Series:
    """So many stops of `command` on `model`, each run resumed until it is done and compared with a whole one."""
    for name in ("drike.cli", "drike.models.served.openai", "torch._dynamo"):  # the last by every optimizer, for 1 s
        importlib.import_module(name)
    found, began = Series(command, "served" if served else model, how), time.monotonic()
    count: Callable[[], int] = lambda: 0  # noqa: E731
    with _server() if served else _nothing() as server:
        if server is not None:
            model, count = server
        arguments = arguments_for(command, model, place)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache-whole")
        before = count()
        seconds = whole([*arguments, "--out", str(place / "whole")])
        paid = count() - before
        number = 0
        while found.times < times or (found.resumed == 0 and found.times < 10 * times):  # at least one is resumed
            number += 1
            rng, folder = random.Random(f"{seed}|{command}|{number}"), place / f"run-{number}"
            os.environ["XDG_CACHE_HOME"] = str(place / f"cache-{number}")
            before, hits = count(), found.times
            try:
                _one(found, arguments, folder, rng, seconds)
            except RuntimeError as problem:
                found.failed.append(f"run {number}: {problem}")
                found.times += 1  # a series that fails must end, too
                continue
            if found.times == hits:
                shutil.rmtree(folder)  # it ended before its moment came
                continue
            found.runs += 1
            found.differing += [f"run {number}: {name}" for name in differences(place / "whole", folder)]
            found.requests += count() - before
            found.allowed += paid + (found.times - hits) * _AGAIN
            if count() - before > paid + (found.times - hits) * _AGAIN:
                found.differing.append(f"run {number}: {count() - before} requests, {paid} in a whole run")
            shutil.rmtree(folder)
            shutil.rmtree(place / f"cache-{number}", ignore_errors=True)
    found.seconds = time.monotonic() - began
    return found


def _one(found: Series, arguments: Sequence[str], folder: Path, rng: random.Random, seconds: float) -> None:
    """One run, stopped once or more if the moments come, and resumed until it is done."""
    again = True
    while True:
        fresh = not (folder / "run.json").exists()
        now = [*arguments, "--out", str(folder)] if fresh else [found.command, "--resume", str(folder)]
        if not again:
            whole(now)
            return
        kind, due = moment(rng, seconds, folder)
        if found.how == "kill":
            stopped = killed(now, due)
        elif kind == "any time":
            kind = "a limit on files"
            stopped = filled(now, int(10 ** rng.uniform(1, 5.5)))
        else:
            stopped = filled(now, due)
        if not stopped:
            return
        found.times += 1
        found.stopped[kind] = found.stopped.get(kind, 0) + 1
        found.differing += [f"{folder.name}, stopped {kind}: {problem}" for problem in unreadable(folder)]
        if (folder / "run.json").exists():
            found.resumed += 1
        else:
            found.begun_again += 1
        again = rng.random() < 0.5


def arguments_for(command: str, model: str, place: Path) -> list[str]:
    from drike import tinyfacts

    rows = json.loads(tinyfacts.rows_path().read_text("utf-8"))
    (place / "rows.json").write_text(json.dumps(rows[:ROWS]), "utf-8")
    more = ["--concurrency", str(CONCURRENCY)] if "@" in model else []
    size = SIZE if model == "reader" else SMALL
    train = ["train", "--data", str(place / "rows.json"), "--model", model, *OPTIONS, *size, *more]
    if command == "train":
        return train
    os.environ["XDG_CACHE_HOME"] = str(place / "cache-trained")
    whole([*train, "--out", str(place / "trained")])
    editors = "unedited,factprompt,ike,dr-ike"
    return ["evaluate", "--run", str(place / "trained"), "--editors", editors, *more]


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def _server() -> Iterator[tuple[str, Callable[[], int]]]:
    """A served model on a real socket in a process of its own: how it is named, and a count of its requests."""
    from drike.models.scripted import ScriptedModel
    from servers import Handler, serve, serving

    counted = mmap.mmap(-1, _SPAN.size)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            good = serving(ScriptedModel(_moody, scores=False))

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
    parser.add_argument("--how", choices=["kill", "full"], default="kill")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="reader")
    parser.add_argument("--served", action="store_true")
    asked = parser.parse_args()

    with tempfile.TemporaryDirectory() as place:
        found = series(
            asked.command, asked.model, asked.times, asked.seed, Path(place), how=asked.how, served=asked.served
        )
    print(json.dumps(asdict(found), indent=1))
    sys.exit(bool(found.differing or found.failed))


if __name__ == "__main__":
    main()
