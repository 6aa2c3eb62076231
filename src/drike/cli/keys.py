"""`drike keys`: who may use a gateway."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from drike.cli.console import say
from drike.cli.options import DATA, METHOD, command, option
from drike.serving.keys import KeyRole, Keys, open_keys

_FILE = "The file of keys (default: beside the store, or in its database)"
_Role = Literal["report", "use", "propose", "approve", "admin", "edit"]  # edit: the former name of approve
StoreFile = Annotated[str, option("STORE", "The store whose gateways take the keys (default: edits.db)", DATA)]
KeysFile = Annotated[Path | None, option("FILE", _FILE, DATA)]


def _open(store: str, keys: Path | None) -> closing[Keys]:
    opened = open_keys(store, keys, create=True)
    assert opened is not None  # noqa: S101 - as it is made
    return closing(opened)


@command()
def add(
    *,
    role: Annotated[_Role, option("NAME", "report (wrong answers), use (the model), propose (edits), approve "
                                  "them, or admin (metrics and the upstream's files, too)", METHOD)] = "use",
    name: Annotated[str, option("NAME", "Whose key it is, for the history of edits", METHOD)] = "",
    tenant: Annotated[str, option("NAME", "Whose edits it sees; every tenant has its own store", METHOD)] = "default",
    store: StoreFile = "edits.db", keys: KeysFile = None,
) -> None:  # fmt: skip
    """Make a key and print it; only its SHA-256 is kept."""
    with _open(store, keys) as opened:
        say(opened.add(tenant, KeyRole(role), name))
    with _open(store, keys):  # so that the store remembers that there are keys
        pass


@command()
def list_(*, store: StoreFile = "edits.db", keys: KeysFile = None) -> None:
    """List the keys."""
    with _open(store, keys) as opened:
        for key in opened.keys:
            say(f"{key.id} {key.role} {key.tenant} {key.created_at} {key.name}".rstrip())


@command()
def revoke(
    ids: Annotated[list[str], typer.Argument(help="As drike keys list shows it", metavar="ID...", hidden=True)], *,
    store: StoreFile = "edits.db", keys: KeysFile = None,
) -> None:  # fmt: skip
    """Revoke keys; a running gateway refuses them at once."""
    with _open(store, keys) as opened:
        for id in ids:
            key = opened.revoke(id)
            say(f"Revoked {key.id} ({key.role}, {key.tenant})")
