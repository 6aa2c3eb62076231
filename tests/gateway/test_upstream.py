"""The server behind the gateway: its failures, its redirects, and whose key it gets."""

from __future__ import annotations

import base64
import gzip
import json
import socketserver
import threading
import time
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest

from drike.errors import UsageError
from drike.gateway.http.keys import KeyRole, open_keys
from drike.gateway.http.upstream import HttpUpstream
from tests.fakes.gateways import ENTRY, Running, running
from tests.fakes.ports import closed_port
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream


def test_an_upstream_that_is_down_is_reported_and_not_ready(tmp_path: Path) -> None:
    with (
        closed_port() as port,
        running(f"http://127.0.0.1:{port}/v1", tmp_path, ENTRY) as gateway,
    ):
        status, _, answer = gateway.chat("Hello")
        assert (status, json.loads(answer)["error"]["code"]) == (502, "upstream_error")
        status, answer = gateway.manage("GET", "/readyz")
        assert status == 503 and "cannot be reached" in answer["problems"][0]
        assert gateway.manage("GET", "/healthz") == (200, {"healthy": True})


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_of_the_environment_is_asked_for_an_encrypted_upstream(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    class Refusing(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if line := self.rfile.readline():
                asked.append(line)
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"{scheme}127.0.0.1:{proxy.server_address[1]}")
        with running(HttpUpstream("https://model.invalid/v1"), tmp_path) as gateway:
            assert gateway.manage("GET", "/readyz")[0] == 200 and gateway.chat("Hello")[0] == 502
        assert asked == [b"CONNECT model.invalid:443 HTTP/1.1\r\n"]
        with upstream() as here, running(here.url, tmp_path) as gateway:
            assert gateway.chat("Hello")[0] == 200
        with running(
            HttpUpstream("http://model.invalid/v1", allow_http="model.invalid"), tmp_path
        ) as gateway:
            assert gateway.chat("Hello")[0] == 502, "a proxy would see the key"
        monkeypatch.setenv("no_proxy", "model.invalid")
        with running(HttpUpstream("https://model.invalid/v1"), tmp_path) as gateway:
            assert gateway.chat("Hello")[0] == 502
        assert len(asked) == 1
        proxy.shutdown()


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    def redirect(handler: RawHandler, call: Received) -> None:
        handler.reply(307, b"", Location="http://127.0.0.2:1/v1/chat/completions")

    with upstream(redirect) as above, running(above.url, tmp_path) as gateway:
        status, headers, answer = gateway.chat("Hello")
        assert (
            status == 502
            and b"redirects" in answer
            and "location" not in headers
            and len(above.calls) == 1
        )


def test_the_clients_key_is_passed_on_or_replaced_never_both(
    above: Recorded, tmp_path: Path
) -> None:
    given = {
        "Authorization": "Bearer theirs",
        "Api_Key": "theirs",
        "Cookie": "theirs",
        "OpenAI_Project": "theirs",
    }
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


def test_a_key_of_a_gateway_goes_nowhere_and_other_headers_go_as_they_are(
    above: Recorded, tmp_path: Path
) -> None:
    with running(above.url, tmp_path) as gateway:  # started without keys
        key = open_keys(str(tmp_path / "edits.db"), create=True).add("default", KeyRole.USE)
        gateway.ask(
            "GET",
            "/v1/models",
            Authorization=f"Bearer {key}",
            X_User="Zoë".encode().decode("latin-1"),
        )
    assert not above.calls[-1].header("authorization")
    assert above.calls[-1].header("x-user") == ["Zoë".encode().decode("latin-1")]


SECRET = f"drike-0123abcd-{'aZ-_' * 8}"
QUOTED = SECRET.replace("-", "%2D").replace("a", "%61")
TWICE_QUOTED = QUOTED.replace("%", "%25")
ESCAPED = SECRET.replace("-", r"\u002d").replace("Z", r"\u005A")


def basic(user: str) -> str:
    return base64.b64encode(f"{user}:{SECRET}".encode()).decode()


def shown(call: Received) -> str:
    """All that an upstream can read of a call."""
    told = [
        call.path,
        *(f"{name}: {value}" for name, value in call.headers),
        call.body.decode("latin-1"),
    ]
    return "\n".join(told)


def test_a_key_of_a_gateway_in_a_header_or_a_query_goes_nowhere(
    above: Recorded, tmp_path: Path
) -> None:
    values = (SECRET, f"Bearer {SECRET}", f"key={SECRET}; a=b", QUOTED, TWICE_QUOTED)
    values += tuple(f"Basic {basic(user)}" for user in ("", "a", "bc", "def"))
    names = (
        "Authorization",
        "X_Api_Key",
        "Api_Key",
        "X_Goog_Api_Key",
        "Cookie",
        "X_Request_Id",
        "X_Own",
    )
    with running(above.url, tmp_path) as gateway:
        for value in values:
            assert gateway.ask("GET", "/v1/models", **dict.fromkeys(names, value))[0] == 200
            given = value.replace(" ", "+").replace(";", "%3B")
            assert gateway.ask("GET", f"/v1/models?a=1&key={given}&b=%2F&c")[0] == 200
            assert above.calls[-1].path == "/v1/models?a=1&b=%2F&c"
            assert gateway.ask("GET", f"/v1/models?{given}")[0] == 200
            assert above.calls[-1].path == "/v1/models"
        for call in above.calls:
            assert not any(value in shown(call) for value in (*values, SECRET))
        gateway.ask("GET", "/v1/models?&a=%64rike&", X_Own="drike-0123abcd", X_Request_Id="drike-1")
    assert above.calls[-1].path == "/v1/models?&a=%64rike&"
    assert above.calls[-1].header("x-own") == ["drike-0123abcd"]
    assert above.calls[-1].header("x-request-id") == ["drike-1"]


WITH_KEY = {
    "path": (f"/v1/models/{SECRET}", b"", ""),
    "escaped path": (f"/v1/models/{QUOTED}", b"", ""),
    "user": ("/v1/embeddings", json.dumps({"input": "a", "user": SECRET}).encode(), ""),
    "chat": ("/v1/chat/completions", json.dumps({"messages": [], "user": SECRET}).encode(), ""),
    "UTF-16": ("/v1/embeddings", json.dumps({"api_key": SECRET}).encode("utf-16"), ""),
    "escapes": ("/v1/embeddings", f'{{"metadata": {{"key": "{ESCAPED}"}}}}'.encode(), ""),
    "form": ("/v1/embeddings", f"key={SECRET.replace('-', '%2d')}".encode(), ""),
    "large": ("/v1/embeddings", b"x" * 300_000 + SECRET.encode(), ""),
    "packed": ("/v1/embeddings", gzip.compress(SECRET.encode()), "gzip"),
}


@pytest.mark.parametrize("place", WITH_KEY)
def test_a_key_of_a_gateway_in_a_path_or_a_body_is_refused(
    above: Recorded, gateway: Running, place: str
) -> None:
    path, body, encoding = WITH_KEY[place]
    before = len(above.calls)
    headers = {"Content-Encoding": encoding} if encoding else {}
    status, _, answer = gateway.ask("POST" if body else "GET", path, body, **headers)
    assert (status, json.loads(answer)["error"]["code"]) == (400, "key_in_request")
    assert SECRET not in answer.decode() and len(above.calls) == before


def test_the_key_is_sent_in_the_header_in_which_the_client_sent_its_own(
    above: Recorded, tmp_path: Path
) -> None:
    with running(HttpUpstream(above.url, "ours"), tmp_path) as gateway:
        gateway.ask("POST", "/v1/messages", b"{}", X_Api_Key="theirs")
        assert (above.calls[-1].header("x-api-key"), above.calls[-1].header("authorization")) == (
            ["ours"],
            [],
        )
        gateway.ask(
            "POST", "/v1/messages", b"{}", X_Api_Key="theirs", Authorization="Bearer theirs"
        )
        assert (above.calls[-1].header("x-api-key"), above.calls[-1].header("authorization")) == (
            [],
            ["Bearer ours"],
        )


def test_an_answer_that_may_quote_the_gateways_key_is_not_passed_on(tmp_path: Path) -> None:
    def quote(handler: RawHandler, call: Received) -> None:
        handler.reply(401, f"wrong key: {call.header('authorization')}".encode())

    with (
        upstream(quote) as above,
        running(HttpUpstream(above.url, "sk-secret"), tmp_path) as gateway,
    ):
        status, _, answer = gateway.chat("Hello")
        assert (
            status == 502 and b"sk-secret" not in answer and b"refuses the gateway's key" in answer
        )


KEY = "sk-secret/0123+abc"
QUOTES = [KEY, json.dumps(KEY), KEY.replace("/", "\\/"), "sk\\u002dsecret\\u002F0123\\u002babc".replace("F", "f"),
          quote(KEY, safe="")]  # fmt: skip


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_the_gateways_key_is_hidden_wherever_an_answer_quotes_it(
    tmp_path: Path, encoding: str
) -> None:
    compress = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding, bytes)

    def tell(handler: RawHandler, call: Received) -> None:
        assert call.header("accept-encoding") == ["identity"] and call.header("authorization") == [
            f"Bearer {KEY}"
        ]
        body = compress(f"no {' '.join(QUOTES)} {'x' * 60_000} {KEY} sk-sec".encode())
        more = {"Content_Encoding": encoding} if encoding else {}
        handler.reply(int(call.path.rpartition("/")[2]), body, X_Told=f"a {KEY}", **more)

    with upstream(tell) as above, running(HttpUpstream(above.url, KEY), tmp_path) as gateway:
        for status in (200, 400, 403, 404, 429, 500):
            answered, headers, body = gateway.ask(
                "POST", f"/v1/{status}", b"{}", Accept_Encoding="gzip, br"
            )
            shown = body.decode() + str(headers)
            assert answered == status and "content-encoding" not in headers
            assert headers["x-told"] == "a " + "*" * len(KEY) and not any(
                quoted in shown for quoted in QUOTES
            )
            assert body.startswith(b"no *") and body.endswith(b"* sk-sec")


