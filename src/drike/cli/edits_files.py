"""Edits from files, and to files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import AMBIGUOUS, FILE, Store, Supersede, author, print_changes, quoted
from drike.cli.options import METHOD, OUTPUT, as_flags, command, flag
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores.finding import Search, find
from drike.stores.opening import open_store
from drike.stores.records import StoreError, to_json
from drike.support.files import write_text
from drike.support.table import counted


@command()
def import_(
    source: Annotated[Path, typer.Argument(help="CSV, JSON lines or a data set", metavar="FILE", hidden=True)], *,
    supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Add the edits of FILE: CSV or JSON with subject, query and target_new, or a published data set."""
    from drike.gates.conflicts import watch_meaning
    from drike.gates.naming import ambiguous_names
    from drike.stores.importing import Imported, import_edits, read_edits
    from drike.stores.portable import edits_of, restore, whole_store

    whole = whole_store(source)
    if whole:
        with closing(open_store(store)) as opened:
            if stores.snapshot(opened).revision == 0:
                restore(opened, whole)
                return say(f"{opened.name} is now what the store in {source} was: {counted(whole.changes, 'change')}")
    rows = read_edits(source) if whole is None else edits_of(whole, str(source))
    if all(isinstance(row, str) for row in rows):  # no reason to make the store's file
        imported = Imported((), 0, tuple(map(str, rows)))
    else:
        with closing(watch_meaning(open_store(store))) as opened:
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
    everything: Annotated[bool, flag("--all", "Everything: history, retired edits, gate and settings", OUTPUT)] = False,
    store: Store = FILE,
) -> None:  # fmt: skip
    """Write the edits to FILE.jsonl, which drike edits import reads."""
    from drike.stores.portable import lines_of

    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} is no name for JSON lines: let it end in .jsonl")
    with closing(open_store(store, create=False)) as opened:
        snapshot = stores.snapshot(opened)
        records = [to_json(version.record) for version in reversed(find(snapshot, Search()))]
        lines = [*lines_of(opened)] if everything else records
    write_text(out, "".join(f"{line}\n" for line in lines))
    if everything:
        return say(f"{out}: {counted(len(snapshot.edits), 'edit')} and {counted(snapshot.revision, 'change')} exported")
    say(f"{out}: {len(lines):,} exported")


@command()
def sync(
    folder: Annotated[Path, typer.Argument(help="A folder of JSON files", metavar="FOLDER", hidden=True)], *,
    retire_missing: Annotated[bool, flag("--retire-missing", "Retire edits whose files were removed", METHOD)] = False,
    store: Store = FILE,
) -> None:  # fmt: skip
    """Keep one JSON file for each edit in FOLDER, and take over what changed there; fails if both sides changed."""
    from drike.gates.conflicts import watch_meaning
    from drike.stores import portable

    with closing(watch_meaning(open_store(store))) as opened:
        synced = portable.sync(opened, folder, author=author(), retire_missing=retire_missing)
    print_changes(synced.changes)
    for name in synced.left:
        say(f"Left alone: {as_flags(name)}")
    say(
        f"{folder}: {counted(len(synced.written), 'file')} written, {counted(len(synced.changes), 'change')} taken over"
    )
    if synced.left:
        raise StoreError(
            f"{counted(len(synced.left), 'edit')} left alone (listed above): correct the files, sync again"
        )
