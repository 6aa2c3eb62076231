"""Edits in tables: files of rows that people write, in many encodings, and with many columns."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from drike.edits.edit import Edit
from drike.edits.record import LISTS, REQUIRED, EditRecord, RecordError
from drike.edits.record_checks import checked
from drike.edits.record_json import record_of
from drike.errors import DataError
from drike.stores.columns import (
    COLUMNS,
    SEPARATOR,
    columns_by_name,
    name_of,
    says_nothing,
    similar_name,
    states_nothing,
)
from drike.stores.imports import CheckedRecord, Imported, ReadRow
from drike.support.files import write_text
from drike.support.records import encodable
from drike.support.rows import OverlongRowError, Row, rows_in, shown

# Fields of a record, by the names of their columns.
_FIELDS = {"prompt": "query", "paraphrase": "paraphrases"}
_NOT_STORED = ("neighborhood", "neighborhood_prompt", "neighborhood_answer", "case_id", "move")
_REASON = "refused because"  # a column of refused rows, which is not read again

# A cell that a spreadsheet would take for a formula is written with a sign before it, which is
# taken off when refused rows are read again. Numbers are none. The signs of a formula count in all
# their widths, and behind what nobody sees. A spreadsheet that divides rows elsewhere, as some do
# at semicolons, takes what is behind these for a cell, too.
_QUOTE = "'"
_SIGNS = "=+\\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
_UNSEEN = (  # but for tabs and ends of lines
    r"\x00-\x08\x0b\x0c\x0e-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5"
    r"\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff9-\ufffb"
)
_FORMULA = re.compile(rf"'*(?:[\t\r\n{_UNSEEN}]*[{_SIGNS}]|[\t\r\n])")
_FORMULA_WITHIN = re.compile(rf"(?<=[;\t\r\n])(?P<unseen>[{_UNSEEN}]*)(?P<formula>'*[{_SIGNS}])")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d+)*|[.,]\d+)(?:[eE][+-]?\d+)?%?")

_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Beginnings of files that are no text.
_NO_TEXTS = (
    (b"PK\x03\x04", "a spreadsheet"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet"),
    (b"\x1f\x8b", "compressed"),
    (b"%PDF", "a PDF"),
)
# What texts of Western Europe do not have, and texts in other encodings have if they are read as
# one: three signs beyond ASCII in a row, and money, fractions and the like within words.
_MISREAD = re.compile(
    r"[^\W\d_\x00-\x7f]{3}|[¤¦©¬®±²³´¶·¸¹¼½¾×÷¨¯°¢£¥§ºª‚ƒ†‡ˆ‰‹›˜\xa0]{2}"
    r"|(?<=[^\W\d_])[¤¢£¥¦¶±¸¼½¾×÷‚ƒ†‡ˆ‰‹˜](?!\d)|[¤¢£¥¦¶±¹²³¸¼½¾×÷‚ƒ†‡ˆ˜](?=[^\W\d_])"
    r"|[\x80-\x9f]"
)
_ZEROS = 0.25  # share of zero bytes at every other place that tells UTF-16 without a mark


class ScannedTable(NamedTuple):
    """The rows of a file, or why one cannot be read, and the file's encoding."""

    rows: Sequence[Row | DataError]
    encoding: str


class PublishedEdits(Protocol):
    """Reads edits from files in forms that others publish, such as those of benchmarks."""

    def has(self, row: Row) -> bool:
        """Whether the row is of such a form."""

    def edit(self, row: Row) -> Edit:
        """The edit of such a row. Raises DataError for a missing or unusable field."""


def scan(path: Path) -> ScannedTable:
    """Read the rows of a file in any common encoding. Raises DataError, OSError."""
    content = path.read_bytes()
    for beginning, what in _NO_TEXTS:
        if content.startswith(beginning):
            raise DataError(f"{path} is {what}, and no table in text: save it as CSV in UTF-8")
    text, encoding = decoded(content)
    misread = _MISREAD.search(text) if encoding in ("cp1252", "latin-1") else None
    if misread:
        line = text.count("\n", 0, misread.start()) + 1
        raise DataError(
            f"{path}, line {line}: its encoding is not known (it is neither UTF-8 nor that of "
            "Western Windows): save it as CSV in UTF-8"
        )
    # Unknown columns become metadata, whatever they are called: two of a name are no fault.
    rows = rows_in(text, str(path), may_repeat=lambda column: not name_of(column))
    return ScannedTable(rows, encoding)


