"""Starts a gateway from its options: upstream, edits, demonstrations, keys, sockets."""

import gc
import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock, AsPrompt
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord, EditVersion, MissingStoreError, StoreError, as_stored
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.gates.inventory import inventory
from drike.gateway.assembly import (
    Placements,
    chosen_placements,
    gate_for,
    note_on_policy,
    open_upstream,
    with_model,
)
from drike.gateway.calls import Upstream
from drike.gateway.control.admin import Admin, application
from drike.gateway.control.webhooks import Notifier, Send, webhook
from drike.gateway.editing import RequestEditor
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import Keys, open_keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.routes import Gateway
from drike.gateway.http.server import (
    bind,
    follow_parent,
    max_connections,
    open_port,
    raise_file_limit,
    say_serving,
    server,
)
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.gateway.proving.tuning import ChosenPlacement, stored_choice
from drike.gateway.tenants import Tenants, require_stores
from drike.gateway.traces import NO_TRACES, Traces
from drike.gateway.watch import Sampling
from drike.live.store_gate import encoder_of, open_gate
from drike.models import EMBEDDED, READER
from drike.models.served import is_loopback
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT, open_store
from drike.stores.snapshots import Snapshot

STORE = "edits.db"
EXAMPLE = EditRecord(
    "Monday Night Countdown", "Episodes of Monday Night Countdown ran on", "MTV", "ESPN", "P449"
)
CHAT_EXAMPLE = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
_SECONDS_TO_WAIT = 3.0  # for others that hold the store: less than admin requests wait
_PREPARED = 200  # edits at most whose demonstrations are looked up before they are in force

# Milliseconds to decide on a request, where --deadline-ms is not given. Before an upstream, it
# depends on the gate's encoder (`RequestEditor.deadline`).
_DEADLINE_OF_LOCAL_MODEL = 5000.0


