"""A store of edits: the rules by which versions of edits enter its log.

No two active edits answer a question at the same time, and none is in use without the approvals
that the store requires.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from drike.edits.conflicts import ConflictError, overlap
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
from drike.stores import authorship, clock
from drike.stores.approvals import approvers, person, proposes
from drike.stores.database import Database
from drike.stores.log import EditLog
from drike.stores.pending import PendingProposals, says_the_same
from drike.stores.settings import StoreSettings
from drike.stores.snapshots import decided_version

# Settings: how many people must approve edits, and who has changed that number.
APPROVALS = "approvals"
APPROVALS_SET = "approvals_set"

_MAX_ID = 2**63  # databases have no larger whole numbers


class EditStore:
    """Keeps edits, in all their versions.

    A change that returned is kept, whatever happens next; one that did not has left nothing behind.
    Threads and processes may share a store. alike: finds the ids of edits that say in other words
    what an active record says, which then are its rivals, too. Every method raises StoreError if
    the store cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.settings = StoreSettings(database)
        self.log = EditLog(database)
        self._pending = PendingProposals(self.changes)
        self.alike: Callable[[EditStore, EditRecord], Collection[int]] = _none_alike
        try:
            with self.log.use():
                pass  # which checks the log
        except BaseException:
            database.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self.database.name

    def close(self) -> None:
        """Let go of the store."""
        self.database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the block at once, or none if it raises.

        Others wait before they change anything.
        """
        with self.log.transaction():
            yield

    def put(
        self, record: EditRecord, *, replaces: EditVersion | None = None, supersede: bool = False
    ) -> list[EditVersion]:
        """Keep a record as a new edit, or as the next version of `replaces`.

        Returns all changes, this one last. supersede: retire the active edits that the record
        contradicts. Raises RecordError for what `checked` refuses; ConflictError for active edits
        that it contradicts, unless they are superseded, or that it repeats; ApprovalError where it
        would be in use unapproved; StoreError if `replaces` has changed.
        """
        with self.transaction():
            needed = required_approvals(self)
            return self._put(checked(record), needed, replaces=replaces, supersede=supersede)

    def put_new(
        self, record: EditRecord, *, needed: int, supersede: bool = False
    ) -> list[EditVersion]:
        """`put` for one of many new records, in a transaction; `checked` has passed the record.

        needed: how many people must approve it.
        """
        with self.transaction():
            return self._put(record, needed, supersede=supersede)

    def _put(
        self,
        record: EditRecord,
        needed: int,
        *,
        replaces: EditVersion | None = None,
        supersede: bool = False,
    ) -> list[EditVersion]:
        """`put` for a checked record, inside a transaction."""
        now = clock.now()
        record = _with_review_date(record, now)
        if replaces is None:
            edit_id = self.log.next_edit_id
            earlier: Sequence[EditVersion] = []
        else:
            edit_id = replaces.id
            earlier = versions_of(self, edit_id, replaces.version)

        self._require_approved(record, earlier, needed)
        if repeated := self._repeated(record, edit_id, earlier):
            raise ConflictError(record, repeated)
        rivals = self._rivals(record, edit_id, earlier)
        if rivals and not (supersede and _contradicts_all(record, rivals)):
            raise ConflictError(record, rivals)

        changes = []
        for rival in rivals:
            retired = _superseded(rival.record, edit_id, record.author)
            changes.append(self._append(rival.id, versions_of(self, rival.id), retired, now))
        changes.append(self._append(edit_id, earlier, record, now))
        return changes

    def changes(self, after: int = 0, edit: int | None = None) -> list[EditVersion]:
        """The log after its first `after` changes, of all edits or of one."""
        return self.log.changes(after, edit)

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until the log has more than `after` changes; return whether it has.

        timeout: in seconds.
        """
        return self.log.wait(after, timeout)

    def gate(self, after: int = 0) -> tuple[int, str] | None:
        """The gate that was saved last: its number, from 1, and its text.

        None if that number is not above `after`.
        """
        query = (
            "SELECT number, gate FROM drike_gates WHERE number > %s ORDER BY number DESC LIMIT 1"
        )
        with self.log.use():
            row: tuple[int, str] | None = self.database.execute(query, [after]).fetchone()
        return row

    def save_gate(self, gate: str) -> None:
        """Save a gate for these edits as the latest one, as `calibration.to_json` writes it.

        "" stands for the default one.
        """
        with self.transaction():
            self.database.execute(
                "INSERT INTO drike_gates "
                "SELECT coalesce(max(number), 0) + 1, %s, %s FROM drike_gates",
                [clock.now(), gate],
            )

    def _append(
        self, edit_id: int, earlier: Sequence[EditVersion], record: EditRecord, now: str
    ) -> EditVersion:
        version = earlier[-1].version + 1 if earlier else 1
        return self.log.append(edit_id, version, now, record)

    def _require_approved(
        self, record: EditRecord, earlier: Sequence[EditVersion], needed: int
    ) -> None:
        """Raise ApprovalError if a record would be in use without so many approvals."""
        if record.status.in_use and not _has_approvals(self, record, earlier, needed):
            raise ApprovalError(needed)

    def _repeated(
        self, record: EditRecord, edit_id: int, earlier: Sequence[EditVersion]
    ) -> list[EditVersion]:
        """The other edits in force, or else proposals, that say what is newly proposed.

        earlier: the versions of the record's edit so far.
        """
        was_proposed = bool(earlier) and earlier[-1].record.status is Status.PROPOSED
        if record.status is not Status.PROPOSED or was_proposed:
            return []
        ids = sorted(self.log.claims.claimants(record) - {edit_id})
        in_force = [decided_version(self.changes(edit=rival_id)) for rival_id in ids]
        known = [edit for edit in in_force if says_the_same(edit.record, record)]
        return known or self._pending.saying(record)

    def _rivals(
        self, record: EditRecord, edit_id: int, earlier: Sequence[EditVersion]
    ) -> list[EditVersion]:
        """The other active edits that answer a question of an active record while it holds.

        earlier: the versions of its edit so far.
        """
        if record.status is not Status.ACTIVE:
            return []
        rival_ids = self.log.claims.claimants(record)
        decided = [version.record for version in earlier if version.record.status.decides]
        says_the_same = bool(decided) and effect(decided[-1]) == effect(record)
        if not says_the_same:
            rival_ids.update(self.alike(self, record))
        rival_ids.discard(edit_id)
        rivals = [decided_version(self.changes(edit=rival_id)) for rival_id in sorted(rival_ids)]
        return [rival for rival in rivals if overlap(rival.record, record)]


