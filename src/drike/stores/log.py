"""What a store of edits guarantees; `sqlite` keeps it in a file, `postgres` in a database.

A store is a log of changes that only grows: each is a new version of an edit, with its author and reason. What the
edits are now follows from the log (`Snapshot`), so a gate can be a pure function of a snapshot. Of active edits, no two
answer the same question at the same time: a new one is refused, or supersedes the others, which are then retired.

The log is a chain: the checksum of a change covers that of the change before it, and the store keeps the number and the
checksum of the last one apart from the log, as the setting `head`. Changes before version 3 have their own checksums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from drike.stores.records import EditRecord, EditVersion, Status, StoreError, holds_at, stamp

_MAX_ID = 2**63  # databases have no larger whole numbers


@dataclass(frozen=True)
class Snapshot:
    """The latest version of every edit by id, after `revision` changes of the store.

    head: the checksum of the last change. histories: how many times the store was found to hold another history, as
    after a restore from a backup; its revision may then be lower than before.
    """

    revision: int = 0
    edits: Mapping[int, EditVersion] = field(default_factory=dict)
    head: str = ""
    histories: int = 0

    def since(self, earlier: Snapshot) -> Snapshot:
        """Of the edits, those that have changed after an earlier snapshot."""
        return replace(self, edits={id: edit for id, edit in self.edits.items() if edit.number > earlier.revision})

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[EditVersion, ...]:
        """The edits with this status that hold at a time."""
        now = stamp(at)
        edits = (edit for edit in self.edits.values() if edit.record.status is status)
        return tuple(edit for edit in edits if holds_at(edit.record, now))

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if the same ones hold forever."""
        now = stamp(at)
        times = (time for edit in self.edits.values() for time in (edit.record.valid_from, edit.record.valid_to))
        return min((time for time in times if time and time > now), default=None)


class EditStore(Protocol):
    """Keeps edits. A change that returned is kept, whatever happens next; one that did not has left nothing behind.

    Threads and processes may share a store. Everything raises StoreError where the store cannot be used.
    """

    @property
    def name(self) -> str:
        """How messages name the store: a path, or an address without its password."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes of the block at once, or none if it raises. Others wait before they change anything."""

    def put(
        self, record: EditRecord, *, replaces: EditVersion | None = None, supersede: bool = False
    ) -> Sequence[EditVersion]:
        """Keep a record as a new edit, or as the next version of `replaces`; return all changes, this one last.

        supersede: retire the active edits that the record contradicts. Raises RecordError for a record that `checked`
        refuses, ConflictError where it contradicts or repeats active edits, StoreError if `replaces` has changed.
        """

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was saved last: its number, from 1, and its text; None if that number is not above `after`."""

    def save_gate(self, gate: str) -> None:
        """Save a gate for these edits as the latest one."""

    def setting(self, name: str) -> str | None:
        """The value that was saved last under a name; None if there is none."""

    def save_setting(self, name: str, value: str) -> None:
        """Save a value under a name, in place of an earlier one."""

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes, for at most `timeout` seconds; return whether it has."""

    def close(self) -> None:
        """Let go of the store."""


def snapshot(store: EditStore, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Reads only what has changed since an earlier snapshot, if the store still continues it.

    Where the last change that the snapshot knows is another one by now, or gone, all is read anew.
    """
    since = since or Snapshot()
    changes = store.changes(max(since.revision - 1, 0))
    if since.revision:
        if changes and changes[0].checksum == since.head:
            changes = changes[1:]
        else:
            changes, since = store.changes(), Snapshot(histories=since.histories + 1)
    if not changes:
        return since
    edits = {change.id: change for change in changes}
    return Snapshot(changes[-1].number, {**since.edits, **edits}, changes[-1].checksum, since.histories)


def versions(store: EditStore, edit: int) -> Sequence[EditVersion]:
    """All versions of an edit, the latest last. Raises StoreError if there is no such edit."""
    changes = store.changes(edit=edit) if edit < _MAX_ID else ()
    if not changes:
        raise StoreError(f"there is no edit {edit}: choose one that is listed (drike edits list --all)")
    return changes


def retire(
    store: EditStore, edit: int, *, author: str | None = None, reason: str | None = None
) -> Sequence[EditVersion]:
    """Take an edit out of force; return the change. Raises StoreError if it does not exist or is retired already."""
    *_, latest = versions(store, edit)
    if latest.record.status is Status.RETIRED:
        raise StoreError(f"edit {edit} is retired already: choose one that is listed (drike edits list)")
    return store.put(replace(latest.record, status=Status.RETIRED, author=author, reason=reason), replaces=latest)


def rollback(
    store: EditStore,
    edit: int,
    version: int | None = None,
    *,
    author: str | None = None,
    reason: str | None = None,
    supersede: bool = False,
) -> Sequence[EditVersion]:
    """Go back to a version of an edit, by default the one before the latest; return the changes, a new version last.

    Raises StoreError if there is no such edit or version, and what `EditStore.put` raises.
    """
    *before, latest = versions(store, edit)
    wanted = len(before) if version is None else version
    if not 1 <= wanted <= len(before):
        raise StoreError(
            f"edit {edit} is at version {latest.version}: choose an earlier one (drike edits show {edit})"
            if before
            else f"edit {edit} has only one version: retire it instead"
        )
    why = f"back to version {wanted}" + (f": {reason}" if reason else "")
    record = replace(before[wanted - 1].record, author=author, reason=why)
    return store.put(record, replaces=latest, supersede=supersede)
