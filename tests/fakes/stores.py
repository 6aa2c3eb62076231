"""What tests of stores share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from drike.edits.record import EditRecord
from drike.stores.edit_store import EditStore
from drike.stores.snapshots import snapshot

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo")


Opener = Callable[[Path], EditStore]


def active(store: EditStore) -> set[str]:
    return {one.record.target_new for one in snapshot(store).in_force(NOON)}
