"""The edits of a store that are in force, indexed, and brought up to date only when they have changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from drike.encoders.base import TextEncoder
from drike.gates.scope import EditIndex
from drike.stores.store import EditStore, Snapshot, Status, snapshot, stamp


@dataclass(frozen=True, eq=False)
class InForce:
    """What was read of a store. until: when its edits in force next change by themselves; "" is at once."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    index: EditIndex = field(default_factory=lambda: EditIndex(()))
    until: str | None = ""

    def at(
        self, now: datetime, store: EditStore, encoder: TextEncoder | None = None, *, shadow: bool = False
    ) -> InForce:
        """What is in force now; this one, if that has not changed. shadow: index shadow edits, too.

        Raises StoreError if the store cannot be read.
        """
        found = snapshot(store, self.snapshot)
        if found is self.snapshot and (self.until is None or stamp(now) < self.until):
            return self
        edits = (*found.in_force(now), *(found.in_force(now, Status.SHADOW) if shadow else ()))
        return InForce(found, EditIndex.of(edits, encoder, self.index), found.next_change(now))
