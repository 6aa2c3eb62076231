"""The life of an edit: proposed, approved, in use, changed, reviewed, rolled back, retired.

Each move is a new version in the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from drike.edits.record import (
    ApprovalError,
    EditRecord,
    EditVersion,
    Move,
    Status,
    StoreError,
    effect,
)
from drike.edits.record_checks import checked
from drike.edits.times import stamp
from drike.stores.approvals import approvers, person
from drike.stores.authorship import changeable
from drike.stores.edit_store import (
    EditStore,
    authors_of,
    is_approved,
    required_approvals,
    versions_of,
)
from drike.stores.snapshots import Snapshot, decided_version

MOST_APPROVALS = 9


def entering(store: EditStore, record: EditRecord, *, decides: bool) -> EditRecord:
    """A new record as it enters a store.

    It is a proposal if its author may not decide (`decides`), or if approvals are required.
    """
    return entered(record, at_once=decides and required_approvals(store) == 0)


def entered(record: EditRecord, *, at_once: bool) -> EditRecord:
    """A new record as it enters a store. at_once: whether it may be in use at once."""
    if record.status is Status.PROPOSED or (record.status.in_use and not at_once):
        return proposed(record)
    return replace(record, move=None)


def proposed(record: EditRecord) -> EditRecord:
    """A new record as a proposal to put it into the status that it has."""
    goal = record.status if record.status.in_use else record.approved_as
    return replace(record, status=Status.PROPOSED, approved_as=goal, move=Move.PROPOSE)


def propose(
    store: EditStore,
    edit: int,
    *,
    author: str | None = None,
    reason: str | None = None,
    into: Status | None = None,
) -> Sequence[EditVersion]:
    """Propose a draft or what was rejected, or to put an edit into another status (`into`).

    Returns the changes. Raises StoreError.
    """
    with store.transaction():
        latest = versions_of(store, edit)[-1]
        record = latest.record
        if record.status is Status.PROPOSED:
            remedy = "approve it, reject it, or change it"
            raise StoreError(f"edit {edit} is proposed already: {remedy}")
        if record.status.in_use and into in (None, record.status):
            remedy = "change it, and propose the change"
            raise StoreError(f"edit {edit} is {record.status} already: {remedy}")

        goal = into
        if goal is None:
            is_retired = record.status is Status.RETIRED
            goal = Status.ACTIVE if is_retired else record.approved_as
        wanted = replace(record, status=goal, author=author, reason=reason)
        return store.put(proposed(wanted), replaces=latest)


def approve(
    store: EditStore,
    edit: int,
    *,
    author: str | None,
    reason: str | None = None,
    version: int | None = None,
    supersede: bool = False,
) -> Sequence[EditVersion]:
    """Approve what is proposed; it is in use once enough people have.

    version: the latest that the person has seen. Returns the changes. Raises StoreError, and
    ApprovalError for the proposal's author.
    """
    with store.transaction():
        versions = _versions_of_proposal(store, edit, version)
        proposal = versions[-1].record
        approved = replace(proposal, author=author, reason=reason, move=Move.APPROVE)
        in_use = replace(approved, status=approved.approved_as)

        needed = required_approvals(store)
        is_enough = True
        if needed:
            others = _others_who_approved(store, versions, in_use, needed)
            is_enough = len(others) + 1 >= needed
        return store.put(
            in_use if is_enough else approved,
            replaces=versions[-1],
            supersede=supersede and is_enough,
        )


def _others_who_approved(
    store: EditStore, versions: Sequence[EditVersion], record: EditRecord, needed: int
) -> set[str]:
    """Who else has approved what the author of a record in use approves now.

    Raises ApprovalError if that author wrote any of it, StoreError if they have approved it before.
    """
    approver = person(record.author)
    its_authors = authors_of(store, versions, record)
    if not approver or approver in its_authors:
        raise ApprovalError(needed, own=bool(approver))
    others = approvers(versions, record) - its_authors
    if approver in others:
        missing = needed - len(others)
        raise StoreError(
            f"{record.author} has approved edit {versions[-1].id} already: it needs {missing} more"
        )
    return others


def reject(
    store: EditStore,
    edit: int,
    *,
    author: str | None = None,
    reason: str | None,
    version: int | None = None,
) -> Sequence[EditVersion]:
    """Reject what is proposed; an earlier version stays in use.

    version: the latest that the person has seen. Raises StoreError, also without a reason.
    """
    if not reason:
        raise StoreError("a rejection needs a reason, for its author: give one (--reason)")
    with store.transaction():
        latest = _versions_of_proposal(store, edit, version)[-1]
        rejected = replace(
            latest.record, status=Status.REJECTED, author=author, reason=reason, move=Move.REJECT
        )
        return store.put(rejected, replaces=latest)


def change(
    store: EditStore,
    edit: int,
    changes: Mapping[str, Any],
    *,
    author: str | None = None,
    reason: str | None = None,
    propose: bool = False,
    version: int | None = None,
    supersede: bool = False,
) -> Sequence[EditVersion]:
    """Give fields of an edit other values, in what is proposed if something is.

    The change is proposed if `propose`, if the store requires approvals, or if it changes a
    proposal. version: the latest that the person has seen. Returns the changes of the log. Raises
    StoreError, RecordError, ConflictError.
    """
    with store.transaction():
        versions = versions_of(store, edit, version)
        base = changeable(versions)
        if base.status is Status.PROPOSED and "status" in changes:
            remedy = "approve or reject it first, or retire the edit"
            raise StoreError(f"a change of edit {edit} is proposed: {remedy}")
        new = checked(replace(base, **changes, author=author, reason=reason, move=None))
        if propose and base.status is Status.RETIRED:
            remedy = "propose to bring it back, and change the proposal"
            raise StoreError(f"edit {edit} is retired: {remedy}")

        has_effect = new.status is not base.status or effect(new) != effect(base)
        waits = propose
        if has_effect and not waits:
            waits = not is_approved(store, new, versions)
        if not base.status.decides or (waits and new.status.in_use):
            new = proposed(new)
        return store.put(new, replaces=versions[-1], supersede=supersede)


def retire(
    store: EditStore, edit: int, *, author: str | None = None, reason: str | None = None
) -> list[EditVersion]:
    """Take an edit out of force; return the change.

    Raises StoreError if it does not exist or is retired already.
    """
    versions = versions_of(store, edit)
    record = decided_version(versions).record
    if record.status is Status.RETIRED:
        remedy = "choose one that is listed (drike edits list)"
        raise StoreError(f"edit {edit} is retired already: {remedy}")
    retired = replace(record, status=Status.RETIRED, author=author, reason=reason, move=None)
    return store.put(retired, replaces=versions[-1])


def rollback(
    store: EditStore,
    edit: int,
    version: int | None = None,
    *,
    author: str | None = None,
    reason: str | None = None,
    supersede: bool = False,
) -> Sequence[EditVersion]:
    """Go back to a version of an edit, by default the one before, as a new one.

    Returns the changes. Raises StoreError.
    """
    versions = versions_of(store, edit)
    if versions[-1].record.status is Status.PROPOSED:
        raise StoreError(f"a change of edit {edit} is proposed: approve or reject it first")
    now = decided_version(versions).version
    earlier = [each for each in versions if each.version < now and each.record.status.decides]
    if not earlier:
        raise StoreError(f"edit {edit} has only one version: retire it instead")
    wanted = [each for each in earlier if version in (None, each.version)]
    if not wanted:
        remedy = f"choose an earlier one that was in use (drike edits show {edit})"
        raise StoreError(f"edit {edit} is at version {now}: {remedy}")

    target = wanted[-1]
    why = f"back to version {target.version}"
    if reason:
        why += f": {reason}"
    restored = replace(target.record, author=author, reason=why, move=None)
    return store.put(restored, replaces=versions[-1], supersede=supersede)


def review(
    store: EditStore,
    edit: int,
    *,
    author: str | None = None,
    reason: str | None = None,
    until: str | None = None,
) -> Sequence[EditVersion]:
    """Confirm an edit in use, to be reviewed again at `until`, else after its `review_days`.

    Raises StoreError.
    """
    with store.transaction():
        versions = versions_of(store, edit)
        record = decided_version(versions).record
        if not record.status.in_use:
            raise StoreError(f"edit {edit} is {record.status}: only edits in use are reviewed")
        if versions[-1].record.status is Status.PROPOSED:
            raise StoreError(f"a change of edit {edit} is proposed: approve or reject it first")
        if until is None and record.review_days is None:
            remedy = "say until when it holds (--until 2027-06-30)"
            raise StoreError(f"edit {edit} has no interval of reviews: {remedy}")
        reviewed = replace(record, review_by=until, author=author, reason=reason, move=Move.REVIEW)
        return store.put(reviewed, replaces=versions[-1])


def due(snapshot: Snapshot, at: datetime) -> tuple[EditVersion, ...]:
    """The edits in use whose review is due at a time, the longest due first. They stay in use."""
    time = stamp(at)
    edits = [edit for edit in snapshot.edits.values() if is_due(edit.record, time)]
    return tuple(sorted(edits, key=lambda edit: (edit.record.review_by or "", edit.id)))


def is_due(record: EditRecord, time: str) -> bool:
    """Whether a record in use is to be reviewed by a time, as `stamp` writes it.

    One that has ended is not.
    """
    if not record.status.in_use or record.review_by is None:
        return False
    has_ended = record.valid_to is not None and record.valid_to <= time
    return record.review_by <= time and not has_ended


def _versions_of_proposal(
    store: EditStore, edit: int, version: int | None
) -> Sequence[EditVersion]:
    """All versions of an edit, of which the last is proposed. Raises StoreError."""
    if versions_of(store, edit)[-1].record.status is not Status.PROPOSED:
        remedy = "choose one that is (drike edits list --status proposed)"
        raise StoreError(f"nothing is proposed for edit {edit}: {remedy}")
    return versions_of(store, edit, version)
