"""`drike serve`: an OpenAI-compatible endpoint with edits in force; and `drike keys`: who may use it."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal

from drike.cli.console import complain, say, say_lines
from drike.cli.options import FILE, VALUES_OF_MODEL, command
from drike.errors import UsageError
from drike.gateway.http.keys import KeyRole, Keys, open_keys
from drike.gateway.options import GatewayOptions


@command(VALUES_OF_MODEL)
def serve(*, options: GatewayOptions, workers: int = 1) -> None:
    """Serve a model with edits in force: applications change their base URL, nothing else."""
    if workers > 1:
        _serve_together(workers, options)
    from drike.cli.gateway_parts import gateway_parts
    from drike.gateway.start import start

    started = start(options, gateway_parts())
    feed = started.tenants.feeds["default"]
    body = json.dumps(
        {"model": "any", "messages": [{"role": "user", "content": started.example}]},
        ensure_ascii=False,
    )
    quoted = body.replace("'", "'\\''")
    header = " -H 'Authorization: Bearer KEY'" if started.keys is not None else ""
    lines = (
        f"Serving {started.upstream.name}",
        f"  API     {started.url}", f"  admin   {started.admin_url}", f"  mode    {started.editor.mode_for(feed)}",
        f"  edits   {len(feed.index.edits):,} in force, from {feed.store.name}",
        f"  keys    {'needed' if started.keys else 'none: open to this machine'}",
        *(f"  note    {note}" for note in started.notes),
        "Try it:",
        f"  curl {started.url}/chat/completions -H 'Content-Type: application/json'{header} -d '{quoted}'",
    )  # fmt: skip
    say("\n".join(lines))
    try:
        started.run()
    except KeyboardInterrupt:  # uvicorn raises a signal again once it has ended
        say("Stopped.")


def _serve_together(workers: int, options: GatewayOptions) -> None:
    """Serve in several processes; exit as one of them that ends before it has served."""
    port, admin_port = options.port, options.admin_port
    if not (port and admin_port) or port in range(admin_port, admin_port + workers):
        raise UsageError(
            "--workers needs a --port, and an --admin-port from which so many are free: give other ports"
        )
    if options.store is None and options.upstream is None:
        raise UsageError("the processes of --workers share a store: give --store")
    from drike.gateway.http.server import run_workers

    # The last of an option counts.
    command = [sys.executable, "-P", "-m", "drike", *sys.argv[1:], "--workers", "1", "--reuse-port"]
    raise SystemExit(
        run_workers(
            [[*command, "--admin-port", str(admin_port + i)] for i in range(workers)], complain
        )
    )


_Role = Literal[
    "report", "use", "propose", "approve", "admin", "edit"
]  # edit: the former name of approve


def _open(store: str, keys: Path | None) -> closing[Keys]:
    opened = open_keys(store, keys, create=True)
    assert opened is not None  # noqa: S101 - as it is made
    return closing(opened)


@command()
def add(
    *,
    role: _Role = "use",
    name: str = "",
    tenant: str = "default",
    store: str = FILE,
    keys: Path | None = None,
) -> None:
    """Make a key and print it; only its SHA-256 is kept."""
    with _open(store, keys) as opened:
        say(opened.add(tenant, KeyRole(role), name))
    with _open(store, keys):  # so that the store remembers that there are keys
        pass


@command()
def list_(*, store: str = FILE, keys: Path | None = None) -> None:
    """List the keys."""
    with _open(store, keys) as opened:
        say_lines(
            f"{key.id} {key.role} {key.tenant} {key.created_at} {key.name}".rstrip()
            for key in opened.keys
        )


@command()
def revoke(ids: list[str], *, store: str = FILE, keys: Path | None = None) -> None:
    """Revoke keys; a running gateway refuses them at once."""
    with _open(store, keys) as opened:
        for id in ids:
            key = opened.revoke(id)
            say(f"Revoked {key.id} ({key.role}, {key.tenant})")
