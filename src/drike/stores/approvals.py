"""Who has approved what an edit says, and whether these are enough people: nobody approves what they wrote."""

from __future__ import annotations

from collections.abc import Sequence

from drike.stores.records import EditRecord, EditVersion, Move, Status, effect, person

APPROVALS = "approvals"  # the setting: how many people must approve what an edit says before it is in use


def approvers(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has approved what a record says since it was last proposed."""
    people, wanted = set[str](), effect(record)
    for kept in (version.record for version in reversed(versions)):
        if kept.status is not Status.PROPOSED or kept.approved_as is not record.status or effect(kept) != wanted:
            break
        people |= {person(kept.author)} if kept.move is Move.APPROVE else set()
    return people - {""}


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
    people = approvers(earlier, record) | ({person(record.author)} if record.move is Move.APPROVE else set())
    return len(people - authors(earlier, record) - {""}) >= needed
