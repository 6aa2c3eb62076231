"""A gateway in a thread, and an upstream of our own that records every byte it gets."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from drike.conversations.rendering import AsBlock, AsPrompt, Placement
from drike.edits.edit import Edit
from drike.edits.record import EditRecord
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.gateway.calls import Upstream
from drike.gateway.control.admin import Admin, application
from drike.gateway.editing import RequestEditor
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import Keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.routes import Gateway
from drike.gateway.http.server import listen, server
from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.tenants import Tenants
from drike.gateway.watch import Sampling
from drike.prompts import Demonstration, Prompt, PromptStyle, Role
from drike.stores.opening import open_store
from tests.fakes.servers import Server, hang_up

ENTRY = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.casefold() == name]


@dataclass
class Recorded:
    """An upstream: its address and what it received. `gone`: set when a client of it hung up."""

    url: str = ""
    calls: list[Received] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def body(self) -> bytes:
        return self.calls[-1].body


Respond = Callable[["RawHandler", Received], None]


class RawHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    recorded: Recorded
    respond: Respond

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = Received(self.command, self.path, list(self.headers.items()), body)
        self.recorded.calls.append(call)
        type(self).respond(self, call)

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

    def reply(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def break_off(self) -> None:
        hang_up(self)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        pass


def completed(text: str, model: str = "tiny") -> dict[str, object]:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip


def events(words: list[str]) -> bytes:
    """A stream of chat completion chunks."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words), {}]
    parts = []
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        parts.append(
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "tiny",
                "choices": [choice],
            }
        )
    return (
        b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts)
        + b"data: [DONE]\n\n"
    )


def echo(handler: RawHandler, call: Received) -> None:
    """Answer a chat with the last message, streamed if asked for; anything else with its own body."""
    try:
        body = json.loads(call.body)
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else json.dumps(content)
    except (ValueError, LookupError, TypeError):
        return handler.reply(200, call.body, Content_Type="application/octet-stream")
    if not body.get("stream"):
        return handler.reply(
            200, json.dumps(completed(text)).encode(), Content_Type="application/json"
        )
    handler.begin_stream()
    handler.chunk(events(text.split(" ")))
    handler.chunk(b"")


@contextmanager
def upstream(respond: Respond = echo) -> Iterator[Recorded]:
    recorded = Recorded()
    handler = type("Bound", (RawHandler,), {"recorded": recorded, "respond": staticmethod(respond)})
    with Server(("127.0.0.1", 0), handler) as serving:
        recorded.url = f"http://127.0.0.1:{serving.server_address[1]}/v1"
        threading.Thread(
            target=lambda: serving.serve_forever(poll_interval=0.02), daemon=True
        ).start()
        try:
            yield recorded
        finally:
            serving.shutdown()


@dataclass(frozen=True)
class FewShots:
    """Shows one demonstration."""

    name: str = "Few shots"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        shown = Demonstration(
            Role.RETAIN, "The capital of Chad is Rome", "The capital of Mali is", "Bamako", "1"
        )
        return PromptStyle().write(edits, [shown], queries)


class Failing:
    """A gate that is broken, or slow."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def decide(self, query: str, index: EditIndex) -> Decision:
        time.sleep(self.seconds)
        raise ZeroDivisionError


@dataclass(frozen=True)
class Doubting:
    """Names the subjects as `Named` does, and is in doubt about each. fires: without an answer."""

    fires: bool = False

    def decide(self, query: str, index: EditIndex) -> Decision:
        decision = Named().decide(query, index)
        candidates = tuple(replace(c, probability=0.5, uncertain=True) for c in decision.candidates)
        return replace(
            decision, matched=decision.matched if self.fires else (), candidates=candidates
        )


def decided(feed: EditFeed, query: str, until: float | None = None) -> Decision:
    """The decision on a query."""
    return feed.follower(AsBlock(), until=until).decide(query)


@dataclass
class Running:
    """A gateway with its admin application."""

    url: str
    admin: str
    metrics: Metrics
    tenants: Tenants
    gateway: Gateway

    @property
    def feed(self) -> EditFeed:
        return self.tenants.feeds["default"]

    def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request to the gateway's port; return status, headers and body."""
        return ask(self.url.removesuffix("/v1") + path, method, body, **headers)

    def chat(self, *contents: object, **more: object) -> tuple[int, dict[str, str], bytes]:
        messages = [{"role": "user", "content": content} for content in contents]
        return self.ask(
            "POST", "/v1/chat/completions", json.dumps({"messages": messages, **more}).encode()
        )

    def manage(
        self, method: str, path: str, value: object = None, **headers: str
    ) -> tuple[int, dict]:
        """Send JSON to the admin port; return status and JSON."""
        body = b"" if value is None else json.dumps(value).encode()
        status, _, answer = ask(
            self.admin + path, method, body, Content_Type="application/json", **headers
        )
        return status, json.loads(answer)


def ask(
    url: str, method: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    try:
        target = where.path + (f"?{where.query}" if where.query else "")
        connection.request(
            method, target, body or None, {k.replace("_", "-"): v for k, v in headers.items()}
        )
        response = connection.getresponse()
        return response.status, {k.casefold(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def is_up(url: str) -> bool:
    """Whether a server answers this address with status 200."""
    try:
        return ask(url, "GET")[0] == 200
    except OSError:
        return False


@contextmanager
def running(
    above: Upstream | str,
    place: Path | str,
    *entries: EditRecord,
    mode: Mode = Mode.ON,
    options: GatewayOptions | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    gate: Gate | None = Named(),  # noqa: B008 - it is frozen
    keys: Keys | None = None,
    chat: Placement = AsBlock(FewShots()),  # noqa: B008 - it is frozen
) -> Iterator[Running]:
    """A gateway over `above`, with a store in a folder or at an address, to which the entries are added."""
    address = place / "edits.db" if isinstance(place, Path) else place

    options = options or GatewayOptions(mode=mode, deadline_ms=5000)
    sampling = Sampling(options.keep_samples, options.redact)

    def open_feed(tenant: str) -> EditFeed:
        store = open_store(address, tenant=tenant)
        for entry in entries if tenant == "default" else ():
            store.put(entry)
        opened = lambda gate: None if isinstance(gate, Named) else HashingEncoder()  # noqa: E731
        return EditFeed(store, gate, encoder=opened, sampling=sampling)

    tenants, metrics = Tenants(open_feed, keys), Metrics()
    connected = (
        HttpUpstream(above, keep_credentials=keys is None) if isinstance(above, str) else above
    )
    editor = RequestEditor(
        connected, chat=chat, completion=AsPrompt(FewShots()), options=options, metrics=metrics
    )
    gateway = Gateway(
        connected, tenants.feed, editor=editor, metrics=metrics, keys=keys, limits=limits
    )
    sockets = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    ports = [listening.getsockname()[1] for listening in sockets]
    serving = server(
        gateway, application(Admin(editor, connected, tenants, metrics, keys)), ports[1]
    )
    thread = threading.Thread(target=lambda: serving.run(sockets=list(sockets)), daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not serving.started and time.monotonic() < until:
        time.sleep(0.005)
    try:
        yield Running(
            f"http://127.0.0.1:{ports[0]}/v1",
            f"http://127.0.0.1:{ports[1]}",
            metrics,
            tenants,
            gateway,
        )
    finally:
        serving.should_exit = True
        thread.join(10)
        tenants.close()
