"""`drike serve`: an OpenAI-compatible endpoint with edits in force."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated

from drike.cli.console import complain, say
from drike.cli.options import API, DATA, METHOD, MODEL, VALUES_OF_MODEL, AskModel, GateOptions, command, option
from drike.errors import UsageError
from drike.serving.options import GatewayOptions

_STORE = "The edits: a file, or postgresql://USER@HOST/DATABASE (default: edits.db)"
_KEYS = "The file of keys (default: beside the store, or in its database)"
_HTTP = "Send requests to this host of your network unencrypted"
_RUN = "Take demonstrations as this training run does (default: from tinyfacts)"
_SHOWN = "Most demonstrations of an edit (default: 0 over --upstream, else 16)"


@dataclass(frozen=True)
class ServeOptions(GateOptions, GatewayOptions):
    """The options of a gateway, with help where it differs from that of other commands."""

    model: Annotated[str | None, option("MODEL", "Or a model to run here (default: embedded)", MODEL)] = None
    store: Annotated[str | None, option("STORE", _STORE, DATA)] = None
    keys: Annotated[str | None, option("FILE", _KEYS, DATA)] = None
    allow_http: Annotated[str | None, option("HOST", _HTTP, API)] = None
    run: Annotated[str | None, option("RUN", _RUN, DATA)] = None
    demonstrations: Annotated[int | None, option("N", _SHOWN, METHOD, minimum=0)] = None
    ask: AskModel = False


@command(VALUES_OF_MODEL)
def serve(*, options: ServeOptions, workers: int = 1) -> None:
    """Serve a model with edits in force: applications change their base URL, nothing else."""
    if workers > 1:
        _serve_together(workers, options)
    from drike.cli.encoding import watched_encoder
    from drike.serving.start import start

    started = start(options, encoder=watched_encoder)
    feed = started.tenants.feeds["default"]
    lines = (
        f"Serving {started.upstream.name}",
        f"  API     {started.url}",
        f"  admin   {started.admin_url}",
        f"  mode    {started.editor.mode}",
        f"  edits   {len(feed.index.edits):,} in force, from {feed.store.name}",
        f"  keys    {'needed' if started.keys else 'none: open to this machine'}",
        *(f"  note    {note}" for note in started.notes),
        "Try it:",
        f"  {_curl(started.url, started.example, key=started.keys is not None)}",
    )
    say("\n".join(lines))
    try:
        started.run()
    except KeyboardInterrupt:  # uvicorn raises a signal again once it has ended
        say("Stopped.")


def _serve_together(workers: int, options: GatewayOptions) -> None:
    """Serve in several processes; exit as one of them that ends before it has served."""
    port, admin_port = options.port, options.admin_port
    if not (port and admin_port) or port in range(admin_port, admin_port + workers):
        raise UsageError("--workers needs a --port, and an --admin-port from which so many are free: give other ports")
    if options.store is None and options.upstream is None:
        raise UsageError("the processes of --workers share a store: give --store")
    from drike.serving import workers as processes

    # The last of an option counts.
    command = [sys.executable, "-P", "-m", "drike", *sys.argv[1:], "--workers", "1", "--reuse-port"]
    raise SystemExit(processes.run([[*command, "--admin-port", str(admin_port + i)] for i in range(workers)], complain))


def _curl(url: str, question: str, *, key: bool) -> str:
    """A command that asks one question."""
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": question}]}, ensure_ascii=False)
    quoted = body.replace("'", "'\\''")
    header = " -H 'Authorization: Bearer KEY'" if key else ""
    return f"curl {url}/chat/completions -H 'Content-Type: application/json'{header} -d '{quoted}'"
