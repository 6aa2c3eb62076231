"""A store of edits: a log of their versions that only grows, from which follows what they are now (`Snapshot`).

No two active edits answer a question at the same time. The checksum of a change covers that of the one before it.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from drike.edits import record as records
from drike.edits.record import (
    ConflictError,
    EditRecord,
    EditVersion,
    Status,
    StoreError,
    conflict_keys,
    damaged,
)
from drike.stores.approvals import is_approved

_MAX_ID = 2**63  # databases have no larger whole numbers
HEAD, CLAIMS = (
    "head",
    "claims by initials",
)  # settings: the last change with its checksum, and the sum of `claim_mark`
APPROVALS, APPROVALS_SET = (
    "approvals",
    "approvals_set",
)  # settings: how many people must approve edits, and its history
END = """SELECT (SELECT value FROM drike_settings WHERE name = 'head'),
    (SELECT number || ' ' || checksum FROM drike_changes ORDER BY number DESC LIMIT 1),
    (SELECT max(edit) FROM drike_changes)"""
_CHANGES = """SELECT c.number, c.edit, c.version, c.created_at, c.entry, c.checksum, b.checksum
    FROM drike_changes c LEFT JOIN drike_changes b ON b.number = c.number - 1 WHERE c.number > %s"""
_ENCODE = json.JSONEncoder(default=str).encode
_CHAINED = 32  # characters of a checksum that covers the one before it; earlier ones have 16
_KEPT = 100  # entries of a history
Row = tuple[
    int, int, int, str, str, str
]  # number, edit, version, created_at, the record as JSON, checksum


@dataclass(frozen=True)
class Snapshot:
    """Every edit by id, as `decided_version`, after `revision` changes, the last with the checksum `head`."""

    revision: int = 0
    edits: Mapping[int, EditVersion] = field(default_factory=dict)
    proposals: Mapping[int, EditVersion] = field(default_factory=dict)  # versions that wait
    head: str = ""
    histories: int = 0  # how often the store was found to hold another log, as after a restore
    unchanged: Mapping[int, int] = field(
        default_factory=dict
    )  # of edits, the version since which they say the same

    def since(self, earlier: Snapshot) -> Snapshot:
        """Of the edits, those that have changed after an earlier snapshot."""
        return replace(
            self,
            edits={id: edit for id, edit in self.edits.items() if edit.number > earlier.revision},
        )

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[EditVersion, ...]:
        """The edits with this status that hold at a time."""
        now, edits = records.stamp(at), self.edits.values()
        return tuple(
            e for e in edits if e.record.status is status and records.holds_at(e.record, now)
        )

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if the same ones hold forever."""
        now = records.stamp(at)
        times = (
            time
            for edit in self.edits.values()
            for time in (edit.record.valid_from, edit.record.valid_to)
        )
        return min((time for time in times if time and time > now), default=None)


class _LogEnd(NamedTuple):
    """The highest numbers of a change and of an edit, the last checksum, and the sum of claims."""

    number: int = 0
    edit: int = 0
    checksum: str = ""
    claims: int = 0