def _none_alike(store: EditStore, record: EditRecord) -> Collection[int]:
    """No edit says the same in other words: only equal words are compared."""
    return ()


def _with_review_date(record: EditRecord, now: str) -> EditRecord:
    """The record with the time when its review is due, if it is reviewed at intervals."""
    if record.review_by or not record.review_days:
        return record
    due = datetime.fromisoformat(now) + timedelta(days=record.review_days)
    return replace(record, review_by=stamp(due))


def _superseded(record: EditRecord, by_edit: int, author: str | None) -> EditRecord:
    """A record as it is retired when another edit takes its place."""
    why = f"superseded by edit {by_edit}"
    return replace(record, status=Status.RETIRED, author=author, reason=why, move=None)


def _contradicts_all(record: EditRecord, rivals: Sequence[EditVersion]) -> bool:
    """Whether every rival has another effect than the record, so that it repeats none of them."""
    return all(effect(rival.record) != effect(record) for rival in rivals)


def required_approvals(store: EditStore) -> int:
    """How many people must approve what an edit says before it is in use. Raises StoreError."""
    return int(store.settings.get(APPROVALS) or 0)


def is_approved(store: EditStore, record: EditRecord, earlier: Sequence[EditVersion]) -> bool:
    """Whether a record may be in use after earlier versions of its edit.

    It may if one that says the same was in use, or if enough people agree who are not its authors.
    Raises StoreError.
    """
    return _has_approvals(store, record, earlier, required_approvals(store))


def _has_approvals(
    store: EditStore, record: EditRecord, earlier: Sequence[EditVersion], needed: int
) -> bool:
    """`is_approved`, where so many people must approve."""
    if not needed or authorship.was_in_use(record, earlier):
        return True
    people = approvers(earlier, record)
    if record.move is Move.APPROVE and earlier and proposes(earlier[-1].record, record):
        people.add(person(record.author))
    if len(people) < needed:
        return False
    return len(people - authors_of(store, earlier, record) - {""}) >= needed


def authors_of(store: EditStore, versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who wrote what a record in use says, after these versions of its edit, and in other edits.

    Raises StoreError.
    """
    people = authorship.authors(versions, record)
    facts = authorship.new_facts(record, versions)
    own_id = versions[-1].id
    for edit_id in store.log.edits_with(facts):
        if edit_id != own_id:
            people |= authorship.authors_of_facts(store.changes(edit=edit_id), facts)
    return people


def require_approvals(store: EditStore, count: int, author: str | None = None) -> None:
    """Require so many approvals from now on. Raises StoreError."""
    with store.transaction():
        store.settings.save(APPROVALS, str(count))
        store.settings.add_to_history(APPROVALS_SET, {"needed": count, "author": author})


def versions_of(store: EditStore, edit_id: int, seen: int | None = None) -> Sequence[EditVersion]:
    """All versions of an edit, the latest last. Raises StoreError if there is no such edit.

    seen: the version that a person took for the latest; StoreError if there is a later one.
    """
    changes = store.changes(edit=edit_id) if edit_id < _MAX_ID else []
    if not changes:
        raise StoreError(
            f"there is no edit {edit_id}: choose one that is listed (drike edits list --all)"
        )
    if seen is not None and seen != changes[-1].version:
        raise StoreError(
            f"edit {edit_id} has changed since version {seen}: look at it, and try again"
        )
    return changes
