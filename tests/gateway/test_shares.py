"""What one client takes of a gateway is never all: requests in flight, bodies, connections."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drike.gateway.errors import RequestError
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.shares import Shares
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.fakes.waiting import HANG, wait_until

CHAT = "/v1/chat/completions"
REPORT = b'{"question": "The capital of Peru?", "answer": "Lima"}'


@pytest.mark.parametrize("most", [1, 2, 3, 10, 1_000])
@pytest.mark.parametrize("holders", [1, 2, 3, 7, 40])
def test_whatever_others_take_each_holder_has_its_share(most: int, holders: int) -> None:
    shares = Shares(most, lambda: holders)
    taken = 0
    while shares.has_room("greedy"):
        shares.take("greedy")
        taken += 1
    assert taken >= most // 2
    with pytest.raises(RequestError, match="in flight"):
        shares.take("greedy")
    for i in range(holders - 1):
        for _ in range(max(1, most // (2 * holders))):
            shares.take(f"{i}")
            taken += 1
        assert not shares.has_room(f"{i}")
    assert shares.are_taken and taken <= max(most, holders + most // 2)
    shares.give_back("greedy")
    assert not shares.are_taken and shares.has_room("greedy")


def test_one_tenant_alone_may_take_all_places() -> None:
    shares = Shares(1_000, lambda: 1)
    for _ in range(1_000):
        shares.take("default")
    assert shares.are_taken


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "edits.keys.json")


def begun(gateway: Running, key: str = "", path: str = CHAT) -> socket.socket:
    """A connection on which the body of a request does not end."""
    where = urlsplit(gateway.url)
    client = socket.create_connection((where.hostname, where.port), timeout=HANG)
    secret = f"Authorization: Bearer {key}\r\n" if key else ""
    client.sendall(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{secret}Content-Length: 99\r\n\r\n{{".encode()
    )
    return client


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def in_flight(gateway: Running) -> float:
    return gateway.metrics.in_flight._value.get()


def test_bodies_that_do_not_end_shut_nobody_out(
    above: Recorded, tmp_path: Path, keys: Keys
) -> None:
    """Not even another key of their tenant; and whoever sends them has its own given up first."""
    report = keys.add("default", KeyRole.REPORT)
    own = keys.add("default", KeyRole.USE)
    others = keys.add("other", KeyRole.USE)
    with (
        running(above.url, tmp_path, keys=keys, limits=Limits(at_once=6)) as gateway,
        ExitStack() as slow,
    ):
        clients = [slow.enter_context(begun(gateway, report, "/feedback")) for _ in range(12)]
        wait_until(lambda: in_flight(gateway) >= 4)
        for _ in range(8):
            for key in (own, others):
                assert gateway.ask("POST", CHAT, b"{}", **bearer(key))[0] == 200
        assert gateway.ask("POST", "/feedback", REPORT, **bearer(report))[0] == 429
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("drike.gateway.http.shares._SECONDS_UNDISTURBED", 0.0)
            assert gateway.ask("POST", "/feedback", REPORT, **bearer(report))[0] == 201
        assert clients[0].recv(1 << 16).startswith(b"HTTP/1.1 408")
        assert gateway.manage("GET", "/readyz") == (200, {"ready": True})


def test_refused_requests_hold_no_place(above: Recorded, tmp_path: Path, keys: Keys) -> None:
    key = keys.add("default", KeyRole.USE)
    with (
        running(above.url, tmp_path, keys=keys, limits=Limits(at_once=2)) as gateway,
        ExitStack() as slow,
    ):
        for _ in range(120):
            slow.enter_context(begun(gateway))
        wait_until(lambda: in_flight(gateway) >= 100)  # so many are waited for
        for _ in range(8):
            assert gateway.ask("POST", CHAT, b"{}", **bearer(key))[0] == 200


def test_a_tenant_that_takes_all_it_can_leaves_others_their_share(
    tmp_path: Path, keys: Keys
) -> None:
    greedy = keys.add("default", KeyRole.USE)
    modest = keys.add("other", KeyRole.USE)
    released = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        if b"wait" in call.body:
            released.wait(HANG)
        handler.reply(200, b"{}")

    with (
        upstream(wait) as above,
        running(above.url, tmp_path, keys=keys, limits=Limits(at_once=4)) as gateway,
    ):

        def ask_and_wait(key: str) -> None:
            gateway.ask("POST", CHAT, b'"wait"', **bearer(key))

        waiting = [threading.Thread(target=ask_and_wait, args=(greedy,)) for _ in range(3)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: len(above.calls) == 3)
        status, headers, _ = gateway.ask("POST", CHAT, b"{}", **bearer(greedy))
        assert (status, headers["retry-after"]) == (429, "1")
        assert gateway.ask("POST", CHAT, b"{}", **bearer(modest))[0] == 200
        assert gateway.manage("GET", "/readyz")[0] == 200

        waiting.append(threading.Thread(target=ask_and_wait, args=(modest,)))
        waiting[-1].start()
        wait_until(lambda: len(above.calls) == 5)
        assert gateway.ask("POST", CHAT, b"{}", **bearer(modest))[0] == 429
        status, answer = gateway.manage("GET", "/readyz")
        assert status == 503 and "in flight" in answer["problems"][0]
        released.set()
        for thread in waiting:
            thread.join()
        assert gateway.ask("POST", CHAT, b"{}", **bearer(greedy))[0] == 200
        assert gateway.manage("GET", "/readyz")[0] == 200


def kept(gateway: Running) -> HTTPConnection:
    return HTTPConnection(urlsplit(gateway.url).netloc, timeout=HANG)


def status_on(connection: HTTPConnection, **headers: str) -> int:
    connection.request("GET", "/v1/models", headers=headers)
    response = connection.getresponse()
    response.read()
    return response.status


def test_unknown_clients_take_no_connection_from_known_ones(
    above: Recorded, tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.http.server.max_connections", lambda: 16)
    key = keys.add("default", KeyRole.USE)
    with running(above.url, tmp_path, keys=keys) as gateway, ExitStack() as idle:
        known = idle.enter_context(closing(kept(gateway)))
        assert status_on(known, **bearer(key)) == 200
        used = known.sock
        unknown = [idle.enter_context(closing(kept(gateway))) for _ in range(40)]
        for connection in unknown:
            assert status_on(connection) == 401
        assert unknown[0].sock.recv(1) == b"" and unknown[31].sock.recv(1) == b""
        assert status_on(unknown[-1]) == 401
        assert status_on(known, **bearer(key)) == 200 and known.sock is used


def test_an_unknown_client_keeps_a_connection_for_a_while_only(
    above: Recorded, tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.http.server._SECONDS_UNKNOWN", 0.0)
    key = keys.add("default", KeyRole.USE)
    with (
        running(above.url, tmp_path, keys=keys) as gateway,
        closing(kept(gateway)) as unknown,
        closing(kept(gateway)) as known,
    ):
        assert status_on(unknown) == 401 and unknown.sock.recv(1) == b""
        assert status_on(known, **bearer(key)) == 200
        used = known.sock
        assert status_on(known) == 401
        assert status_on(known, **bearer(key)) == 200 and known.sock is used
