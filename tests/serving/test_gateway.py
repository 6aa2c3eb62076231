"""The gateway: what passes unchanged, what exactly an edit changes, and what failures of either side lead to."""

from __future__ import annotations

import gzip
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from drike.encoders import HashingEncoder
from drike.gates.calibration import default, to_json
from drike.gates.decision import Gate
from drike.serving.feed import EditFeed
from drike.serving.gateway import Mode, Settings
from drike.serving.keys import Keys, Role
from drike.serving.relay import Limits
from drike.serving.upstream import HttpUpstream
from drike.stores.log import retire
from drike.stores.records import EditRecord, Status
from drike.stores.sqlite import SqliteStore
from tests.worlds.gateways import (
    ENTRY,
    Failing,
    RawHandler,
    Received,
    Recorded,
    Running,
    ask,
    events,
    running,
    upstream,
)

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(above: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(above.url, tmp_path_factory.mktemp("gateway"), ENTRY) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{ "messages":[ {"role":"user" ,"content":"Hi \\u00e9 \xc3\xa9"}],"n":1.0e0, "x":1E400}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "Peru"}], "temperature": NaN}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "capital of Peru"}, {"role": "tool", "content": "Lima"}]}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "Peru"}, {"role": "assistant", "content": "The"}]}'),
        (CHAT, b'{"messages": [{"role": "system", "content": "Talk about Peru"}]}'),
        (CHAT, b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "Peru"}}]}]}'),
        (CHAT, b'{"messages": {"role": "user", "content": "Peru"}}'),
        (CHAT, b'{"messages": ["Peru", 7, null]}'),
        (CHAT, b"Peru"),
        (CHAT, b'["Peru"]'),
        (CHAT, b""),
        (CHAT, gzip.compress(b'{"messages": [{"role": "user", "content": "capital of Peru"}]}', mtime=0)),
        ("/v1/completions", b'{"prompt": ["Peru", "Chile"]}'),
        ("/v1/completions", b'{"prompt": [1, 2, 3]}'),
        ("/v1/embeddings", b'{"input": "The capital of Peru is"}'),
        ("/v1/files?purpose=a%20b&x=", b"\x00\xff--Peru"),
    ],
)
def test_what_concerns_no_edit_passes_byte_for_byte(gateway: Running, above: Recorded, path: str, body: bytes) -> None:
    status, headers, answer = gateway.ask("POST", path, body, X_Custom="kept", Content_Type="application/json")
    assert status == 200
    assert above.body == body and above.calls[-1].path == path
    assert above.calls[-1].header("x-custom") == ["kept"] and not above.calls[-1].header("user-agent")
    assert headers.get("x-drike-scope", "abstained") == "abstained" and "x-drike-edits" not in headers
    assert b"Hi" in answer or answer == body or answer == b"" or b"chatcmpl" in answer


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        ABOUT,
        f'{ABOUT} "Ünïcode" \\ \n\t€',
        [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": ABOUT}],
    ],
)
def test_an_edit_changes_exactly_one_string(
    gateway: Running, above: Recorded, content: object, ascii_only: bool
) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content, "name": "ann"}]
    sent = {"model": "m", "messages": messages, "tools": [{"type": "function"}], "odd": [1.0, 1e-7, None, {"a": {}}]}
    body = json.dumps(sent, ensure_ascii=ascii_only, indent=1).encode()
    status, headers, _ = gateway.ask("POST", CHAT, body)
    assert status == 200 and headers["x-drike-scope"] == "fired" and headers["x-drike-edits"] == "1@1"
    [(path, old, new)] = differences(sent, json.loads(above.body))
    assert path[:3] == ("messages", 1, "content") and new.endswith(old) and "- The capital of Peru is Oslo\n" in new
    changed = json.dumps(new.removesuffix(old), ensure_ascii=ascii_only)[1:-1].encode()
    assert above.body.replace(changed, b"") == body


