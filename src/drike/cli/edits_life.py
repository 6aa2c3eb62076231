"""The life of edits on the command line: proposals, approvals, changes, reviews, the end."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, TypedDict, get_args

import typer

from drike.cli.commands import DATA, METHOD, OUTPUT, argument, command, flag, option
from drike.cli.console import note, say, say_lines
from drike.cli.options import FILE, EditId, EditIds, IfVersion, Reason, Store, Supersede
from drike.cli.stored_edits import (
    EditFields,
    author,
    in_force,
    note_what_never_covers,
    parse_fact,
    print_changes,
    store_at,
)
from drike.edits.record import LISTS, MADE, EditRecord, EditVersion, Status, StoreError
from drike.edits.record_json import to_values
from drike.errors import UsageError
from drike.live.same_question import (
    SameQuestion,
    give_negatives,
    of_same_relation,
    same_questions,
    sentence_of,
)
from drike.stores import moves
from drike.stores.authorship import changeable
from drike.stores.edit_store import (
    APPROVALS_SET,
    EditStore,
    require_approvals,
    required_approvals,
    versions_of,
)
from drike.stores.snapshots import decided_version
from drike.support.table import counted

_json = partial(json.dumps, ensure_ascii=False)

_UsedStatus = Literal["active", "shadow"]


class Why(TypedDict):
    """Who changes edits and why. propose: whether they wait for approval."""

    author: str
    reason: str | None
    propose: bool


@command()
def propose(
    edit: EditId,
    *,
    store: Store = FILE,
    into: Annotated[
        _UsedStatus | None,
        option(
            "--into",
            "NAME",
            METHOD,
            "Its status once it is approved: active or shadow",
            choices=get_args(_UsedStatus),
        ),
    ] = None,
    reason: Reason = None,
) -> None:
    """Propose an edit, or to put it into another status."""
    status = Status(into) if into else None
    with store_at(store) as opened:
        print_changes(moves.propose(opened, edit, author=author(), reason=reason, into=status))


@command()
def approve(
    edit: EditId,
    *,
    store: Store = FILE,
    version: IfVersion = None,
    yes: Annotated[
        bool, flag("--yes", METHOD, "Do not ask: --version names what was looked at")
    ] = False,
    supersede: Supersede = False,
    reason: Reason = None,
) -> None:
    """Show what is proposed, and approve it."""
    _require_a_look(edit, version, yes=yes)
    with store_at(store, watched=True) as opened:
        versions = versions_of(opened, edit, version)
        shown = versions[-1]
        if shown.record.status is Status.PROPOSED:
            _show_proposal(versions)
            question = f"Approve version {shown.version} of edit {edit}?"
            if not yes and not typer.confirm(question):
                say("Nothing was approved")
                raise typer.Exit(1)
        changes = moves.approve(
            opened,
            edit,
            author=author(),
            reason=reason,
            version=shown.version,
            supersede=supersede,
        )
        print_changes(changes)
        if changes[-1].record.status is Status.PROPOSED:
            say(f"It needs {required_approvals(opened)} approvals, and waits for more")


def _require_a_look(edit: int, version: int | None, *, yes: bool) -> None:
    """Raise UsageError where nobody would have looked at what is approved."""
    remedy = f"give the version that you have looked at (drike edits show {edit})"
    if yes and version is None:
        raise UsageError(f"--yes does not say what is approved: {remedy} as --version N")
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"nobody can be asked here: {remedy} as --version N, and --yes")


def _show_proposal(versions: Sequence[EditVersion]) -> None:
    """Print what the last of an edit's versions says, and what is in use where that differs."""
    proposal = versions[-1]
    in_use = decided_version(versions).record
    now = to_values(in_use) if in_use.status.in_use else {}
    print_changes([proposal])
    for name, value in to_values(proposal.record).items():
        if name in (*MADE, "status"):
            continue
        was = now.get(name)
        is_changed = bool(now) and name != "approved_as" and value != was
        if value or is_changed:
            say(f"  {name}: {_json(value)}{f' (now: {_json(was)})' if is_changed else ''}")


@command()
def reject(
    edit: EditId,
    *,
    store: Store = FILE,
    version: IfVersion = None,
    reason: Annotated[str, option("--reason", "TEXT", OUTPUT, "Why, for its author")],
) -> None:
    """Reject what is proposed."""
    with store_at(store) as opened:
        print_changes(moves.reject(opened, edit, author=author(), reason=reason, version=version))