def test_a_key_in_a_stream_is_hidden_however_it_is_split(tmp_path: Path) -> None:
    told = f"data: a {KEY} b\n\n".encode()

    def tell(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        for cut in range(1, len(told)):
            for part in (told[:cut], told[cut:]):
                handler.chunk(part)
        handler.chunk(KEY[:-1].encode())
        handler.chunk(b"")

    with upstream(tell) as above, running(HttpUpstream(above.url, KEY), tmp_path) as gateway:
        _, _, body = gateway.chat("Hello", stream=True)
        masked = told.replace(KEY.encode(), b"*" * len(KEY))
        assert body == masked * (len(told) - 1) + KEY[:-1].encode()


def test_an_answer_that_cannot_be_searched_for_the_key_is_not_passed_on(tmp_path: Path) -> None:
    def tell(handler: RawHandler, call: Received) -> None:
        encoding = call.path.rpartition("/")[2].replace("-", ", ")
        handler.reply(403, KEY.encode(), Content_Encoding=encoding)

    with upstream(tell) as above, running(HttpUpstream(above.url, KEY), tmp_path) as gateway:
        for encoding in ("br", "zstd", "compress", "gzip-gzip"):
            status, _, body = gateway.ask("GET", f"/v1/{encoding}")
            assert status == 502 and b"upstream_error" in body and KEY.encode() not in body


def test_control_characters_in_a_header_are_the_upstreams_fault(tmp_path: Path) -> None:
    def tell(handler: RawHandler, call: Received) -> None:
        header = b"X-Odd: a" + bytes([int(call.path.rpartition("/")[2])]) + b"b"
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + header + b"\r\n\r\n{}")

    with upstream(tell) as above, running(above.url, tmp_path) as gateway:
        for control in (1, 8, 11, 27, 31, 127):
            status, _, answer = gateway.ask("GET", f"/v1/{control}")
            assert (status, json.loads(answer)["error"]["code"]) == (502, "upstream_error")


