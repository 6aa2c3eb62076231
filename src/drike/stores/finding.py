"""Find edits by what they say, and tell what changed between two states of a store."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drike.edits.record import MADE, EditVersion, RecordError, Status
from drike.edits.record_json import to_values
from drike.stores.moves import is_due
from drike.stores.snapshots import Snapshot
from drike.text.words import words

ALL = "all"


@dataclass(frozen=True)
class Search:
    """Which edits are wanted: those that all of this fits.

    text: words that the names, the query, the new object or the id must have, all of them. status:
    a `Status`, where "proposed" stands for changes that wait, or "all"; None for all but retired
    ones. subject: a name or an alias. due: a time (`stamp`) by which their review is due.
    """

    text: str = ""
    status: str | None = None
    owner: str | None = None
    subject: str | None = None
    due: str | None = None

    def __post_init__(self) -> None:
        if self.status not in (None, ALL, *Status):
            statuses = ", ".join(Status)
            raise RecordError(f"there is no status {self.status!r}: it is {ALL}, {statuses}")


def find(edits: Snapshot, search: Search) -> list[EditVersion]:
    """The edits that a search wants, the latest change first."""
    found = _with_status(edits, search.status)
    if search.owner is not None:
        owner = search.owner.casefold()
        found = [edit for edit in found if (edit.record.owner or "").casefold() == owner]
    if search.subject is not None:
        name = words(search.subject)
        found = [edit for edit in found if _is_named(edit, name)]
    if search.due is not None:
        found = [edit for edit in found if is_due(edit.record, search.due)]
    # The longest word comes first: it leaves the fewest edits to search for the others.
    for word in sorted(set(words(search.text)), key=len, reverse=True):
        whole_word = re.compile(rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9_+#])")
        # Looking for the letters alone is many times faster, and rules out most edits.
        found = [
            edit for edit in found if word in edit.searched and whole_word.search(edit.searched)
        ]
    return sorted(found, key=lambda edit: -edit.number)


def _with_status(edits: Snapshot, status: str | None) -> Iterable[EditVersion]:
    if status == Status.PROPOSED:
        return edits.proposals.values()
    if status == ALL:
        return edits.edits.values()
    if status is None:
        return [edit for edit in edits.edits.values() if edit.record.status is not Status.RETIRED]
    return [edit for edit in edits.edits.values() if edit.record.status == status]


def _is_named(edit: EditVersion, name: list[str]) -> bool:
    """Whether a name, by its words, is one of the edit's subject."""
    # The first condition follows from the second, and is faster.
    may_be_named = all(word in edit.searched for word in name)
    return may_be_named and any(words(known) == name for known in edit.record.names)


@dataclass(frozen=True)
class EditDifference:
    """What an edit was at two times.

    before: None where it was not known then. fields: those that differ, as before and after.
    """

    before: EditVersion | None
    after: EditVersion
    fields: Mapping[str, tuple[object, object]]


def difference(before: Snapshot, after: Snapshot) -> list[EditDifference]:
    """The edits that differ between two states of a store, by id."""
    differences = []
    for edit_id, now in sorted(after.edits.items()):
        was = before.edits.get(edit_id)
        if was is None:
            differences.append(EditDifference(None, now, {}))
            continue
        old = to_values(was.record)
        new = to_values(now.record)
        fields = {
            name: (old[name], new[name])
            for name in new
            if name not in MADE and old[name] != new[name]
        }
        if fields:
            differences.append(EditDifference(was, now, fields))
    return differences
