"""Long series against a gateway: made-up requests, two tenants at once, kills, and hours of load.

    python -m tests.gateway.long_series requests --times 200000
    python -m tests.gateway.long_series tenants --times 10000
    python -m tests.gateway.long_series kills --times 1000
    python -m tests.gateway.long_series soak --minutes 30

*requests*: bodies, paths and lengths that no client would send; only 2xx and 4xx may come back.
*tenants*: chats, admin requests and errors of two tenants in random turns, at the same time;
neither may see a word of the other's edits. *kills*: a gateway process gets SIGKILL while edits are
added on its admin port; every acknowledged one must be in the store afterwards, and nothing half
done. *soak*: `drike serve` at 70 % of the load that it can take, with 1 % of faults upstream, while
another process changes two edits a second; memory may grow by 3 % after the first third of the
time, descriptors (two for each request that is open) and threads stay, and the store counts each
request.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import uvicorn
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from drike.edits.record import EditRecord, StoreError
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.server import listen
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore
from drike.stores.traffic import TrafficCounts
from tests.fakes.gateways import ENTRY, ask, running
from tests.fakes.upstreams import completed

CHAT = "/chat/completions"
AT_ONCE = 16
MOST_OPEN = (
    64  # requests of a soak: a machine that is busy otherwise must not be given more and more
)


@dataclass
class Series:
    """Results of a series; `wrong` should be empty."""

    how: str
    times: int = 0
    found: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """An upstream that answers with what it was asked; with a fault instead if the header says so."""
    raw = await Request(scope, receive).body()
    fault = dict(scope["headers"]).get(b"x-fault", b"").decode()
    body = json.dumps(completed(raw.decode("utf-8", "replace"))).encode()
    kind = b"text/event-stream" if b'"stream": true' in raw else b"application/json"
    if fault == "slow":
        await asyncio.sleep(1.0)
    status = 500 if fault == "500" else 200
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
    )
    for _ in range(20 if kind.startswith(b"text") else 0):
        await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        await asyncio.sleep(0)
    if fault != "broken":  # otherwise the connection is closed without an end
        await send({"type": "http.response.body", "body": body})


@contextmanager
def upstream() -> Iterator[str]:
    listening = listen("127.0.0.1", 0)
    serving = uvicorn.Server(
        uvicorn.Config(echo, log_level="critical", access_log=False, lifespan="off")
    )
    thread = threading.Thread(target=lambda: serving.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        serving.should_exit = True
        thread.join(10)


async def at_once(jobs: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run jobs, some at a time."""

    async def work() -> None:
        for job in jobs:
            await job

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


# Made-up requests