class EditStore(Protocol):
    """Keeps edits. A change that returned is kept, whatever happens next; one that did not has left nothing behind.

    name: without a password. alike: the edits that say in other words what an active record says, which are its rivals,
    too. Threads and processes may share a store. All raises StoreError where it is unusable. Statements have %s for
    values and `drike_` before tables, which a backend may spell in another way.
    """

    name: str
    alike: Callable[[EditStore, EditRecord], Collection[int]] = staticmethod(
        lambda store, record: ()
    )
    _claim_of: Callable[[str], str | bytes] = staticmethod(
        str
    )  # a conflict key as the table of claims has it
    _wait: float
    _lock: threading.RLock
    _began: _LogEnd = _LogEnd()  # as a transaction began, and in it
    _end: _LogEnd = _began
    _verified: bool = False  # whether the claims are known to be right

    @property
    def _writing(self) -> bool: ...

    def _committed(self) -> AbstractContextManager[None]:
        """Begin a transaction and commit it, or roll it back if the block raises."""

    def _explained(self) -> AbstractContextManager[None]: ...

    def _run(self, query: str, values: Sequence[object] = ()) -> Any: ...

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

        supersede: retire the active edits that the record contradicts. Raises RecordError for what `checked` refuses,
        ConflictError, ApprovalError where it would be in use unapproved, StoreError if `replaces` has changed.
        """
        with self.transaction():
            now = datetime.fromisoformat(self._now())
            record = records.checked(record)
            if record.review_days and not record.review_by:
                record = replace(
                    record, review_by=records.stamp(now + timedelta(days=record.review_days))
                )
            id = self._end.edit + 1 if replaces is None else replaces.id
            earlier = [] if replaces is None else versions(self, id, replaces.version)
            if record.status.in_use and not is_approved(
                record, earlier, needed := required_approvals(self)
            ):
                raise records.ApprovalError(needed)
            rivals = self._rivals(record, id, earlier)
            effects = {records.effect(rival.record) for rival in rivals}
            if rivals and not (supersede and records.effect(record) not in effects):
                raise ConflictError(record, rivals)
            why = f"superseded by edit {id}"
            gone = partial(
                replace, status=Status.RETIRED, author=record.author, reason=why, move=None
            )
            new = [(versions(self, rival.id), rival.id, gone(rival.record)) for rival in rivals]
            changes: list[EditVersion] = []
            for known, of, changed in [*new, (earlier, id, record)]:
                version = known[-1].version + 1 if known else 1
                content = (
                    self._end.number + 1,
                    of,
                    version,
                    records.stamp(now),
                    records.to_json(changed),
                )
                checksum = _checksum(content, self._end.checksum)
                changes.append(EditVersion(*content[:4], changed, checksum))
                self._write((*content, checksum), changed)
        return changes

    def changes(self, after: int = 0, edit: int | None = None) -> list[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""
        values, only = ([after], "") if edit is None else ([after, edit], "AND c.edit = %s")
        with self._using():
            least = 0 if after or edit is not None or self._writing else self._check_end().number
            rows = self._run(f"{_CHANGES} {only} ORDER BY c.number", values).fetchall()
        if len(rows) < least:
            raise damaged(self.name, "changes are missing")
        return read_rows(self.name, rows, after, edit)

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was saved last: its number, from 1, and its text; None if that number is not above `after`."""
        query = (
            "SELECT number, gate FROM drike_gates WHERE number > %s ORDER BY number DESC LIMIT 1"
        )
        return next(iter(self._rows(query, [after])), None)

    def save_gate(self, gate: str) -> None:
        """Save a gate for these edits as the latest one, as `calibration.to_json` writes it; "" for the default one."""
        query = (
            "INSERT INTO drike_gates SELECT coalesce(max(number), 0) + 1, %s, %s FROM drike_gates"
        )
        with self.transaction():
            self._run(query, [self._now(), gate])

    def setting(self, name: str) -> str | None:
        """The value that was saved last under a name; None if there is none."""
        rows = self._rows("SELECT value FROM drike_settings WHERE name = %s", [name])
        return str(rows[0][0]) if rows else None

    def save_setting(self, name: str, value: str) -> None:
        """Save a value under a name, in place of an earlier one."""
        query = "INSERT INTO drike_settings VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        with self.transaction():
            self._run(query, [name, value])

    def history(self, name: str) -> list[dict[str, Any]]:
        """What was last added to a list under a name, the latest last. Raises StoreError."""
        try:
            return list(map(dict, json.loads(self.setting(name) or "[]")))
        except (ValueError, TypeError) as problem:
            raise damaged(self.name, f"its {name}: {problem}") from None

    def add_to_history(self, name: str, entry: Mapping[str, object]) -> None:
        """Add an entry, with the time as `at`, to a list of which the last ones are kept."""
        with self.transaction():
            self.save_setting(
                name, json.dumps([*self.history(name), {**entry, "at": self._now()}][-_KEPT:])
            )

    def _now(self) -> str:
        return records.stamp(datetime.now(UTC))

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._using():
            return list(self._run(query, values))

    def _insert(self, table: str, rows: Sequence[Sequence[object]], conflict: str = "") -> None:
        """Add rows to a table, by one statement. conflict: what to do about a key that it has."""
        row = f"({', '.join(['%s'] * len(rows[0]))})"
        query = f"INSERT INTO {table} VALUES {', '.join([row] * len(rows))} {conflict}"  # noqa: S608 - no values
        self._run(query, [value for row in rows for value in row])

    def _rivals(
        self, record: EditRecord, id: int, earlier: Sequence[EditVersion]
    ) -> list[EditVersion]:
        """The active edits, other than `id`, that answer a question of an active record while it holds."""
        if record.status is not Status.ACTIVE:
            return []
        claims = [self._claim_of(key) for key in conflict_keys(record)]
        query = f"SELECT DISTINCT edit FROM drike_claims WHERE key IN ({', '.join(['%s'] * len(claims))})"  # noqa: S608
        ids = {edit for [edit] in self._run(query, claims)}
        decided = [version.record for version in earlier if version.record.status.decides]
        if not decided or records.effect(decided[-1]) != records.effect(record):
            ids.update(self.alike(self, record))
        others = (decided_version(self.changes(edit=other)) for other in sorted(ids - {id}))
        return [other for other in others if records.overlap(other.record, record)]

    def _write(self, row: Row, record: EditRecord) -> None:
        """Add a change, inside a transaction. record: that of the row; if it decides, its edit has its claims."""
        number, edit, version, _, _, checksum = row
        self._insert("drike_changes", [row])
        claims = self._end.claims
        if record.status.decides:
            query = "DELETE FROM drike_claims WHERE edit = %s RETURNING key"
            claims -= (
                sum(claim_mark(key, edit) for [key] in self._run(query, [edit]))
                if version > 1
                else 0
            )
            claims += self._claim(edit, record)
        self._end = _LogEnd(number, max(self._end.edit, edit), checksum, claims)

    def _claim(self, edit: int, record: EditRecord) -> int:
        """Let an edit that has no claims have those of its record, if that is active; return the sum of their marks."""
        if record.status is not Status.ACTIVE:
            return 0
        claims = [self._claim_of(key) for key in conflict_keys(record)]
        self._insert("drike_claims", [(claim, edit) for claim in claims])
        return sum(claim_mark(claim, edit) for claim in claims)

    def _sum_of_claims(self) -> int:
        return sum(
            claim_mark(claim, edit)
            for claim, edit in self._run("SELECT key, edit FROM drike_claims")
        )

    def _begin(self) -> None:
        """Where the log ends, as a transaction begins. Raises StoreError if the log or its claims are damaged."""
        end = self._check_end()
        claims = self.setting(CLAIMS) or ""
        if not (self._verified and claims):
            self._verified = claims == str(
                self._sum_of_claims()
            )  # else look once more, should this transaction fail
            if not self._verified:  # make the claims again from the log
                self._run("DELETE FROM drike_claims")
                claims = str(
                    sum(self._claim(edit.id, edit.record) for edit in snapshot(self).edits.values())
                )
                self.save_setting(CLAIMS, claims)
        self._began = self._end = end._replace(claims=int(claims))

    def _save_end(self) -> None:
        if self._end != self._began:
            self.save_setting(HEAD, f"{self._end.number} {self._end.checksum}")
            self.save_setting(CLAIMS, str(self._end.claims))

    def _check_end(self, end: Sequence[Any] | None = None) -> _LogEnd:
        """The log's end, but for its claims. Raises StoreError unless the last change is that which `head` names."""
        head, last, edit = end or self._run(END).fetchone()
        if head is None or head != (last or ""):
            raise damaged(
                self.name, "changes at the end of its log are missing, or are not drike's"
            )
        number, _, checksum = head.partition(" ")
        return _LogEnd(int(number or 0), edit or 0, checksum)

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