def test_only_the_gateway_says_what_it_decided(tmp_path: Path) -> None:
    def tell(handler: RawHandler, call: Received) -> None:
        handler.reply(200, b"{}", X_Drike_Scope="fired", X_Drike_Edits="7@7", X_Drike_Odd="1")

    with upstream(tell) as above, running(above.url, tmp_path) as gateway:
        _, headers, _ = gateway.chat("Hello")
        assert (
            headers["x-drike-scope"] == "abstained"
            and not {"x-drike-edits", "x-drike-odd"} & headers.keys()
        )


def test_clients_are_not_told_where_the_upstream_is(tmp_path: Path) -> None:
    def redirect(handler: RawHandler, call: Received) -> None:
        handler.reply(302, b"", Location="http://127.0.0.2:1/")

    def hang(handler: RawHandler, call: Received) -> None:
        handler.break_off()

    def late(handler: RawHandler, call: Received) -> None:
        time.sleep(0.3)

    def shown(address: str) -> bytes:
        with running(HttpUpstream(address, timeout=0.1), tmp_path) as gateway:
            status, _, answer = gateway.chat("Hello")
            assert status in (502, 504)
            return answer + json.dumps(gateway.manage("GET", "/readyz")[1]).encode()

    with closed_port() as port:
        texts = [shown(f"http://127.0.0.1:{port}/v1")]
    texts.append(shown("https://no-such-host.invalid/v1"))
    for respond in (redirect, hang, late):
        with upstream(respond) as above:
            texts.append(shown(above.url))
    for text in texts:
        assert not any(where in text for where in (b"127.0.0", b"no-such-host", b"/v1")), text


def test_http_is_allowed_to_a_host_that_is_named() -> None:
    assert HttpUpstream("http://vllm.internal:8000/v1", allow_http="vllm.Internal").name
    for host in (None, "", "internal", "other.internal"):
        with pytest.raises(UsageError, match=r"--allow-http vllm\.internal"):
            HttpUpstream("http://vllm.internal:8000/v1", allow_http=host)


@pytest.mark.parametrize(
    "name", ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Method-Override"]
)
def test_no_header_leads_a_request_to_another_path_than_the_one_looked_at(
    above: Recorded, gateway: Running, name: str
) -> None:
    headers = {name: "/v1/chat/completions", "X-Kept": "1"}
    assert gateway.ask("POST", "/v1/embeddings", b'{"input": "a"}', **headers)[0] == 200
    assert above.calls[-1].header(name.casefold()) == []
    assert above.calls[-1].header("x-kept") == ["1"]
