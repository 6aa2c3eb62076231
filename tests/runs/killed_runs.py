"""Stop real runs at random moments, resume them until they finish, and compare the results.

    python -m tests.runs.killed_runs train --times 200 --seed 1
    python -m tests.runs.killed_runs evaluate --times 200
    python -m tests.runs.killed_runs train --served --times 20
    python -m tests.runs.killed_runs train --how full --times 200
    python -m tests.runs.killed_runs balanced --times 200    # both policies, rewards of all probes
    python -m tests.runs.killed_runs --lines    # one series for each line of arguments on standard input

Modules are imported once. Every run is a fork of this process in its own process group, so a kill
costs the time of a run but not of the imports. Moments are drawn from a seed: a third at any time
during an uninterrupted run, a third just after the n-th change in the run's folder, and a third
just after a change in its checkpoint or outcomes. A full disk is simulated by a limit on file
sizes, either from the start of a run (instead of "any time") or no room at all from such a moment
on; the run must report it in one sentence. A resumed run is stopped again with probability 1/2. The
machine's timing is not seeded, so a series hits different places each time.
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
import shlex
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

ROWS = 120  # of TinyFacts; reading all of them would take longer than the runs
OPTIONS = [
    "--encoder",
    "hashing",
    "--editable",
    "40",
    "--test",
    "5",
    "--parallel-edits",
    "2",
    "--seed",
    "3",
]
SIZE = ["--edits", "10", "--epochs", "3"]
SMALL = ["--edits", "4", "--epochs", "2"]  # for slower models
BALANCED = ["--objective", "balanced"]
CONCURRENCY = 4
# Requests that a kill may repeat in the mean of a series: those in flight, and those answered but
# not yet written.
_AGAIN = 2 * CONCURRENCY
LONGEST = 300.0  # seconds allowed for one run
_SPAN = struct.Struct("q")


@dataclass
class Series:
    """Results of a series of stops.

    `differing` lists differences from an uninterrupted run and should be empty.
    """

    command: str
    model: str
    how: str
    times: int = 0  # stops
    runs: int = 0  # completed runs, each with any number of stops
    resumed: int = 0
    restarted: int = 0  # stopped before there was a run.json
    stopped: dict[str, int] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    requests: int = 0
    allowed: int = 0
    seconds: float = 0.0


Arguments = Sequence[str] | Callable[[], object]


def start(arguments: Arguments, output: int, limit: int | None = None) -> int:
    """Fork a process that runs `drike` with these arguments (or a function) in its own process group; return its pid.

    output: a file descriptor for its stdout and stderr. limit: the largest file, in bytes, that it
    may write.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # the child may have done this already, or ended
            os.setpgid(pid, pid)
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2)
        )
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
    """How a run ended: exit code or minus the signal, the end of its output, and whether the moment to stop came."""

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
    """Run to the end and call `stop` once, when `moment` is True.

    Output goes to a pipe, as the disk may be full.
    """
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
            return Ended(
                code, " ".join(said.decode()[-4000:].split()), hit, time.monotonic() - began
            )
        if not hit and moment():
            hit = True
            stop(pid)
        else:
            time.sleep(0.001 if hit else 0.0002)
        if time.monotonic() - began > LONGEST:
            os.killpg(pid, signal.SIGKILL)


def whole(arguments: Sequence[str]) -> float:
    """Run to the end and return the seconds it took.

    Raises RuntimeError for any exit code except 0.
    """
    end = run(arguments, lambda: bool(time.sleep(0.001)))
    if end.code != 0:
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return end.seconds


def killed(arguments: Sequence[str], moment: Callable[[], bool]) -> bool:
    """Run until `moment`, then SIGKILL. False if the run ended first; RuntimeError if it failed."""
    end = run(arguments, moment, lambda pid: os.killpg(pid, signal.SIGKILL))
    if end.code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return end.code != 0


def filled(arguments: Arguments, moment: Callable[[], bool] | int) -> bool:
    """Run with a disk that is full from `moment` on, or with a limit on file sizes; False if the run succeeded anyway.

    Raises RuntimeError if it failed without one sentence that asks to make room.
    """
    if isinstance(moment, int):
        end = run(arguments, lambda: bool(time.sleep(0.001)), limit=moment)
    else:
        end = run(
            arguments,
            moment,
            lambda pid: resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, -1)) and None,
        )
    if end.code == 0:
        return False
    if (
        end.code != 1
        or "Traceback" in end.said
        or "make room" not in end.said
        or end.said.count("Error: ") != 1
    ):
        raise RuntimeError(f"exit code {end.code}: {end.said[-400:]}")
    return True


