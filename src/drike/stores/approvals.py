"""Who made a change, and who has approved it: nobody approves what they wrote."""

import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, takewhile

from drike.edits.record import EditRecord, EditVersion, Move, Status, effect

_MARK = re.compile(
    r"[(\"]|^\W*key\b|\badmin port\b|\bimported by\b", re.IGNORECASE
)  # of an author by a gateway
_BY_KEY = re.compile(
    r"\((key [0-9a-f]{8}|admin port, [^()]*)\)$"
)  # who really made a change, where a name is claimed
_ROLE = re.compile(r" \((report|use|propose|approve|admin)\)$")


def claimed_author(name: str, who: str) -> str:
    """The author of a change, by the name that someone gives; in quotation marks if it reads like a mark of drike's."""
    plain = unicodedata.normalize("NFKC", name)
    return f"{json.dumps(name, ensure_ascii=False) if _MARK.search(plain) else name} ({who})"


def imported_author(name: str | None, who: str | None) -> str | None:
    """The author of an imported edit: as the file has it, with who imported it where it reads like a mark."""
    marked = name and _MARK.search(unicodedata.normalize("NFKC", name))
    return (
        claimed_author(name, f"imported by {who or 'someone'}") if name and marked else name or who
    )


def person(author: str | None) -> str:
    """The person who made a change, by what its author is written as: without the role, as a name or a key; or ""."""
    claimed = _BY_KEY.search(author or "")
    return (claimed[1] if claimed else _ROLE.sub("", author or "")).casefold()


def approvers(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has approved what a record says since it was last proposed."""
    return {
        person(kept.author) for kept in _proposed(versions, record) if kept.move is Move.APPROVE
    } - {""}


def authors(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has written or proposed what a record says, ever; not who changed only what has no effect."""
    wanted, records = effect(record), (version.record for version in versions)
    alike = groupby(records, lambda kept: (kept.status, kept.approved_as, effect(kept)))
    kept = (
        first for first in (next(same) for _, same in alike) if first.move in (None, Move.PROPOSE)
    )
    return {
        person(each.author)
        for each in kept
        if each.status is not Status.RETIRED and effect(each) == wanted
    }


def is_approved(record: EditRecord, earlier: Sequence[EditVersion], needed: int) -> bool:
    """Whether a record may be in use after earlier versions: one was that says the same, or enough people agree."""
    if not needed:
        return True
    held = {
        version.record.status for version in earlier if effect(version.record) == effect(record)
    }
    if record.status in held or (record.status is Status.SHADOW and Status.ACTIVE in held):
        return True
    people = approvers(earlier, record)
    if record.move is Move.APPROVE and _proposed(earlier, record):
        people |= {person(record.author)}
    return len(people - authors(earlier, record) - {""}) >= needed


def _proposed(versions: Sequence[EditVersion], record: EditRecord) -> list[EditRecord]:
    """The last versions of an edit, as far as they propose what a record says."""
    wanted = Status.PROPOSED, record.status, effect(record)
    last = (version.record for version in reversed(versions))
    return list(
        takewhile(lambda kept: (kept.status, kept.approved_as, effect(kept)) == wanted, last)
    )
