"""Edits from files, and to files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import AMBIGUOUS, FILE, Retired, Store, Supersede, author, quoted
from drike.cli.options import as_flags, command
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores.opening import open_store
from drike.stores.records import Status, StoreError, to_json
from drike.support.files import write_text
from drike.support.table import counted


@command()
def import_(
    source: Annotated[Path, typer.Argument(help="CSV, JSON lines or a data set", metavar="FILE", hidden=True)], *,
    supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Add the edits of FILE: CSV or JSON with subject, query and target_new, or a published data set."""
    from drike.gates.naming import ambiguous_names
    from drike.stores.importing import Imported, import_edits, read_edits

    rows = read_edits(source)
    if all(isinstance(row, str) for row in rows):  # no reason to make the store's file
        imported = Imported((), 0, tuple(map(str, rows)))
    else:
        with closing(open_store(store)) as opened:
            imported = import_edits(opened, rows, supersede=supersede, author=author())
    for problem in imported.refused:
        say(f"Refused: {as_flags(str(problem))}")
    counts = f"{len(imported.added):,} added, {imported.repeated:,} in force already, {len(imported.refused):,} refused"
    say(f"{source}: {counts}")
    if ambiguous := ambiguous_names(imported.added):
        names = f"{counted(len(ambiguous), 'name')} may mean something else, such as {quoted(ambiguous[:3])}"
        note(f"{names}: {AMBIGUOUS}")
    if imported.refused:
        raise StoreError(f"{source} has refused rows (listed above): correct them, and import the file again")


@command()
def export(
    out: Annotated[Path, typer.Argument(help="A file of JSON lines", metavar="FILE", hidden=True)], *,
    retired: Retired = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Write the edits to FILE.jsonl, which drike edits import reads."""
    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} is no name for JSON lines: let it end in .jsonl")
    with closing(open_store(store, create=False)) as opened:
        edits = stores.snapshot(opened).edits.values()
        chosen = [edit.record for edit in edits if retired or edit.record.status is not Status.RETIRED]
        lines = list(map(to_json, chosen))
    write_text(out, "".join(f"{line}\n" for line in lines))
    say(f"{out}: {len(lines):,} exported")