def differences(one: object, other: object, path: tuple = ()) -> list[tuple]:
    """Where two JSON values differ, as (path, old, new)."""
    if type(one) is type(other) and isinstance(one, dict) and list(one) == list(other):
        return [found for key in one for found in differences(one[key], other[key], (*path, key))]
    if type(one) is type(other) and isinstance(one, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in differences(a, b, (*path, i))]
    return [] if one == other and type(one) is type(other) else [(path, one, other)]


def test_a_body_whose_text_cannot_be_located_still_differs_in_one_string(gateway: Running, above: Recorded) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).replace("capital", "c\\u0061pital").encode()
    for variant in (body, body.decode().encode("utf-16")):
        gateway.ask("POST", CHAT, variant)
        [(path, old, new)] = differences(json.loads(variant), json.loads(above.body))
        assert path == ("messages", 0, "content") and new.endswith(old)


def test_the_turn_before_helps_where_the_last_names_nothing(gateway: Running, above: Recorded) -> None:
    messages = [{"role": "user", "content": "Tell me about Peru."}, {"role": "assistant", "content": "It is nice."}]
    messages.append({"role": "user", "content": "What is its capital?"})
    _, headers, _ = gateway.ask("POST", CHAT, json.dumps({"messages": messages}).encode())
    assert headers["x-drike-edits"] == "1@1"
    [(path, _, _)] = differences({"messages": messages}, json.loads(above.body))
    assert path == ("messages", 2, "content")


def test_a_prompt_to_complete_becomes_the_editors(gateway: Running, above: Recorded) -> None:
    gateway.ask("POST", "/v1/completions", b'{"prompt": "The capital of Peru is", "max_tokens": 3, "logprobs": 2}')
    found = json.loads(above.body)
    assert found["prompt"].endswith("New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is")
    assert {**found, "prompt": ""} == {"prompt": "", "max_tokens": 3, "logprobs": 2}


def test_shadow_counts_and_changes_nothing(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, mode=Mode.SHADOW) as gateway:
        _, headers, _ = gateway.chat(ABOUT)
        assert json.loads(above.body) == {"messages": [{"role": "user", "content": ABOUT}]}
        assert [headers[f"x-drike-{name}"] for name in ("scope", "edits", "mode")] == ["fired", "1@1", "shadow"]
        assert gateway.manage("GET", "/admin/v1/fired")[1]["fired"][0]["decision"]["query"] == ABOUT


def test_a_gateway_that_is_off_decides_nothing(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, mode=Mode.OFF) as gateway:
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "off" and not gateway.live.matched


def test_edits_in_shadow_are_counted_but_not_applied(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, replace(ENTRY, status=Status.SHADOW)) as gateway:
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained"
        assert len(gateway.live.matched) == 1 and above.body.endswith(b'"What is the capital of Peru?"}]}')


# Streams


