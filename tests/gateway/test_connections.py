"""Connections to the upstream: no answer goes to another request, and none is lost with a closed one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drike.gateway.calls import UpstreamCall, whole
from drike.gateway.errors import UpstreamError
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.upstream import HttpUpstream
from tests.fakes.gateways import running
from tests.fakes.waiting import HANG, wait_until

STRAY = b"stray"


def answer(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    head = b"".join(b"%s\r\n" % header for header in headers)
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, head, len(body), body)


OWN = answer(b"own")
UNASKED = answer(STRAY)
NO_LENGTH = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass
class Script:
    """A server that answers by hand. heard: the connection's number and head of each request."""

    url: str = ""
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    closed: int = 0  # connections that the gateway has closed
    pause: Callable[[], None] | None = None  # between two requests


Serve = Callable[[socket.socket, int], None]  # the first request on a connection, of this number


def request_on(client: socket.socket) -> bytes:
    """The head of the next request, of which the body is read, too; b"" at the end."""
    received = b""
    while b"\r\n\r\n" not in received:
        data = client.recv(1 << 16)
        if not data:
            return b""
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += client.recv(1 << 16)
    return head


@contextmanager
def scripted(serve: Serve) -> Iterator[Script]:
    """After `serve`, each further request on a connection is answered with `OWN`."""
    script = Script()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        script.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

        def handle(client: socket.socket, number: int) -> None:
            with client, suppress(OSError):
                while head := request_on(client):
                    script.heard.append((number, head))
                    if sum(number == one for one, _ in script.heard) == 1:
                        serve(client, number)
                    else:
                        client.sendall(OWN)
            script.closed += 1

        def accept() -> None:
            with suppress(OSError):
                number = 0
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=handle, args=(client, number), daemon=True).start()
                    number += 1

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield script
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


AT_ONCE = {
    "an answer": OWN + UNASKED,
    "two": OWN + UNASKED + UNASKED,
    "the beginning of one": OWN + UNASKED[:20],
    "no answer": OWN + b"more than its length",
    "a line": OWN + b"\r\n" + UNASKED,
    "an interim answer": OWN + CONTINUE,
    "hints": b"HTTP/1.1 103 Early Hints\r\n\r\n" + OWN + b"HTTP/1.1 103 Early Hints\r\n\r\n" + UNASKED,
    "behind chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nown\r\n0\r\n\r\n" + UNASKED,
    "behind a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nown\r\n0\r\nX: 1\r\n\r\n"
    + UNASKED,
    "the body of a 204": b"HTTP/1.1 204 No Content\r\nContent-Length: %d\r\n\r\n" % len(UNASKED) + UNASKED,
    "the body of a 304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: %d\r\n\r\n" % len(UNASKED) + UNASKED,
    "behind a close": answer(b"own", b"200 OK", b"Connection: close") + UNASKED,
}  # fmt: skip


def ask_upstream(
    script: Script, *bodies: bytes, method: str = "POST", tenant: str = "a"
) -> list[object]:
    """The answers to requests that follow each other; of one that failed, the error."""
    return asyncio.run(_ask_upstream(script, bodies, method, tenant))


async def _ask_upstream(
    script: Script, bodies: Sequence[bytes], method: str, tenant: str
) -> list[object]:
    upstream = HttpUpstream(script.url)
    await upstream.open()
    answers: list[object] = []
    for body in bodies:
        try:
            call = UpstreamCall(method, "/models", [], body, tenant)
            async with upstream.exchange(call) as reply:
                answers.append(await whole(reply))
        except UpstreamError as error:
            answers.append(error)
        if script.pause:
            await asyncio.to_thread(script.pause)
    await upstream.close()
    return answers


@pytest.mark.parametrize("kind", AT_ONCE)
def test_what_comes_with_an_answer_goes_to_nobody(kind: str) -> None:
    """Also where the answer's end comes with what follows it, and its beginning has come before."""
    for cut in (0, 30):

        def serve(client: socket.socket, number: int, cut: int = cut) -> None:
            sent = OWN if number else AT_ONCE[kind]
            client.sendall(sent[:cut])
            client.sendall(sent[cut:])

        for method in ("GET", "POST"):
            with scripted(serve) as above:
                _, *others = ask_upstream(above, b"", b"", b"", method=method)
                assert others == [b"own", b"own"]
                assert [number for number, _ in above.heard] == [0, 1, 1]


