"""Who made a change, and who has approved it: nobody approves what they wrote."""

import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, takewhile

from drike.edits.record import EditRecord, EditVersion, Move, Status, effect

# What a gateway or an import adds to names of authors, and a name that is claimed may imitate.
_MARK = re.compile(r"[(\"]|^\W*key\b|\badmin port\b|\bimported by\b", re.IGNORECASE)
# Who really made a change, behind the name that they claim.
_BY_KEY = re.compile(r"\((key [0-9a-f]{8}|admin port, [^()]*)\)$")
_ROLE = re.compile(r" \((report|use|propose|approve|admin)\)$")


def claimed_author(name: str, who: str) -> str:
    """The author of a change, by the name that someone gives, and who that really is.

    The name is in quotation marks if it reads like a mark of drike's.
    """
    shown = json.dumps(name, ensure_ascii=False) if _is_like_a_mark(name) else name
    return f"{shown} ({who})"


def imported_author(name: str | None, who: str | None) -> str | None:
    """The author of an imported edit: as the file has it, else who imported it.

    A name that reads like a mark of drike's is followed by who imported it.
    """
    if not name:
        return who
    return (
        claimed_author(name, f"imported by {who or 'someone'}") if _is_like_a_mark(name) else name
    )


def _is_like_a_mark(name: str) -> bool:
    return _MARK.search(unicodedata.normalize("NFKC", name)) is not None


def person(author: str | None) -> str:
    """The person who made a change, without their role, as a name or a key; "" if not known."""
    if not author:
        return ""
    by_key = _BY_KEY.search(author)
    who = by_key[1] if by_key else _ROLE.sub("", author)
    return who.casefold()


def approvers(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has approved what a record says since it was last proposed."""
    proposals = _proposals_of(versions, record)
    people = {person(proposal.author) for proposal in proposals if proposal.move is Move.APPROVE}
    return people - {""}


def authors(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has ever written or proposed what a record says.

    A person who changed only what has no effect is not its author.
    """
    wanted = effect(record)
    people = set[str]()
    records = (version.record for version in versions)
    for (status, _, what), alike in groupby(records, key=_what_it_says):
        first = next(alike)
        is_written = first.move in (None, Move.PROPOSE) and status is not Status.RETIRED
        if is_written and what == wanted:
            people.add(person(first.author))
    return people


def is_approved(record: EditRecord, earlier: Sequence[EditVersion], needed: int) -> bool:
    """Whether a record may be in use after earlier versions of its edit.

    One that says the same was in use, or enough people agree. needed: how many must.
    """
    if not needed:
        return True
    wanted = effect(record)
    statuses = {version.record.status for version in earlier if effect(version.record) == wanted}
    if record.status in statuses:
        return True
    if record.status is Status.SHADOW and Status.ACTIVE in statuses:
        return True
    people = approvers(earlier, record)
    if record.move is Move.APPROVE and _proposals_of(earlier, record):
        people.add(person(record.author))
    return len(people - authors(earlier, record) - {""}) >= needed


def _proposals_of(versions: Sequence[EditVersion], record: EditRecord) -> list[EditRecord]:
    """The last versions of an edit, the latest first, as far as they propose what a record says."""
    wanted = (Status.PROPOSED, record.status, effect(record))
    latest_first = (version.record for version in reversed(versions))
    return list(takewhile(lambda proposal: _what_it_says(proposal) == wanted, latest_first))


def _what_it_says(record: EditRecord) -> tuple[Status, Status, EditRecord]:
    """A record's status, the one that it shall have, and its effect."""
    return record.status, record.approved_as, effect(record)
