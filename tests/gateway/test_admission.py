"""Which requests are admitted: by size, path, origin, key, and how many are in flight."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.upstream import HttpUpstream
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.fakes.waiting import HANG, wait_until

CHAT = "/v1/chat/completions"
ABOUT_PERU = b'{"messages": [{"role": "user", "content": "Peru"}]}'


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (CHAT, b" " * (10 << 20) + b"{}", 413, "body_too_large"),
        (CHAT, b'{"messages": [' + b'{"role": "user"},' * 2_000 + b"{}]}", 400, "bad_request"),
        (CHAT, b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", 400, "bad_request"),
        (CHAT, b'{"a": ' + b"[" * 99_999, 400, "bad_request"),
        ("/v1/../admin", b"", 400, "bad_path"),
        ("/v1/files/%2e%2e/%2E%2E/x", b"", 400, "bad_path"),
        ("/v1/..%5Cx", b"", 400, "bad_path"),
        ("/", b"", 404, "no_such_path"),
        ("/v1", b"", 404, "no_such_path"),
        ("/admin/v1/edits", b"", 404, "no_such_path"),
    ],
)
def test_what_is_too_much_is_refused(
    gateway: Running, above: Recorded, path: str, body: bytes, status: int, code: str
) -> None:
    before = len(above.calls)
    answered, headers, answer = gateway.ask("POST", path, body)
    assert (answered, json.loads(answer)["error"]["code"]) == (status, code) and headers[
        "x-request-id"
    ]
    assert len(above.calls) == before


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        (f"{CHAT}/", CHAT),
        (f"/{CHAT}", CHAT),
        ("/v1//chat///completions//", CHAT),
        ("/v1/chat/completion%73", CHAT),
        ("/%76%31/chat/completions", CHAT),
        ("/v1/chat/%63ompletions?a=%2F", f"{CHAT}?a=%2F"),
        ("/v1/completions/", "/v1/completions"),
        ("/v1/embeddings/", "/v1/embeddings"),
        ("/v1/files/a%2db%3a", "/v1/files/a-b%3A"),
        ("/v1/models/Org%2FName", "/v1/models/Org%2FName"),
        ("/v1/models/Org/Name:free", "/v1/models/Org/Name:free"),
        (f"{CHAT}/id", f"{CHAT}/id"),
    ],
)
def test_a_path_is_sent_as_it_was_read(
    gateway: Running, above: Recorded, sent: str, path: str
) -> None:
    before = len(above.calls)
    status, headers, _ = gateway.ask("POST", sent, ABOUT_PERU)
    assert status == 200 and [call.path for call in above.calls[before:]] == [path]
    is_read = path.partition("?")[0] in (CHAT, "/v1/completions")
    assert (headers["x-drike-scope"] != "unread") == is_read
    assert (b"Oslo" in above.body) == (is_read and "chat" in path)


@pytest.mark.parametrize(
    "sent",
    [
        "/v1/chat%2Fcompletions",
        "/v1/chat%2fcompletions",
        "/v1/Chat/Completions",
        "/v1/CHAT/completions",
        f"{CHAT};x=1",
        f"{CHAT}%3Bx",
        f"{CHAT}%20",
        f"{CHAT}%00",
        f"{CHAT}%09/",
        f"{CHAT}.",
        f"{CHAT}%3Fx",
        f"{CHAT}%23x",
        "/v1/chat\\completions",
        "/v1/chat%5Ccompletions",
        "/v1/./chat/completions",
        "/v1/x/../chat/completions",
        "/v1/x/%2e%2e/chat/completions",
        "/v1/chat;/completions",
        "/v1/x/..;/chat/completions",
        "/v1/chat%252Fcompletions",
        "/v1/chat/completion%2573",
        "/v1/chat/%EF%BD%83ompletions",
        "/v1/chat/completions%",
        "/v1/x%zz",
        "/v1/Completions",
        "/v1/completions%20",
        "/Guardrail",
    ],
)
def test_a_path_that_another_server_may_read_as_a_chat_is_refused(
    gateway: Running, above: Recorded, sent: str
) -> None:
    before = len(above.calls)
    status, _, answer = gateway.ask("POST", sent, ABOUT_PERU)
    assert (status, json.loads(answer)["error"]["code"]) == (400, "bad_path")
    assert len(above.calls) == before


def test_depth_64_and_2000_messages_pass(gateway: Running, above: Recorded) -> None:
    for body in (b"[" * 62 + b"]" * 62, b"[" + b"{}," * 1_999 + b"{}]"):
        assert gateway.ask("POST", CHAT, b'{"messages": ' + body + b"}")[0] == 200


def test_large_headers_are_refused(gateway: Running) -> None:
    assert gateway.ask("POST", CHAT, b"{}", X_Large="x" * (17 << 10))[0] == 431


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1.evil.example", "null", "http://["]
)
def test_another_sites_page_cannot_ask_with_the_upstreams_key(
    gateway: Running, above: Recorded, origin: str
) -> None:
    before = len(above.calls)
    status, _, answer = gateway.ask("POST", CHAT, b"{}", Content_Type="text/plain", Origin=origin)
    assert status == 403 and b"wrong_origin" in answer and len(above.calls) == before
    assert gateway.ask("POST", CHAT, b"{}", Origin="http://localhost:3000")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8800", "127.0.0.1.evil.example", ""]
)
def test_another_sites_name_for_this_machine_is_refused(
    gateway: Running, above: Recorded, host: str
) -> None:
    before = len(above.calls)
    status, _, answer = gateway.ask("GET", "/v1/files", Host=host)
    assert status == 403 and b"wrong_host" in answer and len(above.calls) == before
    assert gateway.ask("GET", "/v1/files", Host="localhost:1")[0] == 200


def test_with_a_key_a_page_of_any_site_may_ask(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    key = keys.add("default", KeyRole.USE)
    with running(above.url, tmp_path, keys=keys) as gateway:
        headers = {"Origin": "https://app.example", "Authorization": f"Bearer {key}"}
        assert gateway.ask("POST", CHAT, b"{}", **headers)[0] == 200


def test_more_requests_than_allowed_at_once_are_refused_at_once(tmp_path: Path) -> None:
    released = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        released.wait(HANG)
        handler.reply(200, b"{}")

    with upstream(wait) as above, running(above.url, tmp_path, limits=Limits(at_once=1)) as gateway:
        first = threading.Thread(target=lambda: gateway.chat("Hello"))
        first.start()
        wait_until(lambda: above.calls)
        status, headers, _ = gateway.chat("Hello")
        released.set()
        first.join()
        assert (status, headers["retry-after"]) == (429, "1")
        assert gateway.chat("Hello")[0] == 200


def test_what_others_keep_at_the_upstream_needs_an_admin_key(
    above: Recorded, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    made = {role: keys.add("default", role) for role in KeyRole}
    open_to_all = [
        ("GET", "/v1/models"), ("HEAD", "/v1/models/some/model"), ("POST", "/v1/embeddings"), ("POST", "/v1/responses"),
        ("POST", "/v1/audio/speech"), ("POST", CHAT), ("POST", "/v1/completions"),
    ]  # fmt: skip
    others = [
        ("GET", "/v1/files"), ("GET", "/v1/%66iles"), ("POST", "/v1/files"), ("GET", CHAT), ("POST", f"{CHAT}/id"),
        ("GET", "/v1/responses/id"), ("DELETE", "/v1/models/mine"), ("POST", "/v1/batches"),
        ("POST", "/v1/x/embeddings"),
    ]  # fmt: skip
    with running(HttpUpstream(above.url, "sk-secret"), tmp_path, keys=keys) as gateway:
        for role, key in made.items():
            for method, path in (*open_to_all, *others):
                before = len(above.calls)
                status, _, _ = gateway.ask(
                    method, path, b"{}" if method == "POST" else b"", Authorization=f"Bearer {key}"
                )
                passed = (method, path) in open_to_all or role is KeyRole.ADMIN
                passed = passed and role is not KeyRole.REPORT
                assert (status == 403) is not passed, (role, method, path)
                assert passed or len(above.calls) == before