@command()
def change(
    edit: EditId,
    *,
    fact: Annotated[
        str | None,
        option("--fact", "FACT", DATA, 'The fact as it shall be, as "QUERY -> OBJECT"'),
    ] = None,
    subject: Annotated[
        str | None, option("--subject", "NAME", DATA, "What the fact is about")
    ] = None,
    store: Store = FILE,
    drop: Annotated[
        list[str] | None,
        option("--drop", "TEXT", DATA, "Leave out this alias, wording or negative; repeatable"),
    ] = None,
    alike: Annotated[
        bool,
        flag(
            "--alike",
            DATA,
            "Give each --never to the other edits of its relation, too, about their subjects",
        ),
    ] = False,
    for_approval: Annotated[
        bool,
        flag("--for-approval", METHOD, "Propose it; the edit stays until it is approved"),
    ] = False,
    version: IfVersion = None,
    supersede: Supersede = False,
    reason: Reason = None,
    more: EditFields,
) -> None:
    """Change an edit, or what is proposed."""
    changes = more.values()
    if subject is not None:
        changes["subject"] = subject
    if fact is not None:
        parsed = parse_fact(fact, ())
        changes |= {"query": parsed.query, "target_new": parsed.target_new}
    dropped = set(drop or ())
    if not (changes or dropped):
        raise UsageError(
            "nothing is to be changed: give a field, such as --fact, --alias or --owner"
        )
    questions = more.never or []
    if alike and not questions:
        raise UsageError("--alike is for a question that an edit does not concern: add --never")
    why: Why = {"author": author(), "reason": reason, "propose": for_approval}
    with store_at(store, watched=True) as opened, opened.transaction():
        record = changeable(versions_of(opened, edit))
        changes |= _changed_lists(edit, record, changes, dropped)
        made = moves.change(opened, edit, changes, version=version, supersede=supersede, **why)
        print_changes(made)
    if questions:
        note_what_never_covers(made[-1].record)
        with store_at(store) as opened:
            _look_at_others(opened, made[-1], questions, alike=alike, why=why)


def _look_at_others(
    store: EditStore,
    edit: EditVersion,
    questions: Sequence[str],
    *,
    alike: bool,
    why: Why,
) -> None:
    """Say which other edits match questions about their subjects, or let none do so any more."""
    found = _same_questions(store, edit, questions)
    if found and alike:
        reason = why["reason"] or f"as of edit {edit.id}"
        print_changes(
            give_negatives(
                store, found, author=why["author"], reason=reason, propose=why["propose"]
            )
        )
    elif found:
        note(f"{sentence_of(found)}; the same command with --alike gives it to each")


def _same_questions(
    store: EditStore, edit: EditVersion, questions: Sequence[str]
) -> list[SameQuestion]:
    """The other edits in force that match questions about their subjects."""
    others = of_same_relation(edit, in_force(store))
    if not others:
        return []
    from drike.gates.index import EditIndex
    from drike.live.store_gate import encoder_of, open_gate

    gate = open_gate(store)
    index = EditIndex.of([edit, *others], encoder_of(gate))
    return [
        found
        for question in questions
        for found in same_questions(question, edit, others, lambda text: gate.decide(text, index))
    ]


def _changed_lists(
    edit_id: int, record: EditRecord, changes: dict[str, object], dropped: set[str]
) -> dict[str, tuple[str, ...]]:
    """The fields of several texts: those that an edit has and those that are added, less some.

    Raises StoreError for one that is dropped and not there.
    """
    texts_by_name = {name: _texts(record, changes, name) for name in LISTS}
    missing = dropped - {text for texts in texts_by_name.values() for text in texts}
    if missing:
        raise StoreError(
            f"edit {edit_id} has no text {min(missing)!r}: "
            f"choose one that drike edits show {edit_id} lists"
        )
    return {
        name: tuple(text for text in texts if text not in dropped)
        for name, texts in texts_by_name.items()
    }


def _texts(record: EditRecord, changes: dict[str, object], name: str) -> tuple[str, ...]:
    added = changes.get(name, ())
    return (*getattr(record, name), *added)  # type: ignore[misc]


@command()
def review(
    edits: EditIds,
    *,
    store: Store = FILE,
    until: Annotated[
        str | None,
        option("--until", "TIME", METHOD, "When to review it again (default: by --review-every)"),
    ] = None,
    reason: Reason = None,
) -> None:
    """Confirm edits, all or none, until their next review."""
    changes: list[EditVersion] = []
    with store_at(store) as opened, opened.transaction():
        for edit in edits:
            changes += moves.review(opened, edit, author=author(), reason=reason, until=until)
    print_changes(changes)


@command()
def retire(edits: EditIds, *, store: Store = FILE, reason: Reason = None) -> None:
    """Take edits out of force, all or none."""
    changes: list[EditVersion] = []
    with store_at(store) as opened, opened.transaction():
        for edit in edits:
            changes += moves.retire(opened, edit, author=author(), reason=reason)
    print_changes(changes)


@command()
def rollback(
    edit: EditId,
    *,
    store: Store = FILE,
    version: Annotated[
        int | None,
        option("--version", "N", METHOD, "The version (default: the one before the latest)"),
    ] = None,
    supersede: Supersede = False,
    reason: Reason = None,
) -> None:
    """Go back to an earlier version of an edit."""
    with store_at(store, watched=True) as opened:
        changes = moves.rollback(
            opened, edit, version, author=author(), reason=reason, supersede=supersede
        )
        print_changes(changes)


@command()
def approvals(
    number: Annotated[
        int | None,
        argument("[N]", f"0 to {moves.MOST_APPROVALS}", min=0, max=moves.MOST_APPROVALS),
    ] = None,
    *,
    store: Store = FILE,
) -> None:
    """Show how many people must approve an edit, or set it."""
    with store_at(store, create=number is not None) as opened:
        if number is not None:
            require_approvals(opened, number, author())
        needed = required_approvals(opened)
        history = opened.settings.history(APPROVALS_SET)
    say(f"{counted(needed, 'approval')} needed" if needed else "No approval is needed")
    say_lines(f"  {each['at']} {each['author'] or 'someone'}: {each['needed']}" for each in history)
