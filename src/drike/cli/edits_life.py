"""The life of edits on the command line: which there are, and were; proposals, approvals, changes and reviews."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from drike.cli.console import say, say_lines
from drike.cli.edits import (
    FILE,
    EditFields,
    Reason,
    Retired,
    Store,
    Supersede,
    Texts,
    author,
    days,
    edit_id,
    parse_fact,
    print_changes,
    store_at,
)  # fmt: skip
from drike.cli.options import DATA, METHOD, OUTPUT, command, flag, option
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores import moves
from drike.stores.approvals import APPROVALS_SET, require_approvals, required_approvals
from drike.stores.finding import ALL, Search, difference, find, moment
from drike.stores.records import LISTS, Status, StoreError, to_values
from drike.support.table import counted

Version = Annotated[int | None, option("N", "Only if this is still its latest version", METHOD)]
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
    with store_at(store) as opened:
        snapshot, name = stores.snapshot(opened), opened.name
    found = find(snapshot, wanted)
    edits = sorted(found[:limit], key=lambda edit: edit.id)
    if as_json:
        values = ({"id": e.id, "version": e.version, "created_at": e.created_at} | to_values(e.record) for e in edits)
        return say_lines(map(_json, values))
    print_changes(edits)
    more = f" of {len(found):,}" if len(edits) < len(found) else ""
    say(f"{name}: {counted(len(edits), 'edit')}{more}, {counted(snapshot.revision, 'change')}")
    if snapshot.proposals and status is None:
        say(f"{counted(len(snapshot.proposals), 'proposal')} to approve or reject: drike edits list --status proposed")


@command()
def show(edit: Annotated[int | None, edit_id("[ID]")] = None, *, at: At = None, store: Store = FILE) -> None:
    """Show an edit with its versions; without ID, show all changes of the store."""
    time = datetime.now(UTC) if at is None else moment(at)
    with store_at(store) as opened:
        if at is not None and edit is None:
            return print_changes(stores.snapshot_at(opened, time).in_force(time))
        versions = opened.changes() if edit is None else stores.versions(opened, edit)
        stored = () if edit is None else stores.snapshot_at(opened, time).in_force(time)
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
    with store_at(store) as opened:
        differences = difference(stores.snapshot_at(opened, first), stores.snapshot_at(opened, last))
    for one in differences:
        gone = one.after.record.status is Status.RETIRED
        kind = "added" if one.before is None else "retired" if gone and "status" in one.fields else "changed"
        say(f"{kind} {one.after.id}@{one.after.version}: {one.after.record.fact}")
        for name, (old, new) in one.fields.items():
            if kind == "changed":
                say(f"  {name}: {_json(old)} -> {_json(new)}")
    say(f"{counted(len(differences), 'edit')} differ")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@command()
def propose(
    edit: Annotated[int, edit_id("ID")], *,
    into: Annotated[Literal["active", "shadow"] | None, option("NAME", "Its status once it is approved: active or "
                                                               "shadow", METHOD)] = None,
    reason: Reason = None, store: Store = FILE,
) -> None:  # fmt: skip
    """Propose a draft, what was rejected, or to put an edit into another status."""
    status = None if into is None else Status(into)
    with store_at(store) as opened:
        print_changes(moves.propose(opened, edit, author=author(), reason=reason, into=status))


@command()
def approve(
    edit: Annotated[int, edit_id("ID")], *, version: Version = None, reason: Reason = None,
    supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Approve what is proposed; it is in force once enough people have."""
    with store_at(store, watched=True) as opened:
        changes = moves.approve(opened, edit, author=author(), reason=reason, version=version, supersede=supersede)
        print_changes(changes)
        if changes[-1].record.status is Status.PROPOSED:
            say(f"It needs {required_approvals(opened)} approvals, and waits for more")


@command()
def reject(
    edit: Annotated[int, edit_id("ID")], *, reason: Annotated[str, option("TEXT", "Why, for its author", OUTPUT)],
    version: Version = None, store: Store = FILE,
) -> None:  # fmt: skip
    """Reject what is proposed; what was in force before stays."""
    with store_at(store) as opened:
        print_changes(moves.reject(opened, edit, author=author(), reason=reason, version=version))


