"""`drike serve`: an OpenAI-compatible endpoint with edits in force."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from drike.cli.commands import API, DATA, METHOD, MODEL, command, flag, option
from drike.cli.console import complain, say
from drike.cli.options import (
    VALUES_OF_MODEL,
    Device,
    Gate,
    GateThreshold,
    Relations,
    Upstream,
)
from drike.errors import UsageError
from drike.gateway.options import GatewayOptions

if TYPE_CHECKING:  # it takes long to import, and help does not need it
    from drike.gateway.start import Started

_OnOrOff = Literal["on", "off"]
_Mode = Literal["shadow", "on", "off"]


@dataclass(frozen=True, repr=False)
class GatewayFlags(GatewayOptions):
    """`GatewayOptions`, with its defaults, as options of the command in the order of its help."""

    run: Annotated[
        str | None,
        option(
            "--run",
            "RUN",
            DATA,
            "Take demonstrations as this training run does (default: from tinyfacts)",
        ),
    ]
    store: Annotated[
        str | None,
        option(
            "--store",
            "STORE",
            DATA,
            "File, or postgresql://USER@HOST/DATABASE (default: edits.db)",
        ),
    ]
    keys: Annotated[
        str | None,
        option(
            "--keys",
            "FILE",
            DATA,
            "The file of keys (default: beside the store, or in its database)",
        ),
    ]
    create: Annotated[
        bool,
        flag("--create", DATA, "Make the store if there is none, and those of tenants with keys"),
    ]
    upstream: Upstream
    model: Annotated[
        str | None,
        option(
            "--model",
            "MODEL",
            MODEL,
            "Or a model to run here (default: smollm2 if installed, else embedded)",
        ),
    ]
    device: Device
    gate: Gate
    gate_threshold: GateThreshold
    relations: Relations
    demonstrations: Annotated[
        int | None,
        option(
            "--demonstrations",
            "N",
            METHOD,
            "Most demonstrations of an edit (default: 0 for a model that chats, else 16)",
            min=0,
        ),
    ]
    tool_results: Annotated[
        _OnOrOff,
        option(
            "--tool-results",
            "on|off",
            METHOD,
            "State facts behind tool results and documents that they concern",
            choices=get_args(_OnOrOff),
        ),
    ]
    contrast: Annotated[
        float,
        option(
            "--contrast",
            "ALPHA",
            METHOD,
            "Push answers away from those without the facts, .25 to 1 (model run here; default: 0)",
        ),
    ]
    retry_slips: Annotated[
        bool,
        flag(
            "--retry-slips",
            METHOD,
            "Ask again where an answer (no stream) states the old object",
        ),
    ]
    keep_samples: Annotated[
        int,
        option(
            "--keep-samples",
            "N",
            METHOD,
            "Keep so many answers with their texts, of each edit and outcome",
            min=0,
            max=100,
        ),
    ]
    redact: Annotated[
        bool,
        flag(
            "--redact/--no-redact",
            METHOD,
            "Hide addresses, keys and long numbers in samples and traces (default)",
        ),
    ]
    mode: Annotated[
        str | None,
        option(
            "--mode",
            "NAME",
            METHOD,
            "shadow: decide and count only (default with --upstream); on; off",
            choices=get_args(_Mode),
        ),
    ]
    deadline_ms: Annotated[
        float | None,
        option(
            "--deadline-ms",
            "MS",
            METHOD,
            "Time limit for deciding (default: 50; 250 with an encoder; 5000 for a model here)",
            min=1.0,
            max=60000.0,
        ),
    ]
    notify: Annotated[
        str | None,
        option(
            "--notify",
            "URL",
            API,
            "Send signed webhooks about edits: proposed, approved, slipping, due for review",
        ),
    ]
    traces: Annotated[
        str | None,
        option(
            "--traces",
            "URL",
            API,
            "Send OpenTelemetry traces of requests to this collector (OTLP over HTTP)",
        ),
    ]
    trace_texts: Annotated[
        bool,
        flag("--trace-texts", API, "With the texts of requests and answers in them"),
    ]
    host: Annotated[
        str,
        option("--host", "HOST", API, "Where to listen; beyond this machine only with keys"),
    ]
    port: Annotated[int, option("--port", "N", API, "The port of the API", min=0, max=65535)]
    admin_host: Annotated[str, option("--admin-host", "HOST", API, "Where the admin port listens")]
    admin_port: Annotated[
        int,
        option("--admin-port", "N", API, "The port for admin requests", min=0, max=65535),
    ]
    timeout: Annotated[
        float,
        option(
            "--timeout",
            "SEC",
            API,
            "Longest silence of the upstream within an answer",
            min=0.1,
            max=86400.0,
        ),
    ]
    require_keys: Annotated[bool, flag("--require-keys", API, "Do not start without keys")]
    reuse_port: Annotated[
        bool, flag("--reuse-port", API, "Let other gateways listen on the same ports")
    ]
    workers: Annotated[
        int,
        option(
            "--workers",
            "N",
            API,
            "Processes on the port of the API, with an admin port each",
            min=1,
            max=64,
        ),
    ] = 1
    allow_http: Annotated[
        str | None,
        option(
            "--allow-http",
            "HOST",
            API,
            "Send requests to this host of your network unencrypted",
        ),
    ]


@command(VALUES_OF_MODEL)
def serve(*, options: GatewayFlags) -> None:
    """Serve a model with edits in force."""
    if options.workers > 1:
        _serve_together(options)
    from drike.cli.gateway_parts import gateway_parts
    from drike.gateway.start import start

    started = start(options, gateway_parts())
    say("\n".join(_introduction(started)))
    try:
        started.run()
    except KeyboardInterrupt:  # uvicorn raises a signal again once it has ended
        say("Stopped.")


def _introduction(started: "Started") -> Iterator[str]:
    """Where the gateway serves what, and a request to try."""
    feed = started.tenants.feeds["default"]
    yield f"Serving {started.upstream.name}"
    yield f"  API     {started.url}"
    yield f"  admin   {started.admin_url}"
    yield f"  mode    {started.editor.mode_for(feed)}"
    yield f"  edits   {len(feed.index.edits):,} in force, from {feed.store.name}"
    yield f"  keys    {'needed' if started.keys else 'none: open to this machine'}"
    for note in started.notes:
        yield f"  note    {note}"
    yield "Try it:"
    key = " -H 'Authorization: Bearer KEY'" if started.keys is not None else ""
    chat = {"model": "any", "messages": [{"role": "user", "content": started.example}]}
    body = json.dumps(chat, ensure_ascii=False).replace("'", "'\\''")
    headers = f"-H 'Content-Type: application/json'{key}"
    yield f"  curl {started.url}/chat/completions {headers} -d '{body}'"


def _serve_together(options: GatewayFlags) -> None:
    """Serve in several processes, until one ends that has never served: exit with its code."""
    workers = options.workers
    admin_ports = range(options.admin_port, options.admin_port + workers)
    if not (options.port and options.admin_port) or options.port in admin_ports:
        raise UsageError(
            "--workers needs a --port, and an --admin-port from which so many are free: "
            "give other ports"
        )
    if options.store is None and options.upstream is None:
        raise UsageError("the processes of --workers share a store: give --store")
    from drike.gateway.http.server import run_workers

    # Of an option that is given twice, the last counts.
    common = [sys.executable, "-P", "-m", "drike", *sys.argv[1:], "--workers", "1", "--reuse-port"]
    commands = [[*common, "--admin-port", str(port)] for port in admin_ports]
    raise SystemExit(run_workers(commands, complain))
