"""Try random command lines of `drike` in this process and report every bad ending.

    python -m tests.cli.command_lines --number 1000 --seed 0

A good ending is success, or exit code 1, 2 or 3 with a sentence that begins with "Error" (or
typer's usage message) and no traceback. Everything requested is small; addresses are on this
machine, at ports where nothing listens.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

HOME = tempfile.mkdtemp()
for name in [name for name in os.environ if name.endswith("_API_KEY")]:
    del os.environ[name]
os.environ |= {"XDG_CACHE_HOME": HOME, "HF_HOME": HOME, "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}

from drike import tinyfacts  # noqa: E402 - behind what it shall see
from drike.cli import main  # noqa: E402
from drike.models import named  # noqa: E402
from tests.fakes.commands import commands as every_command  # noqa: E402

# A tour would convert the real chat model each time, as the cache is empty: it takes the small one.
named.is_here = lambda name: False

LONGEST = 20  # seconds allowed for a command line
ENCODINGS = ("utf-8", "utf-8", "ascii", "cp1252")  # of the output
UNSAFE = re.compile(
    r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

WEIRD = [
    "", " ", "-1", "0", "1e9", "NaN", "inf", "-", "--", "---", "-x", "=", "a,b", ",", ",,", ".", "..", "/", "~", "*",
    "\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u2066a", "\u0141\xf3d\u017a",
    "\\", "\x00", "a\x00b", "\ud800", "caf\udce9", "\u202eabc", "\U0001f600", "[red]", "[/]", "{}", "%s", "$HOME", "'",
    "x" * 300, "y" * 5_000, "a\nb", "/dev/null", "/dev/null/x", "/proc/no/such/folder", "None", "true", "0x10", "1_000",
    "9" * 400, "http://127.0.0.1:9/a.json", "http://", "https://[::1", "file:///etc/passwd", "-h", "--help", "--nope",
]  # fmt: skip
MODELS = [
    "reader", "reader", "READER", "no/such/model", "./nowhere", "vllm:m@http://127.0.0.1:9/v1", "vllm:m@127.0.0.1:9",
    "vllm:@http://127.0.0.1:9/v1", "vllm:m@http://user:key@127.0.0.1:9/v1", "vllm:m@ftp://127.0.0.1/", "vllm:m@http://8.8.8.8/v1",
    "vllm:m@http://127.0.0.1:99999/v1", "vllm:", ":", "nobody:m", "openai:", "vllm:m@http://127.0.0.1:9/v1?key=1",
]  # fmt: skip
SMALL = ["1", "2", "3", "0", "-1", "-5", "2.5", "many"]
GOOD = {  # values for each option, valid or wrong in a typical way; nothing slow
    "--model": MODELS, "--edits": SMALL, "--test": SMALL, "--editable": ["12", "20", "0", "-3", "99", "x"],
    "--epochs": SMALL, "--seed": ["0", "7", "-7", "1.5", "9" * 30],
    "--encoder": ["hashing", "hashing:8:1", "none", "no/such"],
    "--policy-encoder": ["hashing", "hashing:4:0", "hashing:0:0", "no/such"], "--form": ["dot", "cross", "maze"],
    "--budget": ["threshold", "all", "half", "scores", "maze"],
    "--max-shots": SMALL, "--flip": ["offender", "algorithm1", "maze"],
    "--retain": ["headed", "bare", "maze"], "--layout": ["append", "ike", "maze"],
    "--learning-rate": ["0.1", "0", "-1", "nan", "inf", "1e300"],
    "--prompt-tokens": SMALL, "--template": ["plain", "chat", "maze"], "--device": ["cpu", "cuda:77", "maze"],
    "--replicas": ["1", "0", "-1", "x"], "--parallel-edits": SMALL, "--concurrency": SMALL,
    "--deadline": ["0.2", "0", "-1", "x"],
    "--thinking-tokens": SMALL, "--reasoning-effort": ["none", "x"], "--price-in": ["0.1", "-1", "nan", "x"],
    "--price-out": ["0.1", "-1", "x"], "--max-calls": SMALL, "--max-cost": ["0", "1", "-1", "nan", "x"],
    "--tokenizer": ["no/such", "."], "--subset": ["numerical", "maze"], "--pool": ["tinyfacts", "no/such"],
    "--paraphrases": ["keep", "screen", "maze"],
    "--zsre-target": ["alt", "answers", "maze"],
    "--editors": ["unedited", "ike,factprompt", "dr-ike", "rank-50", "editcot", "maze", "ike,ike"],
    "--sigmas": [".03,.06", "2", "x", "", "0"],
    "--across": ["epochs", "budget", "maze"], "--editor": ["ike", "dr-ike", "maze"],
    "--fact": ["The home of Bo is -> Oslo", "Oslo", "-> x", "a -> ", "a -> b -> c", "Bo 1 was raised in -> Oslo"],
    "--ask": ["Where?", "The home of Bo is"], "--subject": ["Bo", "Bo 1"],
}  # fmt: skip
LONG = {
    ("tinyfacts", "build"),
    ("tinyfacts", "check"),
    ("demo",),
    ("doctor",),
}  # tried only with values they must refuse
HEAVY = {("report",)}  # tried less often: they read the data several times, or draw charts
LAST = {  # added last, so that nothing is slow or leaves the machine
    ("tinyfacts", "build"): ["--out", "{place}"], ("tinyfacts", "check"): ["--model", "no/such/model"],
    ("demo",): ["--edits", "5000"], ("doctor",): ["--deadline", "x"],
}  # fmt: skip


def commands() -> dict[tuple[str, ...], list[tuple[str, bool]]]:
    """Return the options of every command and whether they take a value."""
    found: dict[tuple[str, ...], list[tuple[str, bool]]] = {}
    for name, command in every_command().items():
        if not hasattr(command, "commands"):
            found[tuple(name.split()[1:])] = [
                (option, not getattr(parameter, "is_flag", False))
                for parameter in command.params
                for option in (*parameter.opts, *parameter.secondary_opts)
                if option.startswith("-")
            ]
    del found["serve",]  # it runs until it is stopped
    return found


COMMANDS = commands()
TINY = ["--data", "{data}", "--model", "reader", "--encoder", "hashing"]
# Options that keep each command short; {...} are folders made for the tests.
RIGHT: dict[tuple[str, ...], list[str]] = {
    ("train",): [*TINY, "--edits", "2", "--epochs", "1", "--out", "{new}"],
    ("evaluate",): [*TINY, "--test", "2", "--out", "{new}"],
    ("edit",): [*TINY, "--fact", "Bo 1 was raised in -> Oslo", "--gate", "named"],
    ("report",): ["{run}", "--out", "{new}.html"],
    ("demo",): ["--model", "reader", "--encoder", "hashing", "--out", "{new}"], ("doctor",): [],
    ("data", "inspect"): ["{data}"],
    ("tinyfacts", "build"): [], ("tinyfacts", "check"): [],
    ("edits", "add"): ["--fact", "Bo 1 was raised in -> Oslo", "--subject", "Bo 1", "--store", "{new}.db"],
    ("edits", "import"): ["{data}", "--store", "{new}.db"], ("edits", "list"): [], ("edits", "show"): ["1"],
    ("edits", "retire"): ["1"], ("edits", "rollback"): ["1"], ("edits", "export"): ["{new}.jsonl"],
    **{("edits", name): ["--model", "reader", "--gate", "named"] for name in ("test", "verify")},
    ("edits", "tune"): ["--model", "reader", "--questions", "4"], ("edits", "calibrate"): [],
    ("edits", "replay"): ["{data}", "--gate", "named"],
    ("edits", "reword"): ["--model", "reader", "--yes"],
    ("edits", "health"): [], ("edits", "report"): [], ("edits", "due"): [], ("edits", "approvals"): [],
    **{("edits", name): ["1"] for name in ("propose", "review")},
    ("edits", "approve"): ["1", "--version", "1", "--yes"],
    ("edits", "reject"): ["1", "--reason", "no"],
    ("edits", "change"): ["1", "--owner", "Bo"], ("edits", "diff"): ["2026-11-22", "now"],
    ("edits", "sync"): ["{new}", "--store", "{new}.db"], ("edits", "inbox"): [],
    ("tour",): ["--no-open", "--out", "{new}.html"],
    ("keys", "add"): ["--store", "{new}.db"], ("keys", "list"): [], ("keys", "revoke"): ["1"],
}  # fmt: skip


def command_line(rng: random.Random, places: dict[str, str]) -> list[str]:
    """Draw a command line that is mostly valid."""
    path = rng.choice(list(COMMANDS))
    if path in LONG and rng.random() < 0.7:
        path = rng.choice([("train",), ("evaluate",), ("edit",), ("report",), ("data", "inspect")])
    if path in HEAVY and rng.random() < 0.7:
        path = rng.choice([("data", "inspect"), ("edit",), ("train",), ("evaluate",)])
    right = RIGHT[path]
    if path == ("evaluate",) and rng.random() < 0.4:
        right = ["--run", "{run}", "--editors", "unedited,dr-ike", "--test", "1", "--out", "{new}"]
    if path in (("train",), ("evaluate",)) and rng.random() < 0.15:
        right = ["--resume", rng.choice(["{copy}", "{run}", "{place}", "{data}", "nowhere"])]
    words = [word.format(**places) if "{" in word else word for word in right]
    kept = [] if rng.random() < 0.05 and path in LONG else words
    if rng.random() < 0.1 and path not in LONG and len(kept) > 1:
        del kept[
            rng.randrange(len(kept))
        ]  # without --model or --data the rest might be slow, see below
        kept += [
            word
            for word in ("--model", "reader", "--encoder", "hashing")
            if ("--encoder", True) in COMMANDS[path]
        ]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        option, takes = rng.choice([*COMMANDS[path], ("--nope", True)])
        value = (
            rng.choice(GOOD.get(option, []))
            if option in GOOD and rng.random() < 0.6
            else rng.choice([*WEIRD, *places.values()])
        )
        if (
            option in ("--epochs", "--edits", "--test", "--max-shots", "--k", "--parallel-edits")
            and value.isdigit()
        ):
            value = value[:1]
        if option == "--dry-run" and rng.random() < 0.5:
            kept += ["--model", "vllm:m@http://127.0.0.1:9/v1"]
        kept += [option, value] if takes else [option]
        if rng.random() < 0.05:
            kept.pop()
    if rng.random() < 0.1:
        kept.insert(rng.randrange(len(kept) + 1), rng.choice(WEIRD))
    head = list(path)
    if rng.random() < 0.04:
        head[rng.randrange(len(head))] = rng.choice(WEIRD)
    return [*head, *kept, *(word.format(**places) for word in LAST.get(path, []))]


class TooLongError(BaseException):
    """A command line took longer than `LONGEST`."""


def places_in(folder: Path) -> dict[str, str]:
    """Make a small data set, a trained and evaluated run, and files that are not what they seem."""
    rows = json.loads(tinyfacts.ROWS.read_text("utf-8"))[:100]
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    (folder / "broken.json").write_text('[{"case_id": 1', "utf-8")
    (folder / "place").mkdir()
    run = folder / "run"
    small = [
        "--data",
        str(folder / "rows.json"),
        "--model",
        "reader",
        "--encoder",
        "hashing",
        "--test",
        "3",
    ]
    for arguments in (
        ["train", *small, "--edits", "3", "--epochs", "1", "--out", str(run)],
        [
            "evaluate",
            "--run",
            str(run),
            "--editors",
            "ike,dr-ike",
            "--out",
            str(folder / "evaluated"),
        ],
    ):
        code, said, trace = ended(arguments)
        if code:
            raise RuntimeError(f"{said} {trace}")
    shutil.copytree(folder / "evaluated" / "outcomes", run / "outcomes")
    return {
        "data": str(folder / "rows.json"), "broken": str(folder / "broken.json"), "place": str(folder / "place"),
        "run": str(run), "evaluated": str(folder / "evaluated"),
    }  # fmt: skip


def ended(arguments: list[str], encoding: str = "utf-8") -> tuple[int, str, str]:
    """Return the exit code (99 for an uncaught exception), the output, and the traceback if there was one."""
    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding, errors=how)
        for how in ("strict", "backslashreplace")
    ]
    before, (sys.stdout, sys.stderr) = (sys.stdout, sys.stderr), streams
    code, trace = 0, ""
    signal.alarm(LONGEST)
    try:
        main(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 98
    except BaseException:
        code, trace = 99, traceback.format_exc()
    finally:
        signal.alarm(0)
        sys.stdout, sys.stderr = before
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
    return code, out + err, trace


def wrong(code: int, said: str, trace: str) -> str | None:
    """Describe what is wrong with an ending; None for a good one."""
    if trace:
        return trace
    if "Traceback" in said:
        return said[-3000:]
    if UNSAFE.search(said):
        return f"it prints {UNSAFE.findall(said)}"
    if code not in (0, 1, 2, 3):
        return f"exit code {code}: {said[-500:]}"
    if code and "Error" not in said and "Usage:" not in said and "failed:" not in said:
        return f"exit code {code} without a word: {said[-500:]}"
    return None


def try_all(number: int, seed: int, folder: Path) -> dict[str, object]:
    """Try `number` command lines; return how they ended and all problems."""
    places = places_in(folder)
    codes: Counter[str] = Counter()
    found: list[dict[str, object]] = []
    slow: list[tuple[float, list[str]]] = []
    began = time.monotonic()
    os.chdir(folder / "place")
    for i in range(number):
        rng = random.Random(f"{seed}|{i}")
        copy, new = folder / "copies" / str(i), folder / "new" / str(i)
        shutil.copytree(places["run"], copy)
        arguments = command_line(rng, places | {"copy": str(copy), "new": str(new)})
        at = time.monotonic()
        code, said, trace = ended(arguments, rng.choice(ENCODINGS))
        slow.append((round(time.monotonic() - at, 2), arguments))
        codes[str(code)] += 1
        problem = wrong(code, said, trace)
        if problem is not None:
            found.append(
                {
                    "seed": f"{seed}|{i}",
                    "arguments": [one[:200] for one in arguments],
                    "problem": problem,
                }
            )
        shutil.rmtree(folder / "copies")
        shutil.rmtree(folder / "new", ignore_errors=True)
    return {
        "tried": number, "exit codes": dict(codes), "wrong": found, "seconds": round(time.monotonic() - began, 1),
        "slowest": [(seconds, [one[:60] for one in line]) for seconds, line in sorted(slow, reverse=True)[:5]],
    }  # fmt: skip


def stop(number: int, frame: object) -> None:
    raise TooLongError


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory() as place:
        result = try_all(asked.number, asked.seed, Path(place))
        os.chdir("/")
    shutil.rmtree(HOME, ignore_errors=True)
    print(json.dumps(result, indent=1))
    sys.exit(bool(result["wrong"]))
