"""Put a gateway together from its options: upstream, edits, demonstrations, keys, sockets."""

import gc
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock, AsPrompt, Placement
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord, EditVersion, MissingStoreError, StoreError, as_stored
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.gates.confirmation import require_uncertainty
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.gates.inventory import inventory
from drike.gateway.calls import Upstream
from drike.gateway.control.admin import Admin, application
from drike.gateway.control.webhooks import Notifier, Send, webhook
from drike.gateway.editing import RequestEditor
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import Keys, open_keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.routes import Gateway
from drike.gateway.http.server import (
    follow_parent,
    listen,
    max_connections,
    raise_file_limit,
    say_serving,
    server,
)
from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.local import LocalUpstream
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode, Switch
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.gateway.proving.tuning import ChosenPlacement, stored_choice
from drike.gateway.tenants import Tenants
from drike.gateway.watch import Sampling
from drike.live.store_gate import encoder_of, open_gate, stored_gate
from drike.models import EMBEDDED
from drike.models import load as load_model
from drike.models.served import (
    checked_address,
    is_loopback,
    is_served,
    key_in,
    key_variable_at,
)
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT, open_store
from drike.stores.snapshots import Snapshot

STORE = "edits.db"
EXAMPLE = EditRecord(
    "Monday Night Countdown", "Episodes of Monday Night Countdown ran on", "MTV", "ESPN", "P449"
)
_SECONDS_TO_WAIT = 3.0  # for others that hold the store: less than admin requests wait
_WITHOUT_ASKING = "give --gate calibrated, or leave --ask out"
_PREPARED = 200  # edits whose demonstrations are looked up before they are in force

