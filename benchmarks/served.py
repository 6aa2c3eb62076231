"""Measure how much faster a served model is with more requests at a time, over real sockets, as with `--concurrency`.

A server in another process answers every request after 50 ms, any number at once. (Real servers are usually slower,
and then the relative overhead is smaller.) drike sends N requests at a time and caches answers in a new file for each
run. The figures include everything: prompts, threads, JSON, the client, sockets and the file. Linear is the rate of
requests at N = 1, times N. "core" is the share of one core that this process used: near 100 %, Python is the
bottleneck, not the server.

In training, every prefix of an edit is a request. With sigma = 0 an edit has 16; with the sigma of a trained run it
has few, and then a block of B edits waits for the last ones. Runs of all sizes alternate and the best of each counts,
because the machine may be shared.

    python benchmarks/served.py [--edits 160] [--repeat 2] [--latency 50]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from drike.edits.edit import EditCase
from drike.encoders import load_encoder
from drike.models.protocols import CustomModel
from drike.models.served import ApiOptions
from drike.models.served.cache import AnswerCache, CachedModel
from drike.models.served.openai import ServedModel
from drike.research import datasets
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import in_blocks, rewrite_reward, train
from lib import pages

TITLE = "A served model with several requests at a time"

ENDPOINTS = (1, 4, 16)
BLOCKS = (16, 32, 64)  # for the largest number of endpoints
TRAINED = 0.0667  # a sigma just above 1 / 16, which keeps few retains of an untrained head

Work = Callable[[CachedModel], None]


class Endpoint(asyncio.Protocol):
    """A connection with sequential requests; each is answered after `latency` seconds."""

    latency = 0.05
    ANSWER = json.dumps(
        {
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "French"},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 1},
        }
    ).encode()
    REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(ANSWER),
        ANSWER,
    )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.read = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer once a request is complete."""
        self.read += data
        head, found, body = self.read.partition(b"\r\n\r\n")
        if found and len(body) >= int(
            head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        ):
            self.read = b""
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, self.REPLY)


def listen(told: Connection, latency: float) -> None:
    """Serve until the process is ended; send the port number through the pipe."""
    Endpoint.latency = latency

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(
            Endpoint, "127.0.0.1", 0, backlog=256
        )
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


@contextmanager
def serving(latency: float) -> Iterator[str]:
    """Start the server and yield the name of its model."""
    spawning = multiprocessing.get_context("spawn")
    heard, told = spawning.Pipe(duplex=False)
    process = spawning.Process(target=listen, args=(told, latency), daemon=True)
    process.start()
    try:
        yield f"vllm:any@http://127.0.0.1:{heard.recv()}/v1"
    finally:
        process.terminate()


def main() -> None:
    """Run all measurements and print them."""
    arguments = pages.parser(__doc__)
    arguments.add_argument(
        "--edits",
        type=int,
        default=160,
        help="edits for the largest number of endpoints, fewer for others",
    )
    arguments.add_argument("--repeat", type=int, default=2, help="runs of each size")
    arguments.add_argument(
        "--latency", type=float, default=50.0, help="latency of the server in milliseconds"
    )
    given = arguments.parse_args()
    with pages.measured(given, TITLE, __doc__):
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset = datasets.load(datasets.TINYFACTS)
    parts = dataset.split(train=0, test=given.edits, seed=0)
    pool = Pool(parts.demonstrations, load_encoder())
    ike = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)))
    list(
        evaluate(
            ike, CustomModel("echo", lambda prompts, max_tokens, stop: list(prompts)), parts.test
        )
    )  # compute all features
    rows: list[tuple[str, ...]] = []
    with serving(given.latency / 1e3) as name:
        measured(name, 1, partial(answer, FactPrompt(), parts.test[:1]))  # import everything
        for editor in (FactPrompt(), ike):
            works = {n: partial(answer, editor, some(parts.test, n)) for n in ENDPOINTS}
            rows += rates(
                f"evaluate, {editor.name}",
                name,
                {(n, 0): work for n, work in works.items()},
                given.repeat,
            )
        for sigma, title in (
            (0.0, "train, 16 prompts an edit"),
            (TRAINED, "train, few prompts an edit"),
        ):
            sizes = [(1, 1), (4, 4), *((ENDPOINTS[-1], block) for block in BLOCKS)]
            blocks = {(n, b): partial(learn, pool, some(parts.test, n), b, sigma) for n, b in sizes}
            rows += rates(title, name, blocks, given.repeat)
    header = (
        "",
        "--concurrency",
        "--parallel-edits",
        "requests/s",
        "of linear",
        "ms of this process per request",
    )
    pages.draw(f"A server that answers after {given.latency:.0f} ms", header, rows)


def some(cases: tuple[EditCase, ...], endpoints: int) -> tuple[EditCase, ...]:
    """Return as many cases as `endpoints` can do in about the time that the largest number needs for all."""
    return cases[: max(16, len(cases) * endpoints // ENDPOINTS[-1])]


def answer(editor: Editor, cases: tuple[EditCase, ...], model: CachedModel) -> None:
    """Evaluate all cases."""
    list(evaluate(editor, model, cases))


def learn(
    pool: Pool, cases: tuple[EditCase, ...], block: int, sigma: float, model: CachedModel
) -> None:
    """Train one epoch in blocks of `block` edits."""
    editor = InContextEditor(
        "DR-IKE", pool, RankAndCut(Retriever(pool.encoder), Threshold(sigma, 16))
    )
    list(
        train(
            editor,
            rewrite_reward(model),
            cases,
            epochs=1,
            schedule=in_blocks(block, model.info.calls_at_once),
        )
    )


def measured(name: str, endpoints: int, work: Work) -> tuple[float, float, int]:
    """Return wall seconds, CPU seconds of this process, and requests."""
    with tempfile.TemporaryDirectory() as folder:
        inner = ServedModel(name, ApiOptions(concurrency=endpoints))
        with closing(inner):  # type: ignore[type-var]
            model = CachedModel(inner, "any", AnswerCache(Path(folder) / "answers.sqlite"))
            began, used = time.perf_counter(), time.process_time()
            work(model)
            seconds, cpu = time.perf_counter() - began, time.process_time() - used
            model.store.close()
            return seconds, cpu, inner.usage.requests


def rates(
    what: str, name: str, works: dict[tuple[int, int], Work], repeat: int
) -> list[tuple[str, ...]]:
    """A row for each size: its rate, share of linear, and CPU time of this process."""
    best: dict[tuple[int, int], tuple[float, float, int]] = {}
    for _ in range(repeat):
        for size, work in works.items():
            found = measured(name, size[0], work)
            best[size] = min(best.get(size, found), found)
    (seconds, _, requests), *_ = best.values()
    first, rows = requests / seconds, []
    for (n, block), (seconds, cpu, requests) in best.items():
        rate = requests / seconds
        figures = (f"{rate:.1f}", f"{rate / first / n:.0%}", f"{cpu / requests * 1e3:.2f}")
        rows.append((what, str(n), str(block or ""), *figures))
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
