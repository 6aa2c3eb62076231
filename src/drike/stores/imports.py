"""Edits that come into a store from elsewhere, many at once."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from drike.answers.matching import normalise
from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, EditVersion, Status, effect
from drike.edits.record_checks import checked
from drike.edits.record_json import to_json
from drike.stores import moves
from drike.stores.approvals import carried_author, imported_author
from drike.stores.edit_store import EditStore, required_approvals
from drike.stores.snapshots import Snapshot, snapshot

# Fields of a record that say the same as another: a name, or a wording, is one wherever it stands.
_SAME_FIELDS = {"subject": "aliases", "query": "wordings"}


class PlacedRecord(NamedTuple):
    """A record, and where it stands in a file."""

    place: str
    record: EditRecord


class CheckedRecord(PlacedRecord):
    """One that `checked` has passed."""


ReadRow = PlacedRecord | str  # the record of a row, or why the row is refused


@dataclass(frozen=True)
class Imported:
    """What an import did.

    repeated: the number of rows that say what active edits say. refused: why other rows were left
    out, and places: their numbers, from 0.
    """

    added: tuple[EditVersion, ...]
    repeated: int
    refused: tuple[str, ...]
    places: tuple[int, ...] = ()


def import_edits(
    store: EditStore,
    rows: Iterable[ReadRow],
    *,
    supersede: bool = False,
    author: str | None = None,
    propose: bool = False,
) -> Imported:
    """Add the edits of rows, all at once, as proposals where the store requires approvals.

    propose: as proposals in any case.

    supersede: a row retires the active edits that it contradicts, those of earlier rows too;
    otherwise it is refused. Raises StoreError.
    """
    added = list[EditVersion]()
    refused = dict[int, str]()
    repeated = 0
    with store.transaction():
        needed = required_approvals(store)  # of a transaction, in which it stays
        waits = propose or needed > 0
        checked_authors = set[str | None]()
        identities = set(edit_ids_by_identity(snapshot(store)))
        for number, row in enumerate(rows):
            if isinstance(row, str):
                refused[number] = row
                continue

            record = replace(row.record, author=_author_of(row.record, author, waits))
            if identity_of(record) in identities:
                repeated += 1
                continue

            entered = moves.entered(record, at_once=not waits)
            try:
                if not isinstance(row, CheckedRecord) or record.author not in checked_authors:
                    entered = checked(entered)
                    checked_authors.add(record.author)
                added.append(store.put_new(entered, needed=needed, supersede=supersede)[-1])
            except ConflictError as conflict:
                reason = _why_refused(record, conflict)
                if reason is None:
                    repeated += 1
                else:
                    refused[number] = f"{row.place}: {reason}"
            else:
                identities.add(identity_of(record))
    return Imported(tuple(added), repeated, tuple(refused.values()), tuple(refused))


def _author_of(record: EditRecord, importer: str | None, needs_approval: bool) -> str | None:
    """The author of an imported record.

    Where others must approve it before it is in use, now or later, neither the one whom the file
    names nor the one who imports it may.
    """
    is_in_use = record.status.in_use and not needs_approval
    author = imported_author if is_in_use else carried_author
    return author(record.author, importer)


Identity = tuple[Status, EditRecord]


def identity_of(record: EditRecord) -> Identity:
    """What records have in common that say the same; a proposal says what the edit would."""
    status = record.approved_as if record.status is Status.PROPOSED else record.status
    return status, effect(record)


def edit_ids_by_identity(edits: Snapshot) -> dict[Identity, int]:
    """The edits and proposals of a store, by what they say."""
    versions = (*edits.edits.values(), *edits.proposals.values())
    return {identity_of(version.record): version.id for version in versions}


def _why_refused(record: EditRecord, conflict: ConflictError) -> str | None:
    """Why a record is refused; None if it repeats an edit and says nothing more."""
    if not conflict.repeated:
        return str(conflict)
    rival = conflict.rivals[0]
    new_statements = _statements(record) - _statements(rival.record)
    fields = sorted({field for field, _ in new_statements})
    if not fields:
        return None
    remedy = f"add that (drike edits change {rival.id}), or let the row supersede it (--supersede)"
    return f"edit {rival.id} lacks its {', '.join(fields)}: {remedy}"


def _statements(record: EditRecord) -> set[tuple[str, str]]:
    """What a record says, as the names of fields with a text of each."""
    statements = set()
    for field, value in json.loads(to_json(effect(record))).items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            statements.add((_SAME_FIELDS.get(field, field), normalise(str(text))))
    return statements
