"""The life of edits on the command line: which there are, and were; proposals, approvals, changes, reviews, the end."""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from drike.cli.console import say, say_lines
from drike.cli.edits import EditFields, author, parse_fact, print_changes, store_at
from drike.cli.options import FILE, command
from drike.edits.record import LISTS, Status, StoreError
from drike.edits.record_json import to_values
from drike.edits.times import moment
from drike.errors import UsageError
from drike.stores import moves
from drike.stores.edit_store import (
    APPROVALS_SET,
    require_approvals,
    required_approvals,
    versions_of,
)
from drike.stores.finding import ALL, Search, difference, find
from drike.stores.snapshots import decided_version, snapshot, snapshot_at
from drike.support.table import counted

_json = partial(json.dumps, ensure_ascii=False)


@command()
def list_(
    *, search: str | None = None, status: str | None = None, owner: str | None = None, subject: str | None = None,
    limit: int | None = None, as_json: bool = False, retired: bool = False, store: str = FILE,
) -> None:  # fmt: skip
    """List the edits."""
    with store_at(store) as opened:
        current, name = snapshot(opened), opened.name
    found = find(
        current, Search(search or "", status or (ALL if retired else None), owner, subject)
    )
    edits = sorted(found[:limit], key=lambda edit: edit.id)
    if as_json:
        values = (
            {"id": e.id, "version": e.version, "created_at": e.created_at} | to_values(e.record)
            for e in edits
        )
        return say_lines(
            json.dumps(value).replace("\x7f", r"\u007f") for value in values
        )  # any terminal shows these
    print_changes(edits)
    more = f" of {len(found):,}" if len(edits) < len(found) else ""
    say(f"{name}: {counted(len(edits), 'edit')}{more}, {counted(current.revision, 'change')}")
    if current.proposals and status is None:
        say(
            f"{counted(len(current.proposals), 'proposal')} to approve or reject: drike edits list --status proposed"
        )


@command()
def show(edit: int | None = None, *, at: str | None = None, store: str = FILE) -> None:
    """Show an edit with its versions; without ID, show all changes of the store."""
    time = datetime.now(UTC) if at is None else moment(at)
    with store_at(store) as opened:
        if edit is None:
            return print_changes(
                opened.changes() if at is None else snapshot_at(opened, time).in_force(time)
            )
        versions, stored = (
            versions_of(opened, edit),
            snapshot_at(opened, time).in_force(time),
        )
    from drike.gates.edit_names import name_report

    if at is not None:
        if not (
            versions := [version for version in versions if moment(version.created_at) <= time]
        ):
            raise StoreError(f"there was no edit {edit} at {at}: give a later time")
        say(
            f"edit {edit} was {'' if any(version.id == edit for version in stored) else 'not '}in force at {at}"
        )
    latest = versions[-1] if at is None else decided_version(versions)
    for name, value in to_values(latest.record).items():
        if value and (name != "approved_as" or latest.record.status is Status.PROPOSED):
            say(f"{name}: {' | '.join(value) if isinstance(value, tuple) else value}")
    report = name_report(latest, stored)
    names = {"short forms": report.short, "ambiguous": report.ambiguous}
    say_lines(f"{name}: {' | '.join(forms)}" for name, forms in names.items() if forms)
    print_changes(versions)


@command()
def diff(begin: str, end: str, *, store: str = FILE) -> None:
    """Show what changed between two times, whichever comes first: edits added, changed and retired."""
    first, last = sorted(
        datetime.now(UTC) if time == "now" else moment(time) for time in (begin, end)
    )
    with store_at(store) as opened:
        differences = difference(snapshot_at(opened, first), snapshot_at(opened, last))
    for one in differences:
        gone = one.after.record.status is Status.RETIRED and (
            one.before is None or "status" in one.fields
        )
        kind = " and ".join(["added"] * (one.before is None) + ["retired"] * gone) or "changed"
        say(f"{kind} {one.after.id}@{one.after.version}: {one.after.record.fact}")
        if kind == "changed":
            say_lines(
                f"  {name}: {_json(old)} -> {_json(new)}" for name, (old, new) in one.fields.items()
            )
    say(f"{counted(len(differences), 'edit')} differ")


