"""`drike serve`: an OpenAI-compatible endpoint with edits in force, and `drike keys`: who may use it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from drike.cli.console import say
from drike.cli.options import API, DATA, METHOD, MODEL, AnyGate, Command, flag, option, takes_options
from drike.errors import UsageError
from drike.serving.keys import KeyRole, Keys, keys_path
from drike.serving.options import GatewayOptions, Mode

EXTRA = "drike serve needs its extra: pip install 'drike[serve]'"
_NEEDED = ("starlette", "uvicorn", "httptools", "aiohttp", "prometheus_client", "onnxruntime")

keys_app = typer.Typer(help="Make, list and revoke keys of drike serve.", no_args_is_help=True)
StoreFile = Annotated[str, option("STORE", "The store that the keys stand beside (default: edits.db)", DATA)]


@dataclass(frozen=True)
class ServeOptions(GatewayOptions):
    """The options of a gateway, with their help."""

    upstream: Annotated[
        str | None, option("URL", "Where an OpenAI-compatible API begins, as https://host/v1", MODEL)
    ] = None
    model: Annotated[str | None, option("MODEL", "Or a model to run here (default: embedded)", MODEL)] = None
    store: Annotated[
        str | None, option("STORE", "The edits: a file, or postgresql://USER@HOST/DATABASE (default: edits.db)", DATA)
    ] = None
    run: Annotated[
        str | None, option("RUN", "Take demonstrations as this training run does (default: from tinyfacts)", DATA)
    ] = None
    demonstrations: Annotated[
        int | None,
        option("N", "At most so many of tinyfacts (default: those that fit); 0 states facts alone", METHOD, minimum=0),
    ] = None
    gate: AnyGate = None
    ask: Annotated[bool, flag("--ask", "Ask the model, yes or no, where the gate is in doubt", METHOD)] = False
    mode: Annotated[
        str | None,
        option("NAME", "shadow: decide and count only (default with --upstream); on; off", METHOD, choices=tuple(Mode)),
    ] = None
    deadline_ms: Annotated[
        float | None,
        option(
            "MS", "Time limit for deciding (default: 50; 250 with an encoder; 2000 with --ask; 5000 for a model here)",
            METHOD, minimum=1.0, maximum=6e4,
        ),
    ] = None  # fmt: skip
    host: Annotated[str, option("HOST", "Where to listen; beyond this machine only with keys", API)] = (
        GatewayOptions.host
    )
    port: Annotated[int, option("N", "The port of the API", API, minimum=0, maximum=65535)] = GatewayOptions.port
    admin_host: Annotated[str, option("HOST", "Where the admin port listens", API)] = GatewayOptions.admin_host
    admin_port: Annotated[int, option("N", "The port for admin requests", API, minimum=0, maximum=65535)] = (
        GatewayOptions.admin_port
    )
    timeout: Annotated[
        float, option("SEC", "Longest silence of the upstream within an answer", API, minimum=0.1, maximum=86400.0)
    ] = GatewayOptions.timeout
    reuse_port: Annotated[bool, flag("--reuse-port", "Let other gateways listen on the same ports", API)] = False


@takes_options
def serve(
    *,
    options: ServeOptions,
    workers: Annotated[
        int, option("N", "Processes on the port of the API; admin ports are counted up", API, minimum=1, maximum=64)
    ] = 1,
) -> None:
    """Serve a model with edits in force: applications change their base URL, nothing else."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise UsageError(EXTRA)
    if workers > 1:
        _serve_together(workers, options)
    from drike.cli.opening import WatchedEncoder
    from drike.serving import process
    from drike.serving.start import open_encoder, start

    started = start(options, encoder=lambda name: WatchedEncoder(name, open_encoder))
    feed = started.tenants.feeds["default"]
    lines = [
        f"Serving {started.upstream.name}",
        f"  API     {started.url}",
        f"  admin   {started.admin_url}",
        f"  mode    {started.editor.mode}",
        f"  edits   {len(feed.index.edits):,} in force, from {feed.store.name}",
        f"  keys    {'needed' if started.keys else 'none: open to this machine'}",
        *(f"  note    {note}" for note in started.notes),
        "Try it:",
        f"  {_curl(started.url, started.example, key=started.keys is not None)}",
    ]
    for line in lines:
        say(line)
    if options.upstream and not options.run and hasattr(os, "fork"):  # nothing of this needs torch
        sys.stdout.flush()
        process.exec_gateway(started)
    try:
        started.run()
    except KeyboardInterrupt:  # uvicorn raises a signal again once it has ended
        say("Stopped.")


def _serve_together(workers: int, options: GatewayOptions) -> None:
    """Serve in several processes, and exit as the first of them that ends."""
    port, admin_port = options.port, options.admin_port
    if not (port and admin_port) or port in range(admin_port, admin_port + workers):
        raise UsageError("--workers needs a --port, and an --admin-port from which so many are free: give other ports")
    if options.store is None and options.upstream is None:
        raise UsageError("the processes of --workers share a store: give --store")
    from drike.serving import workers as processes

    # The last of an option counts.
    command = [sys.executable, "-m", "drike", *sys.argv[1:], "--workers", "1", "--reuse-port"]
    raise SystemExit(processes.run([[*command, "--admin-port", str(admin_port + i)] for i in range(workers)]))


def _curl(url: str, question: str, *, key: bool) -> str:
    """A command that asks one question."""
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": question}]}, ensure_ascii=False)
    quoted = body.replace("'", "'\\''")
    header = " -H 'Authorization: Bearer KEY'" if key else ""
    return f"curl {url}/chat/completions -H 'Content-Type: application/json'{header} -d '{quoted}'"


@keys_app.command("add", cls=Command)
@takes_options
def add(
    *,
    role: Annotated[
        str,
        option(
            "NAME",
            "use, edit (facts, too) or admin (metrics and the upstream's files, too)",
            METHOD,
            choices=tuple(KeyRole),
        ),
    ] = "use",
    tenant: Annotated[str, option("NAME", "Whose edits it sees; every tenant has its own store", METHOD)] = "default",
    store: StoreFile = "edits.db",
) -> None:
    """Make a key and print it; only its SHA-256 is kept."""
    say(Keys(keys_path(store)).add(tenant, KeyRole(role)))


@keys_app.command("list", cls=Command)
@takes_options
def list_(*, store: StoreFile = "edits.db") -> None:
    """List the keys."""
    for key in Keys(keys_path(store)).keys:
        say(f"{key.id} {key.role} {key.tenant} {key.created_at}")


@keys_app.command("revoke", cls=Command)
@takes_options
def revoke(
    ids: Annotated[list[str], typer.Argument(help="As drike keys list shows it", metavar="ID...", hidden=True)],
    *,
    store: StoreFile = "edits.db",
) -> None:
    """Revoke keys; a running gateway refuses them at once."""
    keys = Keys(keys_path(store))
    for id in ids:
        key = keys.revoke(id)
        say(f"Revoked {key.id} ({key.role}, {key.tenant})")
