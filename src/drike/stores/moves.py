"""The life of a correction: proposed, approved, in use, reviewed, retired. Each move is a new version in the log."""

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
from drike.stores.approvals import approvers, authors, is_approved, person
from drike.stores.edit_store import EditStore, required_approvals, versions_of
from drike.stores.snapshots import Snapshot, decided_version

MOST_APPROVALS = 9


def entering(store: EditStore, record: EditRecord, *, decides: bool) -> EditRecord:
    """A new record as it enters a store: as a proposal, where its author may not decide or approvals are required."""
    asked = record.status.in_use and not (decides and required_approvals(store) == 0)
    return proposed(record) if asked or record.status is Status.PROPOSED else record


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
    """Propose a draft or what was rejected, or to put an edit into another status. Raises StoreError."""
    with store.transaction():
        known = versions_of(store, edit)
        record = known[-1].record
        if record.status is Status.PROPOSED:
            raise StoreError(
                f"edit {edit} is proposed already: approve it, reject it, or change it"
            )
        if record.status.in_use and into in (None, record.status):
            raise StoreError(
                f"edit {edit} is {record.status} already: change it, and propose the change"
            )
        goal = into or (
            record.approved_as if record.status is not Status.RETIRED else Status.ACTIVE
        )
        return store.put(
            proposed(replace(record, status=goal, author=author, reason=reason)), replaces=known[-1]
        )


def approve(
    store: EditStore, edit: int, *,
    author: str | None, reason: str | None = None, version: int | None = None, supersede: bool = False,
) -> Sequence[EditVersion]:  # fmt: skip
    """Approve what is proposed; it is in use once enough have. Raises StoreError, ApprovalError for its author."""
    with store.transaction():
        latest, known = _proposal(store, edit, version)
        needed, who = required_approvals(store), person(author)
        approved = replace(latest.record, author=author, reason=reason, move=Move.APPROVE)
        in_use = replace(approved, status=approved.approved_as)
        before = approvers(known, in_use) - authors(known, in_use)
        if needed and (not who or who in authors(known, in_use)):
            raise ApprovalError(needed, own=bool(who))
        if needed and who in before:
            raise StoreError(
                f"{author} has approved edit {edit} already: it needs {needed - len(before)} more"
            )
        enough = len(before | {who}) >= needed
        return store.put(
            in_use if enough else approved, replaces=latest, supersede=supersede and enough
        )


def reject(
    store: EditStore,
    edit: int,
    *,
    author: str | None = None,
    reason: str | None,
    version: int | None = None,
) -> Sequence[EditVersion]:
    """Reject what is proposed; an earlier version stays in use. Raises StoreError, also without a reason."""
    if not reason:
        raise StoreError("a rejection needs a reason, for its author: give one (--reason)")
    with store.transaction():
        latest, _ = _proposal(store, edit, version)
        rejected = replace(
            latest.record, status=Status.REJECTED, author=author, reason=reason, move=Move.REJECT
        )
        return store.put(rejected, replaces=latest)


def change(
    store: EditStore, edit: int, changes: Mapping[str, Any], *, author: str | None = None, reason: str | None = None,
    propose: bool = False, version: int | None = None, supersede: bool = False,
) -> Sequence[EditVersion]:  # fmt: skip
    """Give fields of an edit other values, in what is proposed if something is. Return the changes.

    The change is proposed if `propose`, if the store requires approvals, or if it changes a proposal. version: the
    latest that the person has seen. Raises StoreError, RecordError, ConflictError.
    """
    with store.transaction():
        known = versions_of(store, edit, version)
        base = changeable(known)
        if base.status is Status.PROPOSED and "status" in changes:
            raise StoreError(
                f"a change of edit {edit} is proposed: approve or reject it first, or retire the edit"
            )
        new = checked(replace(base, **changes, author=author, reason=reason, move=None))
        said = new.status is not base.status or effect(new) != effect(base)
        if propose and base.status is Status.RETIRED:
            raise StoreError(
                f"edit {edit} is retired: propose to bring it back, and change the proposal"
            )
        waits = propose or (said and not is_approved(new, known, required_approvals(store)))
        if not base.status.decides or (waits and new.status.in_use):
            new = proposed(new)
        return store.put(new, replaces=known[-1], supersede=supersede)