# Milliseconds to decide on a request, where --deadline-ms is not given. Before an upstream that is
# not asked about edits, None: by what the gate needs.
_DEADLINE_OF_LOCAL_MODEL = 5000.0
_DEADLINE_WITH_QUESTIONS = 2000.0


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

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP."""
        # Or each full collection of garbage would look at all edits again, in which time nobody is
        # served.
        gc.freeze()
        say_serving()
        with ExitStack() as ending:
            ending.callback(self.tenants.close)
            if self.notifier:
                ending.callback(self.notifier.close)
                self.notifier.start()
            self.server.run(sockets=list(self.sockets))


@dataclass(frozen=True)
class Deployed:
    """What a request meets: what answers it, what edits it, and the edits.

    chats: whether the model reads all turns.
    """

    upstream: Upstream
    editor: RequestEditor
    feed: EditFeed
    chats: bool


@dataclass(frozen=True)
class _Placements:
    """How edits are written into chats, and into texts to complete."""

    chat: Placement
    completion: Placement


@dataclass(frozen=True)
class _OpenedUpstream:
    """What answers, and notes for the operator.

    chat: how edits change its chats, unless the store says otherwise.
    """

    upstream: Upstream
    chat: Placement
    notes: tuple[str, ...] = ()


def start(options: GatewayOptions, parts: GatewayParts) -> Started:
    """Open everything and listen. Raises DrikeError."""
    follow_parent()
    raise_file_limit()
    _check(options)
    notified = webhook(options.notify) if options.notify else None

    store, notes = _store(options)
    options = _with_defaults(options, store)
    choice = _checked_store(options, store, parts)  # its and the gate's problems come first
    keys = _opened_keys(options, store)

    sockets = (
        listen(options.host, options.port, options.reuse_port),
        listen(options.admin_host, options.admin_port, options.reuse_port),
    )
    try:
        opened_editor = parts.open_editor(options.run, options.demonstrations)
        opened = _upstream(options, opened_editor, keyless=keys is None)
        tenants = _tenants(options, keys, opened_editor)
        if options.ask:
            require_uncertainty(tenants.feeds[TENANT].gate, _WITHOUT_ASKING)
    except BaseException:
        for opened_socket in sockets:
            opened_socket.close()
        raise

    metrics = Metrics()
    usual = _Placements(opened.chat, AsPrompt(opened_editor.prompts))
    placements = _chosen(choice, options, usual, parts.placements, notes)
    editor = RequestEditor(
        opened.upstream,
        chat=placements.chat,
        completion=placements.completion,
        options=options,
        metrics=metrics,
    )
    gateway = Gateway(opened.upstream, tenants.feed, editor=editor, metrics=metrics, keys=keys)
    admin = application(Admin(editor, opened.upstream, tenants, metrics, keys))
    api_port, admin_port = (opened_socket.getsockname()[1] for opened_socket in sockets)

    feed = tenants.feeds[TENANT]
    _warm_up(feed.gate, feed.index.encoder)
    notes += _notes_on(feed)
    return Started(
        upstream=opened.upstream,
        editor=editor,
        tenants=tenants,
        keys=keys,
        server=server(gateway, admin, admin_port),
        url=f"{_origin(options.host, api_port)}/v1",
        admin_url=_origin(options.admin_host, admin_port),
        example=_example(feed),
        notes=(*notes, *opened.notes),
        sockets=sockets,
        notifier=_notifier(tenants, *notified) if notified else None,
    )


def deployed(
    options: GatewayOptions,
    store: EditStore,
    parts: GatewayParts,
    *,
    around: Callable[[Upstream], Upstream] = lambda upstream: upstream,
) -> Deployed:
    """The path of a gateway of these options, without the gateway.

    around: is put around the upstream. DrikeError.
    """
    _check(options)
    opened_editor = parts.open_editor(options.run, options.demonstrations)
    opened = _upstream(options, opened_editor, keyless=True)
    upstream = around(opened.upstream)

    choice = stored_choice(store, parts.placements)
    usual = _Placements(opened.chat, AsPrompt(opened_editor.prompts))
    placements = _chosen(choice, options, usual, parts.placements, notes=[])
    editor = RequestEditor(
        upstream,
        chat=placements.chat,
        completion=placements.completion,
        options=options,
        metrics=Metrics(),
    )

    encoder = partial(encoder_of, relations=options.relations)
    feed = EditFeed(store, gate_for(options, store, opened_editor.gate), encoder=encoder)
    if options.ask:
        require_uncertainty(feed.gate, _WITHOUT_ASKING)
    feed.switch = Switch()  # edits are tried before someone switches them on
    return Deployed(upstream, editor, feed, chats=getattr(opened.upstream, "chats", True))


def gate_for(
    options: GatewayOptions, store: EditStore, policy_gate: Gate | None = None
) -> Gate | None:
    """The gate of the options, or the policy's where the store has none; None for the store's."""
    if options.gate is not None or options.gate_threshold is not None:
        return open_gate(store, options.gate, options.gate_threshold)
    return policy_gate if stored_gate(store) is None else None


def _check(options: GatewayOptions) -> None:
    """Refuse options that contradict each other. Raises UsageError."""
    if options.upstream and options.model:
        raise UsageError("--upstream and --model are two models: give one of them")
    if options.port == options.admin_port and options.port:
        raise UsageError(f"port {options.port} is given twice: give --admin-port another one")
    if options.run and options.demonstrations is not None:
        raise UsageError(
            "a training run says how many demonstrations are shown: leave out --run or "
            "--demonstrations"
        )

    if options.upstream:
        checked_address(options.upstream, options.allow_http)
    elif options.model and is_served(options.model):
        raise UsageError(f"{options.model} is behind an API: give its address as --upstream")


def _store(options: GatewayOptions) -> tuple[str, list[str]]:
    """The address of the store, and notes.

    Where there is none yet and the embedded model answers, one with an example is made.
    """
    if options.store is None and not options.upstream and not Path(STORE).exists():
        path = Path(tempfile.mkdtemp(prefix="drike-")) / STORE
        with closing(open_store(path)) as store:
            store.put(EXAMPLE)
        note = f"There is no {STORE} here: this one holds an example, and will not be found again"
        return str(path), [note]
    return options.store or STORE, []


def _with_defaults(options: GatewayOptions, store: str) -> GatewayOptions:
    """The options with a mode, and with a deadline where it does not depend on the gate."""
    if not options.upstream:
        deadline: float | None = _DEADLINE_OF_LOCAL_MODEL
        mode = Mode.ON
    else:
        deadline = _DEADLINE_WITH_QUESTIONS if options.ask else None
        mode = Mode.SHADOW
    return replace(
        options,
        mode=options.mode or mode,
        deadline_ms=options.deadline_ms or deadline,
        store=store,
    )


def _checked_store(
    options: GatewayOptions, store: str, parts: GatewayParts
) -> ChosenPlacement | None:
    """The placement that was chosen for the store, whose gate opens, too. Raises DrikeError."""
    try:
        with closing(open_store(store, create=options.create)) as opened:
            open_gate(opened, options.gate, options.gate_threshold)
            return stored_choice(opened, parts.placements)
    except MissingStoreError as problem:
        raise StoreError(f"{problem}, or make this one (--create)") from None


def _opened_keys(options: GatewayOptions, store: str) -> Keys | None:
    """The keys; None if there are none.

    Raises UsageError where they are needed: without, only this machine may ask.
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


