"""The life of an edit on the command line: propose, approve, reject, change, review, and what is due."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from drike.cli.console import say
from drike.cli.edits import (
    FILE,
    EditFields,
    Reason,
    Store,
    Supersede,
    Texts,
    author,
    days,
    edit_id,
    parse_fact,
    print_changes,
)  # fmt: skip
from drike.cli.options import DATA, METHOD, OUTPUT, command, flag, option
from drike.errors import UsageError
from drike.stores import log as stores
from drike.stores import moves
from drike.stores.approvals import approvals_set, require_approvals, required_approvals
from drike.stores.opening import open_store
from drike.stores.records import LISTS, EditVersion, Status, StoreError
from drike.support.table import counted

Version = Annotated[int | None, option("N", "Only if this is still its latest version", METHOD)]


@command()
def propose(
    edit: Annotated[int, edit_id("ID")], *,
    into: Annotated[Literal["active", "shadow"] | None, option("NAME", "Its status once it is approved: active or "
                                                               "shadow", METHOD)] = None,
    reason: Reason = None, store: Store = FILE,
) -> None:  # fmt: skip
    """Propose a draft, what was rejected, or to put an edit into another status."""
    status = None if into is None else Status(into)
    with closing(open_store(store, create=False)) as opened:
        print_changes(moves.propose(opened, edit, author=author(), reason=reason, into=status))


@command()
def approve(
    edit: Annotated[int, edit_id("ID")], *, version: Version = None, reason: Reason = None,
    supersede: Supersede = False, store: Store = FILE,
) -> None:  # fmt: skip
    """Approve what is proposed; it is in force once enough people have."""
    from drike.gates.alike import watch_meaning

    with closing(watch_meaning(open_store(store, create=False))) as opened:
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
    with closing(open_store(store, create=False)) as opened:
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
    from drike.gates.alike import watch_meaning

    changes = fields.values() | ({} if subject is None else {"subject": subject})
    if fact is not None:
        parsed = parse_fact(fact, ())
        changes |= {"query": parsed.query, "target_new": parsed.target_new}
    if not (changes or drop):
        raise UsageError("nothing is to be changed: give a field, such as --fact, --alias or --owner")
    with closing(watch_meaning(open_store(store, create=False))) as opened, opened.transaction():
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
    with closing(open_store(store, create=False)) as opened, opened.transaction():
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
    with closing(open_store(store, create=False)) as opened:
        late, name = moves.due(stores.snapshot(opened), at), opened.name
    for edit in late:
        say(_due(edit))
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
    with closing(open_store(store, create=number is not None)) as opened:
        if number is not None:
            require_approvals(opened, number, author())
        needed, made = required_approvals(opened), approvals_set(opened)
    say(f"{counted(needed, 'approval')} needed" if needed else "No approval is needed")
    for each in made:
        say(f"  {each['at']} {each['author'] or 'someone'}: {each['needed']}")


def _due(edit: EditVersion) -> str:
    record = edit.record
    owner = f", {record.owner}" if record.owner else ""
    return f"{edit.id}@{edit.version} due {(record.review_by or '')[:10]}{owner}: {record.fact}"
