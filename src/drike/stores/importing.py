"""Edits from CSV and JSON, and of published data sets, whose paraphrases and neighbours are left for tests."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from drike.datasets import own
from drike.datasets.form import Form
from drike.datasets.forms import FORMS
from drike.datasets.rows import Row, rows_in, shown
from drike.errors import DataError
from drike.stores import moves, records
from drike.stores.approvals import imported_author, required_approvals
from drike.stores.log import EditStore
from drike.stores.records import ConflictError, EditRecord, EditVersion, RecordError
from drike.support.files import write_text

ReadRow = tuple[str, EditRecord] | str  # the place and record of a row, or why it is refused

_FIELDS = {"prompt": "query", "paraphrase": "paraphrases"}  # of a record, by their names in own facts
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ZEROS = 0.25  # share of zero bytes at every other place that tells UTF-16 without a mark
_WHY = "refused because"  # a column of refused rows, which is not read again
_NOT_STORED = ("neighborhood", "neighborhood_prompt", "neighborhood_answer", "case_id", "move")


@dataclass(frozen=True)
class Imported:
    """The added edits, the number of rows that repeat active ones, and why others were refused, with their places."""

    added: tuple[EditVersion, ...]
    repeated: int
    refused: tuple[str, ...]
    places: tuple[int, ...] = ()


def scan(path: Path) -> tuple[Sequence[Row | DataError], str]:
    """The rows of a file, or why one cannot be read, and the encoding that it was read in. Raises DataError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
    text, encoding = _decoded(content)
    return rows_in(text, str(path), may_repeat=lambda column: not own.meaning(column)), encoding


def edits_of(rows: Sequence[Row | DataError], columns: Mapping[str, str] | None = None) -> list[ReadRow]:
    """Place and record of each row, or why it is refused. columns: what some are called here. Raises DataError."""
    columns, first = columns or {}, next((row for row in rows if isinstance(row, Row)), None)
    if first and (unknown := columns.keys() - first.values.keys()):
        raise DataError(f"{first.file} has no column {min(unknown)!r}; it has {', '.join(map(shown, first.values))}")
    if first and not _published(first := _named(first, columns)):
        fields = {_FIELDS.get(name, name) for name in own.named(first)}
        if lacking := [name for name in records.REQUIRED if name not in fields]:
            raise DataError(f"{first.place} has no field {lacking[0]!r}; {own.COLUMNS}")
    return [str(row) if isinstance(row, DataError) else _edit_of(_named(row, columns)) for row in rows]


def _edit_of(row: Row) -> ReadRow:
    try:
        return row.place, records.checked(_record(row))
    except DataError as problem:
        return str(problem)
    except (RecordError, ValueError) as problem:
        return f"{row.place}: {problem}"


def import_edits(
    store: EditStore, rows: Iterable[ReadRow], *, supersede: bool = False, author: str | None = None
) -> Imported:
    """Add the edits of `edits_of`, all at once, as proposals where the store requires approvals. Raises StoreError.

    supersede: a row retires the active edits that it contradicts, those of earlier rows too; otherwise it is refused.
    """
    added, refused, repeated = list[EditVersion](), dict[int, str](), 0
    with store.transaction():
        approved = required_approvals(store) > 0
        for number, row in enumerate(rows):
            if isinstance(row, str):
                refused[number] = row
                continue
            place, record = row
            named = imported_author(record.author, author)  # who imports an edit does not approve it
            record = replace(record, author=author if approved else named)
            try:
                added.append(store.put(moves.entering(store, record, decides=True), supersede=supersede)[-1])
            except ConflictError as problem:
                repeated += problem.repeated
                if not problem.repeated:
                    refused[number] = f"{place}: {problem}"
    return Imported(tuple(added), repeated, tuple(refused.values()), tuple(refused))


def write_refused(path: Path, rows: Sequence[Row | DataError], imported: Imported) -> None:
    """Write refused rows as CSV as they were, each with why, so that they can be corrected and imported."""
    columns = dict.fromkeys(name for row in rows if isinstance(row, Row) for name in row.values if name != _WHY)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*columns, _WHY], extrasaction="ignore")
    writer.writeheader()
    for place, reason in zip(imported.places, imported.refused, strict=True):
        row = rows[place]
        writer.writerow({**(row.values if isinstance(row, Row) else {}), _WHY: reason})
    write_text(path, text.getvalue())


def _decoded(content: bytes) -> tuple[str, str]:
    """The text of a file, and its encoding: by its mark, else the first in which it can be read."""
    marked = [encoding for mark, encoding in _MARKS if content.startswith(mark)]
    halves = (("utf-16-le", content[1::2]), ("utf-16-be", content[::2]))
    for encoding in marked or [encoding for encoding, zeros in halves if zeros.count(0) > _ZEROS * len(zeros)]:
        return content.decode(encoding, "replace"), encoding
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding), encoding
    return content.decode("latin-1"), "latin-1"


def _named(row: Row, columns: Mapping[str, str]) -> Row:
    """The row with the names that its columns have here, and what is not known as metadata."""
    values = {columns.get(name, name): value for name, value in row.values.items() if name != _WHY}
    meant = {own.meaning(name) for name in values}
    if _published(replace(row, values=values)) or not {"prompt", "target_new", "subject"} <= meant:
        return replace(row, values=values)
    extra = {name for name in values if own.meaning(name) is None and not own.near(name)}
    more = {name: str(value) for name, value in values.items() if name in extra and value not in (None, "")}
    kept = {name: value for name, value in values.items() if name not in extra}
    known = kept.get("metadata")
    more |= known if isinstance(known, dict) else {}
    return replace(row, values=kept | ({"metadata": more} if more else {}))


def _published(row: Row) -> Form | None:
    return next((form for form in FORMS if form is not own.FORM and form.recognises(row)), None)


def _record(row: Row) -> EditRecord:
    if form := _published(row):
        edit = form.edits(row, "alt")[0]
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
