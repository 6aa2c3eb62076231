"""The edits of a store that are in force, indexed, and brought up to date only when they have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from drike.encoders.base import TextEncoder
from drike.gates.index import EditIndex
from drike.stores.log import EditStore, Snapshot, snapshot
from drike.stores.records import EditVersion, Status, stamp


@dataclass(frozen=True, eq=False)
class StoreView:
    """What was read of a store.

    index: the edits in force. new: those that were not in the index before. until: when an edit next begins or ceases
    to hold; None for never, "" where nothing was read. since: when it was read; a clock set back may bring edits back.
    """

    snapshot: Snapshot = field(default_factory=Snapshot)
    index: EditIndex = field(default_factory=EditIndex)
    new: Sequence[EditVersion] = ()
    until: str | None = ""
    since: str = ""

    def at(
        self, now: datetime, store: EditStore, encoder: TextEncoder | None = None, *, shadow: bool = False
    ) -> StoreView:
        """The view of what is in force now; this one, if that has not changed. shadow: index shadow edits, too.

        Raises StoreError if the store cannot be read.
        """
        latest = snapshot(store, self.snapshot)
        due = stamp(now) < self.since or (self.until is not None and stamp(now) >= self.until)
        due = due or latest.histories != self.snapshot.histories
        if latest is self.snapshot and not due:
            return self
        read = latest if due else latest.since(self.snapshot)
        edits = (*read.in_force(now), *(read.in_force(now, Status.SHADOW) if shadow else ()))
        new = [edit for edit in edits if self.index.edits.get(edit.id) is not edit]
        index = EditIndex.of(edits, encoder, self.index) if due else self.index.changed(read.edits, edits)
        until = min(filter(None, (read.next_change(now), None if due else self.until)), default=None)
        return StoreView(latest, index, new, until, stamp(now))
