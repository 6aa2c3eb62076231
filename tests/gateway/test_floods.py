"""Long series: what floods of clients without a key, and of bodies that do not end, leave to others."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.server import raise_file_limit
from tests.fakes.gateways import ask
from tests.fakes.tally import Tally
from tests.fakes.upstreams import upstream

pytestmark = pytest.mark.reliability

CHAT = "/v1/chat/completions"
QUESTION = b'{"messages": [{"role": "user", "content": "Hello"}]}'
SECONDS = 18.0
GATEWAY = """
import sys
from pathlib import Path
from drike.gateway.http.keys import Keys
from drike.gateway.http.server import raise_file_limit
from tests.fakes.gateways import ENTRY, running
raise_file_limit()
place = Path(sys.argv[2])
with running(sys.argv[1], place, ENTRY, keys=Keys(place / "edits.keys.json")) as gateway:
    print(gateway.url, gateway.admin, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Served:
    """A gateway in a process of its own, and keys of it."""

    url: str
    admin: str
    report: str
    use: str
    others: str


@contextmanager
def served(place: Path) -> Iterator[Served]:
    raise_file_limit()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4_000:
        pytest.skip("this needs 4,000 open files (ulimit -n)")
    keys = Keys(place / "edits.keys.json")
    report = keys.add("default", KeyRole.REPORT)
    use = keys.add("default", KeyRole.USE)
    others = keys.add("other", KeyRole.USE)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        upstream() as above,
        subprocess.Popen(
            [sys.executable, "-c", GATEWAY, above.url, str(place)],
            env=where,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout and process.stdin
        url, admin = process.stdout.readline().split()
        try:
            yield Served(url, admin, report, use, others)
        finally:
            process.stdin.close()


def head(path: str, key: str, length: int) -> bytes:
    secret = f"Authorization: Bearer {key}\r\n" if key else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{secret}Content-Length: {length}\r\n\r\n"
    ).encode()


async def status_of(url: str, sent: bytes, seconds: float = 30.0) -> str:
    """The status of the answer to what is sent on a new connection; or why there is none."""
    where = urlsplit(url)
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            try:
                writer.write(sent)
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError) as failure:
        return type(failure).__name__
    return line.split()[1].decode() if line else "closed"


@dataclass(frozen=True)
class Heard:
    """How often what came of requests: of the flood's, and of two keys' during it."""

    flood: Counter[str]
    use: Counter[str]
    others: Counter[str]
    ready: Counter[int]


async def flooded(gateway: Served, flood: list[Coroutine[Any, Any, None]], heard: Heard) -> None:
    """Run a flood, and ask with both keys every .2 s meanwhile."""
    running = [asyncio.create_task(one) for one in flood]
    asking: list[asyncio.Task[None]] = []

    async def ask_once(key: str, counted: Counter[str]) -> None:
        counted[await status_of(gateway.url, head(CHAT, key, len(QUESTION)) + QUESTION)] += 1

    began = time.monotonic()
    await asyncio.sleep(1)
    while time.monotonic() - began < SECONDS:
        asking.append(asyncio.create_task(ask_once(gateway.use, heard.use)))
        asking.append(asyncio.create_task(ask_once(gateway.others, heard.others)))
        if len(asking) % 20 == 0:
            status, _, _ = await asyncio.to_thread(ask, f"{gateway.admin}/readyz", "GET")
            heard.ready[status] += 1
        await asyncio.sleep(0.2)
    await asyncio.gather(*asking)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def result(what: str, heard: Heard, tally: Tally) -> None:
    asked = heard.use.total() + heard.others.total()
    unanswered = asked - heard.use["200"] - heard.others["200"]
    print(
        f"\n{what}: {dict(heard.flood)}; with keys {dict(heard.use)}, {dict(heard.others)}; {dict(heard.ready)}"
    )
    tally(f"requests with a key beside {what}", asked, unanswered)
    assert asked > 50 and unanswered == 0
    assert set(heard.ready) == {200}


def test_1300_clients_without_a_key_starve_none_with_one(tmp_path: Path, tally: Tally) -> None:
    """They send heads alone, again and again, each on a new connection."""
    heard = Heard(Counter(), Counter(), Counter(), Counter())

    async def flood(url: str) -> None:
        while True:
            heard.flood[await status_of(url, head(CHAT, "", 5_000))] += 1

    with served(tmp_path) as gateway:
        clients = [flood(gateway.url) for _ in range(1_300)]
        asyncio.run(flooded(gateway, clients, heard))
    result("1,300 clients without a key", heard, tally)
    assert heard.flood.total() > 1_300


def test_1010_slow_bodies_shut_nobody_out(tmp_path: Path, tally: Tally) -> None:
    """Under one tenant's key for reports; each sends a byte in a second, and comes again."""
    heard = Heard(Counter(), Counter(), Counter(), Counter())

    async def slow(gateway: Served) -> None:
        where = urlsplit(gateway.url)
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(where.hostname, where.port)
                writer.write(head("/feedback", gateway.report, 60_000))
                answer = asyncio.create_task(reader.readline())
                while not answer.done():
                    writer.write(b" ")
                    await asyncio.wait([answer], timeout=1)
                line = answer.result()
                heard.flood[line.split()[1].decode() if line else "closed"] += 1
                writer.close()

    with served(tmp_path) as gateway:
        clients = [slow(gateway) for _ in range(1_010)]
        asyncio.run(flooded(gateway, clients, heard))
    result("1,010 slow bodies", heard, tally)
