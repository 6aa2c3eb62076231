"""The proposals of a store by the questions that they answer, so that none is made twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from drike.answers.matching import normalise
from drike.edits.conflicts import conflict_keys, overlap
from drike.edits.record import EditRecord, EditVersion, Status

Changes = Callable[[int], Sequence[EditVersion]]  # the log after its first so many changes


class PendingProposals:
    """New edits that wait for approval. They are read from the log once, and then kept up."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._versions: dict[int, EditVersion] = {}
        self._ids_by_key: dict[str, set[int]] = defaultdict(set)
        # Up to which change of the log these are known.
        self._last_number = 0
        self._last_checksum = ""

    def saying(self, record: EditRecord) -> list[EditVersion]:
        """The proposals that answer a question of a record as it does, inside a transaction."""
        self._read_changes()
        ids: set[int] = set()
        for key in conflict_keys(record):
            ids |= self._ids_by_key.get(key, set())
        found = [self._versions[edit_id] for edit_id in sorted(ids)]
        return [proposal for proposal in found if says_the_same(proposal.record, record)]

    def _read_changes(self) -> None:
        """Take in what the log has had since it was last read."""
        # The last known change is read again: where it is another now, all must be read anew.
        changes = self._changes(max(self._last_number - 1, 0))
        new = changes[1:] if self._last_number else changes
        is_another_history = not changes or changes[0].checksum != self._last_checksum
        if self._last_number and is_another_history:
            self._last_number = 0
            self._versions = {}
            self._ids_by_key.clear()
            changes = new = self._changes(0)

        for change in new:
            self._take(change)
        if changes:
            self._last_number = changes[-1].number
            self._last_checksum = changes[-1].checksum

    def _take(self, change: EditVersion) -> None:
        before = self._versions.pop(change.id, None)
        if before is not None:
            for key in conflict_keys(before.record):
                self._ids_by_key[key].discard(change.id)
        if change.record.status is Status.PROPOSED:
            self._versions[change.id] = change
            for key in conflict_keys(change.record):
                self._ids_by_key[key].add(change.id)


def says_the_same(first: EditRecord, second: EditRecord) -> bool:
    """Whether two records that answer one question answer it alike, at a time of both."""
    same_object = normalise(first.target_new) == normalise(second.target_new)
    return same_object and overlap(first, second)