@command()
def change(
    edit: Annotated[int, edit_id("ID")], *,
    fact: Annotated[str | None, option("FACT", 'The fact as it shall be, as "QUERY -> OBJECT"', DATA)] = None,
    subject: Annotated[str | None, option("NAME", "What the fact is about", DATA)] = None, fields: EditFields,
    drop: Annotated[Texts, option("TEXT", "Leave out this alias, wording or negative; repeatable", DATA)] = None,
    propose: Annotated[bool, flag("--for-approval", "Propose the change; the edit stays until it is approved",
                                  METHOD)] = False,
    version: Version = None, supersede: Supersede = False, reason: Reason = None, store: Store = FILE,
) -> None:  # fmt: skip
    """Change an edit, or what is proposed; repeatable options add to what it has."""
    changes = fields.values() | ({} if subject is None else {"subject": subject})
    if fact is not None:
        parsed = parse_fact(fact, ())
        changes |= {"query": parsed.query, "target_new": parsed.target_new}
    if not (changes or drop):
        raise UsageError("nothing is to be changed: give a field, such as --fact, --alias or --owner")
    with store_at(store, watched=True) as opened, opened.transaction():
        known = moves.changeable(stores.versions(opened, edit))
        unknown = set(drop or ())
        for name in LISTS:
            texts = (*getattr(known, name), *changes.get(name, ()))
            changes[name] = tuple(text for text in texts if text not in (drop or ()))
            unknown -= set(texts)
        if unknown:
            raise StoreError(f"edit {edit} has no text {min(unknown)!r}: choose one that drike edits show {edit} lists")
        print_changes(moves.change(
            opened, edit, changes, author=author(), reason=reason, propose=propose, version=version,
            supersede=supersede,
        ))  # fmt: skip


@command()
def review(
    edits: Annotated[list[int], edit_id("ID...")], *,
    until: Annotated[str | None, option("TIME", "When to review it again (default: by --review-every)", METHOD)] = None,
    reason: Reason = None, store: Store = FILE,
) -> None:  # fmt: skip
    """Confirm edits that are in force, all or none, until their next review."""
    with store_at(store) as opened, opened.transaction():
        why = {"author": author(), "reason": reason, "until": until}
        changes = [change for edit in edits for change in moves.review(opened, edit, **why)]
    print_changes(changes)


@command()
def due(
    *, within: Annotated[str, option("90d", "Also those that are due in so many days", DATA)] = "0d",
    store: Store = FILE,
) -> None:  # fmt: skip
    """List the edits whose review is due, which stay in force; fails if there are any."""
    at = datetime.now(UTC) + timedelta(days=days(within))
    with store_at(store) as opened:
        late, name = moves.due(stores.snapshot(opened), at), opened.name
    for edit in late:
        record = edit.record
        owner = f", {record.owner}" if record.owner else ""
        say(f"{edit.id}@{edit.version} due {(record.review_by or '')[:10]}{owner}: {record.fact}")
    if late:
        raise StoreError(f"{counted(len(late), 'edit')} to review: confirm (drike edits review), change or retire them")
    say(f"{name}: no review is due")


@command()
def approvals(
    number: Annotated[int | None, typer.Argument(help="0 to 9", metavar="[N]", min=0, max=moves.MOST_APPROVALS,
                                                 hidden=True)] = None, *,
    store: Store = FILE,
) -> None:  # fmt: skip
    """Show how many people other than its author must approve what an edit says; with N, require so many."""
    with store_at(store, create=number is not None) as opened:
        if number is not None:
            require_approvals(opened, number, author())
        needed, made = required_approvals(opened), opened.history(APPROVALS_SET)
    say(f"{counted(needed, 'approval')} needed" if needed else "No approval is needed")
    for each in made:
        say(f"  {each['at']} {each['author'] or 'someone'}: {each['needed']}")
