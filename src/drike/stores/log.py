"""A store of edits: a log of changes that only grows; `sqlite` keeps it in a file, `postgres` in a database.

Each change is a new version of an edit. What the edits are now follows from the log (`Snapshot`), so a gate can be a
pure function of that. A proposed or rejected version leaves the one before it as it was. Of active edits, no two answer
the same question at the same time: a new one is refused, or supersedes the others. The checksum of a change covers that
of the change before it; that of the last one is also the setting `head`. Changes before version 3 have their own.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Protocol

from drike.stores import records
from drike.stores.approvals import is_approved, required_approvals
from drike.stores.records import ConflictError, EditRecord, EditVersion, Status, StoreError, conflict_keys
from drike.support.records import parse

_MAX_ID = 2**63  # databases have no larger whole numbers
HEAD, CLAIMS = "head", "claims by words"  # settings: the last change, and the sum of `claim_mark`
END = """SELECT (SELECT value FROM drike_settings WHERE name = 'head'),
    (SELECT number || ' ' || checksum FROM drike_changes ORDER BY number DESC LIMIT 1)"""
_LAST = """SELECT number, (SELECT max(edit) FROM drike_changes), checksum FROM drike_changes
    ORDER BY number DESC LIMIT 1"""
_ENCODE = json.JSONEncoder(default=str).encode
_CHAINED = 32  # characters of a checksum that covers the one before it; earlier ones have 16

Row = tuple[int, int, int, str, str, str]  # number, edit, version, created_at, the record as JSON, checksum
ReadRow = tuple[int, int, int, str, str, str, str | None]  # and the checksum of the change before it


@dataclass(frozen=True)
class Snapshot:
    """Every edit by id, after `revision` changes, the last with the checksum `head`.

    edits: of each the latest version that decides (`Status.decides`), or the latest while none does. proposals: those
    versions that wait for approval. histories: how often the store was found to hold another history, perhaps a shorter
    one, as after a restore.
    """

    revision: int = 0
    edits: Mapping[int, EditVersion] = field(default_factory=dict)
    proposals: Mapping[int, EditVersion] = field(default_factory=dict)
    head: str = ""
    histories: int = 0

    def since(self, earlier: Snapshot) -> Snapshot:
        """Of the edits, those that have changed after an earlier snapshot."""
        return replace(self, edits={id: edit for id, edit in self.edits.items() if edit.number > earlier.revision})

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[EditVersion, ...]:
        """The edits with this status that hold at a time."""
        now = records.stamp(at)
        edits = (edit for edit in self.edits.values() if edit.record.status is status)
        return tuple(edit for edit in edits if records.holds_at(edit.record, now))

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if the same ones hold forever."""
        now = records.stamp(at)
        times = (time for edit in self.edits.values() for time in (edit.record.valid_from, edit.record.valid_to))
        return min((time for time in times if time and time > now), default=None)


@dataclass(frozen=True)
class _LogEnd:
    """Where a log ends: the highest numbers of a change and of an edit, the last checksum, and the sum of claims."""

    number: int = 0
    edit: int = 0
    checksum: str = ""
    claims: int = 0

    def after(self, row: Row, claimed: Iterable[bytes], given_up: Iterable[bytes]) -> _LogEnd:
        """The end once a change was added whose edit now has claims with these hashes, and had those given up."""
        added, gone = (sum(claim_mark(hashed, row[1]) for hashed in hashes) for hashes in (claimed, given_up))
        return _LogEnd(row[0], max(self.edit, row[1]), row[5], self.claims + added - gone)