def read_rows(
    name: str, rows: Sequence[Any], after: int = 0, edit: int | None = None
) -> list[EditVersion]:
    """The changes of rows, which also have the checksum of the one before each. Raises StoreError for damaged ones."""
    for expected, (*content, checksum, previous) in enumerate(rows, after + 1):
        chained = (
            previous or "" if len(str(checksum)) == _CHAINED else None
        )  # a damaged value may be of any type
        if checksum != _checksum(content, chained) or (edit is None and content[0] != expected):
            raise damaged(name, f"change {expected}" if edit is None else f"edit {edit}")
    try:
        return [
            EditVersion(n, id, v, at, records.from_json(text), sum)
            for n, id, v, at, text, sum, _ in rows
        ]
    except ValueError as problem:
        raise damaged(name, str(problem)) from None


def migrations(file: str) -> list[str]:
    """What leads from each version of a backend's schema to the next, as a file beside this one has it."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return [step.strip() for step in re.split(r"-- to version \d+\n", text)[1:]]


def claim_hash(key: str) -> bytes:
    """A conflict key as short bytes, since PostgreSQL's text has no NUL and its index no long values."""
    return hashlib.sha256(key.encode()).digest()


def claim_mark(claim: str | bytes, edit: int) -> int:
    """A number of 40 bits for an edit's claim; their sum shows that claims were lost or changed."""
    hashed = claim_hash(claim) if isinstance(claim, str) else claim
    return int.from_bytes(hashed[:5]) ^ edit


