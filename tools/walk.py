"""Measure the walk through the code that an errand takes: `python -m tools.walk [--list]`.

It runs four errands and notes which functions of drike are entered. A question that concerns an
edit passes a gateway before a made-up upstream, without a socket between client and gateway.
`drike evaluate` measures two editors on two edits with the embedded model. `drike edits add` adds
an edit to a store that has one. `drike serve` starts, until it would answer.

How it counts:

* A reader reads a function once. So functions are put in the order in which they are first
  entered, by any thread, and stand in the walk once.
* A stay is a run of functions of one module in this order. A return is a stay in a module in which
  there was a stay before. The last three columns are the same of packages; a module beside them
  counts as one.
* Left out are `drike.support` and `drike.errors`, properties, methods like `__init__` (but for
  `__call__`), lambdas, comprehensions and generated methods, and the command line where a gateway
  starts.
* Every errand is run once before, so that imports and caches do not count. Then it is run three
  times, and a function counts that is entered each time: other threads do other work now and then.
  The order is that of the walk with the fewest stays: threads take turns, so that two runs of this
  may differ by a stay or two.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import io
import json
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest import mock

import uvicorn
from starlette.types import ASGIApp, Message

SOURCE = Path(__file__).parents[1] / "src" / "drike"
LEFT_OUT = ("errors", "support")
WALKS = 3

FACT = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru", "--old", "Lima")
OTHER_FACT = ("--fact", "The capital of Chad is -> Rome", "--subject", "Chad")
QUESTION = "Which city is the capital of Peru?"
OTHER_QUESTION = "What is the capital of Chad?"
EVALUATION = ("--encoder", "hashing", "--test", "2", "--editors", "unedited,ike")


class Recorder:
    """Notes the functions of drike that are entered, by any thread, between `start` and `stop`."""

    def __init__(self) -> None:
        self.entered: list[CodeType] = []
        self._is_on = False

    def install(self) -> None:
        """Watch this thread and all that are started from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def start(self) -> None:
        """Note what is entered from now on, and forget what was before."""
        self.entered = []
        self._is_on = True

    def stop(self) -> None:
        """Note nothing more."""
        self._is_on = False

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if self._is_on and event == "call":
            self.entered.append(frame.f_code)


class Function(NamedTuple):
    """A function by its module, without `drike`, and its name in there."""

    module: str
    name: str


Walk = Sequence[Function]  # in the order in which they are first entered


def walk_of(entered: Sequence[CodeType]) -> list[Function]:
    """The functions that count, each once."""
    distinct = dict.fromkeys(entered)
    counted = [code for code in distinct if is_of_drike(code) and counts(code)]
    return [Function(module_of(code), code.co_qualname) for code in counted]


def is_of_drike(code: CodeType) -> bool:
    """Whether a function is written in a file of drike."""
    return Path(code.co_filename).is_relative_to(SOURCE)


def counts(code: CodeType) -> bool:
    """Whether a reader has to look at a function of drike to follow the walk."""
    name = code.co_name
    if name.startswith("<"):  # a lambda or a comprehension
        return False
    if name.startswith("__") and name != "__call__":
        return False
    if module_of(code).startswith(LEFT_OUT):
        return False
    return code.co_firstlineno not in lines_of_properties(code.co_filename)


def module_of(code: CodeType) -> str:
    """The module of a function: "serving.gateway"."""
    path = Path(code.co_filename).relative_to(SOURCE).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


@cache
def lines_of_properties(path: str) -> set[int]:
    """The numbers of the lines at which the properties of a file begin."""
    tree = ast.parse(Path(path).read_text("utf-8"))
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if {"property", "cached_property"} & set(decorators):
                lines.add(node.decorator_list[0].lineno)
    return lines


def stays_in(walk: Walk) -> list[str]:
    """The modules of a walk, one for each stay."""
    return without_repeats(function.module for function in walk)


def without_repeats(names: Iterable[str]) -> list[str]:
    """Names without those that are equal to the one before."""
    return [name for name, _ in groupby(names)]


def common_walk(walks: Sequence[Walk]) -> Walk:
    """What all walks have in common, in the order of the one with the fewest stays."""
    common = set(walks[0]).intersection(*walks)
    reduced = []
    for walk in walks:
        reduced.append([function for function in walk if function in common])
    return min(reduced, key=lambda walk: len(stays_in(walk)))


def drike(*arguments: str) -> None:
    """Run a command of drike in this process, without showing what it prints."""
    from drike.cli import main

    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            main(arguments)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"drike {arguments[0]} failed: {printed.getvalue()}") from None


def evaluate(recorder: Recorder, folder: Path) -> None:
    """Evaluate two editors on two edits."""
    recorder.start()
    drike("evaluate", *EVALUATION, "--out", str(folder / "evaluation"))
    recorder.stop()


def add_edit(recorder: Recorder, folder: Path) -> None:
    """Add an edit to a store that has one already."""
    store = str(folder / "edits.db")
    drike("edits", "add", *OTHER_FACT, "--store", store)
    recorder.start()
    drike("edits", "add", *FACT, "--store", store)
    recorder.stop()


def start_gateway(recorder: Recorder, folder: Path) -> None:
    """Start a gateway, until it would answer."""
    store = store_of_two(folder)
    with upstream() as address, instead_of_serving(lambda app: recorder.stop()):
        recorder.start()
        serve(address, store)


