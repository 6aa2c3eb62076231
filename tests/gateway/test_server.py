"""Connections: heads that do not end, and every way of sending a body."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drike.gateway.http.server import server
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.fakes.waiting import HANG, wait_until

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


@pytest.mark.parametrize(
    "head", [b"", b"POST /v1/x HT", b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 100_000]
)
def test_a_head_that_does_not_end_closes_the_connection(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    seconds = 30.0 if len(head) > 1000 else 0.1  # an endless head needs no time
    monkeypatch.setattr("drike.gateway.http.server._SECONDS_FOR_HEADERS", seconds)
    with running(above.url, tmp_path) as gateway:
        host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            try:
                client.sendall(head)
                assert client.recv(1000) == b""
            except ConnectionResetError:
                assert len(head) > 1000
        assert gateway.ask("GET", "/v1/models")[0] == 200


QUESTION = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).encode()


CHUNKS = b"5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (QUESTION[:5], len(QUESTION) - 5, QUESTION[5:])


LENGTH = b"Content-Length: %d\r\n" % len(QUESTION)


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nUpgrade: h2c\r\n"


@pytest.mark.parametrize(
    ("version", "head", "body"),
    [
        pytest.param(b"1.0", LENGTH, QUESTION, id="HTTP/1.0"),
        pytest.param(b"1.1", b"Transfer-Encoding: chunked\r\n", CHUNKS, id="chunked"),
        pytest.param(b"1.1", LENGTH + b"Expect: 100-continue\r\n", QUESTION, id="100-continue"),
        pytest.param(b"1.1", LENGTH + H2C, QUESTION, id="offering HTTP/2"),  # as Java's client does
    ],
)
def test_a_body_is_read_however_a_client_sends_it(
    gateway: Running, above: Recorded, version: bytes, head: bytes, body: bytes
) -> None:
    host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=5) as client,
        client.makefile("rb") as answer,
    ):
        client.sendall(
            b"POST %s HTTP/%s\r\nHost: localhost\r\n%s\r\n" % (CHAT.encode(), version, head)
        )
        if b"Expect" in head:
            assert (answer.readline(), answer.readline()) == (b"HTTP/1.1 100 Continue\r\n", b"\r\n")
        client.sendall(body)
        assert b" 200 " in answer.readline()
    assert "Oslo" in json.loads(above.body)["messages"][0]["content"]
    names = {name.casefold() for name, _ in above.calls[-1].headers}
    assert not names & {"upgrade", "http2-settings", "expect", "transfer-encoding"}


OFFER = b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (CHAT.encode(), LENGTH + H2C) + QUESTION


def connected(gateway: Running) -> socket.socket:
    host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def answered(client: socket.socket, count: int) -> int:
    """Read until so many answers have come, or the connection ends; return how many have."""
    received = b""
    while received.count(b"HTTP/1.1 200") < count and (data := client.recv(1 << 16)):
        received += data
    return received.count(b"HTTP/1.1 200")


def test_an_offer_of_http2_is_ignored_however_the_request_is_split(
    gateway: Running, above: Recorded
) -> None:
    """Also right behind another request, and one such request behind another."""
    before = len(above.calls)
    plain = OFFER.replace(H2C, b"")
    cuts = [[i] for i in range(1, len(OFFER), 3)] + [
        [i, i + 1] for i in range(40, len(OFFER) - 1, 7)
    ]
    for cut in cuts:
        with connected(gateway) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for begin, end in zip([0, *cut], [*cut, len(OFFER)], strict=True):
                client.sendall(OFFER[begin:end])
                time.sleep(0.001)
            assert answered(client, 1) == 1, cut
    for pipelined in (plain + OFFER, OFFER + plain, OFFER + OFFER + OFFER):
        with connected(gateway) as client:
            count = pipelined.count(b"POST")
            client.sendall(pipelined)
            assert answered(client, count) == count
    bodies = [call.body for call in above.calls[before:]]
    assert len(bodies) == len(cuts) + 7 and all(b"Oslo" in body for body in bodies)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_ends_the_server_as_sigterm_does(ignored: bool) -> None:
    async def nothing(*_: object) -> None:
        """Never called."""

    heard: list[int] = []
    ours = signal.SIG_IGN if ignored else (lambda number, frame: heard.append(number))
    before = signal.signal(signal.SIGHUP, ours)
    try:
        serving = server(nothing, nothing, 0)
        with serving.capture_signals():
            signal.raise_signal(signal.SIGHUP)
            assert serving.should_exit is not ignored and not heard
        assert signal.getsignal(signal.SIGHUP) is ours and heard == [signal.SIGHUP] * (not ignored)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_tunnel_is_refused(gateway: Running) -> None:
    with connected(gateway) as client:
        client.sendall(b"CONNECT host.example:443 HTTP/1.1\r\nHost: host.example\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 400")


def test_a_client_that_stops_sending_gets_its_answers(gateway: Running) -> None:
    with connected(gateway) as client:
        client.sendall(OFFER + OFFER)
        client.shutdown(socket.SHUT_WR)
        assert answered(client, 2) == 2
        while client.recv(1 << 16):
            pass


@pytest.mark.parametrize("gone", [True, False])
def test_a_client_that_is_gone_is_told_from_one_that_has_stopped_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr("drike.gateway.http.server._SECONDS_BETWEEN_PROBES", 0.05)

    def wait(handler: RawHandler, call: Received) -> None:
        handler.recorded.gone.wait(HANG if gone else 0.3)
        handler.reply(200, b"{}")

    with upstream(wait) as above, running(above.url, tmp_path) as gateway:
        with connected(gateway) as client:
            client.sendall(OFFER)
            wait_until(lambda: above.calls)
            client.shutdown(socket.SHUT_WR)
            if not gone:
                received = b""
                while data := client.recv(1 << 16):
                    received += data
                assert received.startswith(b"HTTP/1.1 100 Continue") and received.endswith(
                    b"\r\n\r\n{}"
                )
        # The upstream, which still holds its answer, is not waited for.
        wait_until(lambda: gateway.metrics.in_flight._value.get() == 0)
        above.gone.set()


def test_idle_connections_make_room_for_requests(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.http.server.max_connections", lambda: 32)
    with running(above.url, tmp_path) as gateway:
        idle = [connected(gateway) for _ in range(48)]
        for _ in range(3):
            assert gateway.ask("GET", "/v1/models")[0] == 200
        assert idle[0].recv(1) == b""  # the oldest is closed
        for client in idle:
            client.close()


def test_a_head_behind_a_request_that_is_answered_cannot_grow_without_end(tmp_path: Path) -> None:
    def wait(handler: RawHandler, call: Received) -> None:
        handler.recorded.gone.wait(HANG)

    with (
        upstream(wait) as above,
        running(above.url, tmp_path) as gateway,
        connected(gateway) as client,
    ):
        client.sendall(OFFER)
        wait_until(lambda: above.calls)
        with pytest.raises(OSError):
            for _ in range(1000):
                client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000)
                time.sleep(0.001)
        above.gone.set()


FIRST = """
import re
from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api, read
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.gateway import start
from drike.edits.record import as_stored
import drike

start._warm_up(Named(), None)
edit = drike.Edit("The capital of Peru is", "Oslo", subject="Peru")
index = EditIndex.of(as_stored([edit]))
compiled, known = [], re.compile
re.compile = lambda *given: compiled.append(given[0]) or known(*given)
said = [("system", "We are in Peru."), ("user", "And our capital?"), ("tool", "Peru's is far."), ("user", "Sure?")]
conversation = read(Api.CHAT, {"messages": [{"role": role, "content": text} for role, text in said]})
followed = Follower(lambda query: Named().decide(query, index), index, AsBlock()).follow(conversation)
print(len(followed.around), len(compiled))
"""


def test_the_first_conversation_waits_for_nothing_that_is_made_once() -> None:
    """The rules of conversations take 50 ms to make, which is the whole deadline of a gate by names."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1 0\n", done.stderr
