"""Put a gateway together from its options: upstream, edits, demonstrations, keys, sockets."""

import gc
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import uvicorn

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock, AsPrompt, Placement
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord, EditVersion, MissingStoreError, StoreError, as_stored
from drike.encoders import TextEncoder, load_encoder
from drike.errors import UsageError
from drike.gates.confirmation import require_uncertainty
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.gates.inventory import inventory
from drike.gateway.control.admin import Admin, application
from drike.gateway.control.webhooks import Notifier, webhook
from drike.gateway.editing import RequestEditor
from drike.gateway.http.keys import Keys, open_keys
from drike.gateway.http.relay import Limits
from drike.gateway.http.routes import Gateway, Metrics
from drike.gateway.http.server import (
    follow_parent,
    listen,
    max_connections,
    raise_file_limit,
    say_serving,
    server,
)
from drike.gateway.http.upstream import HttpUpstream, Upstream, checked_address
from drike.gateway.local import LocalUpstream
from drike.gateway.options import GatewayOptions, Mode, Switch
from drike.gateway.proving.tuning import ChosenPlacement, stored_choice
from drike.gateway.tenants import EditFeed, Tenants
from drike.gateway.traffic import Sampling
from drike.live.store_gate import encoder_of, open_gate, stored_gate
from drike.models import EMBEDDED
from drike.models import load as load_model
from drike.models.served import KEY, SERVICES, is_loopback, is_served, key_in
from drike.research.editors.catalog import PER_QUERY, Editor, make
from drike.research.editors.placements import REMEMBERED, demonstrating, placements
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import applied, policy_of
from drike.stores.log import EditStore
from drike.stores.opening import TENANT, open_store

STORE = "edits.db"
EXAMPLE = EditRecord(
    "Monday Night Countdown", "Episodes of Monday Night Countdown ran on", "MTV", "ESPN", "P449"
)
_SECONDS_TO_WAIT = 3.0  # for others that hold the store: less than admin requests wait
_WITHOUT_ASKING = "give --gate calibrated, or leave --ask out"
_PREPARED = 200  # edits whose demonstrations are looked up before they are in force


@dataclass(frozen=True)
class Started:
    """A gateway whose sockets listen. example: a question for it to answer. notes: sentences for its operator."""

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
        gc.freeze()  # or each full collection of garbage would look at all edits again, in which time nobody is served
        say_serving()
        with ExitStack() as ending:
            ending.callback(self.tenants.close)
            if self.notifier:
                ending.callback(self.notifier.close)
                self.notifier.start()
            self.server.run(sockets=list(self.sockets))


class Deployed(NamedTuple):
    """What a request meets: what answers it, what edits it, and the edits. chats: whether the model reads all turns."""

    upstream: Upstream
    editor: RequestEditor
    feed: EditFeed
    chats: bool


def start(options: GatewayOptions) -> Started:
    """Open everything and listen. Raises DrikeError."""
    follow_parent()
    raise_file_limit()
    _check(options)
    sends = webhook(options.notify) if options.notify else None
    store, notes = _store(options)
    mode = options.mode or (Mode.SHADOW if options.upstream else Mode.ON)
    deadline = (
        5000.0 if not options.upstream else 2000.0 if options.ask else None
    )  # None: by what the gate needs
    options = replace(options, mode=mode, deadline_ms=options.deadline_ms or deadline, store=store)
    try:  # its and the gate's problems come first
        with closing(open_store(store, create=options.create)) as opened:
            open_gate(opened, options.gate, options.gate_threshold)
            choice = stored_choice(opened, placements)
    except MissingStoreError as problem:
        raise StoreError(f"{problem}, or make this one (--create)") from None
    keys = open_keys(store, Path(options.keys) if options.keys else None)
    if keys is None and options.require_keys:
        raise UsageError(
            "--require-keys is given, and there are no keys: make one (drike keys add)"
        )
    for host in (options.host, options.admin_host):
        if keys is None and not is_loopback(host):
            raise UsageError(
                f"anyone could use {host} without a key: make one (drike keys add), or leave the host out"
            )
    shared = options.reuse_port
    listening = (
        listen(options.host, options.port, shared),
        listen(options.admin_host, options.admin_port, shared),
    )
    try:
        editor = _open_editor(options.run, options.demonstrations)
        upstream, chat, notes_on_upstream = _upstream(options, editor, keyless=keys is None)
        tenants = _tenants(options, keys, editor)
        if options.ask:
            require_uncertainty(tenants.feeds[TENANT].gate, _WITHOUT_ASKING)
    except BaseException:
        for opened_socket in listening:
            opened_socket.close()
        raise
    metrics = Metrics()
    chat, completion = _chosen(choice, options, chat, AsPrompt(editor), notes)
    requests = RequestEditor(
        upstream, chat=chat, completion=completion, options=options, metrics=metrics
    )
    gateway = Gateway(upstream, tenants.feed, editor=requests, metrics=metrics, keys=keys)
    admin = application(Admin(requests, upstream, tenants, metrics, keys))
    port, admin_port = (opened_socket.getsockname()[1] for opened_socket in listening)
    hosts = [f"[{host}]" if ":" in host else host for host in (options.host, options.admin_host)]
    feed = tenants.feeds[TENANT]
    if not (in_force := feed.index.edits.values()):
        notes.append(
            "no edit is in force, so that every request passes as it is: add one (drike edits add)"
        )
    _warm_up(feed.gate, feed.index.encoder)
    if (switch := feed.switch).mode:
        notes.append(
            f"the mode is {switch.mode}, as {switch.author} switched it ({switch.at}), not that of --mode"
        )
    if (room := max_connections()) < Limits().at_once:
        notes.append(f"{room} clients at once at most: raise the limit on open files (ulimit -n)")
    return Started(
        upstream, requests, tenants, keys, server(gateway, admin, admin_port),
        f"http://{hosts[0]}:{port}/v1", f"http://{hosts[1]}:{admin_port}",
        next((edit.record.query for edit in in_force), "Hello"), (*notes, *notes_on_upstream), listening,
        sends and Notifier(lambda: {name: (feed.store, feed.snapshot) for name, feed in tenants.feeds.items()}, *sends),
    )  # fmt: skip


