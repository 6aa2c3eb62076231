"""Measure `drike serve`: overhead, CPU time, memory, open streams, and how soon an edit is in force.

    python benchmarks/gateway.py [--requests 2000] [--streams 500] [--edits 20000] [--changes 100] [--encoder]

An upstream that answers at once, the gateway, and the client are processes of this machine. Requests go directly to the
upstream and through the gateway in turns, 1 or 10 at a time; overhead is the difference of the two distributions'
median and 99th percentile. "edited": the share of answers with an edit; where one fires, the others were late. CPU time
and memory are the gateway's own, from /proc. The client needs CPU time too, so run this on an otherwise idle machine
with two cores or more.

Rows: "no edits" has an empty store, "nothing fires" and "one fires" have --edits edits; all decide by names, without an
encoder. A streamed answer has 60 chunks. The open streams take 3 seconds each, all at once. An edit is in force when a
question first gets it, counted from its acknowledgement: on the admin port, and to another process by the store.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import uvicorn
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from drike.edits.record import EditRecord
from drike.gateway.http.server import listen
from drike.stores.sqlite import SqliteStore
from lib import pages

TITLE = "The gateway: overhead, memory, changes"

AT_ONCE, CHUNKS, STREAM_SECONDS = 10, 60, 3.0
ANSWER = json.dumps({"object": "chat.completion", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "Oslo"}, "finish_reason": "stop"}]}).encode()  # fmt: skip
CHUNK = b'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": " word"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a chat at once; a stream in 60 chunks, slowly if its user is "slow"."""
    if scope["type"] != "http":
        return
    raw = await Request(scope, receive).body()
    body = json.loads(raw)
    kind = b"text/event-stream" if body.get("stream") else b"application/json"
    size = [] if body.get("stream") else [(b"content-length", b"%d" % len(ANSWER))]
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *size]}
    )
    if not body.get("stream"):
        await send({"type": "http.response.body", "body": ANSWER})
        return
    for _ in range(CHUNKS):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await asyncio.sleep(STREAM_SECONDS / CHUNKS if body.get("user") == "slow" else 0)
    await send({"type": "http.response.body", "body": DONE})


def serve_upstream(pipe: Connection) -> None:
    """Run the upstream, and tell its port."""
    listening = listen("127.0.0.1", 0)
    pipe.send(listening.getsockname()[1])
    config = uvicorn.Config(
        upstream, log_level="critical", access_log=False, lifespan="off", timeout_keep_alive=60
    )
    uvicorn.Server(config).run(sockets=[listening])


