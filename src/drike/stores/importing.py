"""Edits from CSV and JSON, and of published data sets, whose paraphrases and neighbours are left for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from drike.datasets.form import Form
from drike.datasets.forms import FORMS, own
from drike.datasets.rows import Row, scan_rows
from drike.errors import DataError
from drike.stores import records
from drike.stores.log import EditStore
from drike.stores.moves import entering
from drike.stores.records import ConflictError, EditRecord, EditVersion, RecordError

ReadRow = tuple[str, EditRecord] | str  # the place and record of a row, or why it is refused

_FIELDS = {"prompt": "query", "paraphrase": "paraphrases"}  # of a record, by their names in own facts
_NOT_STORED = ("neighborhood", "neighborhood_prompt", "neighborhood_answer", "case_id", "move")


@dataclass(frozen=True)
class Imported:
    """The edits that were added, the number of rows that repeat active edits, and why other rows were refused."""

    added: tuple[EditVersion, ...]
    repeated: int
    refused: tuple[str, ...]


def read_edits(path: Path) -> list[ReadRow]:
    """Place and record of each usable row of a file, and why others are refused. Raises DataError for the file."""
    edits: list[ReadRow] = []
    for row in _rows(path):
        if isinstance(row, DataError):
            edits.append(str(row))
            continue
        try:
            edits.append((row.place, records.checked(_record(row))))
        except DataError as problem:
            edits.append(str(problem))
        except (RecordError, ValueError) as problem:
            edits.append(f"{row.place}: {problem}")
    return edits


def import_edits(
    store: EditStore, rows: Iterable[ReadRow], *, supersede: bool = False, author: str | None = None
) -> Imported:
    """Add the edits of `read_edits`, all at once, as proposals where the store requires approvals. Raises StoreError.

    author: of rows that name none.
    supersede: a row retires the active edits that it contradicts, those of earlier rows too; otherwise it is refused.
    """
    added, refused, repeated = list[EditVersion](), list[str](), 0
    with store.transaction():
        for row in rows:
            if isinstance(row, str):
                refused.append(row)
                continue
            place, record = row
            record = replace(record, author=records.imported_author(record.author, author))
            try:
                added.append(store.put(entering(store, record, decides=True), supersede=supersede)[-1])
            except ConflictError as problem:
                repeated += problem.repeated
                refused += [] if problem.repeated else [f"{place}: {problem}"]
    return Imported(tuple(added), repeated, tuple(refused))


def _rows(path: Path) -> Sequence[Row | DataError]:
    """The rows of a file, or why one cannot be read. Raises DataError, also if its first row has the wrong fields."""
    rows, _ = scan_rows(path, str(path))
    first = next((row for row in rows if isinstance(row, Row)), None)
    if first and not _published(first):
        fields = {_FIELDS.get(name, name) for name in own.named(first)}
        if lacking := [name for name in records.REQUIRED if name not in fields]:
            raise DataError(f"{first.place} has no field {lacking[0]!r}; {own.COLUMNS}")
    return rows


def _published(row: Row) -> Form | None:
    return next((form for form in FORMS if form is not own.FORM and form.recognises(row)), None)


def _record(row: Row) -> EditRecord:
    if form := _published(row):
        edit = form.edit(row, "alt")
        true = edit.target_true or None
        return EditRecord(edit.subject or "", edit.query, edit.target_new, true, edit.relation, source=row.place)
    values: dict[str, Any] = {}
    for name, columns in own.named(row).items():
        field = _FIELDS.get(name, name)
        cells = [value for column in columns if (value := row.values[column]) is not None and str(value).strip()]
        if cells and name not in _NOT_STORED:
            texts = (c.split(own.SEPARATOR) if isinstance(c, str) else c if isinstance(c, list) else [c] for c in cells)
            values[field] = list(chain.from_iterable(texts)) if field in records.LISTS else cells[0]
    for name in ("priority", "review_days"):
        if str(values.get(name, "")).isdecimal():
            values[name] = int(values[name])
    if (word := str(values.get("enforce", "")).casefold()) in ("true", "false"):
        values["enforce"] = word == "true"
    return records.record_of(values)
