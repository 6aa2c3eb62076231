"""What a store of edits guarantees; `sqlite` keeps it in a file, `postgres` in a database.

A store is a log of changes that only grows: each is a new version of an edit, with its author and reason. What the
edits are now follows from the log (`Snapshot`), so a gate can be a pure function of a snapshot. Of active edits, no two
answer the same question at the same time: a new one is refused, or supersedes the others, which are then retired.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from drike.stores.records import (
    ALWAYS,
    ConflictError,
    EditRecord,
    EditVersion,
    Status,
    StoreError,
    checked,
    conflict_keys,
    entry_of,
    overlap,
    stamp,
    to_json,
)
from drike.support.records import parse


@dataclass(frozen=True)
class Snapshot:
    """The latest version of every edit by id, after `revision` changes of the store."""

    revision: int = 0
    edits: Mapping[int, EditVersion] = field(default_factory=dict)

    def since(self, earlier: Snapshot) -> Snapshot:
        """Of the edits, those that have changed after an earlier snapshot."""
        edits = {id: one for id, one in self.edits.items() if one.number > earlier.revision}
        return Snapshot(self.revision, edits)

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[EditVersion, ...]:
        """The edits with this status that hold at a time."""
        now = stamp(at)
        edits = (one for one in self.edits.values() if one.record.status is status)
        return tuple(one for one in edits if (one.record.valid_from or "") <= now < (one.record.valid_to or ALWAYS))

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if the same ones hold forever."""
        now = stamp(at)
        times = (time for one in self.edits.values() for time in (one.record.valid_from, one.record.valid_to))
        return min((time for time in times if time and time > now), default=None)


class EditStore(Protocol):
    """Keeps edits. A change that returned is kept, whatever happens next; one that did not has left nothing behind.

    Threads and processes may share a store. Everything raises StoreError where the store cannot be used.
    """

    @property
    def name(self) -> str:
        """How messages name the store: a path, or an address without its password."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes of the block at once, or none if it raises. Others wait before they change anything."""
        ...

    def put(
        self, entry: EditRecord, *, replaces: EditVersion | None = None, supersede: bool = False
    ) -> Sequence[EditVersion]:
        """Keep an entry as a new edit, or as the next version of `replaces`; return all changes, this one last.

        supersede: retire the active edits that the entry contradicts. Raises RecordError for an entry that `checked`
        refuses, ConflictError where it contradicts or repeats active edits, StoreError if `replaces` has changed.
        """
        ...

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""
        ...

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was kept last, as text behind its number, from 1; None if its number is not above `after`."""
        ...

    def keep_gate(self, gate: str) -> None:
        """Keep a gate for these edits; earlier ones stay behind it."""
        ...

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes, for at most `timeout` seconds; return whether it has."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


Row = tuple[int, int, int, str, str, str]  # number, edit, version, created_at, the entry as JSON, checksum


class Log(Protocol):
    """What `append` asks of a backend, inside a transaction."""

    def last(self) -> tuple[int, int]:
        """The highest number of a change and of an edit; zeros if there is none."""
        ...

    def claimants(self, keys: Collection[str]) -> Sequence[int]:
        """The edits that claim one of the keys."""
        ...

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[EditVersion]:
        """The log, as in `EditStore`."""
        ...

    def write(self, row: Row, keys: Collection[str]) -> None:
        """Add a change; its edit now claims these keys and no others."""
        ...


def append(
    log: Log, entry: EditRecord, replaces: EditVersion | None, supersede: bool, at: datetime
) -> list[EditVersion]:
    """Do what `EditStore.put` promises, with the backend's log, inside a transaction. at: the time of new versions."""
    entry = checked(entry)
    number, last = log.last()
    edit = last + 1 if replaces is None else replaces.id
    latest = None if replaces is None else _latest(log, edit)
    if replaces is not None and (latest is None or latest.version != replaces.version):
        raise StoreError(f"edit {edit} has changed since version {replaces.version}: look at it, and try again")
    found: list[EditVersion] = []
    if entry.status is Status.ACTIVE:
        others = (_latest(log, one) for one in sorted(log.claimants(conflict_keys(entry))) if one != edit)
        found = [one for one in others if one and overlap(one.record, entry)]
    if found and not (supersede and all(one.record.differs(entry) for one in found)):
        raise ConflictError(entry, found)
    why = f"superseded by edit {edit}"
    retired = (replace(one.record, status=Status.RETIRED, author=entry.author, reason=why) for one in found)
    new = [(one.id, one.version + 1, rest) for one, rest in zip(found, retired, strict=True)]
    new.append((edit, latest.version + 1 if latest else 1, entry))
    changes = [EditVersion(n, *one[:2], stamp(at), one[2]) for n, one in enumerate(new, number + 1)]
    for one in changes:
        content = (one.number, one.id, one.version, one.created_at, to_json(one.record))
        active = one.record.status is Status.ACTIVE
        log.write((*content, _checksum(content)), conflict_keys(one.record) if active else ())
    return changes


def _latest(log: Log, edit: int) -> EditVersion | None:
    return next(reversed(log.changes(edit=edit)), None)


def stored(name: str, rows: Sequence[Row], after: int, edit: int | None) -> list[EditVersion]:
    """The changes in rows of a log. Raises StoreError if a row is damaged or missing; `name`: the store's."""
    for expected, (*content, checksum) in enumerate(rows, after + 1):
        if checksum != _checksum(content) or (edit is None and content[0] != expected):
            raise damaged(name, f"change {expected}" if edit is None else f"edit {edit}")
    try:
        return [EditVersion(n, one, version, at, entry_of(parse(text))) for n, one, version, at, text, _ in rows]
    except ValueError as problem:
        raise damaged(name, str(problem)) from None


def damaged(name: str, what: str) -> StoreError:
    """The error for a store that holds what no store holds."""
    remedy = "restore it from a copy, or give another --store"
    return StoreError(f"{name} is damaged or no store of edits ({what}): {remedy}")


def _checksum(content: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]


def snapshot(store: EditStore, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Reads only what has changed since an earlier snapshot."""
    since = since or Snapshot()
    changes = store.changes(since.revision)
    return Snapshot(changes[-1].number, {**since.edits, **{one.id: one for one in changes}}) if changes else since


def versions(store: EditStore, edit: int) -> Sequence[EditVersion]:
    """All versions of an edit, the latest last. Raises StoreError if there is no such edit."""
    found = store.changes(edit=edit)
    if not found:
        raise StoreError(f"there is no edit {edit}: choose one that is listed (drike edits list --all)")
    return found


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
    entry = replace(before[wanted - 1].record, author=author, reason=why)
    return store.put(entry, replaces=latest, supersede=supersede)