def ask(recorder: Recorder, folder: Path) -> None:
    """Ask a gateway a question that concerns an edit, after another one."""
    store = store_of_two(folder)

    async def converse(app: ASGIApp) -> None:
        async with started(app):
            await answer_to(OTHER_QUESTION, app)
            recorder.start()
            answer = await answer_to(QUESTION, app)
            recorder.stop()
        if (b"x-drike-scope", b"fired") not in answer["headers"]:
            raise RuntimeError("the gateway saw no edit that the question concerns")

    with upstream() as address, instead_of_serving(lambda app: asyncio.run(converse(app))):
        serve(address, store)


def store_of_two(folder: Path) -> str:
    """The path of a new store with two edits."""
    store = str(folder / "edits.db")
    drike("edits", "add", *OTHER_FACT, "--store", store)
    drike("edits", "add", *FACT, "--store", store)
    return store


def serve(address: str, store: str) -> None:
    """Run `drike serve` on any free ports."""
    ports = ("--port", "0", "--admin-port", "0")
    drike("serve", "--upstream", address, "--store", store, "--mode", "on", *ports)


@contextmanager
def instead_of_serving(act: Callable[[Any], None]) -> Iterator[None]:
    """Let servers that would run hand their application to `act` instead."""

    def run(server: uvicorn.Server, sockets: object = None) -> None:
        act(server.config.app)

    with mock.patch.object(uvicorn.Server, "run", run):
        yield


@asynccontextmanager
async def started(app: ASGIApp) -> AsyncIterator[None]:
    """An application after its startup and before its shutdown."""
    events: asyncio.Queue[Message] = asyncio.Queue()
    replies: asyncio.Queue[Message] = asyncio.Queue()
    lifespan = app({"type": "lifespan", "state": {}}, events.get, replies.put)
    running = asyncio.ensure_future(lifespan)
    await events.put({"type": "lifespan.startup"})
    await replies.get()
    yield
    await events.put({"type": "lifespan.shutdown"})
    await running


async def answer_to(question: str, app: ASGIApp) -> Message:
    """Ask for a chat completion; return the status and headers of the answer."""
    chat = {"model": "any", "messages": [{"role": "user", "content": question}]}
    body = json.dumps(chat).encode()
    requests = [{"type": "http.request", "body": body, "more_body": False}]
    answers: list[Message] = []

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()  # the client stays connected and sends nothing more
        return requests.pop()

    async def send(message: Message) -> None:
        answers.append(message)

    await app(chat_scope(), receive, send)
    return answers[0]


def chat_scope() -> dict[str, Any]:
    """What a server knows of a request for a chat completion before its body."""
    path = "/v1/chat/completions"
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }


@contextmanager
def upstream() -> Iterator[str]:
    """The address of a server that answers every chat with "Oslo"."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Completing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


class Completing(BaseHTTPRequestHandler):
    """Answers every request with the same chat completion."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the request and answer it."""
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        body = completion()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def completion() -> bytes:
    """A chat completion."""
    message = {"role": "assistant", "content": "Oslo"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


class Errand(NamedTuple):
    """Something to do while it is recorded, in an empty folder, and modules that do not count."""

    title: str
    do: Callable[[Recorder, Path], None]
    left_out: str = "-"  # the beginning of their names


ERRANDS = (
    Errand("one question through the gateway", ask),
    Errand("drike evaluate", evaluate),
    Errand("drike edits add", add_edit),
    Errand("a start of the gateway", start_gateway, left_out="cli"),
)


def walk_for(errand: Errand, recorder: Recorder) -> Walk:
    """The walk for an errand, after one that is not counted."""
    walks = [recorded(errand, recorder) for _ in range(1 + WALKS)]
    return common_walk(walks[1:])


def recorded(errand: Errand, recorder: Recorder) -> Walk:
    """The walk for an errand as it is recorded now."""
    with tempfile.TemporaryDirectory() as folder:
        errand.do(recorder, Path(folder))
    walk = walk_of(recorder.entered)
    return [function for function in walk if not function.module.startswith(errand.left_out)]


HEADINGS = ("functions", "modules", "stays", "returns", "packages", "stays", "returns")


def row(title: str, *cells: object) -> str:
    """A row of the table."""
    return f"{title:34}" + "".join(f"{cell:>11}" for cell in cells)


def figures(walk: Walk) -> list[int]:
    """The figures of a walk, as the headings say."""
    modules = stays_in(walk)
    packages = without_repeats(module.partition(".")[0] for module in modules)
    return [len(walk), *figures_of_stays(modules), *figures_of_stays(packages)]


def figures_of_stays(stays: Sequence[str]) -> list[int]:
    """How many places there are, how many stays, and how many of these are returns."""
    places = set(stays)
    return [len(places), len(stays), len(stays) - len(places)]


def main() -> None:
    """Print the figures and, if asked for, the modules of every walk."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk")
    parser.add_argument("--list", action="store_true", help="print the modules in their order")
    listed = parser.parse_args().list
    recorder = Recorder()
    recorder.install()
    print(row("", *HEADINGS))
    for errand in ERRANDS:
        walk = walk_for(errand, recorder)
        print(row(errand.title, *figures(walk)), flush=True)
        if listed:
            print("", *stays_in(walk), sep="\n  ")


if __name__ == "__main__":
    main()