LATE = (UNASKED, UNASKED[:9], b"x", b"\r\n", CONTINUE, NO_LENGTH)


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("method", ["HEAD", "GET", "POST"])
def test_what_comes_on_an_idle_connection_closes_it(method: str, late: bytes) -> None:
    """As does the body of an answer to HEAD."""
    answered = threading.Event()
    sent = threading.Event()

    def serve(client: socket.socket, number: int) -> None:
        client.sendall(OWN.removesuffix(b"own") if method == "HEAD" else OWN)
        if not number:
            answered.wait(HANG)
            client.sendall(late)
            sent.set()

    def pause() -> None:
        answered.set()
        sent.wait(HANG)

    with scripted(serve) as above:
        above.pause = pause
        own = b"" if method == "HEAD" else b"own"
        assert ask_upstream(above, b"", b"", method=method) == [own, own]
        assert [number for number, _ in above.heard] == [0, 1]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_nobody_has_read_yet_is_no_answer_to_what_is_sent_next(method: str) -> None:
    """The event loop is busy from the first answer to the next request."""
    held = threading.Event()

    def serve(client: socket.socket, number: int) -> None:
        client.sendall(OWN)
        if not number:
            held.wait(HANG)
            client.sendall(UNASKED)
            held.clear()

    async def ask_twice() -> None:
        upstream = HttpUpstream(above.url)
        await upstream.open()
        for body in (b"", b"{}", b"{}"):
            async with upstream.exchange(UpstreamCall(method, "/x", [], body)) as reply:
                assert await whole(reply) == b"own"
            if not held.is_set() and len(above.heard) == 1:
                held.set()
                wait_until(lambda: not held.is_set())  # not leaving the loop
        await upstream.close()

    with scripted(serve) as above:
        asyncio.run(ask_twice())
        assert [number for number, _ in above.heard] == [0, 1, 1]


def test_a_connection_without_a_fault_is_kept() -> None:
    large = b"x" * 3_000_000
    with scripted(lambda client, number: client.sendall(answer(large))) as above:
        assert ask_upstream(above, b"", large, b"{}") == [large, b"own", b"own"]
        assert {number for number, _ in above.heard} == {0}


def test_no_two_tenants_share_a_connection(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    made = [keys.add(tenant, KeyRole.USE) for tenant in ("default", "other", "default")]
    with (
        scripted(lambda client, number: client.sendall(OWN)) as above,
        running(above.url, tmp_path, keys=keys) as gateway,
    ):
        for key in made:
            assert gateway.ask("GET", "/v1/models", Authorization=f"Bearer {key}")[0] == 200
        assert [number for number, _ in above.heard] == [0, 1, 0]


def end(client: socket.socket) -> None:
    """Close a connection of which all was read."""
    request_on(client)
    client.close()


def reset(client: socket.socket) -> None:
    """Close a connection on which a request has come that nobody reads."""
    client.recv(1, socket.MSG_PEEK)
    client.close()


def half(client: socket.socket) -> None:
    """Break off an answer."""
    request_on(client)
    client.sendall(OWN[:20])
    client.close()


def break_off_hints(client: socket.socket) -> None:
    """Show that the request was read."""
    request_on(client)
    client.sendall(CONTINUE)
    client.close()


LARGE = b"x" * 4_000_000


@pytest.mark.parametrize(
    ("close", "body", "is_sent_again"),
    [
        pytest.param(socket.socket.close, b"{}", True, id="before the request"),
        pytest.param(socket.socket.close, b"", True, id="before a request without a body"),
        pytest.param(reset, b"{}", True, id="with the request unread"),
        pytest.param(reset, LARGE, True, id="with the beginning of a large request unread"),
        pytest.param(end, b"{}", False, id="with the request read"),
        pytest.param(half, b"{}", False, id="in an answer"),
        pytest.param(break_off_hints, b"{}", False, id="behind an interim answer"),
    ],
)
def test_a_request_is_sent_again_where_the_server_has_not_read_it(
    close: Callable[[socket.socket], None], body: bytes, is_sent_again: bool
) -> None:
    def serve(client: socket.socket, number: int) -> None:
        client.sendall(OWN)
        if not number:
            close(client)

    for _ in range(3):
        with scripted(serve) as above:
            first, second = ask_upstream(above, b"{}", body)
            assert first == b"own"
            assert (second == b"own") is is_sent_again, second
            assert [number for number, _ in above.heard] == [0, 1][: 1 + is_sent_again]


def test_a_request_on_a_new_connection_is_sent_once() -> None:
    with scripted(lambda client, number: client.close()) as above:
        [failure] = ask_upstream(above, b"{}")
        assert isinstance(failure, UpstreamError) and len(above.heard) == 1


def test_connections_that_a_server_has_closed_lose_no_request() -> None:
    """It has closed all those that were kept, one after the other, while requests come."""

    def serve(client: socket.socket, number: int) -> None:
        client.sendall(OWN)
        client.close()

    with scripted(serve) as above:
        assert ask_upstream(above, *[b"{}"] * 30) == [b"own"] * 30