def edits_of(
    rows: Sequence[Row | DataError],
    columns: Mapping[str, str] | None = None,
    published: PublishedEdits | None = None,
) -> list[ReadRow]:
    """The record of each row, with its place, or why the row is refused.

    columns: what columns are called here, by their names in the file. published: reads rows of
    published forms; by default all rows have the columns of own facts. Raises DataError where the
    columns fit no row at all.
    """
    reader = _RowReader(columns or {}, published)
    first = next((row for row in rows if isinstance(row, Row)), None)
    if first is not None:
        reader.check_columns(first)
    return [str(row) if isinstance(row, DataError) else reader.read(row) for row in rows]


@dataclass(frozen=True)
class _RowReader:
    """Reads the rows of one file; parameters as of `edits_of`."""

    columns: Mapping[str, str]
    published: PublishedEdits | None

    def check_columns(self, first: Row) -> None:
        """Raise DataError for columns with which no row can be read."""
        unknown = self.columns.keys() - first.values.keys()
        if unknown:
            existing = ", ".join(map(shown, first.values))
            raise DataError(f"{first.file} has no column {min(unknown)!r}; it has {existing}")

        names = [self.columns.get(column, column) for column in first.values]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            remedy = "rename one, or leave it out"
            raise DataError(f"{first.file} has two columns for {min(repeated)!r}: {remedy}")

        row = self._renamed(first)
        if self._is_published(row):
            return
        fields = {_FIELDS.get(name, name) for name in columns_by_name(row)}
        lacking = [name for name in REQUIRED if name not in fields]
        if lacking:
            raise DataError(f"{row.place} has no field {lacking[0]!r}; {COLUMNS}")

    def read(self, row: Row) -> ReadRow:
        """The record of a row, or why the row is refused."""
        row = self._renamed(row)
        try:
            record = self._record(row)
            _require_texts(record, row)
            return CheckedRecord(row.place, checked(record))
        except DataError as problem:  # which names the place
            return str(problem)
        except (RecordError, ValueError) as problem:
            return f"{row.place}: {problem}"

    def _record(self, row: Row) -> EditRecord:
        if self.published is None or not self.published.has(row):
            return _record_of_own(row)
        edit = self.published.edit(row)  # paraphrases and neighbours are left for tests
        return EditRecord(
            edit.subject or "",
            edit.query,
            edit.target_new,
            edit.target_true or None,
            edit.relation,
            source=row.place,
        )

    def _is_published(self, row: Row) -> bool:
        return self.published is not None and self.published.has(row)

    def _renamed(self, row: Row) -> Row:
        """The row with the names that its columns have here, and unknown columns as metadata."""
        values = {
            self.columns.get(column, column): value
            for column, value in _as_given(row.values).items()
            if column != _REASON
        }
        renamed = replace(row, values=values)
        names = {name_of(column) for column in values}
        if self._is_published(renamed) or not {"prompt", "target_new", "subject"} <= names:
            return renamed

        # A column like a known one is misspelt rather than metadata, and refused later on.
        unknown = {
            column for column in values if name_of(column) is None and similar_name(column) is None
        }
        metadata: dict[Any, Any] = {
            column: str(value)
            for column, value in values.items()
            if column in unknown and value not in (None, "") and not says_nothing(value)
        }
        known = {column: value for column, value in values.items() if column not in unknown}
        if isinstance(known.get("metadata"), dict):
            metadata |= known["metadata"]
        if metadata:
            known["metadata"] = metadata
        return replace(row, values=known)


def _record_of_own(row: Row) -> EditRecord:
    """The record of a row with the columns of own facts. Raises DataError, ValueError."""
    values: dict[str, Any] = {}
    for name, columns in columns_by_name(row).items():
        cells = [row.values[column] for column in columns]
        cells = [cell for cell in cells if cell is not None and str(cell).strip()]
        field = _FIELDS.get(name, name)
        if field not in REQUIRED:  # which are refused, and not left out
            cells = [cell for cell in cells if not says_nothing(cell)]
        if not cells or name in _NOT_STORED:
            continue
        if field in LISTS:
            texts = [text for cell in cells for text in _texts_in(cell)]
            values[field] = [text for text in texts if not says_nothing(text)]
        else:
            values[field] = cells[0]

    # In CSV every value is a text.
    for name in ("priority", "review_days"):
        if str(values.get(name, "")).isdecimal():
            values[name] = int(values[name])
    enforce = str(values.get("enforce", "")).casefold()
    if enforce in ("true", "false"):
        values["enforce"] = enforce == "true"
    return record_of(values)