class EditStore(Protocol):
    """Keeps edits. A change that returned is kept, whatever happens next; one that did not has left nothing behind.

    name: for messages, without a password. alike: the edits that say in other words what an active record says, as far
    as whoever opened the store can tell; they are its rivals, like those with the same words. Threads and processes may
    share a store. All raises StoreError where it is unusable. Statements have %s for values and `drike_` before tables,
    which a backend may spell in another way.
    """

    name: str
    alike: Callable[[EditStore, EditRecord], Collection[int]] = staticmethod(lambda store, record: ())
    _wait: float
    _lock: threading.RLock
    _began: _LogEnd = _LogEnd()  # as a transaction began, and in it
    _end: _LogEnd = _began
    _verified: bool = False  # whether the claims are known to be right

    @property
    def _writing(self) -> bool: ...

    def _committed(self) -> AbstractContextManager[None]:
        """Begin a transaction and commit it, or roll it back if the block raises."""

    def _run(self, query: str, values: Sequence[object] = ()) -> Any: ...

    def _sum_of_claims(self) -> int: ...

    def _explained(self) -> AbstractContextManager[None]: ...

    def _claimants(self, keys: Collection[str]) -> Sequence[int]:
        """The active edits that have one of these conflict keys."""

    def _write(self, row: Row, keys: Collection[str]) -> None:
        """Add a change, inside a transaction; its edit now has these conflict keys and no others."""

    def _claim(self, edit: int, keys: Collection[str]) -> None:
        """Let an edit that has no conflict keys have these; inside a transaction."""

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes, for at most `timeout` seconds; return whether it has."""

    def close(self) -> None:
        """Let go of the store."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the block at once, or none if it raises. Others wait before they change anything."""
        with self._using(), nullcontext() if self._writing else self._committed():
            yield

    def put(
        self, record: EditRecord, *, replaces: EditVersion | None = None, supersede: bool = False
    ) -> list[EditVersion]:
        """Keep a record as a new edit, or as the next version of `replaces`; return all changes, this one last.

        supersede: retire the active edits that the record contradicts. Raises RecordError for a record that `checked`
        refuses, ConflictError where it contradicts or repeats active edits, ApprovalError where it would be in use
        without the approvals that the store requires, StoreError if `replaces` has changed.
        """
        with self.transaction():
            now = self._now()
            record = records.with_review(records.checked(record), now)
            id = self._end.edit + 1 if replaces is None else replaces.id
            earlier = [] if replaces is None else self.changes(edit=id)
            latest = next(reversed(earlier), None)
            if replaces is not None and (latest is None or latest.version != replaces.version):
                raise StoreError(f"edit {id} has changed since version {replaces.version}: look at it, and try again")
            if record.status.in_use and not is_approved(record, earlier, needed := required_approvals(self)):
                raise records.ApprovalError(needed)
            rivals = self._rivals(record, id, earlier)
            effects = {records.effect(rival.record) for rival in rivals}
            if rivals and not (supersede and records.effect(record) not in effects):
                raise ConflictError(record, rivals)
            why = f"superseded by edit {id}"
            gone = partial(replace, status=Status.RETIRED, author=record.author, reason=why, move=None)
            new = [(rival.id, versions(self, rival.id)[-1].version + 1, gone(rival.record)) for rival in rivals]
            new.append((id, latest.version + 1 if latest else 1, record))
            changes: list[EditVersion] = []
            for number, (id, version, changed) in enumerate(new, self._end.number + 1):
                content = (number, id, version, now, records.to_json(changed))
                checksum = _checksum(content, self._end.checksum)
                changes.append(EditVersion(*content[:4], changed, checksum))
                decided = changed if changed.status.decides else next(_decided(earlier), changed)
                self._write((*content, checksum), conflict_keys(decided) if decided.status is Status.ACTIVE else ())
        return changes

    def changes(self, after: int = 0, edit: int | None = None) -> list[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""
        query = """SELECT c.number, c.edit, c.version, c.created_at, c.entry, c.checksum, b.checksum
                   FROM drike_changes c LEFT JOIN drike_changes b ON b.number = c.number - 1 WHERE c.number > %s"""
        query += " ORDER BY c.number" if edit is None else " AND c.edit = %s ORDER BY c.number"
        with self._using():
            least = 0 if after or edit is not None or self._writing else self._check_end()
            rows = self._run(query, [after] if edit is None else [after, edit]).fetchall()
        if len(rows) < least:
            raise damaged(self.name, "changes are missing")
        return _read(self.name, rows, after, edit)

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was saved last: its number, from 1, and its text; None if that number is not above `after`."""
        query = "SELECT number, gate FROM drike_gates WHERE number > %s ORDER BY number DESC LIMIT 1"
        with self._using():
            row: tuple[int, str] | None = self._run(query, [after]).fetchone()
        return row

    def save_gate(self, gate: str) -> None:
        """Save a gate for these edits as the latest one."""
        query = "INSERT INTO drike_gates SELECT coalesce(max(number), 0) + 1, %s, %s FROM drike_gates"
        with self.transaction():
            self._run(query, [self._now(), gate])

    def setting(self, name: str) -> str | None:
        """The value that was saved last under a name; None if there is none."""
        with self._using():
            row = self._run("SELECT value FROM drike_settings WHERE name = %s", [name]).fetchone()
        return None if row is None else str(row[0])

    def save_setting(self, name: str, value: str) -> None:
        """Save a value under a name, in place of an earlier one."""
        query = "INSERT INTO drike_settings VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        with self.transaction():
            self._run(query, [name, value])

    def _now(self) -> str:
        return records.stamp(datetime.now(UTC))

    def _rivals(self, record: EditRecord, id: int, earlier: Sequence[EditVersion]) -> list[EditVersion]:
        """The active edits, other than `id`, that answer a question of an active record while it holds."""
        if record.status is not Status.ACTIVE:
            return []
        ids, said = {*self._claimants(conflict_keys(record))}, records.effect(record)
        if all(records.effect(known) != said for known in islice(_decided(earlier), 1)):
            ids.update(self.alike(self, record))
        others = (decided_version(self.changes(edit=other)) for other in sorted(ids - {id}))
        return [other for other in others if records.overlap(other.record, record)]

    def _begin(self) -> None:
        """Where the log ends, as a transaction begins. Raises StoreError if the log or its claims are damaged."""
        self._check_end()
        row = self._run(_LAST).fetchone()
        claims = self.setting(CLAIMS) or ""
        if not (self._verified and claims):
            found = str(self._sum_of_claims())
            self._verified = claims == found  # else look once more, should this transaction fail
            if not self._verified:  # make the claims again from the log
                known = _folded(Snapshot(), self.changes()).edits.values()
                anew = {edit.id: conflict_keys(edit.record) for edit in known if edit.record.status is Status.ACTIVE}
                self._run("DELETE FROM drike_claims")
                for id, keys in anew.items():
                    self._claim(id, keys)
                claims = str(self._sum_of_claims())
                self.save_setting(CLAIMS, claims)
        self._began = self._end = replace(_LogEnd(*row or ()), claims=int(claims))

    def _save_end(self) -> None:
        if self._end != self._began:
            self.save_setting(HEAD, f"{self._end.number} {self._end.checksum}")
            self.save_setting(CLAIMS, str(self._end.claims))

    def _check_end(self) -> int:
        [row] = self._run(END)
        return check_end(self.name, *row)

    @contextmanager
    def _using(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._wait):
            raise records.UnavailableError(f"{self.name} is in use by another thread: try again")
        try:
            with self._explained():
                self._follow()
                yield
        finally:
            self._lock.release()

    def _follow(self) -> None:
        """Look at what is in the place of the store now."""
        return


def read_rows(name: str, rows: Sequence[Row]) -> list[EditVersion]:
    """The changes in all rows of a log. Raises StoreError if a row is damaged or missing; `name`: what has the rows."""
    before = [None, *(row[5] for row in rows)]
    return _read(name, [(*row, checksum) for row, checksum in zip(rows, before, strict=False)], 0, None)


def _read(name: str, rows: Sequence[ReadRow], after: int, edit: int | None) -> list[EditVersion]:
    """The changes in rows of a log. Raises StoreError if a row is damaged or missing; `name`: the store's."""
    for expected, (*content, checksum, previous) in enumerate(rows, after + 1):
        chained = previous or "" if len(str(checksum)) == _CHAINED else None  # a damaged value may be of any type
        if checksum != _checksum(content, chained) or (edit is None and content[0] != expected):
            raise damaged(name, f"change {expected}" if edit is None else f"edit {edit}")
    try:
        return [
            EditVersion(number, id, version, created_at, records.record_of(parse(text)), checksum)
            for number, id, version, created_at, text, checksum, _ in rows
        ]
    except ValueError as problem:
        raise damaged(name, str(problem)) from None


def check_end(name: str, head: str | None, last: str | None) -> int:
    """The number of the last change. Raises StoreError unless `last`, with its checksum, is what `head` says."""
    if head is None or head != (last or ""):
        raise damaged(name, "changes at the end of its log are missing, or are not drike's")
    return int(head.partition(" ")[0] or 0)


def claim_hash(key: str) -> bytes:
    """A conflict key as short bytes, since PostgreSQL's text has no NUL and its index no long values."""
    return hashlib.sha256(key.encode()).digest()


def claim_mark(hashed: bytes, edit: int) -> int:
    """A number of 40 bits for an edit's claim; their sum shows that claims were lost or changed."""
    return int.from_bytes(hashed[:5]) ^ edit


def damaged(name: str, what: str) -> StoreError:
    """The error for a store whose content cannot be that of a store."""
    remedy = "restore it from a copy, or give another --store"
    return StoreError(f"{name} is damaged or no store of edits ({what}): {remedy}")


def _checksum(content: Sequence[object], previous: str | None) -> str:
    """Of a change, and of the checksum before it; None for one that does not cover that."""
    digest = hashlib.sha256(_ENCODE(content if previous is None else (*content, previous)).encode()).hexdigest()
    return digest[: _CHAINED if previous is not None else 16]


def snapshot(store: EditStore, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Reads only what is new since an earlier snapshot, if the log goes on from it."""
    since = since or Snapshot()
    changes = store.changes(max(since.revision - 1, 0))
    if since.revision:
        if changes and changes[0].checksum == since.head:
            changes = changes[1:]
        else:
            changes, since = store.changes(), Snapshot(histories=since.histories + 1)
    return _folded(since, changes) if changes else since


def snapshot_at(store: EditStore, time: str) -> Snapshot:
    """What the edits were at a time, as `stamp` writes it. Raises StoreError."""
    return _folded(Snapshot(), [change for change in store.changes() if change.created_at <= time])


def _folded(since: Snapshot, changes: Sequence[EditVersion]) -> Snapshot:
    """An earlier snapshot with the changes after it."""
    edits, proposals = dict(since.edits), dict(since.proposals)
    for change in changes:
        known = edits.get(change.id)
        if change.record.replaces(known.record if known else None):
            edits[change.id] = change
        proposals.pop(change.id, None)
        if change.record.status is Status.PROPOSED:
            proposals[change.id] = change
    revision, head = (changes[-1].number, changes[-1].checksum) if changes else (since.revision, since.head)
    return Snapshot(revision, edits, proposals, head, since.histories)


def _decided(versions: Sequence[EditVersion]) -> Iterator[EditRecord]:
    """The records of those versions that decide, the latest first."""
    return (version.record for version in reversed(versions) if version.record.status.decides)


def decided_version(versions: Sequence[EditVersion]) -> EditVersion:
    """Of all versions of an edit the latest that decides, or the latest while none does."""
    return next((version for version in reversed(versions) if version.record.status.decides), versions[-1])


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
    known = versions(store, edit)
    record = decided_version(known).record
    if record.status is Status.RETIRED:
        raise StoreError(f"edit {edit} is retired already: choose one that is listed (drike edits list)")
    retired = replace(record, status=Status.RETIRED, author=author, reason=reason, move=None)
    return store.put(retired, replaces=known[-1])


def rollback(
    store: EditStore,
    edit: int,
    version: int | None = None,
    *,
    author: str | None = None,
    reason: str | None = None,
    supersede: bool = False,
) -> Sequence[EditVersion]:
    """Go back to a version of an edit, by default the one before, as a new one; return the changes. StoreError."""
    known = versions(store, edit)
    now = decided_version(known).version
    before = [each for each in known if each.version < now and each.record.status.decides]
    wanted = next((each for each in reversed(before) if version in (None, each.version)), None)
    if wanted is None:
        raise StoreError(
            f"edit {edit} is at version {now}: choose an earlier one that was in use (drike edits show {edit})"
            if before
            else f"edit {edit} has only one version: retire it instead"
        )
    why = f"back to version {wanted.version}" + (f": {reason}" if reason else "")
    record = replace(wanted.record, author=author, reason=why, move=None)
    return store.put(record, replaces=known[-1], supersede=supersede)