@dataclass(frozen=True)
class Running:
    """The gateway's process and addresses."""

    pid: int
    url: str
    admin: str

    @property
    def cpu(self) -> float:
        """Seconds of CPU time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name: str = "VmRSS") -> float:
        """MB in memory; VmHWM is the most it was."""
        found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0


@contextmanager
def gateway(above: str, store: Path, gate: str = "named") -> Iterator[Running]:
    """Run `drike serve` with edits on."""
    own = [
        "--gate",
        gate,
        "--upstream",
        above,
        "--store",
        str(store),
        "--create",
        "--mode",
        "on",
        "--port",
        "0",
        "--admin-port",
        "0",
    ]
    command = [sys.executable, "-P", "-m", "drike", "serve", *own]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        shown = ""
        while "curl" not in shown:
            line = process.stdout.readline()
            assert line, f"drike serve ended: {shown}"
            shown += line
        url, admin = (re.search(rf"{name} +(\S+)", shown)[1] for name in ("API", "admin"))  # type: ignore[index]
        time.sleep(2)  # the process becomes a lighter one
        try:
            yield Running(process.pid, url, admin)
        finally:
            process.send_signal(signal.SIGTERM)


def chat(content: str, **more: object) -> bytes:
    """The body of a chat."""
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    ).encode()


def numbered(body: bytes, count: int) -> Iterator[bytes]:
    """The body with one number after another for NUMBER, since a gateway keeps what it decided last."""
    return (body.replace(b"NUMBER", b"%d" % number) for number in itertools.cycle(range(count)))


async def ask(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[float, bytes, str]:
    """Send a chat; return seconds, answer and which edits fired."""
    began = time.perf_counter()
    async with session.post(f"{url}/chat/completions", data=body) as response:
        found = await response.read()
        return time.perf_counter() - began, found, response.headers.get("x-drike-edits", "")


async def overhead(
    session: aiohttp.ClientSession, above: str, running: Running, bodies: Iterator[bytes], count: int, *,
    at_once: int = AT_ONCE,
) -> tuple[str, ...]:  # fmt: skip
    """Ask directly and through the gateway in turns; a row of figures."""
    times: dict[str, list[float]] = {above: [], running.url: []}
    for url in times:  # connections
        await asyncio.gather(*(ask(session, url, next(bodies)) for _ in range(at_once)))
    cpu, asked, edited = 0.0, 0, 0
    while asked < count:
        for url, seconds in times.items():
            before = running.cpu
            for _ in range(10):
                found = await asyncio.gather(
                    *(ask(session, url, next(bodies)) for _ in range(at_once))
                )
                seconds += [one for one, _, _ in found]
                edited += sum(bool(edits) for _, _, edits in found)
            cpu += running.cpu - before if url == running.url else 0.0
        asked += 10 * at_once
    direct, through = (statistics.quantiles(seconds, n=100) for seconds in times.values())
    figures = [1000 * (through[q - 1] - direct[q - 1]) for q in (50, 99)] + [
        1000 * cpu / asked,
        running.memory(),
    ]
    return (str(at_once), *(f"{figure:.2f}" for figure in figures), f"{edited / asked:.3f}")


async def open_streams(session: aiohttp.ClientSession, running: Running, count: int) -> str:
    """Many slow streams at once; how many were cut short, and the most memory."""
    body = chat("Hello", stream=True, user="slow")
    found = await asyncio.gather(
        *(ask(session, running.url, body) for _ in range(count)), return_exceptions=True
    )
    whole = CHUNK * CHUNKS + DONE
    cut = sum(isinstance(one, BaseException) or one[1] != whole for one in found)
    return f"{count} open streams: {cut} cut short, {running.memory('VmHWM'):.0f} MB at most"


async def changes(
    session: aiohttp.ClientSession, running: Running, store: Path, count: int
) -> list[str]:
    """How long a change takes, and after it until the edit is in force; on the admin port and by another process."""
    other, lines = SqliteStore(store), []
    for how in ("admin port", "another process"):
        acknowledged, in_force = [], []
        for i in range(count):
            name = f"Newtown {how} {i}"
            entry = {"subject": name, "query": f"The mayor of {name} is", "target_new": "Ann"}
            began = time.perf_counter()
            if how == "admin port":
                async with session.post(f"{running.admin}/admin/v1/edits", json=entry) as response:
                    response.raise_for_status()
            else:
                await asyncio.to_thread(other.put, EditRecord(**entry))
            acknowledged.append(time.perf_counter() - began)
            began = time.perf_counter()
            while not (await ask(session, running.url, chat(f"Who is the mayor of {name}?")))[2]:
                pass
            in_force.append(time.perf_counter() - began)
        first, then = (
            f"{1000 * statistics.median(some):.1f} ms ({1000 * max(some):.1f} at most)"
            for some in (acknowledged, in_force)
        )
        lines.append(f"An edit from {how} is acknowledged after {first}, and in force {then} later")
    other.close()
    return lines


async def measure(above: str, place: Path, args: argparse.Namespace) -> None:
    """All rows."""
    full = place / "full.db"
    store = SqliteStore(full)
    with store.transaction():
        for i in range(args.edits):
            store.put(EditRecord(f"Oldtown {i}", f"The mayor of Oldtown {i} is", "Ann"))
    store.close()
    rows: Sequence[tuple[str, Path, bytes]] = (
        ("no edits", place / "empty.db", chat("What is the capital of Peru?")),
        (
            "no edits, streamed",
            place / "empty.db",
            chat("What is the capital of Peru?", stream=True),
        ),
        ("nothing fires", full, chat("What is the capital of Peru, and what was it in NUMBER?")),
        ("one fires", full, chat("Who is the mayor of Oldtown NUMBER?")),
    )
    drawn = []
    timeout, connector = aiohttp.ClientTimeout(total=120), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        for name, path, body in rows:
            with gateway(above, path) as running:
                drawn.append(
                    (
                        name,
                        *await overhead(
                            session, above, running, numbered(body, args.edits), args.requests
                        ),
                    )
                )
        for name, _, body in rows[2:] if args.encoder else ():
            with gateway(above, full, "calibrated") as running:
                for at_once in (1, AT_ONCE):
                    bodies = numbered(body, args.edits)
                    figures = await overhead(
                        session, above, running, bodies, args.requests, at_once=at_once
                    )
                    drawn.append((f"{name}, with an encoder", *figures))
        header = (
            "",
            "at a time",
            "overhead p50, ms",
            "p99, ms",
            "CPU ms per request",
            "memory, MB",
            "edited",
        )
        pages.draw(f"{args.requests:,} requests a row, {args.edits:,} edits", header, drawn)
        with gateway(above, place / "empty.db") as running:
            print(f"\n{await open_streams(session, running, args.streams)}", flush=True)
        with gateway(above, full) as running:
            for line in await changes(session, running, full, args.changes):
                print(line, flush=True)


def main() -> None:
    """Start the upstream and measure."""
    parser = pages.parser(__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="requests of a row, each way")
    parser.add_argument("--streams", type=int, default=500, help="streams open at once")
    parser.add_argument("--edits", type=int, default=20_000, help="edits in the larger store")
    parser.add_argument("--changes", type=int, default=100, help="edits added, each way")
    parser.add_argument(
        "--encoder", action="store_true", help="also measure the calibrated gate, with an encoder"
    )
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure_all(args)


def measure_all(args: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve_upstream, args=(there,), daemon=True)
    process.start()
    above = f"http://127.0.0.1:{here.recv()}/v1"
    try:
        with tempfile.TemporaryDirectory() as place:
            asyncio.run(measure(above, Path(place), args))
    finally:
        process.terminate()


if __name__ == "__main__":
    main()