@dataclass(frozen=True)
class Started:
    """A gateway whose sockets listen.

    example: a question for it to answer. notes: sentences for its operator.
    """

    upstream: Upstream
    editor: RequestEditor
    tenants: Tenants
    keys: Keys | None
    server: uvicorn.Server
    url: str
    admin_url: str
    example: str
    notes: tuple[str, ...]
    sockets: tuple[socket.socket, socket.socket]  # of the API, and of admin requests
    notifier: Notifier | None = None
    traces: Traces = NO_TRACES

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP."""
        # Or each full collection of garbage would look at all edits again, in which time nobody is
        # served.
        gc.freeze()
        say_serving()
        with ExitStack() as ending:
            ending.callback(self.traces.close)
            ending.callback(self.tenants.close)
            if self.notifier:
                ending.callback(self.notifier.close)
                self.notifier.start()
            self.server.run(sockets=list(self.sockets))


def start(options: GatewayOptions, parts: GatewayParts) -> Started:
    """Open everything, and listen once requests can be answered. Raises DrikeError."""
    follow_parent()
    raise_file_limit()
    options = with_model(options)
    notified = webhook(options.notify) if options.notify else None
    traces = _traces(options)

    store, notes = _store(options)
    options = _with_defaults(options, store)
    # Problems of the store and its gate are reported before those of keys and models.
    choice = _choice_of_store(options, store, parts)
    keys = _opened_keys(options, store)
    require_stores(store, keys, create=options.create)

    sockets = _bound(options)
    try:
        opened_editor = parts.open_editor(options.run, options.most_demonstrations)
        opened_upstream = open_upstream(options, opened_editor, keyless=keys is None)
        tenants = _tenants(options, keys, opened_editor)
        feed = tenants.feeds[TENANT]
        _open_ports(sockets, options, feed)
    except BaseException:
        for opened_socket in sockets:
            opened_socket.close()
        raise

    metrics = Metrics()
    usual_placements = Placements(opened_upstream.chat, AsPrompt(opened_editor.editor))
    placements = chosen_placements(choice, options, usual_placements, parts.placements, notes)
    upstream = opened_upstream.upstream
    editor = RequestEditor(
        chat=placements.chat,
        completion=placements.completion,
        options=options,
        metrics=metrics,
    )
    gateway = Gateway(
        upstream, tenants.feed, editor=editor, metrics=metrics, keys=keys, traces=traces
    )
    admin = application(Admin(editor, upstream, tenants, metrics, keys, gateway.shortage))
    api_port, admin_port = (opened_socket.getsockname()[1] for opened_socket in sockets)

    notes += _notes_on(feed)
    if overruled := note_on_policy(options, feed.store, opened_editor.gate):
        notes.append(overruled)
    return Started(
        upstream=upstream,
        editor=editor,
        tenants=tenants,
        keys=keys,
        server=server(gateway, admin, admin_port),
        url=f"{_origin(options.host, api_port)}/v1",
        admin_url=_origin(options.admin_host, admin_port),
        example=_example(feed),
        notes=(*notes, *opened_upstream.notes),
        sockets=sockets,
        notifier=_notifier(tenants, *notified) if notified else None,
        traces=traces,
    )


def _store(options: GatewayOptions) -> tuple[str, list[str]]:
    """The address of the store, and notes for the operator.

    Where there is no store yet and a local model answers, one with an example is made.
    """
    if options.store is None and not options.upstream and not Path(STORE).exists():
        path = Path(tempfile.mkdtemp(prefix="drike-")) / STORE
        with closing(open_store(path)) as store:
            store.put(EXAMPLE if options.model in (EMBEDDED, READER) else CHAT_EXAMPLE)
        note = f"There is no {STORE} here: this one holds an example, and will not be found again"
        return str(path), [note]
    return options.store or STORE, []


def _with_defaults(options: GatewayOptions, store: str) -> GatewayOptions:
    """The options with a mode, and with a deadline where it does not depend on the gate."""
    deadline = None if options.upstream else _DEADLINE_OF_LOCAL_MODEL
    mode = Mode.SHADOW if options.upstream else Mode.ON
    return replace(
        options,
        mode=options.mode or mode,
        deadline_ms=options.deadline_ms or deadline,
        store=store,
    )


def _choice_of_store(
    options: GatewayOptions, store: str, parts: GatewayParts
) -> ChosenPlacement | None:
    """The placement of facts that was chosen for a store; None if none was.

    Raises DrikeError if the store, its gate or the choice cannot be used.
    """
    try:
        with closing(open_store(store, create=options.create)) as opened_store:
            open_gate(opened_store, options.gate, options.gate_threshold)
            return stored_choice(opened_store, parts.placements)
    except MissingStoreError as problem:
        raise StoreError(f"{problem}, or make this one (--create)") from None


def _opened_keys(options: GatewayOptions, store: str) -> Keys | None:
    """The keys; None if there are none.

    Raises UsageError where they are needed: without keys only this machine may ask.
    """
    keys = open_keys(store, Path(options.keys) if options.keys else None)
    if keys is not None:
        return keys

    if options.require_keys:
        raise UsageError(
            "--require-keys is given, and there are no keys: make one (drike keys add)"
        )
    for host in (options.host, options.admin_host):
        if not is_loopback(host):
            raise UsageError(
                f"anyone could use {host} without a key: make one (drike keys add), or leave "
                "the host out"
            )
    return None


def _tenants(options: GatewayOptions, keys: Keys | None, opened_editor: OpenedEditor) -> Tenants:
    """The tenants. The default one's store is opened at once, others when they are first asked for.

    Raises DrikeError.
    """

    def loaded_encoder(gate: Gate) -> TextEncoder | None:
        """The encoder of a gate with its weights in memory."""
        encoder = encoder_of(gate, options.relations)
        if encoder:
            encoder.encode([""])
            inventory(encoder)
        return encoder

    def prepare(edits: Sequence[EditVersion]) -> None:
        """Look up the demonstrations of the newest edits, so that the editor remembers them."""
        for edit in edits[-_PREPARED:]:
            opened_editor.editor.prompts([edit.record.edit], [edit.record.query])

    def open_feed(tenant: str) -> EditFeed:
        # Never made here, or the store of a tenant that was lost would be empty without a word.
        store = open_store(
            options.store or STORE, tenant=tenant, create=False, wait=_SECONDS_TO_WAIT
        )
        return EditFeed(
            store,
            gate_for(options, store, opened_editor.gate),
            tenant=tenant,
            encoder=loaded_encoder,
            prepare=prepare,
            sampling=Sampling(options.keep_samples, options.redact),
        )

    return Tenants(open_feed, keys)


def _traces(options: GatewayOptions) -> Traces:
    """What traces requests, where that is asked for. Raises UsageError."""
    if not options.traces:
        return NO_TRACES
    from drike.gateway.telemetry import opened_traces

    return opened_traces(options)


def _bound(options: GatewayOptions) -> tuple[socket.socket, socket.socket]:
    """Sockets for the API and for admin requests, which refuse clients yet. Raises UsageError."""
    return (
        bind(options.host, options.port, options.reuse_port),
        bind(options.admin_host, options.admin_port, options.reuse_port),
    )


def _notifier(tenants: Tenants, send: Send, secret: str) -> Notifier:
    """What sends the events of all tenants whose stores are open."""

    def open_stores() -> dict[str, tuple[EditStore, Snapshot]]:
        return {tenant: (feed.store, feed.snapshot) for tenant, feed in tenants.feeds.items()}

    return Notifier(open_stores, send, secret)


def _notes_on(feed: EditFeed) -> list[str]:
    """What an operator should know of the edits, their mode, and the limit on connections."""
    notes = []
    if not feed.index.edits:
        notes.append(
            "no edit is in force, so that every request passes as it is: add one (drike edits add)"
        )
    switch = feed.switch
    if switch.mode:
        notes.append(
            f"the mode is {switch.mode}, as {switch.author} switched it ({switch.at}), not "
            "that of --mode"
        )
    connections = max_connections()
    if connections < Limits().at_once:
        notes.append(
            f"{connections} clients at once at most: raise the limit on open files (ulimit -n)"
        )
    return notes


def _example(feed: EditFeed) -> str:
    """A question that an edit in force answers."""
    for edit in feed.index.edits.values():
        return edit.record.query
    return "Hello"


def _origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open_ports(sockets: Sequence[socket.socket], options: GatewayOptions, feed: EditFeed) -> None:
    """Let sockets listen once requests can be answered. Raises DrikeError if they cannot be."""
    _warm_up(feed.gate, feed.index.encoder)
    for opened_socket in sockets:
        open_port(opened_socket)


def _warm_up(gate: Gate, encoder: TextEncoder | None) -> None:
    """Decide on a conversation, so that no client waits for what is made at first use.

    It has a turn of each kind on which a gateway decides in another way.
    """
    compared = replace(EXAMPLE.edit, query=f"The host of {EXAMPLE.subject} is")
    index = EditIndex.of(as_stored([EXAMPLE.edit, compared]), encoder)

    question = f"Which network showed the episodes of {EXAMPLE.subject}?"
    turns = [
        ("system", question),
        ("tool", question),
        ("user", question),
        ("user", "Sure?"),
        ("user", "And its host?"),
        ("user", "I know. Why?"),
    ]
    messages = [{"role": role, "content": text} for role, text in turns]
    conversation = read(Api.CHAT, {"messages": messages})
    Follower(lambda query: gate.decide(query, index), index, AsBlock()).follow(conversation)
