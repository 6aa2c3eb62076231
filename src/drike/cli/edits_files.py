"""Edits from files, and to files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import AMBIGUOUS, FILE, Retired, Store, Supersede, author, listed, quoted
from drike.cli.options import DATA, METHOD, OUTPUT, as_flags, command, flag, option
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores.opening import open_store
from drike.stores.records import MissingStoreError, StoreError, to_json
from drike.support.files import write_text
from drike.support.table import counted

if TYPE_CHECKING:  # they take long to import
    from drike.stores.importing import Imported, ReadRow


class _GivenUpError(Exception):
    """The changes of a dry run are not kept."""


@command()
def import_(
    source: Annotated[Path, typer.Argument(help="CSV, JSON lines or a data set", metavar="FILE", hidden=True)], *,
    columns: Annotated[str | None, option("A=B,...", "What columns are called here, as question=query,"
                                          "answer=target_new", DATA)] = None,
    refused: Annotated[Path | None, option("FILE", "Write refused rows to it, with the reason (default: "
                                           "FILE.refused.csv)", OUTPUT)] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be added; change nothing", METHOD)] = False,
    supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Add the edits of FILE: CSV or JSON with subject, query and target_new, or a published data set."""
    from drike.gates.naming import ambiguous_names
    from drike.stores.importing import Imported, edits_of, import_edits, scan, write_refused

    read, encoding = scan(source)
    if encoding != "utf-8":
        note(f"{source} is read as {encoding}")
    rows = edits_of(read, _columns(columns))
    if all(isinstance(row, str) for row in rows):  # no reason to make the store's file
        imported = Imported((), 0, tuple(map(str, rows)), tuple(range(len(rows))))
    elif dry_run:
        imported = _tried(rows, store, supersede)
    else:
        with closing(open_store(store)) as opened:
            imported = import_edits(opened, rows, supersede=supersede, author=author())
    for problem in imported.refused:
        say(f"Refused: {as_flags(str(problem))}")
    counts = f"{len(imported.added):,} added, {imported.repeated:,} in force already, {len(imported.refused):,} refused"
    say(f"{source}: {counts}" + (" (nothing was changed)" if dry_run else ""))
    if ambiguous := ambiguous_names(imported.added):
        names = f"{counted(len(ambiguous), 'name')} may mean something else, such as {quoted(ambiguous[:3])}"
        note(f"{names}: {AMBIGUOUS}")
    if imported.refused:
        out = refused or source.with_name(f"{source.name}.refused.csv")
        if not dry_run:
            write_refused(out, read, imported)
        where = "listed above" if dry_run else f"listed above, and in {out}"
        raise StoreError(f"{source} has refused rows ({where}): correct them, and import them again")


def _columns(text: str | None) -> dict[str, str]:
    """What columns are called, by their names in a file. Raises UsageError."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    if not all(name.strip() and meant.strip() for name, _, meant in pairs):
        raise UsageError(f"{text!r} names no columns: write --columns question=query,answer=target_new")
    return {name.strip(): meant.strip() for name, _, meant in pairs}


def _tried(rows: Sequence[ReadRow], store: str, supersede: bool) -> Imported:
    """What an import would do to a store; it is given up."""
    from drike.stores.importing import import_edits

    with TemporaryDirectory() as folder:
        try:
            opened = open_store(store, create=False)
        except MissingStoreError:
            opened = open_store(Path(folder) / "edits.db")
        with closing(opened), suppress(_GivenUpError), opened.transaction():
            imported = import_edits(opened, rows, supersede=supersede, author=author())
            raise _GivenUpError
    return imported


@command()
def export(
    out: Annotated[Path, typer.Argument(help="A file of JSON lines", metavar="FILE", hidden=True)], *,
    retired: Retired = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Write the edits to FILE.jsonl, which drike edits import reads."""
    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} is no name for JSON lines: let it end in .jsonl")
    with closing(open_store(store, create=False)) as opened:
        lines = [to_json(version.record) for version in listed(stores.snapshot(opened), retired)]
    write_text(out, "".join(f"{line}\n" for line in lines))
    say(f"{out}: {len(lines):,} exported")
