"""A gateway in a thread, with a store and an admin application, and requests to it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from drike.conversations.rendering import AsBlock, AsPrompt, Placement
from drike.edits.edit import Edit
from drike.edits.record import EditRecord
from drike.encoders import HashingEncoder
from drike.gates.by_name import Named
from drike.gates.decision import Decision, Gate
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
from tests.fakes.waiting import HANG, wait_until

ENTRY = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))


@dataclass(frozen=True)
class FewShots:
    """Shows one demonstration."""

    name: str = "Few shots"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        shown = Demonstration(
            Role.RETAIN, "The capital of Chad is Rome", "The capital of Mali is", "Bamako", "1"
        )
        return PromptStyle().write(edits, [shown], queries)


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

    options = options or GatewayOptions(mode=mode)
    if options.deadline_ms is None:  # what is to be late says so
        options = replace(options, deadline_ms=1000 * HANG)
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
        chat=chat, completion=AsPrompt(FewShots()), options=options, metrics=metrics
    )
    gateway = Gateway(
        connected, tenants.feed, editor=editor, metrics=metrics, keys=keys, limits=limits
    )
    sockets = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    ports = [listening.getsockname()[1] for listening in sockets]
    admin = Admin(editor, connected, tenants, metrics, keys, gateway.shortage)
    serving = server(gateway, application(admin), ports[1])
    thread = threading.Thread(target=lambda: serving.run(sockets=list(sockets)), daemon=True)
    thread.start()
    wait_until(lambda: serving.started)
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
        thread.join(HANG)
        tenants.close()
        assert not thread.is_alive(), "a gateway that is told to end waits for nobody"
