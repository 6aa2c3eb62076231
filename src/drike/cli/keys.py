"""`drike keys`: who may use `drike serve`."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal, get_args

from drike.cli.commands import DATA, METHOD, argument, command, option
from drike.cli.console import say, say_lines
from drike.cli.options import FILE, Store
from drike.gateway.http.keys import KeyRole, Keys, open_keys
from drike.gateway.tenants import make_store

# edit: the former name of approve
_Role = Literal["report", "use", "propose", "approve", "admin", "edit"]
_KeyFile = Annotated[
    Path | None,
    option(
        "--keys", "FILE", DATA, "The file of keys (default: beside the store, or in its database)"
    ),
]


@command()
def add(
    *,
    store: Store = FILE,
    keys: _KeyFile = None,
    role: Annotated[
        _Role,
        option(
            "--role",
            "NAME",
            METHOD,
            "report (wrong answers), use (the model), propose (edits), approve them, or admin "
            "(metrics and the upstream's files, too)",
            choices=get_args(_Role),
        ),
    ] = "use",
    name: Annotated[
        str, option("--name", "NAME", METHOD, "Whose key it is, for the history of edits")
    ] = "",
    tenant: Annotated[
        str,
        option("--tenant", "NAME", METHOD, "Whose edits it sees; every tenant has its own store"),
    ] = "default",
) -> None:
    """Make a key and print it."""
    with _opened(store, keys) as opened:
        make_store(store, tenant, opened)
        say(opened.add(tenant, KeyRole(role), name))
    with _opened(store, keys):  # so that the store remembers that there are keys
        pass


@command()
def list_(*, store: Store = FILE, keys: _KeyFile = None) -> None:
    """List the keys."""
    with _opened(store, keys) as opened:
        say_lines(
            f"{key.id} {key.role} {key.tenant} {key.created_at} {key.name}".rstrip()
            for key in opened.keys
        )


@command()
def revoke(
    ids: Annotated[list[str], argument("ID...", "As drike keys list shows it")],
    *,
    store: Store = FILE,
    keys: _KeyFile = None,
) -> None:
    """Revoke keys."""
    with _opened(store, keys) as opened:
        for key_id in ids:
            key = opened.revoke(key_id)
            say(f"Revoked {key.id} ({key.role}, {key.tenant})")


def _opened(store: str, keys: Path | None) -> closing[Keys]:
    opened = open_keys(store, keys, create=True)
    assert opened is not None  # noqa: S101 - as it is made
    return closing(opened)
