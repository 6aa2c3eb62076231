"""What the edits of a store are at a time: a `Snapshot`, which follows from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from drike.edits.record import EditRecord, EditVersion, Status, effect
from drike.edits.times import holds_at, stamp


@dataclass(frozen=True)
class Snapshot:
    """What the edits of a store are after the first `revision` changes of its log.

    edits: by id, each in the version that decides. proposals: by id, the versions that wait for
    approval. head: the checksum of the last change. histories: how often the store was found to
    hold another log, as after a restore. unchanged: by id, the number of the version since which an
    edit says the same.
    """

    revision: int = 0
    edits: Mapping[int, EditVersion] = field(default_factory=dict)
    proposals: Mapping[int, EditVersion] = field(default_factory=dict)
    head: str = ""
    histories: int = 0
    unchanged: Mapping[int, int] = field(default_factory=dict)

    def since(self, earlier: Snapshot) -> Snapshot:
        """This snapshot with only the edits that have changed after an earlier one."""
        changed = {id: edit for id, edit in self.edits.items() if edit.number > earlier.revision}
        return replace(self, edits=changed)

    def in_force(self, at: datetime, status: Status = Status.ACTIVE) -> tuple[EditVersion, ...]:
        """The edits with this status that hold at a time."""
        time = stamp(at)
        return tuple(
            edit
            for edit in self.edits.values()
            if edit.record.status is status and holds_at(edit.record, time)
        )

    def next_change(self, at: datetime) -> str | None:
        """When edits next begin or cease to hold after a time; None if they never do."""
        now = stamp(at)
        times: list[str | None] = []
        for edit in self.edits.values():
            times += (edit.record.valid_from, edit.record.valid_to)
        return min((time for time in times if time and time > now), default=None)


class ChangeLog(Protocol):
    """What changes of edits are read from, such as an `EditStore`."""

    def changes(self, after: int = 0) -> list[EditVersion]:
        """The changes after the first `after` ones."""


def snapshot(log: ChangeLog, since: Snapshot | None = None) -> Snapshot:
    """What the edits are now. Raises StoreError.

    since: an earlier snapshot. Only what is new since then is read, if the log goes on from it.
    """
    if since is None or since.revision == 0:
        return folded(log.changes(), since or Snapshot())
    changes = log.changes(since.revision - 1)
    if changes and changes[0].checksum == since.head:
        return folded(changes[1:], since)
    return folded(log.changes(), Snapshot(histories=since.histories + 1))


def snapshot_at(log: ChangeLog, at: datetime) -> Snapshot:
    """What the edits were at a time. Raises StoreError."""
    time = stamp(at)
    return folded([change for change in log.changes() if change.created_at <= time])


def folded(changes: Sequence[EditVersion], since: Snapshot = Snapshot()) -> Snapshot:
    """An earlier snapshot with the changes after it."""
    if not changes:
        return since
    edits = dict(since.edits)
    proposals = dict(since.proposals)
    unchanged = dict(since.unchanged)
    for change in changes:
        known = edits.get(change.id)
        before = known.record if known else None
        if change.record.replaces(before):
            edits[change.id] = change
            if before is None or not _say_the_same(before, change.record):
                unchanged[change.id] = change.version
        proposals.pop(change.id, None)  # so that the latest proposal stands last
        if change.record.status is Status.PROPOSED:
            proposals[change.id] = change
    last = changes[-1]
    return Snapshot(last.number, edits, proposals, last.checksum, since.histories, unchanged)


def _say_the_same(first: EditRecord, second: EditRecord) -> bool:
    same_effect = effect(first) == effect(second)
    return first.status is second.status and same_effect


def decided_version(versions: Sequence[EditVersion]) -> EditVersion:
    """Of all versions of an edit the latest that decides, or the latest while none does."""
    for version in reversed(versions):
        if version.record.status.decides:
            return version
    return versions[-1]