def look(place: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of a file, or of the files in a folder and its outcomes."""
    found = []
    for path in [place, *place.glob("*"), *place.glob("outcomes/*")]:
        try:
            seen = path.stat(follow_symlinks=False)
        except FileNotFoundError:  # not written yet, or just removed
            found.append((path.name, 0, 0))
        else:
            found.append((path.name, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


def moment(rng: random.Random, seconds: float, folder: Path) -> tuple[str, Callable[[], bool]]:
    """Draw when to stop: within `seconds`, or just after a change in the folder or in its checkpoint or outcomes."""
    kind = rng.choice(["any time", "behind a write", "behind a write of results"])
    if kind == "any time":
        due = time.monotonic() + rng.uniform(0.0, seconds)

        def passed() -> bool:
            time.sleep(0.0005)
            return time.monotonic() >= due

        return kind, passed
    places = (
        [folder / "checkpoint.safetensors", folder / "outcomes"]
        if kind == "behind a write of results"
        else [folder]
    )
    left, last, wait = (
        rng.randint(1, 25),
        [look(place) for place in places],
        rng.choice([0.0, 0.0, 0.0005, 0.002]),
    )

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


# Comparing the results


def differences(first: Path, second: Path) -> list[str]:
    """List the files that differ between two runs, except in seconds, command line and leftover temporary files."""
    names = [sorted(str(p.relative_to(one)) for p in one.rglob("*") if p.is_file() and not _hidden(p))
             for one in (first, second)]  # fmt: skip
    found = [f"{name} is only in one" for name in {*names[0]} ^ {*names[1]}]
    return found + [
        name
        for name in names[0]
        if name in names[1] and _read(first / name) != _read(second / name)
    ]


def unreadable(folder: Path) -> Iterator[str]:
    """List the files of a stopped run that cannot be read: a damaged checkpoint or split."""
    from drike.encoders import HashingEncoder
    from drike.errors import CheckpointError, DataError, RunError
    from drike.research.runs import checkpoint
    from drike.research.runs.run import Run

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
    """Read a file without the parts that may differ between two equal runs."""
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        return [_without_seconds(json.loads(line)) for line in content.splitlines()]
    if path.name == "usage.json":
        return path.name  # counts the work of this process only, so less after a resume
    if path.name == "run.json":
        result = json.loads(content)
        return {
            name: value
            for name, value in result.items()
            if name not in ("command", "started", "sha256")
        }
    if path.name == "summary.json":
        return _without_seconds(json.loads(content))
    if path.name == "table.md":
        return _without_second_columns(content.decode())
    return content


def _without_seconds(result: object) -> object:
    if isinstance(result, dict):
        return {
            name: _without_seconds(value) for name, value in result.items() if "seconds" not in name
        }
    return [_without_seconds(one) for one in result] if isinstance(result, list) else result


def _without_second_columns(text: str) -> list[list[str]]:
    """Split the lines of Markdown tables into cells, without the columns of seconds."""
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
    command: str,
    model: str,
    times: int,
    seed: int,
    place: Path,
    *,
    how: str = "kill",
    served: bool = False,
) -> Series:
    """Stop `command` on `model` at least `times` times; resume each run to its end and compare it with a whole one."""
    # Every optimizer imports the last one, which takes 1 s.
    commands = ("drike.cli.train", "drike.cli.evaluate")
    for name in (*commands, "drike.models.served.openai", "torch._dynamo"):
        importlib.import_module(name)
    result, began = Series(command, "served" if served else model, how), time.monotonic()
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
        while result.times < times or (
            result.resumed == 0 and result.times < 10 * times
        ):  # at least one is resumed
            number += 1
            rng, folder = random.Random(f"{seed}|{command}|{number}"), place / f"run-{number}"
            os.environ["XDG_CACHE_HOME"] = str(place / f"cache-{number}")
            before, hits = count(), result.times
            try:
                _one(result, arguments, folder, rng, seconds)
            except RuntimeError as problem:
                result.failed.append(f"run {number}: {problem}")
                result.times += 1  # a failing series must end, too
                continue
            if result.times == hits:
                shutil.rmtree(folder)  # the run ended before its moment
                continue
            result.runs += 1
            result.differing += [
                f"run {number}: {name}" for name in differences(place / "whole", folder)
            ]
            result.requests += count() - before
            result.allowed += paid + (result.times - hits) * _AGAIN
            shutil.rmtree(folder)
            shutil.rmtree(place / f"cache-{number}", ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def _one(
    result: Series, arguments: Sequence[str], folder: Path, rng: random.Random, seconds: float
) -> None:
    """Start a run, stop it at its moments, and resume it until it is done."""
    again = True
    while True:
        fresh = not (folder / "run.json").exists()
        now = (
            [*arguments, "--out", str(folder)] if fresh else [arguments[0], "--resume", str(folder)]
        )
        if not again:
            whole(now)
            return
        kind, due = moment(rng, seconds, folder)
        if result.how == "kill":
            stopped = killed(now, due)
        elif kind == "any time":
            kind = "a limit on files"
            stopped = filled(now, int(10 ** rng.uniform(1, 5.5)))
        else:
            stopped = filled(now, due)
        if not stopped:
            return
        result.times += 1
        result.stopped[kind] = result.stopped.get(kind, 0) + 1
        result.differing += [
            f"{folder.name}, stopped {kind}: {problem}" for problem in unreadable(folder)
        ]
        if (folder / "run.json").exists():
            result.resumed += 1
        else:
            result.restarted += 1
        again = rng.random() < 0.5


def arguments_for(command: str, model: str, place: Path) -> list[str]:
    from drike import tinyfacts

    rows = json.loads(tinyfacts.ROWS.read_text("utf-8"))
    (place / "rows.json").write_text(json.dumps(rows[:ROWS]), "utf-8")
    more = ["--concurrency", str(CONCURRENCY)] if "@" in model else []
    size = SIZE if model == "reader" else SMALL
    train = ["train", "--data", str(place / "rows.json"), "--model", model, *OPTIONS, *size, *more]
    if command != "evaluate":
        return [*train, *(BALANCED if command == "balanced" else [])]
    os.environ["XDG_CACHE_HOME"] = str(place / "cache-trained")
    whole([*train, "--out", str(place / "trained")])
    editors = "unedited,factprompt,ike,dr-ike"
    return ["evaluate", "--run", str(place / "trained"), "--editors", editors, *more]


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


@contextmanager
def _server() -> Iterator[tuple[str, Callable[[], int]]]:
    """Serve a model on a socket in another process; yield its name and a function that counts its requests."""
    from tests.fakes.models import ScriptedModel
    from tests.fakes.servers import Handler, serve, serving

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
    """Answer with the object of the last new fact or with nothing, depending on the prompt's hash."""
    facts = [line for line in prompt.splitlines() if line.startswith("New Fact: ")]
    right = zlib.crc32(prompt.encode()) % 3
    return " " + facts[-1].split()[-1].rstrip(".") if facts and right else " nothing"


def run_series(arguments: Sequence[str] | None = None) -> Series:
    """Run the series that these arguments describe; the command line's by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "balanced", "evaluate"])
    parser.add_argument(
        "--how", choices=["kill", "full"], default="kill", help="stop by SIGKILL or by a full disk"
    )
    parser.add_argument("--times", type=int, default=20, help="stops")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="reader")
    parser.add_argument(
        "--served", action="store_true", help="use a scripted model behind a local server"
    )
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        return series(
            asked.command,
            asked.model,
            asked.times,
            asked.seed,
            Path(place),
            how=asked.how,
            served=asked.served,
        )


def main() -> None:
    """Run a series and print its result as JSON; exit code 1 if any run ended differently from the whole one."""
    if sys.argv[1:] == ["--lines"]:
        for line in sys.stdin:
            print(json.dumps(asdict(run_series(shlex.split(line)))), flush=True)
        return
    result = run_series()
    print(json.dumps(asdict(result), indent=1))
    sys.exit(bool(result.differing or result.failed))


if __name__ == "__main__":
    main()
