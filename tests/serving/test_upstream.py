"""The server behind the gateway: its failures, its redirects, and whose key it gets."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from drike.serving.upstream import HttpUpstream
from tests.worlds.gateways import (
    ENTRY,
    RawHandler,
    Received,
    Recorded,
    running,
    upstream,
)


def test_an_upstream_that_is_down_is_reported_and_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with running(address, tmp_path, ENTRY) as gateway:
        status, _, answer = gateway.chat("Hello")
        assert (status, json.loads(answer)["error"]["code"]) == (502, "upstream_error")
        status, answer = gateway.manage("GET", "/readyz")
        assert status == 503 and "cannot be reached" in answer["problems"][0]
        assert gateway.manage("GET", "/healthz") == (200, {"healthy": True})


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    def redirect(handler: RawHandler, call: Received) -> None:
        handler.reply(307, b"", Location="http://127.0.0.2:1/v1/chat/completions")

    with upstream(redirect) as above, running(above.url, tmp_path) as gateway:
        status, headers, answer = gateway.chat("Hello")
        assert status == 502 and b"redirects" in answer and "location" not in headers and len(above.calls) == 1


def test_the_clients_key_is_passed_on_or_replaced_never_both(above: Recorded, tmp_path: Path) -> None:
    given = {"Authorization": "Bearer theirs", "Api_Key": "theirs", "Cookie": "theirs", "OpenAI_Project": "theirs"}
    for made, expected in (
        (HttpUpstream(above.url), ["Bearer theirs"]),
        (HttpUpstream(above.url, "ours"), ["Bearer ours"]),
        (HttpUpstream(above.url, keep_credentials=False), []),
    ):
        with running(made, tmp_path) as gateway:
            gateway.ask("GET", "/v1/models", **given)
        call = above.calls[-1]
        assert call.header("authorization") == expected
        for name in ("cookie", "api-key", "openai-project"):
            assert bool(call.header(name)) == (expected == ["Bearer theirs"])


def test_an_answer_that_may_quote_the_gateways_key_is_not_passed_on(tmp_path: Path) -> None:
    def quote(handler: RawHandler, call: Received) -> None:
        handler.reply(401, f"wrong key: {call.header('authorization')}".encode())

    with upstream(quote) as above, running(HttpUpstream(above.url, "sk-secret"), tmp_path) as gateway:
        status, _, answer = gateway.chat("Hello")
        assert status == 502 and b"sk-secret" not in answer and b"refuses the gateway's key" in answer