def changeable(versions: Sequence[EditVersion]) -> EditRecord:
    """Of all versions of an edit the record that a change starts from: what is proposed, else what was decided."""
    latest = versions[-1].record
    return latest if latest.status is Status.PROPOSED else decided_version(versions).record


def retire(
    store: EditStore, edit: int, *, author: str | None = None, reason: str | None = None
) -> list[EditVersion]:
    """Take an edit out of force; return the change. Raises StoreError if it does not exist or is retired already."""
    known = versions_of(store, edit)
    record = decided_version(known).record
    if record.status is Status.RETIRED:
        raise StoreError(
            f"edit {edit} is retired already: choose one that is listed (drike edits list)"
        )
    retired = replace(record, status=Status.RETIRED, author=author, reason=reason, move=None)
    return store.put(retired, replaces=known[-1])


def rollback(
    store: EditStore, edit: int, version: int | None = None, *,
    author: str | None = None, reason: str | None = None, supersede: bool = False,
) -> Sequence[EditVersion]:  # fmt: skip
    """Go back to a version of an edit, by default the one before, as a new one; return the changes. StoreError."""
    known = versions_of(store, edit)
    if known[-1].record.status is Status.PROPOSED:
        raise StoreError(f"a change of edit {edit} is proposed: approve or reject it first")
    now = decided_version(known).version
    before = [each for each in known if each.version < now and each.record.status.decides]
    wanted = [each for each in before if version in (None, each.version)]
    if not wanted:
        other = (
            f"is at version {now}: choose an earlier one that was in use (drike edits show {edit})"
        )
        raise StoreError(
            f"edit {edit} {other if before else 'has only one version: retire it instead'}"
        )
    why = f"back to version {wanted[-1].version}" + (f": {reason}" if reason else "")
    back = replace(wanted[-1].record, author=author, reason=why, move=None)
    return store.put(back, replaces=known[-1], supersede=supersede)


def review(
    store: EditStore,
    edit: int,
    *,
    author: str | None = None,
    reason: str | None = None,
    until: str | None = None,
) -> Sequence[EditVersion]:
    """Confirm an edit in use, to be reviewed again at `until`, else after its `review_days`. Raises StoreError."""
    with store.transaction():
        known = versions_of(store, edit)
        record = decided_version(known).record
        if not record.status.in_use:
            raise StoreError(f"edit {edit} is {record.status}: only edits in use are reviewed")
        if known[-1].record.status is Status.PROPOSED:
            raise StoreError(f"a change of edit {edit} is proposed: approve or reject it first")
        if until is None and record.review_days is None:
            raise StoreError(
                f"edit {edit} has no interval of reviews: say until when it holds (--until 2027-06-30)"
            )
        new = replace(record, review_by=until, author=author, reason=reason, move=Move.REVIEW)
        return store.put(new, replaces=known[-1])


def due(snapshot: Snapshot, at: datetime) -> tuple[EditVersion, ...]:
    """The edits in use whose review is due at a time, the longest due first. They stay in use."""
    now = stamp(at)
    late = (edit for edit in snapshot.edits.values() if is_due(edit.record, now))
    return tuple(sorted(late, key=lambda edit: (edit.record.review_by or "", edit.id)))


def is_due(record: EditRecord, time: str) -> bool:
    """Whether a record in use, unless it has ended, is to be reviewed by a time, as `stamp` writes it."""
    late = record.review_by is not None and record.review_by <= time
    return late and record.status.in_use and (record.valid_to is None or time < record.valid_to)


def _proposal(
    store: EditStore, edit: int, version: int | None
) -> tuple[EditVersion, Sequence[EditVersion]]:
    latest = versions_of(store, edit)[-1]
    if latest.record.status is not Status.PROPOSED:
        why = f"nothing is proposed for edit {edit}"
        raise StoreError(f"{why}: choose one that is (drike edits list --status proposed)")
    return latest, versions_of(store, edit, version)
