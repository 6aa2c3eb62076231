"""Edits from files: CSV and JSON lines with the fields of an `Entry`, and published data sets.

Of a published row only the edit is read: its paraphrases and neighbours test whether an edit fires, and would test
nothing if they were stored with it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drike.datasets.forms import FORMS
from drike.datasets.rows import Row, read_rows, shown
from drike.errors import DataError
from drike.serving.store import (
    DEFAULTS,
    LISTS,
    NEEDED,
    ConflictError,
    EditStore,
    Entry,
    EntryError,
    StoredEdit,
    entry_of,
)

_SEPARATOR = "|"  # of the texts in a cell of a CSV file


@dataclass(frozen=True)
class Imported:
    """The edits that were added, the number of rows that repeat active edits, and why other rows were refused."""

    added: tuple[StoredEdit, ...]
    repeated: int
    refused: tuple[str, ...]


def import_file(store: EditStore, path: Path, *, supersede: bool = False, author: str | None = None) -> Imported:
    """Add the usable edits of a file, all at once.

    supersede: a row retires the active edits that it contradicts, those of earlier rows too; otherwise it is refused.
    author: of rows that name none. Raises DataError for an unreadable file, StoreError for an unusable store.
    """
    added: list[StoredEdit] = []
    refused: list[str] = []
    repeated = 0
    rows = _rows(path)
    with store.transaction():
        for row in rows:
            if isinstance(row, DataError):
                refused.append(str(row))
                continue
            try:
                entry = _entry(row)
                added.append(store.put(replace(entry, author=entry.author or author), supersede=supersede)[-1])
            except DataError as problem:
                refused.append(str(problem))
            except (EntryError, ValueError) as problem:
                if isinstance(problem, ConflictError) and problem.repeated:
                    repeated += 1
                else:
                    refused.append(f"{row.place}: {problem}")
    return Imported(tuple(added), repeated, tuple(refused))


def _entry(row: Row) -> Entry:
    """The entry of a row. Raises DataError, ValueError."""
    for form in FORMS:
        if form.recognises(row):
            edit = form.edit(row, "alt")
            known = edit.target_true or None
            return Entry(edit.subject or "", edit.query, edit.target_new, known, edit.relation, source=row.place)
    return entry_of(row.values)


def _rows(path: Path) -> Sequence[Row | DataError]:
    """The rows of a file, or why one cannot be read. Raises DataError, also if its first row has unknown columns."""
    suffix = path.suffix.casefold()
    try:
        if suffix == ".csv":
            return list(_table(path))
        rows = list(_lines(path)) if suffix == ".jsonl" else read_rows(path, str(path))[0]
    except OSError as problem:
        raise DataError(f"{path} cannot be read ({problem.strerror}): check the path") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{path} cannot be read ({problem}): save it as CSV or JSON lines in UTF-8") from None
    first = next((row for row in rows if isinstance(row, Row)), None)
    if first and not any(form.recognises(first) for form in FORMS):
        _check_columns(path, first.values)
    return rows


def _check_columns(path: Path, columns: Iterable[str], needed: Iterable[str] = ()) -> None:
    """Raise DataError for columns that an entry lacks, and for needed ones that are missing."""
    names = f"the columns are {', '.join(NEEDED)} and, where needed, {', '.join(DEFAULTS)}"
    given = list(columns)
    for name in given:
        if name not in NEEDED and name not in DEFAULTS:
            raise DataError(f"{path} has a column {shown(name)!r}: {names}")
        if given.count(name) > 1:
            raise DataError(f"{path} has two columns {name!r}: remove one")
    for name in needed:
        if name not in given:
            raise DataError(f"{path} has no column {name!r}: {names}")


def _table(path: Path) -> Iterator[Row | DataError]:
    """The rows of a CSV file, numbered as in a spreadsheet, where the header is row 1."""
    table = csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), strict=True)
    _check_columns(path, table.fieldnames or (), NEEDED)
    for index, cells in enumerate(table, 2):
        if None in cells:
            yield DataError(f"{path}, row {index}: it has more cells than there are columns; quote cells with commas")
            continue
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if cell and cell.strip()}
        for name in values.keys() & LISTS:
            values[name] = values[name].split(_SEPARATOR)
        if values.get("priority", "").isdecimal():
            values["priority"] = int(values["priority"])
        if (word := values.get("enforce", "").casefold()) in ("true", "false"):
            values["enforce"] = word == "true"
        yield Row(str(path), index, values)


def _lines(path: Path) -> Iterator[Row | DataError]:
    """The rows of a file of JSON lines, numbered from 0 as in other data."""
    for index, line in enumerate(filter(str.strip, path.read_bytes().decode("utf-8-sig").split("\n"))):
        try:
            values = json.loads(line, object_pairs_hook=_unique)
            if not isinstance(values, dict):
                raise ValueError("it is no object")
            yield Row(str(path), index, values)
        except (ValueError, RecursionError) as problem:
            yield DataError(f"{path}, row {index}: {problem}; write one JSON object a line")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key occurs twice")
    return values