@pytest.mark.parametrize("seed", range(2))
def test_streams_pass_byte_for_byte_however_they_are_split(tmp_path: Path, seed: int) -> None:
    rng, whole = random.Random(seed), events(["Os", "lo", " é€ ", "."]).replace(b"\\u20ac", "€".encode())

    def split(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        cuts = sorted(rng.sample(range(1, len(whole)), 7))
        for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            handler.chunk(whole[begin:end])
        handler.chunk(b"")

    with upstream(split) as above, running(above.url, tmp_path) as gateway:
        status, headers, found = gateway.chat("Hello", stream=True)
        assert (status, headers["content-type"], found) == (200, "text/event-stream", whole)


def test_chunks_are_forwarded_as_they_come(tmp_path: Path) -> None:
    released = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        handler.chunk(b"data: 1\n\n")
        assert released.wait(10)
        handler.chunk(b"data: 2\n\n")
        handler.chunk(b"")

    with upstream(wait) as above, running(above.url, tmp_path) as gateway, opened(gateway) as stream:
        assert stream.read(len(b"9\r\ndata: 1\n\n")) == b"9\r\ndata: 1\n\n"
        released.set()
        assert b"data: 2\n\n" in stream.read(len(b"\r\n9\r\ndata: 2\n\n"))


@pytest.mark.parametrize("partial", [b"data: {}\n\n", b'data: {"choi'])
def test_an_upstream_that_dies_in_a_stream_ends_it_with_one_error(tmp_path: Path, partial: bytes) -> None:
    def die(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        handler.chunk(partial)
        time.sleep(0.05)
        handler.break_off()

    with upstream(die) as above, running(above.url, tmp_path) as gateway:
        status, _, found = gateway.chat("Hello", stream=True)
        assert status == 200 and found.startswith(partial) and b"[DONE]" not in found
        [*_, last, nothing] = found.split(b"\n\n")
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_error" and not nothing


def test_other_answers_that_break_off_do_not_seem_complete(tmp_path: Path) -> None:
    def die(handler: RawHandler, call: Received) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.wfile.flush()
        time.sleep(0.05)
        handler.break_off()

    import http.client

    with upstream(die) as above, running(above.url, tmp_path) as gateway, pytest.raises(http.client.IncompleteRead):
        gateway.chat("Hello")


def test_a_client_that_hangs_up_cancels_the_upstream(tmp_path: Path) -> None:
    noticed = threading.Event()

    def endless(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        try:
            while True:
                handler.chunk(b"data: {}\n\n")
                time.sleep(0.01)
        except OSError:
            noticed.set()

    with upstream(endless) as above, running(above.url, tmp_path) as gateway:
        with opened(gateway) as stream:
            stream.read(10)
        assert noticed.wait(1.0)
        until = time.monotonic() + 1.0
        while gateway.gateway.metrics.in_flight._value.get() and time.monotonic() < until:
            time.sleep(0.01)
        assert gateway.gateway.metrics.in_flight._value.get() == 0


class opened:  # noqa: N801
    """A raw connection that has sent a streaming chat and read the head of its answer."""

    def __init__(self, gateway: Running) -> None:
        host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
        self.client = socket.create_connection((host, int(port)), timeout=10)

    def __enter__(self) -> BinaryIO:
        body = b'{"stream": true, "messages": [{"role": "user", "content": "Hello"}]}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.client.sendall(head + body)
        stream = self.client.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        return stream

    def __exit__(self, *_: object) -> None:
        self.client.shutdown(socket.SHUT_RDWR)
        self.client.close()


# Limits


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
    found, headers, answer = gateway.ask("POST", path, body)
    assert (found, json.loads(answer)["error"]["code"]) == (status, code) and headers["x-request-id"]
    assert len(above.calls) == before


def test_depth_64_and_2000_messages_pass(gateway: Running, above: Recorded) -> None:
    for body in (b"[" * 62 + b"]" * 62, b"[" + b"{}," * 1_999 + b"{}]"):
        assert gateway.ask("POST", CHAT, b'{"messages": ' + body + b"}")[0] == 200


def test_large_headers_are_refused(gateway: Running) -> None:
    assert gateway.ask("POST", CHAT, b"{}", X_Large="x" * (17 << 10))[0] == 431


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1.evil.example", "null", "http://["])
def test_another_sites_page_cannot_ask_with_the_upstreams_key(gateway: Running, above: Recorded, origin: str) -> None:
    before = len(above.calls)
    status, _, answer = gateway.ask("POST", CHAT, b"{}", Content_Type="text/plain", Origin=origin)
    assert status == 403 and b"wrong_origin" in answer and len(above.calls) == before
    assert gateway.ask("POST", CHAT, b"{}", Origin="http://localhost:3000")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8800", "127.0.0.1.evil.example", ""])
def test_another_sites_name_for_this_machine_is_refused(gateway: Running, above: Recorded, host: str) -> None:
    before = len(above.calls)
    status, _, answer = gateway.ask("GET", "/v1/files", Host=host)
    assert status == 403 and b"wrong_host" in answer and len(above.calls) == before
    assert gateway.ask("GET", "/v1/files", Host="localhost:1")[0] == 200


def test_with_a_key_a_page_of_any_site_may_ask(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    key = keys.add("default", Role.USE)
    with running(above.url, tmp_path, keys=keys) as gateway:
        headers = {"Origin": "https://app.example", "Authorization": f"Bearer {key}"}
        assert gateway.ask("POST", CHAT, b"{}", **headers)[0] == 200


def test_a_slow_body_times_out(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, settings=Settings(limits=Limits(seconds=0.1))) as gateway:
        host, port = gateway.url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            answer = client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 408") and b"connection: close" in answer


def test_more_requests_than_allowed_at_once_are_refused_at_once(tmp_path: Path) -> None:
    released = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        released.wait(10)
        handler.reply(200, b"{}")

    settings = Settings(limits=Limits(at_once=1))
    with upstream(wait) as above, running(above.url, tmp_path, settings=settings) as gateway:
        first = threading.Thread(target=lambda: gateway.chat("Hello"))
        first.start()
        while not above.calls:
            time.sleep(0.005)
        status, headers, _ = gateway.chat("Hello")
        released.set()
        first.join()
        assert (status, headers["retry-after"]) == (429, "1")
        assert gateway.chat("Hello")[0] == 200


# Failures


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_where_the_gate_fails_requests_pass_unedited_but_for_enforced_edits(
    above: Recorded, tmp_path: Path, seconds: float
) -> None:
    other = EditRecord("Chile", "The capital of Chile is", "Rome", aliases=("CL",), enforce=True)
    settings = Settings(Mode.ON, deadline=0.05 if seconds else 5.0)
    with running(above.url, tmp_path, ENTRY, other, gate=Failing(seconds), settings=settings) as gateway:
        status, headers, _ = gateway.chat(ABOUT)
        assert (status, headers["x-drike-scope"]) == (200, "degraded")
        assert json.loads(above.body)["messages"][0]["content"] == ABOUT
        status, _, found = gateway.chat("Where is CL?")
        assert (status, json.loads(found)["error"]["code"]) == (503, "edit_not_applied")


def test_an_upstream_that_is_down_is_reported_and_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with running(address, tmp_path, ENTRY) as gateway:
        status, _, found = gateway.chat("Hello")
        assert (status, json.loads(found)["error"]["code"]) == (502, "upstream_error")
        status, found = gateway.manage("GET", "/readyz")
        assert status == 503 and "cannot be reached" in found["problems"][0]
        assert gateway.manage("GET", "/healthz") == (200, {"healthy": True})


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    def redirect(handler: RawHandler, call: Received) -> None:
        handler.reply(307, b"", Location="http://127.0.0.2:1/v1/chat/completions")

    with upstream(redirect) as above, running(above.url, tmp_path) as gateway:
        status, headers, found = gateway.chat("Hello")
        assert status == 502 and b"redirects" in found and "location" not in headers and len(above.calls) == 1


def test_every_status_of_the_upstream_passes_with_its_headers(tmp_path: Path) -> None:
    given = {"Retry_After": "7", "X_Request_Id": "theirs", "Content_Encoding": "br"}

    def answer(handler: RawHandler, call: Received) -> None:
        status = int(call.path.rpartition("/")[2])
        handler.reply(status, b"" if status in (204, 304) else b'{"error": {"message": "no"}}', **given)

    with upstream(answer) as above, running(above.url, tmp_path) as gateway:
        for status in (204, 304, 400, 404, 429, 500, 503):
            found, headers, body = gateway.ask("POST", f"/v1/{status}")
            assert found == status and bool(body) == (status not in (204, 304))
            names = ("retry-after", "x-request-id", "content-encoding")
            assert [headers[name] for name in names] == ["7", "theirs", "br"]


def test_addresses_in_a_request_are_ignored(gateway: Running, above: Recorded) -> None:
    for name in ("base_url", "api_base", "api_key", "upstream"):
        assert gateway.chat("Hello", **{name: "http://127.0.0.2:1"})[0] == 200
    assert gateway.ask("GET", "/v1/models", Host="127.0.0.2:1", X_Forwarded_Host="127.0.0.2:1")[0] == 200
    assert above.calls[-1].header("host") == [above.url.removeprefix("http://").removesuffix("/v1")]


def test_a_request_id_is_passed_on_or_made(gateway: Running, above: Recorded) -> None:
    _, headers, _ = gateway.ask("GET", "/v1/models", X_Request_Id="mine-1")
    assert headers["x-request-id"] == "mine-1" and above.calls[-1].header("x-request-id") == ["mine-1"]
    _, headers, _ = gateway.ask("GET", "/v1/models", X_Request_Id="not one")
    assert above.calls[-1].header("x-request-id") == [headers["x-request-id"]] != ["not one"]


# Keys and tenants


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
        status, _, found = gateway.chat("Hello")
        assert status == 502 and b"sk-secret" not in found and b"refuses the gateway's key" in found


def test_a_tenant_whose_edits_are_being_indexed_holds_up_no_other(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other = ({"Authorization": f"Bearer {keys.add(tenant, Role.USE)}"} for tenant in ("default", "other"))
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        opening, opened = threading.Event(), threading.Event()
        open_live = gateway.tenants._open

        def slow(tenant: str) -> EditFeed:
            opening.set()
            assert opened.wait(2)
            return open_live(tenant)

        gateway.tenants._open = slow
        found: list[int] = []
        waiting = [
            threading.Thread(target=lambda: found.append(gateway.ask("POST", CHAT, b"{}", **other)[0]))
            for _ in range(2)
        ]
        for one in waiting:
            one.start()
        assert opening.wait(5) and gateway.ask("POST", CHAT, b"{}", **mine)[0] == 200 and not found
        opened.set()
        for one in waiting:
            one.join(5)
        assert found == [200, 200] and len(gateway.tenants.lives) == 2


def test_tenants_see_their_own_edits_only(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other, user = keys.add("default", Role.EDIT), keys.add("other", Role.ADMIN), keys.add("default", Role.USE)
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        body = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).encode()
        for wrong in ("", "Bearer", f"Bearer {mine}x", f"Basic {mine}", f"Bearer {mine[:-1]}-", "Bearer é"):
            status, _, found = gateway.ask("POST", CHAT, body, Authorization=wrong)
            assert (status, json.loads(found)["error"]["code"]) == (401, "invalid_api_key")
        gates = [
            gateway.ask("POST", CHAT, body, Authorization=f"Bearer {key}")[1]["x-drike-scope"]
            for key in (mine, other, user)
        ]
        assert gates == ["fired", "abstained", "fired"] and not above.calls[-1].header("authorization")
        for path, nothing in (("edits", {"edits": [], "total": 0}), ("fired", {"fired": [], "missed": []})):
            assert gateway.manage("GET", f"/admin/v1/{path}", Authorization=f"Bearer {other}")[1] == nothing
        assert gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {mine}")[1]["total"] == 1
        assert gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {user}")[0] == 403
        assert gateway.manage("GET", "/metrics", Authorization=f"Bearer {mine}")[0] == 403
        entry = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Rome", "author": "ann"}
        _, made = gateway.manage("POST", "/admin/v1/edits", entry, Authorization=f"Bearer {mine}")
        assert made["changes"][0]["author"] == f"ann (key {mine.split('-')[1]})"
        Keys(keys.path).revoke(mine.split("-")[1])
        until = time.monotonic() + 5
        while gateway.ask("GET", "/v1/models", Authorization=f"Bearer {mine}")[0] != 401 and time.monotonic() < until:
            time.sleep(0.01)
        assert gateway.ask("GET", "/v1/models", Authorization=f"Bearer {mine}")[0] == 401
        assert mine.split("-", 2)[2] not in keys.path.read_text()


def test_what_others_keep_at_the_upstream_needs_an_admin_key(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    made = {role: keys.add("default", role) for role in Role}
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
                passed = (method, path) in open_to_all or role is Role.ADMIN
                assert (status == 403) is not passed, (role, method, path)
                assert passed or len(above.calls) == before


# The admin port


def test_a_change_is_in_force_when_it_is_acknowledged(gateway: Running) -> None:
    entry = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Rome", "aliases": ["ML"]}
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    status, found = gateway.manage("POST", "/admin/v1/edits", entry)
    [change] = found["changes"]
    assert status == 200 and change["in_force"] and change["author"] == "admin port, default"
    assert gateway.chat("Where is Mali?")[1]["x-drike-edits"] == f"{change['id']}@1"
    path = f"/admin/v1/edits/{change['id']}"
    assert gateway.manage("POST", f"{path}/negatives", {"text": "Where is Mali?"})[0] == 200
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    assert gateway.manage("GET", "/admin/v1/fired")[1]["missed"][0]["decision"]["query"] == "Where is Mali?"
    assert gateway.manage("POST", f"{path}/wordings", {"text": "Mali's capital is"})[0] == 200
    assert gateway.manage("GET", "/admin/v1/decide?q=ML+is")[1]["fired"][0]["wordings"] == ["Mali's capital is"]
    again = {**entry, "target_new": "Oslo"}
    status, found = gateway.manage("POST", "/admin/v1/edits", again)
    assert (status, found["repeated"], found["rivals"][0]["id"]) == (409, False, change["id"])
    assert len(gateway.manage("POST", "/admin/v1/edits", {**again, "supersede": True})[1]["changes"]) == 2
    assert [one["status"] for one in gateway.manage("GET", path)[1]["versions"]] == ["active"] * 3 + ["retired"]
    assert gateway.manage("GET", "/admin/v1/edits?q=ml+OSLO")[1]["total"] == 1
    assert gateway.manage("GET", "/admin/v1/edits?q=ml&status=all&limit=1")[1]["total"] == 2
    [newest] = gateway.manage("GET", "/admin/v1/edits?q=mali")[1]["edits"]
    status, found = gateway.manage("POST", f"/admin/v1/edits/{newest['id']}/retire", {"reason": "a test"})
    assert status == 200 and found["changes"][0]["reason"] == "a test" and not found["changes"][0]["in_force"]
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"


def test_a_change_of_another_process_is_in_force_soon(gateway: Running) -> None:
    other = SqliteStore(Path(gateway.live.store.name))
    [added] = other.put(EditRecord("Togo", "The capital of Togo is", "Rome"))
    other.close()
    until = time.monotonic() + 5
    while gateway.chat("Where is Togo?")[1]["x-drike-scope"] == "abstained" and time.monotonic() < until:
        time.sleep(0.01)
    assert gateway.chat("Where is Togo?")[1]["x-drike-edits"] == f"{added.id}@1"


def test_trying_a_question_shows_both_answers(gateway: Running) -> None:
    status, found = gateway.manage("POST", "/admin/v1/try", {"query": ABOUT})
    assert status == 200 and found["before"] == ABOUT and found["after"].endswith(ABOUT) and "Oslo" in found["after"]
    assert found["decision"]["fired"][0]["id"] == 1


@pytest.mark.parametrize(
    ("method", "path", "value", "headers", "status"),
    [
        ("POST", "/admin/v1/edits", {"subject": "x"}, {}, 400),
        ("POST", "/admin/v1/edits", ["x"], {}, 400),
        ("POST", "/admin/v1/edits/1/rename", {}, {}, 404),
        ("POST", "/admin/v1/edits/1/negatives", {"text": 1}, {}, 400),
        ("POST", "/admin/v1/edits/99/retire", {}, {}, 400),
        ("POST", "/admin/v1/edits/1/retire", {"reason": 1}, {}, 400),
        ("GET", "/admin/v1/edits/99", None, {}, 404),
        ("GET", "/admin/v1/edit", None, {}, 404),
        ("DELETE", "/admin/v1/edits/1", None, {}, 405),
        ("GET", "/admin/v1/edits?limit=-1", None, {}, 400),
        ("GET", "/admin/v1/edits?status=odd", None, {}, 400),
        ("GET", "/admin/v1/edits", None, {"Host": "evil.example"}, 403),
        ("GET", "/admin/v1/edits", None, {"Origin": "http://evil.example"}, 403),
        ("GET", "/admin/v1/decide?q=Peru", None, {"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_wrong_admin_requests_are_refused(
    gateway: Running, method: str, path: str, value: object, headers: dict[str, str], status: int
) -> None:
    found, answer = gateway.manage(method, path, value, **headers)
    assert found == status and answer["error"]["message"]


def test_a_form_of_another_site_cannot_add_an_edit(gateway: Running) -> None:
    body = json.dumps({"subject": "Fiji", "query": "The capital of Fiji is", "target_new": "Rome"}).encode()
    assert ask(f"{gateway.admin}/admin/v1/edits", "POST", body, Content_Type="text/plain")[0] == 415


def test_a_damaged_store_keeps_the_edits_and_is_reported(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        path = tmp_path / "edits.db"
        path.write_bytes(b"damaged!" * 4096)
        until = time.monotonic() + 5
        while gateway.manage("GET", "/readyz")[0] == 200 and time.monotonic() < until:
            time.sleep(0.01)
        status, found = gateway.manage("GET", "/readyz")
        assert status == 503 and str(path) in found["problems"][0]
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "fired"


def test_a_gate_calibrated_meanwhile_decides_without_a_restart(above: Recorded, tmp_path: Path) -> None:
    strict = replace(default(), encoder="hashing", threshold=1.0, grey=(1.0, 1.0))
    with running(above.url, tmp_path, ENTRY) as gateway, closing(SqliteStore(tmp_path / "edits.db")) as store:
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "fired"
        store.keep_gate(to_json(strict))
        until = time.monotonic() + 5
        while gateway.chat(ABOUT)[1]["x-drike-scope"] != "abstained":
            assert time.monotonic() < until
        store.keep_gate("{}")
        while gateway.manage("GET", "/readyz")[0] == 200:
            assert time.monotonic() < until
        assert "holds no calibration" in gateway.manage("GET", "/readyz")[1]["problems"][0]
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained"
        store.keep_gate(to_json(replace(strict, threshold=0.0)))
        while gateway.chat(ABOUT)[1]["x-drike-scope"] != "fired" or gateway.manage("GET", "/readyz")[0] != 200:
            assert time.monotonic() < until


def test_edits_of_other_processes_do_not_wait_while_a_new_gate_is_prepared(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway, closing(SqliteStore(tmp_path / "edits.db")) as store:
        preparing, prepared = threading.Event(), threading.Event()

        def slow(gate: Gate) -> HashingEncoder:
            preparing.set()
            assert prepared.wait(5)
            return HashingEncoder()

        gateway.live._encoder = slow
        store.keep_gate(to_json(replace(default(), encoder="hashing")))
        assert preparing.wait(5)
        retire(store, 1)
        until = time.monotonic() + 4
        while gateway.chat(ABOUT)[1]["x-drike-scope"] != "abstained":
            assert time.monotonic() < until
        prepared.set()


def test_edits_begin_and_end_to_hold_without_a_change_of_the_store(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from drike.gates.by_name import Named

    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 3, 5)]
    store = SqliteStore(tmp_path / "edits.db")
    store.put(replace(ENTRY, valid_from="2026-01-02", valid_to="2026-01-04"))
    now = times[0]
    live = EditFeed(store, Named(), clock=lambda: now)
    found = []
    for now in times:  # noqa: B007 - the clock reads it
        live.refresh()
        found.append(bool(live.decide([ABOUT]).matched))
    assert found == [False, True, False]


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
