"""`drike edits list`, `show` and `diff`: which edits there are, and were."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from drike.cli.console import say, say_lines
from drike.cli.edits import FILE, Retired, Store, edit_id, print_changes
from drike.cli.options import DATA, OUTPUT, command, flag, option
from drike.stores import log as stores
from drike.stores.finding import ALL, Search, difference, find, moment, state_at
from drike.stores.opening import open_store
from drike.stores.records import EditVersion, Status, StoreError, to_values
from drike.support.table import counted

At = Annotated[str | None, option("TIME", "As it was then, such as 2026-12-31", DATA)]


@command()
def list_(
    *,
    search: Annotated[str | None, option("WORDS", "Only edits that have all of these words", DATA)] = None,
    status: Annotated[str | None, option("NAME", "Only with this status; proposed: changes that wait", DATA)] = None,
    owner: Annotated[str | None, option("NAME", "Only those of an owner", DATA)] = None,
    subject: Annotated[str | None, option("NAME", "Only those of a subject or alias", DATA)] = None,
    limit: Annotated[int | None, option("N", "Only the N latest", OUTPUT, minimum=1)] = None,
    as_json: Annotated[bool, flag("--json", "Each edit as JSON on a line", OUTPUT)] = False,
    retired: Retired = False, store: Store = FILE,
) -> None:  # fmt: skip
    """List the edits."""
    wanted = Search(search or "", status or (ALL if retired else None), owner, subject)
    with closing(open_store(store, create=False)) as opened:
        snapshot, name = stores.snapshot(opened), opened.name
    found = find(snapshot, wanted)
    edits = sorted(found[:limit], key=lambda edit: edit.id)
    if as_json:
        return say_lines(map(_json, edits))
    print_changes(edits)
    more = f" of {len(found):,}" if len(edits) < len(found) else ""
    say(f"{name}: {counted(len(edits), 'edit')}{more}, {counted(snapshot.revision, 'change')}")
    if snapshot.proposals and status is None:
        say(f"{counted(len(snapshot.proposals), 'proposal')} to approve or reject: drike edits list --status proposed")


@command()
def show(edit: Annotated[int | None, edit_id("[ID]")] = None, *, at: At = None, store: Store = FILE) -> None:
    """Show an edit with its versions; without ID, show all changes of the store."""
    time = datetime.now(UTC) if at is None else moment(at)
    with closing(open_store(store, create=False)) as opened:
        if at is not None and edit is None:
            return print_changes(state_at(opened, time).in_force(time))
        versions = opened.changes() if edit is None else stores.versions(opened, edit)
        stored = () if edit is None else state_at(opened, time).in_force(time)
    if at is not None:
        versions = [version for version in versions if moment(version.created_at) <= time]
        if not versions:
            raise StoreError(f"there was no edit {edit} at {at}: give a later time")
    if edit is not None:
        from drike.gates.naming import name_report

        latest = versions[-1] if at is None else stores.decided_version(versions)
        if at is not None:
            held = any(version.id == edit for version in stored)
            say(f"edit {edit} was {'' if held else 'not '}in force at {at}")
        for name, value in to_values(latest.record).items():
            if value and (name != "approved_as" or latest.record.status is Status.PROPOSED):
                say(f"{name}: {' | '.join(value) if isinstance(value, tuple) else value}")
        report = name_report(latest, stored)
        for name, forms in (("short forms", report.short), ("ambiguous", report.ambiguous)):
            if forms:
                say(f"{name}: {' | '.join(forms)}")
    print_changes(versions)


@command()
def diff(
    begin: Annotated[str, typer.Argument(help="A time, such as 2026-11-22", metavar="A", hidden=True)],
    end: Annotated[str, typer.Argument(help="A later time, or now", metavar="B", hidden=True)], *, store: Store = FILE,
) -> None:  # fmt: skip
    """Show what changed between two times: edits added, changed and retired."""
    first, last = (datetime.now(UTC) if time == "now" else moment(time) for time in (begin, end))
    with closing(open_store(store, create=False)) as opened:
        differences = difference(state_at(opened, first), state_at(opened, last))
    for one in differences:
        gone = one.after.record.status is Status.RETIRED
        kind = "added" if one.before is None else "retired" if gone and "status" in one.fields else "changed"
        say(f"{kind} {one.after.id}@{one.after.version}: {one.after.record.fact}")
        for name, (old, new) in one.fields.items():
            if kind == "changed":
                say(f"  {name}: {_plain(old)} -> {_plain(new)}")
    say(f"{counted(len(differences), 'edit')} differ")


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(edit: EditVersion) -> str:
    version = {"id": edit.id, "version": edit.version, "created_at": edit.created_at}
    return json.dumps({**version, **to_values(edit.record)}, ensure_ascii=False)
