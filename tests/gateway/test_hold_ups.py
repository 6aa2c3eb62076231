"""Requests made to hold up a gateway and its other clients, and a gate that never ends."""

from __future__ import annotations

import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.gateways import ENTRY, ask, is_up, running
from tests.fakes.tally import Tally
from tests.fakes.upstreams import upstream
from tests.gateway.test_bodies import STRUCTURES, TEXTS, hostile

CHAT = "/v1/chat/completions"
QUESTION = json.dumps(
    {"messages": [{"role": "user", "content": "What is the capital of Peru?"}]}
).encode()


@pytest.fixture(scope="module")
def above() -> object:
    with upstream(lambda handler, call: handler.reply(200, b"{}")) as recorded:
        yield recorded


@pytest.mark.reliability
@pytest.mark.parametrize("kind", [*STRUCTURES, *TEXTS, "bomb"])
def test_large_bodies_hold_up_no_other_client(
    above: object, tmp_path: Path, kind: str, tally: Tally
) -> None:
    """Four bodies at once, five times; another client asks meanwhile."""
    tally("bodies of 10 MB made to be slow, and bombs", 20)
    if kind == "bomb":
        body, encoding = (
            gzip.compress(bytes(900 << 20), 9),
            {"Content_Encoding": "gzip"},
        )  # of 900 kB
    else:
        body, encoding = hostile(kind, 9_900_000), {}
    with running(above.url, tmp_path, ENTRY) as gateway:  # type: ignore[attr-defined]
        scopes: set[str] = set()

        def send() -> None:
            for _ in range(5):
                scopes.add(gateway.ask("POST", CHAT, body, **encoding)[1]["x-drike-scope"])

        senders = [threading.Thread(target=send) for _ in range(4)]
        for sender in senders:
            sender.start()
        seconds = []
        while any(sender.is_alive() for sender in senders):
            began = time.perf_counter()
            assert gateway.ask("POST", CHAT, QUESTION)[1]["x-drike-scope"] == "fired"
            seconds.append(time.perf_counter() - began)
        print(
            f"{kind}: {len(seconds)} others, {statistics.median(seconds):.3f} s, {max(seconds):.3f} s at most, {scopes}"
        )
        assert scopes <= ({"abstained", "fired", "degraded"} if kind in TEXTS else {"unread"})
        assert max(seconds) < 2


STUCK = """
import sys, time
from drike.cli.gateway_parts import gateway_parts
from drike.gates.by_name import Named
from drike.gateway.options import GatewayOptions
from drike.gateway.start import start
started = start(
    GatewayOptions(
        "http://127.0.0.1:9/v1", store=sys.argv[1], create=True, port=0, admin_port=0, deadline_ms=100, gate="named"
    ),
    gateway_parts(),
)
Named.decide = lambda *arguments: time.sleep(600)  # only now: a gateway decides before it listens
print(started.url, started.admin_url, flush=True)
started.run()
"""


@pytest.mark.reliability
def test_a_gateway_whose_gate_never_ends_obeys_sigterm(tmp_path: Path, tally: Tally) -> None:
    tally("gates that never end", 1)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", STUCK, str(tmp_path / "edits.db")]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, env=environment, stdout=pipe, text=True) as process,
        ExitStack() as ended,
    ):
        ended.callback(process.kill)
        assert process.stdout
        url, admin = process.stdout.readline().split()
        while not is_up(f"{admin}/healthz"):
            time.sleep(0.05)
        assert ask(f"{url}/chat/completions", "POST", QUESTION)[1]["x-drike-scope"] == "degraded"
        waiting = threading.Thread(target=lambda: is_up(f"{admin}/admin/v1/decide?q=Peru"))
        waiting.start()
        status, _, body = ask(f"{admin}/readyz", "GET")
        assert status == 503 and b"decisions about edits are late" in body
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        print(f"ended after {time.monotonic() - began:.1f} s")
        waiting.join(10)
    assert time.monotonic() - began < 20