def deployed(
    options: GatewayOptions,
    store: EditStore,
    *,
    around: Callable[[Upstream], Upstream] = lambda upstream: upstream,
) -> Deployed:
    """The path of a gateway of these options, without the gateway. around: is put around the upstream. DrikeError."""
    _check(options)
    editor = _open_editor(options.run, options.demonstrations)
    inner, chat, _ = _upstream(options, editor, keyless=True)
    upstream = around(inner)
    chat, completion = _chosen(
        stored_choice(store, placements), options, chat, AsPrompt(editor), []
    )
    requests = RequestEditor(
        upstream, chat=chat, completion=completion, options=options, metrics=Metrics()
    )
    opened = partial(encoder_of, relations=options.relations)
    feed = EditFeed(store, gate_for(options, store, editor), encoder=opened)
    if options.ask:
        require_uncertainty(feed.gate, _WITHOUT_ASKING)
    feed.switch = Switch()  # edits are tried before someone switches them on
    return Deployed(upstream, requests, feed, getattr(inner, "chats", True))


def _warm_up(gate: Gate, encoder: TextEncoder | None) -> None:
    """Decide on a conversation, so that no client waits beyond the deadline for what is made at first use."""
    two = as_stored(
        [EXAMPLE.edit, replace(EXAMPLE.edit, query=f"The host of {EXAMPLE.subject} is")]
    )  # to be compared
    index, asked = (
        EditIndex.of(two, encoder),
        f"Which network showed the episodes of {EXAMPLE.subject}?",
    )
    said = (asked, "Sure?", "And its host?", "I know. Why?")
    turns = ("system", asked), ("tool", asked), *(("user", text) for text in said)
    conversation = read(
        Api.CHAT, {"messages": [{"role": role, "content": text} for role, text in turns]}
    )
    Follower(lambda query: gate.decide(query, index), index, AsBlock()).follow(conversation)


def _check(options: GatewayOptions) -> None:
    if options.upstream and options.model:
        raise UsageError("--upstream and --model are two models: give one of them")
    if options.port == options.admin_port and options.port:
        raise UsageError(f"port {options.port} is given twice: give --admin-port another one")
    if options.run and options.demonstrations is not None:
        raise UsageError(
            "a training run says how many demonstrations are shown: leave out --run or --demonstrations"
        )
    if options.upstream:
        checked_address(options.upstream, options.allow_http)
    elif options.model and is_served(options.model):
        raise UsageError(f"{options.model} is behind an API: give its address as --upstream")


def _store(options: GatewayOptions) -> tuple[str, list[str]]:
    """The address of the store, and notes; where there is none yet and the embedded model answers, of an example."""
    if options.store is None and not options.upstream and not Path(STORE).exists():
        path = Path(tempfile.mkdtemp(prefix="drike-")) / STORE
        with closing(open_store(path)) as store:
            store.put(EXAMPLE)
        return str(path), [
            f"There is no {STORE} here: this one holds an example, and will not be found again"
        ]
    return options.store or STORE, []