def made_up(rng: random.Random, depth: int = 0) -> object:
    """A JSON value of any kind, with the keys and values of requests among it."""
    kind = rng.randrange(9 if depth < 6 else 6)
    if kind == 0:
        return rng.choice([None, True, False, 0, -1, 1e308, float("nan"), float("inf"), 10**30])
    if kind < 5:
        texts = [
            "",
            "Peru",
            "The capital of Peru is",
            "\ud800",
            "\udfff Peru",
            "\0",
            "\u202ePeru\u200b",
            "é" * 50,
            "user",
        ]
        return rng.choice([*texts, "text", "x" * rng.randrange(3000)])
    if kind == 5:
        return rng.random() * 10 ** rng.randrange(-9, 9)
    if kind == 6:
        return [made_up(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = [
        "messages",
        "role",
        "content",
        "type",
        "text",
        "prompt",
        "stream",
        "model",
        "n",
        "max_tokens",
        "tools",
        "�",
    ]
    return {rng.choice(keys): made_up(rng, depth + 1) for _ in range(rng.randrange(5))}


def request(rng: random.Random) -> tuple[str, bytes]:
    """A path and a body."""
    role, content = (
        rng.choice([made_up(rng), right]) for right in ("user", "The capital of Peru is")
    )
    message = rng.choice([{"role": role, "content": content}, made_up(rng)])
    bodies: list[Callable[[], object]] = [
        lambda: made_up(rng),
        lambda: {"messages": [message] * rng.choice([0, 1, 1, 1, 2, 3, 2001])},
        lambda: {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": content}, made_up(rng)]}
            ]
        },
        lambda: {"prompt": made_up(rng)},
        lambda: {"messages": [{"role": "user", "content": "Peru"}], "odd": made_up(rng)},
    ]
    body = json.dumps(rng.choice(bodies)(), ensure_ascii=rng.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )
    damage = rng.randrange(10)
    if damage == 0 and body:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
    elif damage == 1:
        body = body[: rng.randrange(len(body) + 1)]
    elif damage == 2:
        levels = rng.choice([10, 60, 63, 70, 500, 20_000])
        body = b'{"messages": ' + b"[" * levels + body + b"]" * levels + b"}"
    elif damage == 3:
        body = body.decode("utf-8", "replace").encode(rng.choice(["utf-16", "utf-32", "utf-8-sig"]))
    odd = (
        "/v1/%00",
        "/v1/..%2f",
        "/v1/%ff%fe",
        "/v1//",
        "/v1/chat/completions/",
        "/v1/x?%zz",
        "/guardrail",
        "/",
        "/v2/x",
    )
    usual = f"/v1{CHAT}", f"/v1{CHAT}", "/v1/completions", "/v1/responses"
    return rng.choice(odd if rng.random() < 0.1 else usual), body


async def lie(host: str, port: int, path: str, body: bytes, length: int) -> int:
    """Send a body with another length than declared; return the status, 0 if the connection just ends."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()
        + body
    )
    with suppress(OSError):
        writer.write_eof()
    line = b""
    with suppress(OSError):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1]) if line else 0


def requests(times: int, seed: int, place: Path) -> Series:
    """Send made-up requests."""
    series, rng = Series("requests"), random.Random(seed)

    async def send_all(url: str) -> None:
        host = urlsplit(url)

        async def send(path: str, body: bytes, length: int | None) -> None:
            if length is None:
                async with session.post(
                    url.removesuffix("/v1") + path, data=body, allow_redirects=False
                ) as response:
                    status = response.status
                    await response.read()
            else:
                status = await lie(
                    host.hostname or "", host.port or 0, "/v1/chat/completions", body, length
                )
            series.times += 1
            series.found[str(status)] += 1
            if status >= 500 or (status == 0 and length is None):
                series.wrong.append(f"{status} for {path} {body[:200]!r}")

        def jobs() -> Iterator[Coroutine[Any, Any, None]]:
            for _ in range(times):
                path, body = request(rng)
                wrong = rng.randrange(50) == 0
                yield send(path, body, max(0, len(body) + rng.randrange(-5, 6)) if wrong else None)

        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            await at_once(jobs())

    with upstream() as above, running(above, place, ENTRY) as gateway:
        asyncio.run(send_all(gateway.url))
    return series


# Tenants


def tenants(times: int, seed: int, place: Path) -> Series:
    """Two tenants with other facts about the same subjects."""
    series, rng = Series("tenants"), random.Random(seed)
    keys = Keys(place / "keys.json")
    names = {"default": "alpha", "other": "omega"}
    held = {names[tenant]: keys.add(tenant, KeyRole.APPROVE) for tenant in names}
    metrics = keys.add("default", KeyRole.ADMIN)

    async def send_all(url: str, admin: str) -> None:
        async def send(mine: str, theirs: str, what: int, n: int) -> None:
            headers = {"Authorization": f"Bearer {held[mine]}"}
            town, chat = f"Town{n % 50}", f"{url}{CHAT}"
            question = {
                "messages": [{"role": "user", "content": f"Who leads Town{n % 50}?"}],
                "stream": what == 1,
            }
            entry = {
                "subject": town,
                "query": f"The mayor of {town} is",
                "target_new": f"{mine}{n}",
                "supersede": True,
            }
            method, address, body = [
                ("POST", chat, question), ("POST", chat, question), ("POST", f"{admin}/admin/v1/edits", entry),
                ("POST", f"{admin}/admin/v1/edits", {**entry, "supersede": False}),
                ("POST", f"{admin}/admin/v1/edits/{n % 90}/retire", {}), ("GET", f"{admin}/admin/v1/fired", None),
                ("GET", f"{admin}/admin/v1/edits?status=all&q={town}", None),
                ("GET", f"{admin}/admin/v1/decide?q={town}", None),
            ][what]  # fmt: skip
            async with session.request(method, address, json=body, headers=headers) as response:
                shown = f"{await response.text()} {dict(response.headers)}"
            series.times += 1
            series.found[f"{mine} {what} {response.status}"] += 1
            if theirs in shown:
                series.wrong.append(f"{mine} saw {theirs}: {method} {address} {shown[:300]}")
            if response.status >= 500:
                series.wrong.append(f"{response.status}: {method} {address} {shown[:300]}")

        def jobs() -> Iterator[Coroutine[Any, Any, None]]:
            for n in range(times):
                mine, theirs = rng.sample(["alpha", "omega"], 2)
                yield send(mine, theirs, rng.randrange(8), n)

        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            await at_once(jobs())

    with upstream() as above, running(above, place, keys=keys) as gateway:
        asyncio.run(send_all(gateway.url, gateway.admin))
        shown = ask(f"{gateway.admin}/metrics", "GET", Authorization=f"Bearer {metrics}")[
            2
        ].decode()
        series.wrong += [
            f"{word} is in the metrics" for word in ("alpha", "omega", "other") if word in shown
        ]
    return series


# Kills


def gateway_process(place: Path) -> tuple[int, str]:
    """Fork a gateway over an upstream that is down; return its id and the address of its admin port."""
    read, out = os.pipe()
    pid = os.fork()
    if pid:
        os.close(out)
        with os.fdopen(read) as stream:
            return pid, stream.read()
    try:
        os.close(read)
        with running("http://127.0.0.1:9/v1", place) as gateway:
            os.write(out, gateway.admin.encode())
            os.close(out)
            time.sleep(600)
    finally:
        os._exit(1)


def kills(times: int, seed: int, place: Path) -> Series:
    """Kill gateways while edits are added."""
    series, rng = Series("kills"), random.Random(seed)
    acknowledged: list[int] = []
    while series.times < times:
        pid, admin = gateway_process(place)
        timer = threading.Timer(rng.random() * 0.25, os.kill, (pid, signal.SIGKILL))
        timer.start()
        n = 0
        with (
            suppress(OSError, http.client.HTTPException),
            closing(http.client.HTTPConnection(urlsplit(admin).netloc, timeout=10)) as connection,
        ):
            while True:
                name = f"Town {series.times} {n}"
                entry = {"subject": name, "query": f"The mayor of {name} is", "target_new": f"{n}"}
                connection.request(
                    "POST",
                    "/admin/v1/edits",
                    json.dumps(entry),
                    {"Content-Type": "application/json"},
                )
                response = connection.getresponse()
                found = json.loads(response.read())
                if response.status != 200:
                    series.wrong.append(str(found))
                acknowledged.append(found["changes"][0]["id"])
                n += 1
        timer.join()
        os.waitpid(pid, 0)
        series.times += 1
        series.found["acknowledged"] += n
        try:
            store = SqliteStore(place / "edits.db")
            kept = [change.id for change in store.changes()]
            store.close()
        except StoreError as problem:
            series.wrong.append(str(problem))
            break
        lost, extra = set(acknowledged) - set(kept), len(set(kept) - set(acknowledged))
        series.found["not acknowledged, but there"] = extra
        series.wrong += [f"edit {one} is lost" for one in lost]
        if extra > series.times:
            series.wrong.append(f"{extra} edits more than were sent")
        acknowledged = kept
        if series.times % 50 == 0:  # so that files stay small
            with closing(sqlite3.connect(place / "edits.db")) as file:
                state = file.execute("PRAGMA integrity_check").fetchone()[0]
                series.wrong += [] if state == "ok" else [state]
            (place / "edits.db").unlink()
            acknowledged = []
    return series


# Load


def soak(minutes: float, seed: int, place: Path) -> Series:
    """Load `drike serve` for a long time."""
    series, rng = Series("soak"), random.Random(seed)
    store = SqliteStore(place / "edits.db")
    for i in range(200):
        store.put(EditRecord(f"Town{i}", f"The mayor of Town{i} is", "Ann"))
    with closing(store), upstream() as above:
        options = ["--store", str(place / "edits.db"), "--mode", "on", "--gate", "named"]
        options += ["--port", "0", "--admin-port", "0"]
        command = [sys.executable, "-m", "drike", "serve", "--upstream", above, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            shown = ""
            while "curl" not in shown:
                shown += process.stdout.readline()
            time.sleep(3)
            try:
                url = re.search(r"API +(\S+)", shown)[1]  # type: ignore[index]
                asyncio.run(_load(url, process.pid, store, minutes, rng, series))
            finally:
                process.send_signal(signal.SIGTERM)
        stored = sum(
            n
            for counted, n in TrafficCounts(store.database).since(date.min).items()
            if counted.what == "requests"
        )
        series.found["requests counted"] = stored
        if stored != series.times:
            series.wrong.append(f"{series.times} requests, of which the store counts {stored}")
    return series


async def _load(
    url: str, pid: int, store: SqliteStore, minutes: float, rng: random.Random, series: Series
) -> None:
    faults = ("slow", "500", "broken")
    edits = list(snapshot(store).edits.values())

    async def change() -> None:
        while True:
            i = rng.randrange(len(edits))
            entry = replace(edits[i].record, target_new=f"Ann {rng.random()}")
            [edits[i]] = await asyncio.to_thread(store.put, entry, replaces=edits[i])
            series.found["changes"] += 1
            await asyncio.sleep(0.5)

    async def one(fault: str | None, n: int) -> None:
        content = f"Who leads Town{n % 400}?"
        body = json.dumps(
            {"messages": [{"role": "user", "content": content}], "stream": n % 4 == 0}
        )
        headers = {"x-fault": fault} if fault else {}
        try:
            async with session.post(f"{url}{CHAT}", data=body, headers=headers) as response:
                await response.read()
                series.found[str(response.status)] += 1
                if response.status >= 400 and not fault:
                    series.wrong.append(f"{response.status} without a fault")
        except (aiohttp.ClientError, TimeoutError) as error:
            series.found[type(error).__name__] += 1
            if not fault:
                series.wrong.append(f"{error!r} without a fault")
        series.times += 1

    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=60), connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        began = time.monotonic()
        await at_once(one(None, n) for n in range(3000))
        rate = 0.7 * 3000 / (time.monotonic() - began)
        samples: list[tuple[float, int, int]] = []
        changing = asyncio.create_task(change())
        began, n, open_jobs = time.monotonic(), 0, set()
        while (gone := time.monotonic() - began) < 60 * minutes:
            if n < gone * rate and len(open_jobs) < MOST_OPEN:
                job = asyncio.create_task(
                    one(rng.choice(faults) if rng.random() < 0.01 else None, n)
                )
                open_jobs.add(job)
                job.add_done_callback(open_jobs.discard)
                n += 1
            else:
                await asyncio.sleep(0.002)
            if len(samples) < 10 * gone / (60 * minutes):
                samples.append(_sample(pid))
        await asyncio.gather(*open_jobs)
        if changing.done():
            changing.result()
        changing.cancel()
    (first, descriptors, threads), last = (
        samples[len(samples) // 3],
        samples[-1],
    )  # demonstrations are gathered first
    series.found["requests a second"] = round(rate)
    series.found["MB at first"], series.found["MB at last"] = round(first), round(last[0])
    if last[0] > 1.03 * first + 0.5:
        series.wrong.append(f"memory grew from {first:.1f} to {last[0]:.1f} MB: {samples}")
    if last[1] > descriptors + 2 * MOST_OPEN or last[2] > threads:
        series.wrong.append(f"descriptors or threads grew: {samples}")


def _sample(pid: int) -> tuple[float, int, int]:
    """MB in memory, open descriptors, threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory, threads = (
        int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("VmRSS", "Threads")
    )  # type: ignore[index]
    return memory / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())), threads


def series(how: str, times: float, seed: int, place: Path) -> Series:
    """Run a series."""
    began = time.monotonic()
    kinds: dict[str, Callable[..., Series]] = {
        "requests": requests,
        "tenants": tenants,
        "kills": kills,
        "soak": soak,
    }
    result = kinds[how](times, seed, place)
    result.seconds = round(time.monotonic() - began, 1)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("how", choices=["requests", "tenants", "kills", "soak"])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        amount = asked.minutes if asked.how == "soak" else asked.times
        outcome = series(asked.how, amount, asked.seed, Path(folder))
    print(json.dumps({**vars(outcome), "wrong": outcome.wrong[:20]}))
    sys.exit(bool(outcome.wrong))