def _require_texts(record: EditRecord, row: Row) -> None:
    """Raise DataError for a needed field in which a spreadsheet says that it has nothing."""
    for name in REQUIRED:
        text = getattr(record, name)
        # A subject of signs alone is refused with all other names without a word.
        is_missing = says_nothing if name == "subject" else states_nothing
        if is_missing(text):
            remedy = "write the text that is meant, or add such an edit with drike edits add"
            raise DataError(
                f"{row.place}: {name} is {shown(text)!r}, by which tables mark an empty cell or an "
                f"error, or shorten a number: {remedy}"
            )


def _texts_in(cell: object) -> list[Any]:
    """The texts of a cell, which may be a list in JSON, and divided by a sign in CSV."""
    if isinstance(cell, str):
        return list(cell.split(SEPARATOR))
    return cell if isinstance(cell, list) else [cell]


def write_refused(path: Path, rows: Sequence[Row | DataError], imported: Imported) -> None:
    """Write refused rows as CSV as they were, each with the reason, to be corrected and imported.

    rows: all rows of the file, which were imported.
    """
    cells_by_place = dict[int, dict[str, object]]()
    surplus_by_place = dict[int, Sequence[str]]()
    for place, row in enumerate(rows):
        if isinstance(row, Row):
            cells_by_place[place] = _cells(_as_given(row.values))
        elif isinstance(row, OverlongRowError):
            cells_by_place[place] = _cells(_as_given(row.cells))
            surplus_by_place[place] = row.surplus
        # Of other rows nothing could be read.
    columns = dict[str, None]()  # those of all rows, in their order
    for cells in cells_by_place.values():
        columns |= dict.fromkeys(cells)
    columns.pop(_REASON, None)

    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*map(_quoted, columns), _REASON])
    for place, reason in zip(imported.places, imported.refused, strict=True):
        if place in cells_by_place:
            line = [cells_by_place[place].get(column) for column in columns]
            # Cells beyond the header stay beyond it, so that the row is not read before it is put
            # right.
            surplus = surplus_by_place.get(place, ())
            writer.writerow(list(map(_quoted, [*line, reason, *surplus])))
    write_text(path, encodable(text.getvalue()))


def _quoted(cell: object) -> object:
    """A cell in which no spreadsheet sees a formula, even if it begins as one."""
    text = str(cell)
    if _NUMBER.fullmatch(text):
        return cell
    quoted = _FORMULA_WITHIN.sub(rf"\g<unseen>{_QUOTE}\g<formula>", text)
    if _FORMULA.match(text):
        quoted = _QUOTE + quoted
    return cell if quoted == text else quoted


def _as_given(cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cells of a row, by column, as they were before `write_refused`, if they come from it."""
    if _REASON not in cells:
        return cells
    return {_unquoted(column): _unquoted(cell) for column, cell in cells.items()}


def _unquoted(cell: Any) -> Any:
    """What `_quoted` was given."""
    if not isinstance(cell, str):
        return cell
    cell = _FORMULA_WITHIN.sub(_without_quote, cell)
    return cell.removeprefix(_QUOTE) if _FORMULA.match(cell) else cell


def _without_quote(match: re.Match[str]) -> str:
    return match["unseen"] + match["formula"].removeprefix(_QUOTE)


def _cells(row_values: Mapping[str, Any]) -> dict[str, object]:
    """A row as CSV has it: several texts in one cell, and metadata in columns of its own."""
    values = dict(row_values)
    metadata = values.get("metadata")
    if isinstance(metadata, dict):
        del values["metadata"]
        values |= metadata
    return {
        column: SEPARATOR.join(map(str, value)) if isinstance(value, list) else value
        for column, value in values.items()
    }


def decoded(content: bytes) -> tuple[str, str]:
    """The text of a file, and its encoding: by its mark, else the first in which it can be read."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace"), encoding
    # In UTF-16, every other byte of a text in Latin letters is zero.
    for encoding, high_bytes in (("utf-16-le", content[1::2]), ("utf-16-be", content[::2])):
        if high_bytes.count(0) > _ZEROS * len(high_bytes):
            return content.decode(encoding, "replace"), encoding
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding), encoding
    return content.decode("latin-1"), "latin-1"