@command()
def propose(
    edit: int,
    *,
    into: Literal["active", "shadow"] | None = None,
    reason: str | None = None,
    store: str = FILE,
) -> None:
    """Propose a draft, what was rejected, or to put an edit into another status."""
    with store_at(store) as opened:
        print_changes(
            moves.propose(
                opened, edit, author=author(), reason=reason, into=Status(into) if into else None
            )
        )


@command()
def approve(
    edit: int,
    *,
    version: int | None = None,
    reason: str | None = None,
    supersede: bool = False,
    store: str = FILE,
) -> None:
    """Approve what is proposed; it is in force once enough people have."""
    with store_at(store, watched=True) as opened:
        changes = moves.approve(
            opened, edit, author=author(), reason=reason, version=version, supersede=supersede
        )
        print_changes(changes)
        if changes[-1].record.status is Status.PROPOSED:
            say(f"It needs {required_approvals(opened)} approvals, and waits for more")


@command()
def reject(edit: int, *, reason: str, version: int | None = None, store: str = FILE) -> None:
    """Reject what is proposed; what was in force before stays."""
    with store_at(store) as opened:
        print_changes(moves.reject(opened, edit, author=author(), reason=reason, version=version))


@command()
def change(
    edit: int, *, fact: str | None = None, subject: str | None = None, more: EditFields, drop: list[str] | None = None,
    propose: bool = False, version: int | None = None, supersede: bool = False, reason: str | None = None,
    store: str = FILE,
) -> None:  # fmt: skip
    """Change an edit, or what is proposed; repeatable options add to what it has."""
    changes = more.values() | ({} if subject is None else {"subject": subject})
    if fact is not None:
        parsed = parse_fact(fact, ())
        changes |= {"query": parsed.query, "target_new": parsed.target_new}
    if not (changes or drop):
        raise UsageError(
            "nothing is to be changed: give a field, such as --fact, --alias or --owner"
        )
    with store_at(store, watched=True) as opened, opened.transaction():
        known = moves.changeable(versions_of(opened, edit))
        unknown = set(drop or ())
        for name in LISTS:
            texts = (*getattr(known, name), *changes.get(name, ()))
            changes[name] = tuple(text for text in texts if text not in (drop or ()))
            unknown -= set(texts)
        if unknown:
            raise StoreError(
                f"edit {edit} has no text {min(unknown)!r}: choose one that drike edits show {edit} lists"
            )
        print_changes(moves.change(
            opened, edit, changes, author=author(), reason=reason, propose=propose, version=version,
            supersede=supersede,
        ))  # fmt: skip


@command()
def review(
    edits: list[int], *, until: str | None = None, reason: str | None = None, store: str = FILE
) -> None:
    """Confirm edits that are in force, all or none, until their next review."""
    with store_at(store) as opened, opened.transaction():
        why = {"author": author(), "reason": reason, "until": until}
        changes = [change for edit in edits for change in moves.review(opened, edit, **why)]
    print_changes(changes)


@command()
def retire(edits: list[int], *, reason: str | None = None, store: str = FILE) -> None:
    """Take edits out of force."""
    with store_at(store) as opened, opened.transaction():
        changes = [
            change
            for edit in edits
            for change in moves.retire(opened, edit, author=author(), reason=reason)
        ]
    print_changes(changes)


@command()
def rollback(
    edit: int,
    *,
    version: int | None = None,
    reason: str | None = None,
    supersede: bool = False,
    store: str = FILE,
) -> None:
    """Go back to an earlier version of an edit; this makes a new version."""
    with store_at(store, watched=True) as opened:
        print_changes(
            moves.rollback(
                opened, edit, version, author=author(), reason=reason, supersede=supersede
            )
        )


@command()
def approvals(number: int | None = None, *, store: str = FILE) -> None:
    """Show how many people other than its author must approve what an edit says; with N, require so many."""
    with store_at(store, create=number is not None) as opened:
        if number is not None:
            require_approvals(opened, number, author())
        needed, made = required_approvals(opened), opened.settings.history(APPROVALS_SET)
    say(f"{counted(needed, 'approval')} needed" if needed else "No approval is needed")
    say_lines(f"  {each['at']} {each['author'] or 'someone'}: {each['needed']}" for each in made)
