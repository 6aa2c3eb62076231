"""Connections: heads that do not end, and every way of sending a body."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.worlds.gateways import (
    Recorded,
    Running,
    running,
)

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


@pytest.mark.parametrize("head", [b"", b"POST /v1/x HT", b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 100_000])
def test_a_head_that_does_not_end_closes_the_connection(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    seconds = 30.0 if len(head) > 1000 else 0.1  # an endless head needs no time
    monkeypatch.setattr("drike.serving.server._SECONDS_FOR_HEADERS", seconds)
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
    with socket.create_connection((host, int(port)), timeout=5) as client, client.makefile("rb") as answer:
        client.sendall(b"POST %s HTTP/%s\r\nHost: localhost\r\n%s\r\n" % (CHAT.encode(), version, head))
        if b"Expect" in head:
            assert (answer.readline(), answer.readline()) == (b"HTTP/1.1 100 Continue\r\n", b"\r\n")
        client.sendall(body)
        assert b" 200 " in answer.readline()
    assert "Oslo" in json.loads(above.body)["messages"][0]["content"]
    names = {name.casefold() for name, _ in above.calls[-1].headers}
    assert not names & {"upgrade", "http2-settings", "expect", "transfer-encoding"}
