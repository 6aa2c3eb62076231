"""Find edits by what they say, and what was in force at a time; tell what changed between two times."""

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
    """Which edits are wanted: those that all of this fits."""

    text: str = (
        ""  # words that the names, the query, the new object or the id must have, all of them
    )
    status: str | None = (
        None  # a `Status`, proposed for changes that wait; "all"; None: all but retired ones
    )
    owner: str | None = None
    subject: str | None = None  # or an alias of it
    due: str | None = None  # only edits whose review is due by this time (`stamp`)

    def __post_init__(self) -> None:
        if self.status not in (None, ALL, *Status):
            raise RecordError(
                f"there is no status {self.status!r}: it is {ALL}, {', '.join(Status)}"
            )


def find(edits: Snapshot, search: Search) -> list[EditVersion]:
    """The edits that a search wants, the latest change first."""
    among: Iterable[EditVersion] = edits.edits.values()
    if search.status == Status.PROPOSED:
        among = edits.proposals.values()
    elif search.status != ALL:
        wanted = {search.status} if search.status else {*Status} - {Status.RETIRED}
        among = (edit for edit in among if edit.record.status in wanted)
    if search.owner is not None:
        owner = search.owner.casefold()
        among = (edit for edit in among if (edit.record.owner or "").casefold() == owner)
    if search.subject is not None:
        name = words(search.subject)
        among = (
            e
            for e in among
            if all(word in e.searched for word in name) and name in map(words, e.record.names)
        )
    if (time := search.due) is not None:
        among = (edit for edit in among if is_due(edit.record, time))
    for word in sorted(set(words(search.text)), key=len, reverse=True):
        whole = re.compile(rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9_+#])")
        among = [edit for edit in among if word in edit.searched and whole.search(edit.searched)]
    return sorted(among, key=lambda edit: -edit.number)


@dataclass(frozen=True)
class EditDifference:
    """What an edit was at two times; None where it was not known then. fields: that differ, as before and after."""

    before: EditVersion | None
    after: EditVersion
    fields: Mapping[str, tuple[object, object]]


def difference(before: Snapshot, after: Snapshot) -> list[EditDifference]:
    """The edits that differ between two states of a store, by id."""
    found = []
    for id, now in sorted(after.edits.items()):
        was = before.edits.get(id)
        old, new = to_values((was or now).record), to_values(now.record)
        fields = {
            name: (old[name], new[name])
            for name in new
            if name not in MADE and old[name] != new[name]
        }
        if was is None or fields:
            found.append(EditDifference(was, now, fields))
    return found
