"""Edits from files, and to files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from drike.cli.console import note, say
from drike.cli.edits import AMBIGUOUS, FILE, Store, Supersede, author, print_changes, store_at
from drike.cli.options import DATA, METHOD, OUTPUT, as_flags, command, flag, option
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores.finding import Search, find
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
    from drike.stores import portable
    from drike.stores.importing import Imported, edits_of, import_edits, scan, write_refused

    whole = portable.whole_store(source)
    if whole and not dry_run:
        with store_at(store, create=True) as opened:
            if stores.snapshot(opened).revision == 0:
                portable.restore(opened, whole)
                return say(f"{opened.name} is now what the store in {source} was: {counted(whole.changes, 'change')}")
    read, encoding = scan(source) if whole is None else ([], "utf-8")
    if encoding != "utf-8":
        note(f"{source} is read as {encoding}")
    rows = edits_of(read, _columns(columns)) if whole is None else portable.edits_of(whole, str(source))
    if all(isinstance(row, str) for row in rows):  # no reason to make the store's file
        imported = Imported((), 0, tuple(map(str, rows)), tuple(range(len(rows))))
    elif dry_run:
        imported = _tried(rows, store, supersede)
    else:
        with store_at(store, create=True, watched=True) as opened:
            imported = import_edits(opened, rows, supersede=supersede, author=author())
    for problem in imported.refused:
        say(f"Refused: {as_flags(str(problem))}")
    counts = f"{len(imported.added):,} added, {imported.repeated:,} in force already, {len(imported.refused):,} refused"
    say(f"{source}: {counts}" + (" (nothing was changed)" if dry_run else ""))
    if ambiguous := ambiguous_names(imported.added):
        names = ", ".join(f'"{name}"' for name in ambiguous[:3])
        note(f"{counted(len(ambiguous), 'name')} may mean something else, such as {names}: {AMBIGUOUS}")
    if imported.refused:
        out = refused or source.with_name(f"{source.name}.refused.csv")
        if written := not dry_run and whole is None:
            write_refused(out, read, imported)
        where = f"listed above, and in {out}" if written else "listed above"
        raise StoreError(f"{source} has refused rows ({where}): correct them, and import them again")


def _columns(text: str | None) -> dict[str, str]:
    """What columns are called, by their names in a file. Raises UsageError."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    if not all(name.strip() and meant.strip() for name, _, meant in pairs):
        raise UsageError(f"{text!r} names no columns: write --columns question=query,answer=target_new")
    return {name.strip(): meant.strip() for name, _, meant in pairs}


def _tried(rows: Sequence[ReadRow], store: str, supersede: bool) -> Imported:
    """What an import would do to a store; it is given up."""
    from drike.gates.alike import watch_meaning
    from drike.stores.importing import import_edits

    with TemporaryDirectory() as folder:
        try:
            opened = open_store(store, create=False)
        except MissingStoreError:
            opened = open_store(Path(folder) / "edits.db")
        with closing(watch_meaning(opened)), suppress(_GivenUpError), opened.transaction():
            imported = import_edits(opened, rows, supersede=supersede, author=author())
            raise _GivenUpError
    return imported


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
    with store_at(store) as opened:
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
    from drike.stores import portable

    with store_at(store, create=True, watched=True) as opened:
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
