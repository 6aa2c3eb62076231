"""`drike edits import`, `export` and `sync`: edits in files."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from drike.cli.commands import DATA, METHOD, OUTPUT, argument, as_flags, command, flag, option
from drike.cli.console import note, say, say_lines
from drike.cli.options import FILE, Store, Supersede
from drike.cli.stored_edits import AMBIGUOUS, author, print_changes, store_at
from drike.edits.record import MissingStoreError, Status, StoreError
from drike.edits.record_json import to_json
from drike.errors import UsageError
from drike.stores.authorship import with_writers
from drike.stores.edit_store import required_approvals
from drike.stores.export import WholeStore, lines_of, restore, whole_store
from drike.stores.finding import Search, find
from drike.stores.folder import sync_folder
from drike.stores.imports import Imported, ReadRow, import_edits
from drike.stores.snapshots import snapshot
from drike.stores.tables import edits_of, scan, write_refused
from drike.support.files import write_text
from drike.support.table import counted


@command()
def import_(
    source: Annotated[Path, argument("FILE", "CSV, JSON lines or a data set")],
    *,
    store: Store = FILE,
    columns: Annotated[
        str | None,
        option(
            "--columns",
            "A=B,...",
            DATA,
            "What columns are called here, as question=query,answer=target_new",
        ),
    ] = None,
    supersede: Supersede = False,
    propose: Annotated[
        bool,
        flag("--propose", METHOD, "Propose the edits; none takes effect until it is approved"),
    ] = False,
    dry_run: Annotated[
        bool, flag("--dry-run", METHOD, "Say what would be added; change nothing")
    ] = False,
    refused: Annotated[
        Path | None,
        option(
            "--refused",
            "FILE",
            OUTPUT,
            "Write refused rows to it, with the reason (default: FILE.refused.csv)",
        ),
    ] = None,
) -> None:
    """Add the edits of a file."""
    whole = whole_store(source)
    if whole and not (dry_run or propose) and _restored(whole, source, store):
        return
    from drike.research.datasets.published_edits import PublishedForms

    if whole is None:
        read, encoding = scan(source)
        if encoding != "utf-8":
            note(f"{source} is read as {encoding}")
        rows = edits_of(read, _names_by_column(columns), PublishedForms())
    else:
        read = []
        rows = whole.edits(str(source))
    are_all_refused = all(isinstance(row, str) for row in rows)
    imported = _imported(
        rows, store, supersede=supersede, propose=propose, dry_run=dry_run or are_all_refused
    )
    _say_imported(imported, source, dry_run=dry_run)
    if imported.refused:
        place = "listed above"
        if not dry_run and whole is None:
            out = refused or source.with_name(f"{source.name}.refused.csv")
            write_refused(out, read, imported)
            place = f"listed above, and in {out}"
        raise StoreError(
            f"{source} has refused rows ({place}): correct them, and import them again"
        )


def _restored(whole: WholeStore, source: Path, store: str) -> bool:
    """Restore a store that was exported with its history, if this one is empty, and say so."""
    with store_at(store, create=True) as opened:
        if snapshot(opened).revision or required_approvals(opened):
            return False
        restore(opened, whole)
        changes = counted(whole.changes, "change")
        say(f"{opened.name} is now what the store in {source} was: {changes}")
        return True


def _names_by_column(text: str | None) -> dict[str, str]:
    """What columns are called, by their names in a file. Raises UsageError."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    if not all(column.strip() and name.strip() for column, _, name in pairs):
        raise UsageError(
            f"{text!r} names no columns: write --columns question=query,answer=target_new"
        )
    return {column.strip(): name.strip() for column, _, name in pairs}


def _imported(
    rows: Sequence[ReadRow], store: str, *, supersede: bool, propose: bool, dry_run: bool
) -> Imported:
    """Import edits.

    A dry run's are given up, and need no store: none is made where all rows are refused.
    """
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_at(store, create=not dry_run, watched=True))
        except MissingStoreError:
            empty = Path(stack.enter_context(TemporaryDirectory())) / FILE
            opened = stack.enter_context(store_at(str(empty), create=True, watched=True))
        stack.enter_context(suppress(typer.Abort))
        stack.enter_context(opened.transaction())
        imported = import_edits(opened, rows, supersede=supersede, author=author(), propose=propose)
        if dry_run:
            raise typer.Abort  # the transaction, not the command
    return imported


def _say_imported(imported: Imported, source: Path, *, dry_run: bool) -> None:
    say_lines(f"Refused: {as_flags(str(problem))}" for problem in imported.refused)
    proposed = sum(edit.record.status is Status.PROPOSED for edit in imported.added)
    added = f"{len(imported.added):,} added"
    if proposed:
        added += f" ({proposed:,} as proposals, which wait for approval)"
    repeated = f"{imported.repeated:,} stored already"
    refused = f"{len(imported.refused):,} refused"
    unchanged = " (nothing was changed)" if dry_run else ""
    say(f"{source}: {added}, {repeated}, {refused}{unchanged}")

    from drike.gates.edit_names import ambiguous_names

    ambiguous = ambiguous_names(imported.added)
    if ambiguous:
        names = counted(len(ambiguous), "name")
        examples = ", ".join(f'"{name}"' for name in ambiguous[:3])
        note(f"{names} may mean something else, such as {examples}: {AMBIGUOUS}")


@command()
def export(
    out: Annotated[Path, argument("FILE", "A file of JSON lines")],
    *,
    store: Store = FILE,
    everything: Annotated[
        bool,
        flag(
            "--all",
            OUTPUT,
            "The whole store: history, retired edits, gate and settings; not the inbox",
        ),
    ] = False,
) -> None:
    """Write the edits to a file."""
    if out.suffix.casefold() != ".jsonl":
        raise UsageError(f"{out} does not end in .jsonl: give the file of JSON lines such a name")
    with store_at(store) as opened:
        current = snapshot(opened)
        if everything:
            lines = list(lines_of(opened))
        else:
            found = find(current, Search())
            edits = with_writers(reversed(found), opened.changes())
            lines = [to_json(version.record) for version in edits]
    write_text(out, "".join(f"{line}\n" for line in lines))
    if everything:
        edits_there = counted(len(current.edits), "edit")
        changes = counted(current.revision, "change")
        say(f"{out}: {edits_there} and {changes} exported, without the inbox")
    else:
        say(f"{out}: {len(lines):,} exported")


@command()
def sync(
    folder: Annotated[Path, argument("FOLDER", "A folder of JSON files")],
    *,
    store: Store = FILE,
    retire_missing: Annotated[
        bool, flag("--retire-missing", METHOD, "Retire edits whose files were removed")
    ] = False,
) -> None:
    """Keep one JSON file for each edit in a folder."""
    with store_at(store, create=True, watched=True) as opened:
        synced = sync_folder(opened, folder, author=author(), retire_missing=retire_missing)
    print_changes(synced.changes)
    say_lines(f"Left alone: {as_flags(name)}" for name in synced.left)
    written = counted(len(synced.written), "file")
    taken_over = counted(len(synced.changes), "change")
    say(f"{folder}: {written} written, {taken_over} taken over")
    if synced.left:
        left_alone = counted(len(synced.left), "edit")
        raise StoreError(f"{left_alone} left alone (listed above): correct the files, sync again")
