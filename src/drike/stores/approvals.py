"""Who made a change, and who has approved it: nobody approves what they wrote."""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile

from drike.edits.record import EditRecord, EditVersion, Move, Status, effect

# What a gateway or an import adds to names of authors, and a name that is claimed may imitate.
_MARK = re.compile(r"[(\"]|^\W*key\b|\badmin port\b|\bimported by\b|\bdrafted by\b", re.IGNORECASE)
# Who really made a change, behind the name that they claim.
_BY = re.compile(
    r"""
    (?P<name> "(?: [^"\\] | \\. )*" | [^("]* )
    \ \( (?:
        (?: imported | drafted )\ by\ (?P<other>.*)
        | (?P<key> key\ [0-9a-f]{8} | admin\ port,\ [^()]* )
    ) \)
    """,
    re.VERBOSE | re.DOTALL,
)
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
    return carried_author(name, who) if name and _is_like_a_mark(name) else name or who


def carried_author(name: str | None, who: str | None) -> str | None:
    """The author of a text that somebody brings from elsewhere: who it names, and who brings it."""
    if not name or name == who:
        return who
    return claimed_author(name, f"imported by {who or 'someone'}")


def drafted_author(reporters: Iterable[str | None], who: str | None) -> str | None:
    """The author of an edit that somebody drafts from what others have reported."""
    others = [name for name in dict.fromkeys(reporters) if name and person(name) != person(who)]
    author = who or "someone"
    for name in others:
        author = claimed_author(name, f"drafted by {author}")
    return author if others else who


def _is_like_a_mark(name: str) -> bool:
    return _MARK.search(unicodedata.normalize("NFKC", name)) is not None


def person(author: str | None) -> str:
    """The person who made a change, without their role, as a name or a key; "" if not known."""
    if not author:
        return ""
    by = _BY.fullmatch(author)
    if by is None:
        return unicodedata.normalize("NFKC", _ROLE.sub("", author)).casefold()
    return person(by["other"]) if by["other"] else by["key"].casefold()


def people_named(author: str | None) -> set[str]:
    """The people who have a part in a change: who made it, and whose text they say that it is."""
    people = {person(author)}
    by = _BY.fullmatch(author or "")
    if by is not None:
        people |= people_named(_unquoted(by["name"]))
        people |= people_named(by["other"])
    return people - {""}


def _unquoted(name: str) -> str:
    """A name as `claimed_author` was given it."""
    with suppress(ValueError):
        return str(json.loads(name)) if name.startswith('"') else name
    return name


def approvers(versions: Sequence[EditVersion], record: EditRecord) -> set[str]:
    """Who has approved what a record in use says since it was last proposed."""
    latest_first = (version.record for version in reversed(versions))
    proposals = takewhile(lambda proposal: proposes(proposal, record), latest_first)
    people = {person(proposal.author) for proposal in proposals if proposal.move is Move.APPROVE}
    return people - {""}


def proposes(proposal: EditRecord, record: EditRecord) -> bool:
    """Whether a version proposes exactly what a record in use says."""
    return what_it_says(proposal) == (Status.PROPOSED, record.status, effect(record))


def what_it_says(record: EditRecord) -> tuple[Status, Status, EditRecord]:
    """A record's status, the one that it shall have, and its effect."""
    return record.status, record.approved_as, effect(record)
