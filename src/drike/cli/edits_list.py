"""`drike edits list`, `show` and `diff`: which edits there are, and were."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from drike.cli.commands import DATA, OUTPUT, argument, command, flag, option
from drike.cli.console import say, say_lines
from drike.cli.options import FILE, LARGEST, Store
from drike.cli.stored_edits import print_changes, store_at
from drike.edits.record import EditVersion, Status, StoreError
from drike.edits.record_json import to_values
from drike.edits.times import moment
from drike.stores.edit_store import versions_of
from drike.stores.finding import ALL, EditDifference, Search, difference, find
from drike.stores.snapshots import decided_version, snapshot, snapshot_at
from drike.support.table import counted

_json = partial(json.dumps, ensure_ascii=False)


@command()
def list_(
    *,
    subject: Annotated[
        str | None, option("--subject", "NAME", DATA, "Only those of a subject or alias")
    ] = None,
    store: Store = FILE,
    search: Annotated[
        str | None, option("--search", "WORDS", DATA, "Only edits that have all of these words")
    ] = None,
    status: Annotated[
        str | None,
        option("--status", "NAME", DATA, "Only with this status; proposed: changes that wait"),
    ] = None,
    owner: Annotated[str | None, option("--owner", "NAME", DATA, "Only those of an owner")] = None,
    limit: Annotated[int | None, option("--limit", "N", OUTPUT, "Only the N latest", min=1)] = None,
    as_json: Annotated[bool, flag("--json", OUTPUT, "Each edit as JSON on a line")] = False,
    retired: Annotated[bool, flag("--all", OUTPUT, "Retired edits too")] = False,
) -> None:
    """List the edits."""
    with store_at(store) as opened:
        current = snapshot(opened)
        name = opened.name
    statuses = status or (ALL if retired else None)
    found = find(current, Search(search or "", statuses, owner, subject))
    edits = sorted(found[:limit], key=lambda edit: edit.id)
    if as_json:
        say_lines(map(_as_json, edits))
        return
    print_changes(edits)
    of_all = f" of {len(found):,}" if len(edits) < len(found) else ""
    say(f"{name}: {counted(len(edits), 'edit')}{of_all}, {counted(current.revision, 'change')}")
    if current.proposals and status is None:
        proposals = counted(len(current.proposals), "proposal")
        say(f"{proposals} to approve or reject: drike edits list --status proposed")


def _as_json(edit: EditVersion) -> str:
    """An edit in ASCII, which any terminal shows."""
    about = {"id": edit.id, "version": edit.version, "created_at": edit.created_at}
    return json.dumps(about | to_values(edit.record)).replace("\x7f", r"\u007f")


@command()
def show(
    edit: Annotated[
        int | None, argument("[ID]", "As drike edits list shows it", min=1, max=LARGEST)
    ] = None,
    *,
    store: Store = FILE,
    at: Annotated[
        str | None, option("--at", "TIME", DATA, "As it was then, such as 2026-12-31")
    ] = None,
) -> None:
    """Show an edit with its versions; without ID, all changes."""
    time = datetime.now(UTC) if at is None else moment(at)
    with store_at(store) as opened:
        if edit is None and at is None:
            print_changes(opened.changes())
            return
        if edit is None:
            print_changes(snapshot_at(opened, time).in_force(time))
            return
        versions = versions_of(opened, edit)
        edits_in_force = snapshot_at(opened, time).in_force(time)

    if at is not None:
        versions = [version for version in versions if moment(version.created_at) <= time]
        if not versions:
            raise StoreError(f"there was no edit {edit} at {at}: give a later time")
        was = "was" if any(version.id == edit for version in edits_in_force) else "was not"
        say(f"edit {edit} {was} in force at {at}")
    latest = versions[-1] if at is None else decided_version(versions)
    _show_fields(latest)
    _show_names(latest, edits_in_force)
    print_changes(versions)


def _show_fields(edit: EditVersion) -> None:
    for name, value in to_values(edit.record).items():
        is_decided = name == "approved_as" and edit.record.status is not Status.PROPOSED
        if value and not is_decided:
            say(f"{name}: {' | '.join(value) if isinstance(value, tuple) else value}")


def _show_names(edit: EditVersion, others: Sequence[EditVersion]) -> None:
    from drike.gates.edit_names import name_report

    report = name_report(edit, others)
    names = {"short forms": report.short, "ambiguous": report.ambiguous}
    say_lines(f"{name}: {' | '.join(forms)}" for name, forms in names.items() if forms)


@command()
def diff(
    begin: Annotated[str, argument("A", "A time, such as 2026-11-22")],
    end: Annotated[str, argument("B", "Another time, or now")],
    *,
    store: Store = FILE,
) -> None:
    """Show what changed between two times, whichever comes first."""
    times = [datetime.now(UTC) if time == "now" else moment(time) for time in (begin, end)]
    first, last = sorted(times)
    with store_at(store) as opened:
        before = snapshot_at(opened, first)
        after = snapshot_at(opened, last)
    differences = difference(before, after)
    for changed in differences:
        _show_difference(changed)
    say(f"{counted(len(differences), 'edit')} differ")


def _show_difference(changed: EditDifference) -> None:
    edit = changed.after
    is_new = changed.before is None
    is_retired = edit.record.status is Status.RETIRED and (is_new or "status" in changed.fields)
    kinds = []
    if is_new:
        kinds.append("added")
    if is_retired:
        kinds.append("retired")
    say(f"{' and '.join(kinds) or 'changed'} {edit.id}@{edit.version}: {edit.record.fact}")
    if not kinds:
        say_lines(
            f"  {name}: {_json(old)} -> {_json(new)}" for name, (old, new) in changed.fields.items()
        )
