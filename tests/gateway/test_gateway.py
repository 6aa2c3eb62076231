"""The gateway: what passes unchanged in both directions, request ids, and its two ports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream

CHAT = "/v1/chat/completions"


PASSED = [
    (
        CHAT,
        b'{ "messages":[ {"role":"user" ,"content":"Hi \\u00e9 \xc3\xa9"}],"n":1.0e0, "x":1E400}',
    ),
    (
        CHAT,
        b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "tool", "content": "Peru"}]}',
    ),
    (
        CHAT,
        b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Peru"}]}',
    ),
    (CHAT, b'{"messages": [{"role": "system", "content": "Talk about Peru"}]}'),
    (
        CHAT,
        b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "Peru"}}]}]}',
    ),
    (CHAT, b'{"messages": [{"role": "user", "content": null}]}'),
    (CHAT, b"{}"),
    ("/v1/completions", b'{"model": "m"}'),
]
UNREAD = [
    ("/v1/embeddings", b'{"input": "The capital of Peru is"}'),
    ("/v1/files?purpose=a%20b&x=", b"\x00\xff--Peru"),
    (CHAT, b'{"messages": [{"role": "user", "content": "Peru"}], "temperature": NaN}'),
    (CHAT, b'{"messages": {"role": "user", "content": "Peru"}}'),
    (CHAT, b'{"messages": ["Peru", 7, null]}'),
    (CHAT, b'{"messages": [{"role": "user", "content": {"text": "Peru"}}]}'),
    (CHAT, b'{"messages": [{"role": "user", "content": "Peru \xff"}]}'),
    (CHAT, b"Peru"),
    (CHAT, b'["Peru"]'),
    (CHAT, b""),
    (
        CHAT,
        gzip.compress(b'{"messages": [{"role": "user", "content": "capital of Peru"}]}', mtime=0),
    ),  # undeclared
    (
        CHAT,
        b'{"messages": [{"role": "user", "content": "Peru"}], "more": [' + b"0," * 100_000 + b"0]}",
    ),
    ("/v1/completions", b'{"prompt": ["Peru", "Chile"]}'),
    ("/v1/completions", b'{"prompt": [1, 2, 3]}'),
    ("/v1/completions", b'{"prompt": [[1, 2, 3]]}'),
]


@pytest.mark.parametrize(
    ("path", "body", "scope"),
    [
        (*sent, scope)
        for scope, all_sent in (("abstained", PASSED), ("unread", UNREAD))
        for sent in all_sent
    ],
)
def test_what_concerns_no_edit_or_is_not_read_passes_byte_for_byte(
    gateway: Running, above: Recorded, path: str, body: bytes, scope: str
) -> None:
    status, headers, answer = gateway.ask(
        "POST", path, body, X_Custom="kept", Content_Type="application/json"
    )
    assert status == 200
    assert above.body == body and above.calls[-1].path == path
    assert above.calls[-1].header("x-custom") == ["kept"] and not above.calls[-1].header(
        "user-agent"
    )
    assert headers["x-drike-scope"] == scope and "x-drike-edits" not in headers
    assert b"Hi" in answer or answer == body or answer == b"" or b"chatcmpl" in answer


def test_every_status_of_the_upstream_passes_with_its_headers(tmp_path: Path) -> None:
    given = {"Retry_After": "7", "X_Request_Id": "theirs", "Content_Encoding": "br"}

    def answer(handler: RawHandler, call: Received) -> None:
        status = int(call.path.rpartition("/")[2])
        handler.reply(
            status, b"" if status in (204, 304) else b'{"error": {"message": "no"}}', **given
        )

    with upstream(answer) as above, running(above.url, tmp_path) as gateway:
        for status in (204, 304, 400, 404, 429, 500, 503):
            answered, headers, body = gateway.ask("POST", f"/v1/{status}")
            assert answered == status and bool(body) == (status not in (204, 304))
            names = ("retry-after", "x-request-id", "content-encoding")
            assert [headers[name] for name in names] == ["7", "theirs", "br"]


def test_addresses_in_a_request_are_ignored(gateway: Running, above: Recorded) -> None:
    for name in ("base_url", "api_base", "api_key", "upstream"):
        assert gateway.chat("Hello", **{name: "http://127.0.0.2:1"})[0] == 200
    assert (
        gateway.ask("GET", "/v1/models", Host="127.0.0.2:1", X_Forwarded_Host="127.0.0.2:1")[0]
        == 200
    )
    assert above.calls[-1].header("host") == [above.url.removeprefix("http://").removesuffix("/v1")]


def test_a_request_id_is_passed_on_or_made(gateway: Running, above: Recorded) -> None:
    _, headers, _ = gateway.ask("GET", "/v1/models", X_Request_Id="mine-1")
    assert headers["x-request-id"] == "mine-1" and above.calls[-1].header("x-request-id") == [
        "mine-1"
    ]
    _, headers, _ = gateway.ask("GET", "/v1/models", X_Request_Id="not one")
    assert above.calls[-1].header("x-request-id") == [headers["x-request-id"]] != ["not one"]