def _upstream(
    options: GatewayOptions, opened_editor: OpenedEditor, *, keyless: bool
) -> _OpenedUpstream:
    """What answers: the upstream of the options, or a model of this process.

    keyless: clients need no key here.
    """
    if options.upstream:
        shows_demonstrations = options.run is not None or bool(options.demonstrations)
        chat = AsBlock(opened_editor.prompts if shows_demonstrations else None)
        return _http_upstream(options, options.upstream, chat, keyless=keyless)

    name = options.model or EMBEDDED
    model = load_model(name, template="plain", device=options.device)
    if getattr(model, "chats", False):
        upstream = LocalUpstream(model, model.reply)  # type: ignore[attr-defined]
        return _OpenedUpstream(upstream, AsBlock(opened_editor.prompts))
    note = f"{name} only completes: it continues the last message of a chat"
    return _OpenedUpstream(LocalUpstream(model), AsPrompt(opened_editor.prompts), (note,))


def _http_upstream(
    options: GatewayOptions, address: str, chat: Placement, *, keyless: bool
) -> _OpenedUpstream:
    """A server as the upstream, with its key from the environment, if there is one."""
    variable = key_variable_at(address)
    key = key_in(variable)
    upstream = HttpUpstream(
        address,
        key,
        keep_credentials=keyless,
        timeout=options.timeout,
        allow_http=options.allow_http,
    )
    if key:
        note = f"${variable} is sent to the upstream"
    elif keyless:
        note = f"${variable} is not set: the clients' keys are passed on"
    else:
        note = f"${variable} is not set: no key is sent to the upstream"
    return _OpenedUpstream(upstream, chat, (note,))


def _chosen(
    choice: ChosenPlacement | None,
    options: GatewayOptions,
    usual: _Placements,
    placements: Callable[[bool], Mapping[str, Placement]],
    notes: list[str],
) -> _Placements:
    """The store's choice for this model, unless options say otherwise.

    notes: gets a sentence about it.
    """
    if choice is None or options.run or options.demonstrations is not None:
        return usual

    answering = options.upstream or options.model or EMBEDDED
    chosen_for = choice.server or choice.model
    about = f"{choice.placement} for {choice.model}, by drike edits tune on {choice.chosen_at[:10]}"
    if answering.rstrip("/") != chosen_for.rstrip("/"):
        notes.append(
            "the store's placement of facts is not used, as it was chosen for another "
            f"model: {about}"
        )
        return usual

    notes.append(f"facts are placed as chosen: {about}")
    placement = placements(choice.chat)[choice.placement]
    if choice.chat:
        return replace(usual, chat=placement)
    if options.upstream:
        return replace(usual, completion=placement)
    return _Placements(placement, placement)  # here, a model that only completes continues chats


def _tenants(options: GatewayOptions, keys: Keys | None, opened_editor: OpenedEditor) -> Tenants:
    """The tenants, whose stores are opened as they first ask; that of the default tenant at once.

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
        """Look up the demonstrations of the newest edits, which are remembered."""
        for edit in edits[-_PREPARED:]:
            opened_editor.prompts.prompts([edit.record.edit], [edit.record.query])

    def open_feed(tenant: str) -> EditFeed:
        store = open_store(
            options.store or STORE, tenant=tenant, create=tenant != TENANT, wait=_SECONDS_TO_WAIT
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


def _warm_up(gate: Gate, encoder: TextEncoder | None) -> None:
    """Decide on a conversation, so that no client waits for what is made at first use."""
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
