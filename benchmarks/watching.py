"""Measure what reading the answers that pass costs the gateway: CPU time of a request, and delay of the first chunk.

    python benchmarks/watching.py [--requests 4000] [--block 100]

The gateway's application is called in this process, over an upstream that answers from memory, so that nothing but its
own work is measured: each request concerns an edit, and is decided on, edited, passed on and answered. Blocks of
requests with and without watching take turns. CPU time is that of all threads, with the judging of the answers and the
storing of the counts after each block. A stream has 60 chunks of an event each; "first chunk" is the time from the
request until the client has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from drike.conversations.rendering import AsBlock
from drike.edits.record import EditRecord
from drike.gates.by_name import Named
from drike.gateway.calls import Reply, Upstream, UpstreamCall
from drike.gateway.edited import EditedRequest
from drike.gateway.editing import RequestEditor
from drike.gateway.feed import EditFeed
from drike.gateway.http.routes import Gateway
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode
from drike.stores.sqlite import SqliteStore
from lib import pages

TITLE = "Reading the answers that pass"
CHUNKS, WORDS = 60, 60
TEXT = "The capital of Peru is Oslo, " + " ".join(f"word{i}" for i in range(WORDS - 6))
ANSWER = json.dumps({"object": "chat.completion", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}]}).encode()  # fmt: skip
EVENTS = [
    b"data: " + json.dumps({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None, "logprobs": None}],
    }).encode() + b"\n\n"
    for word in TEXT.split(" ")[:CHUNKS]
]  # fmt: skip


class FromMemory(Upstream):
    """An upstream that answers at once."""

    name = "memory"

    @asynccontextmanager
    async def exchange(self, call: UpstreamCall) -> AsyncIterator[Reply]:
        """The answer."""
        streams = b'"stream": true' in call.body
        kind = b"text/event-stream" if streams else b"application/json"
        yield Reply(200, [(b"content-type", kind)], chunks_of(EVENTS if streams else [ANSWER]))


async def chunks_of(parts: list[bytes]) -> AsyncIterator[bytes]:
    """The chunks of an answer."""
    for part in parts:
        await asyncio.sleep(0)  # as from a socket, others have their turn
        yield part


class Unwatched(RequestEditor):
    """Edits as the other one does, and has nothing counted."""

    async def edit(self, *arguments: Any, **named: Any) -> EditedRequest:
        """As the other one."""
        edited = await super().edit(*arguments, **named)
        return replace(edited, asked=(), note=lambda answer: None)


async def ask(gateway: Gateway, body: bytes) -> float:
    """Send a request; return the seconds until the first chunk of its answer."""
    sent, first = False, asyncio.Event()
    began, seconds = time.perf_counter(), 0.0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await first.wait()
            await asyncio.sleep(3600)
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal seconds
        if message["type"] == "http.response.body" and not first.is_set():
            seconds = time.perf_counter() - began
            first.set()

    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"accept-encoding", b"gzip"),
    ]
    path = "/v1/chat/completions"
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "server": ("127.0.0.1", 8800), "client": ("127.0.0.1", 1), "http_version": "1.1",
    }  # fmt: skip
    await gateway(scope, receive, send)
    return seconds


async def measure(place: Path, args: argparse.Namespace) -> None:
    """Both rows."""
    store = SqliteStore(place / "edits.db")
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima"))
    feed, metrics, upstream = EditFeed(store, Named()), Metrics(), FromMemory()

    async def of(tenant: str) -> EditFeed:
        return feed

    gateways = []
    for kind in (Unwatched, RequestEditor):
        options = GatewayOptions(mode=Mode.ON, deadline_ms=5000)
        editor = kind(
            upstream, chat=AsBlock(), completion=AsBlock(), options=options, metrics=metrics
        )
        gateways.append(Gateway(upstream, of, editor=editor, metrics=metrics, keys=None))
    rows = []
    for name, streams in (("JSON", False), (f"stream of {CHUNKS} chunks", True)):
        chat = {"model": "m", "stream": streams}
        bodies = [
            json.dumps(
                {
                    **chat,
                    "messages": [{"role": "user", "content": f"What is the capital of Peru? {i}"}],
                }
            ).encode()
            for i in range(args.block)
        ]
        cpu: list[list[float]] = [[], []]
        first: list[list[float]] = [[], []]
        for number in range(-1, args.requests // args.block):
            for i, gateway in enumerate(gateways):
                began = time.process_time()
                seconds = [await ask(gateway, body) for body in bodies]
                await asyncio.to_thread(feed.watch.judge)
                if number % 20 == 0:  # as often as in five seconds at this rate, or more often
                    await asyncio.to_thread(feed.watch.flush, store)
                if number >= 0:
                    cpu[i].append((time.process_time() - began) / args.block)
                    first[i] += seconds
        without, watched = (1000 * statistics.median(figures) for figures in cpu)
        late = [1000 * statistics.median(figures) for figures in first]
        rows.append(
            (name, *(f"{figure:.3f}" for figure in (without, watched, watched - without, *late)))
        )
    header = (
        "",
        "CPU ms without",
        "CPU ms with",
        "difference",
        "first chunk without, ms",
        "with, ms",
    )
    pages.draw(f"{args.requests:,} requests a row and side", header, rows)
    feed.close()


def main() -> None:
    """Measure, and say so."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--requests", type=int, default=4_000, help="of a row, with and without watching each"
    )
    parser.add_argument(
        "--block", type=int, default=100, help="requests before the other side's turn"
    )
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__), tempfile.TemporaryDirectory() as place:
        asyncio.run(measure(Path(place), args))


if __name__ == "__main__":
    main()