def _checksum(content: Sequence[object], previous: str | None) -> str:
    """Of a change, and of the checksum before it; None for one that does not cover that."""
    digest = hashlib.sha256(
        _ENCODE(content if previous is None else (*content, previous)).encode()
    ).hexdigest()
    return digest[: _CHAINED if previous is not None else 16]


def snapshot(store: EditStore, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Reads only what is new since an earlier snapshot, if the log goes on from it."""
    since = since or Snapshot()
    changes = store.changes(max(since.revision - 1, 0))
    if since.revision and changes and changes[0].checksum == since.head:
        changes = changes[1:]
    elif since.revision:
        changes, since = store.changes(), Snapshot(histories=since.histories + 1)
    return folded(changes, since) if changes else since


def snapshot_at(store: EditStore, at: datetime) -> Snapshot:
    """What the edits were at a time. Raises StoreError."""
    return folded([change for change in store.changes() if change.created_at <= records.stamp(at)])


def folded(changes: Sequence[EditVersion], since: Snapshot = Snapshot()) -> Snapshot:
    """An earlier snapshot with the changes after it."""
    edits, proposals, unchanged = dict(since.edits), dict(since.proposals), dict(since.unchanged)
    for change in changes:
        before, now = edits[change.id].record if change.id in edits else None, change.record
        if now.replaces(before):
            edits[change.id] = change
            same = (
                before
                and before.status is now.status
                and records.effect(before) == records.effect(now)
            )
            unchanged[change.id] = unchanged[change.id] if same else change.version
        proposals.pop(change.id, None)
        if now.status is Status.PROPOSED:
            proposals[change.id] = change
    revision, head = (
        (changes[-1].number, changes[-1].checksum) if changes else (since.revision, since.head)
    )
    return Snapshot(revision, edits, proposals, head, since.histories, unchanged)


def required_approvals(store: EditStore) -> int:
    """How many people must approve what an edit says before it is in use. Raises StoreError."""
    return int(store.setting(APPROVALS) or 0)


def require_approvals(store: EditStore, count: int, author: str | None = None) -> None:
    """Require so many approvals from now on. Raises StoreError."""
    with store.transaction():
        store.save_setting(APPROVALS, str(count))
        store.add_to_history(APPROVALS_SET, {"needed": count, "author": author})


def decided_version(versions: Sequence[EditVersion]) -> EditVersion:
    """Of all versions of an edit the latest that decides, or the latest while none does."""
    return next(
        (version for version in reversed(versions) if version.record.status.decides), versions[-1]
    )


def versions(store: EditStore, edit: int, seen: int | None = None) -> Sequence[EditVersion]:
    """All versions of an edit, the latest last. seen: the one that a person took for that. Raises StoreError."""
    changes = store.changes(edit=edit) if edit < _MAX_ID else ()
    if not changes:
        raise StoreError(
            f"there is no edit {edit}: choose one that is listed (drike edits list --all)"
        )
    if seen not in (None, changes[-1].version):
        raise StoreError(f"edit {edit} has changed since version {seen}: look at it, and try again")
    return changes


def retire(
    store: EditStore, edit: int, *, author: str | None = None, reason: str | None = None
) -> list[EditVersion]:
    """Take an edit out of force; return the change. Raises StoreError if it does not exist or is retired already."""
    known = versions(store, edit)
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
    known = versions(store, edit)
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