def _open_editor(folder: str | None, max_demonstrations: int | None) -> Editor:
    """What chooses demonstrations: the editor of a training run's folder, or the nearest rows of TinyFacts."""
    if folder is None:
        return demonstrating(max_demonstrations)
    from drike.research.runs import checkpoint
    from drike.research.runs.run import TrainedRun

    base = TrainedRun.open(Path(folder))
    policy_encoder = load_encoder(
        base.trained.retriever.encoder.name, keep=False
    )  # it reads what users write
    trained = checkpoint.load(Path(folder), encoder=policy_encoder)
    records, encoder = (
        base.run.dataset().restore(base.split).demonstrations,
        load_encoder(base.run.encoder),
    )
    pool = Pool(records, encoder, seed=base.run.seed, remembered=REMEMBERED)
    return applied(make(PER_QUERY if trained.per_query else "dr-ike", pool=pool, trained=trained))


def _upstream(
    options: GatewayOptions, editor: Editor, *, keyless: bool
) -> tuple[Upstream, Placement, list[str]]:
    """What answers, how edits change its chats, and notes about both."""
    if options.upstream:
        origin = urlsplit(options.upstream.lower())[
            :2
        ]  # a service's own key goes to its own address alone
        variable = next(
            (own for home, own in SERVICES.values() if own and urlsplit(home)[:2] == origin), KEY
        )
        key = key_in(variable)
        upstream = HttpUpstream(
            options.upstream,
            key,
            keep_credentials=keyless,
            timeout=options.timeout,
            allow_http=options.allow_http,
        )
        sent = "the clients' keys are passed on" if keyless else "no key is sent to the upstream"
        note = f"${variable} is sent to the upstream" if key else f"${variable} is not set: {sent}"
        return (
            upstream,
            AsBlock(editor if options.run is not None or options.demonstrations else None),
            [note],
        )
    name = options.model or EMBEDDED
    model = load_model(name, template="plain", device=options.device)
    if getattr(model, "chats", False):
        return LocalUpstream(model, model.reply), AsBlock(editor), []  # type: ignore[attr-defined]
    return (
        LocalUpstream(model),
        AsPrompt(editor),
        [f"{name} only completes: it continues the last message of a chat"],
    )


def _chosen(
    choice: ChosenPlacement | None,
    options: GatewayOptions,
    chat: Placement,
    completion: Placement,
    notes: list[str],
) -> tuple[Placement, Placement]:
    """The placements of chats and of completions: the store's choice for this model, unless options say otherwise."""
    if choice is None or options.run or options.demonstrations is not None:
        return chat, completion
    asked = options.upstream or options.model or EMBEDDED
    about = f"{choice.placement} for {choice.model}, by drike edits tune on {choice.chosen_at[:10]}"
    if asked.rstrip("/") != (choice.server or choice.model).rstrip("/"):
        notes.append(
            f"the store's placement of facts is not used, as it was chosen for another model: {about}"
        )
        return chat, completion
    notes.append(f"facts are placed as chosen: {about}")
    placement = placements(choice.chat)[choice.placement]
    if choice.chat:
        return placement, completion
    return (
        chat if options.upstream else placement,
        placement,
    )  # here, a model that only completes continues its chats


def _tenants(options: GatewayOptions, keys: Keys | None, editor: Editor) -> Tenants:
    def loaded(gate: Gate) -> TextEncoder | None:
        """The encoder of a gate with its weights in memory."""
        if opened := encoder_of(gate, options.relations):
            opened.encode([""])
            inventory(opened)
        return opened

    def prepare(edits: Sequence[EditVersion]) -> None:
        for edit in edits[-_PREPARED:]:
            editor.prompts([edit.record.edit], [edit.record.query])

    sampling = Sampling(options.keep_samples, options.redact)

    def open_feed(tenant: str) -> EditFeed:
        opened = open_store(
            options.store or STORE, tenant=tenant, create=tenant != TENANT, wait=_SECONDS_TO_WAIT
        )
        gate = gate_for(options, opened, editor)
        return EditFeed(
            opened, gate, tenant=tenant, encoder=loaded, prepare=prepare, sampling=sampling
        )

    return Tenants(open_feed, keys)


def gate_for(options: GatewayOptions, store: EditStore, editor: Editor) -> Gate | None:
    """The gate of the options or, where the store has none of its own, of the run's policy; None for the store's."""
    if options.gate is not None or options.gate_threshold is not None:
        return open_gate(store, options.gate, options.gate_threshold)
    policy = policy_of(editor)
    return policy.gate if policy and stored_gate(store) is None else None
