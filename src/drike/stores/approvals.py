"""Who has approved what an edit says, and whether these are enough people: nobody approves what they wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from drike.stores.people import person
from drike.stores.records import EditRecord, EditVersion, Move, Status, effect

if TYPE_CHECKING:  # it imports this module
    from drike.stores.log import EditStore

APPROVALS = "approvals"  # the setting: how many people must approve what an edit says before it is in use
APPROVALS_SET, _KEPT = "approvals_set", 100  # the setting: who set it, the last times


def required_approvals(store: EditStore) -> int:
    """How many people must approve what an edit says before it is in use. Raises StoreError."""
    return int(store.setting(APPROVALS) or 0)


def require_approvals(store: EditStore, count: int, author: str | None = None) -> None:
    """Require so many approvals from now on. Raises StoreError."""
    with store.transaction():
        made = [*approvals_set(store), {"needed": count, "author": author, "at": store._now()}]
        store.save_setting(APPROVALS, str(count))
        store.save_setting(APPROVALS_SET, json.dumps(made[-_KEPT:]))


def approvals_set(store: EditStore) -> list[dict[str, Any]]:
    """By whom and when the number was set, the last times, the latest last. Raises StoreError."""
    made: list[dict[str, Any]] = json.loads(store.setting(APPROVALS_SET) or "[]")
    return made


def approvers(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has approved what a record says since it was last proposed."""
    return {person(kept.author) for kept in _proposed(versions, record) if kept.move is Move.APPROVE} - {""}


def authors(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has written or proposed what a record says, ever."""
    wanted, written = effect(record), (None, Move.PROPOSE)
    kept = (version.record for version in versions if version.record.move in written)
    return {person(each.author) for each in kept if each.status is not Status.RETIRED and effect(each) == wanted}


def is_approved(record: EditRecord, earlier: Sequence[EditVersion], needed: int) -> bool:
    """Whether a record may be in use after earlier versions: one was that says the same, or enough people agree."""
    for known in (version.record for version in earlier):
        shadowed = known.status is Status.ACTIVE and record.status is Status.SHADOW
        if (known.status is record.status or shadowed) and effect(known) == effect(record):
            return True
    people = approvers(earlier, record)
    if record.move is Move.APPROVE and _proposed(earlier, record):
        people |= {person(record.author)}
    return len(people - authors(earlier, record) - {""}) >= needed


def _proposed(versions: Sequence[EditVersion], record: EditRecord) -> list[EditRecord]:
    """The last versions of an edit, as far as they propose what a record says."""
    wanted, last = effect(record), (version.record for version in reversed(versions))

    def proposes(kept: EditRecord) -> bool:
        return kept.status is Status.PROPOSED and kept.approved_as is record.status and effect(kept) == wanted

    return list(takewhile(proposes, last))
