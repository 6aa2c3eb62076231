"""Raw rows of JSON and CSV files, with typed access; every problem is a `DataError`."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from drike.errors import DataError

GROUP = "records"  # the single field of a row that is published as a bare list of objects
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # of CSV files
_LONGEST_SHOWN = 60  # characters of a value in a message
_LONGEST = 10_000  # characters of a text
_NAMED_SEPARATOR = re.compile(
    r"""\s*(?P<quote>"?)sep=(?P<separator>[^\w\s"']|\t)(?P=quote)[,; \t]*(?:\r\n?|\n)""",
    re.IGNORECASE,
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # half a character: JSON can spell it, UTF-8 cannot


@dataclass(frozen=True)
class Row:
    """One raw row of a file, or an object inside one.

    Accessors raise DataError for a missing or wrong field. index: from 0 in JSON, and as a
    spreadsheet counts in CSV, whose header is 1. within: the path to an inner object.
    """

    file: str
    index: int
    values: dict[str, Any]
    within: str = ""

    @property
    def place(self) -> str:
        """File and row, for messages."""
        place = f"{self.file}, row {self.index}"
        if "case_id" in self.values:
            place += f" (case_id {shown(self.values['case_id'])})"
        return place

    def wrong(self, field: str, problem: str) -> DataError:
        """The error for a field of this row."""
        remedy = "correct the row or remove it from the file"
        return DataError(f"{self.place}: field {self.within}{field} {problem}; {remedy}")

    def case_id(self) -> str:
        """The row's case_id as text: a number, or a name that is not blank."""
        value = self.values.get("case_id")
        if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
            raise self.wrong("case_id", "must be a number or a name")
        return self._stripped(str(value), ("case_id",))

    def text(self, *path: str) -> str:
        """The text at `path`, stripped."""
        return self._stripped(self._required(path, "a text", _is_text), path)

    def texts(self, *path: str) -> tuple[str, ...]:
        """The texts of the list at `path`, stripped."""
        texts = self._required(path, "a list of texts", _is_list_of(str))
        return tuple(self._stripped(text, path) for text in texts)

    def aliases(self, *path: str) -> tuple[str, ...]:
        """The texts at `path`, stripped and without blanks.

        They may be one, a list, or a list of lists of aliases.
        """
        expected = "a text, a list of texts or a list of lists of texts"
        value = self._required(path, expected, _holds_texts)
        stripped = (self._stripped(text, path) for text in _flat(value))
        return tuple(text for text in stripped if text)

    def answer(self, *path: str) -> str:
        """The first of the aliases at `path`, or "" if there is none."""
        return next(iter(self.aliases(*path)), "")

    def objects(self, *path: str) -> tuple[Row, ...]:
        """The objects of the list at `path`, as rows with a path of their own.

        () if there is no such field.
        """
        if value_at(self.values, *path) is None:
            return ()
        objects = self._required(path, "a list of objects", _is_list_of(dict))
        within = self.within + ".".join(path)
        return tuple(
            Row(self.file, self.index, values, f"{within}[{number}].")
            for number, values in enumerate(objects)
        )

    def _required(self, path: Sequence[str], expected: str, fits: Callable[[object], bool]) -> Any:
        value = value_at(self.values, *path)
        if value is None:
            raise self.wrong(".".join(path), "is missing")
        if not fits(value):
            raise self.wrong(".".join(path), f"must be {expected}")
        return value

    def _stripped(self, text: str, path: Sequence[str]) -> str:
        field = ".".join(path)
        if _SURROGATE.search(text):
            raise self.wrong(field, "holds half a character (a lone surrogate)")
        if "\0" in text:
            raise self.wrong(field, "holds a NUL character")
        if len(text) > _LONGEST:
            limit = f"where at most {_LONGEST:,} are read"
            raise self.wrong(field, f"holds {len(text):,} characters, {limit}")
        return text.strip()


def value_at(value: object, *path: str) -> Any:
    """What an object has at a path; None if it, or something on the way to it, is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list_of(kind: type) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        return isinstance(value, list) and all(isinstance(item, kind) for item in value)

    return fits


def _holds_texts(value: object) -> bool:
    return all(isinstance(item, str) for item in _flat(value))


def _flat(value: object) -> list[Any]:
    """The members of a list and of the lists in it; a single value by itself."""
    flat = list[Any]()
    for part in value if isinstance(value, list) else [value]:
        flat += part if isinstance(part, list) else [part]
    return flat


def shown(value: object) -> str:
    """A value from a file for use in a message: printable, on one line, cut if it is long."""
    text = str(value)
    if not text.isprintable():
        text = repr(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def read_rows(path: Path, name: str) -> tuple[list[Row], str]:
    """The rows of a JSON list, JSON lines or CSV file, and its SHA-256.

    Raises DataError as `scan_rows`, and for a row that cannot be used.
    """
    scanned, sha256 = scan_rows(path, name)
    rows = []
    for row in scanned:
        if isinstance(row, DataError):
            raise row
        rows.append(row)
    return rows, sha256


def scan_rows(path: Path, name: str) -> tuple[list[Row | DataError], str]:
    """The rows of a file, with the error in place of each unusable one, and its SHA-256.

    The name's ending says what it is: .csv, .jsonl, or JSON. Raises DataError if the file cannot
    be read as that.
    """
    try:
        content = path.read_bytes()
        rows = rows_in(content.decode("utf-8-sig"), name)
    except OSError as error:
        remedy = "check the path, or give the file's public address"
        raise DataError(f"{name} cannot be read ({error.strerror}); {remedy}") from None
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8, or download it again"
        raise DataError(f"{name} is not UTF-8 text (byte {error.start}); {remedy}") from None
    except ValueError as error:  # a NUL character in the path
        raise DataError(f"{shown(name)} cannot be read ({error}); check the path") from None
    return rows, hashlib.sha256(content).hexdigest()


class OverlongRowError(DataError):
    """A row of CSV with more cells than the header has columns.

    cells: those of the columns, by column, and surplus: the further ones.
    """

    def __init__(self, message: str, cells: dict[str, Any], surplus: Sequence[str]) -> None:
        super().__init__(message)
        self.cells = cells
        self.surplus = surplus


def _none_may_repeat(column: str) -> bool:
    return False


def rows_in(
    text: str, name: str, may_repeat: Callable[[str], bool] = _none_may_repeat
) -> list[Row | DataError]:
    """The rows of a file's text, as `scan_rows`.

    may_repeat: which columns of CSV a file may have several times; these then get numbers.
    """
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}, line {line} holds a NUL character; save the file as UTF-8 text")
    if not text.strip():
        raise DataError(f"{name} is empty; give a file with rows")

    path = name.partition("?")[0]  # or an address without its query
    suffix = Path(path).suffix.casefold()
    if suffix in (".csv", ".tsv"):
        rows = list(_rows_of_csv(text, name, may_repeat))
    elif suffix == ".jsonl":
        rows = list(_rows_of_json_lines(text, name))
    else:
        rows = list(_rows_of_json(text, name))
    if not rows:
        raise DataError(f"{name} holds no rows; give a file with at least one")
    return rows


def _rows_of_csv(
    text: str, name: str, may_repeat: Callable[[str], bool]
) -> Iterator[Row | DataError]:
    """The rows of a CSV file without blank ones and repeated headers.

    The last fields of a short row are None.
    """
    separator, text = _separator_of(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header = list[str]()
    columns = list[str]()
    index = 0
    try:
        for index, line in enumerate(lines, 1):
            cells = _without_blank_end([cell.strip() for cell in line])
            if not cells or cells == header:
                continue
            if not header:
                header = cells
                columns = _numbered(header, name, may_repeat)
            elif len(cells) > len(columns):
                what = f"{len(cells)} fields and the header {len(columns)}"
                separators = SEPARATORS.get(separator, repr(separator))
                remedy = f"put texts with {separators} in quotes"
                message = f"{name}, row {index} has {what}; {remedy}"
                surplus = line[len(columns) : len(cells)]
                yield OverlongRowError(message, _values_of(columns, line), surplus)
            else:
                yield Row(name, index, _values_of(columns, line))
    except csv.Error as error:
        raise DataError(
            f"{name}, row {index + 1} is not valid CSV ({error}); correct its quotes"
        ) from None


def _separator_of(text: str) -> tuple[str, str]:
    """The separator of a text of CSV, and the text from its header on.

    A first line "sep=;", which spreadsheets read and do not count as a row, names it. Else the
    header, which has none of the separators in its names, decides on one of them.
    """
    named = _NAMED_SEPARATOR.match(text)
    if named:
        return named["separator"], text[named.end() :]
    first_line = text.lstrip().partition("\n")[0]
    return max(SEPARATORS, key=first_line.count), text


def _values_of(columns: Sequence[str], line: Sequence[str]) -> dict[str, Any]:
    """The cells of a line by column, without those of a column that has no name."""
    values = dict(zip_longest(columns, line[: len(columns)]))
    values.pop("", None)
    return values


def _without_blank_end(cells: list[str]) -> list[str]:
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _numbered(header: Sequence[str], name: str, may_repeat: Callable[[str], bool]) -> list[str]:
    """The names of columns, with numbers for those that are repeated. Raises DataError."""
    columns = list[str]()
    for cell in header:
        if cell in columns and not may_repeat(cell):
            raise DataError(f"{name} has the column {shown(cell)!r} twice; rename one of them")
        column = cell
        numbers = count(2)
        while column in columns:
            column = f"{cell}_{next(numbers)}"
        columns.append(column)
    return columns


def _rows_of_json_lines(text: str, name: str) -> Iterator[Row | DataError]:
    """The rows of JSON lines.

    Lines end at line feeds only: strings may hold other line separators.
    """
    numbered = enumerate(text.split("\n"), 1)
    lines = ((number, line) for number, line in numbered if line.strip())
    for index, (number, line) in enumerate(lines):
        place = f"{name}, row {index} (line {number})"
        try:
            parsed = _parse(line)
            yield _row_of(parsed.value, name, index, parsed.repeated_keys)
        except json.JSONDecodeError as error:
            problem = f"column {error.colno}: {error.msg}"
            yield DataError(f"{place} is not valid JSON ({problem}); write one object a line")
        except (RecursionError, ValueError) as error:
            yield DataError(f"{place} is not usable JSON ({error}); correct the line or remove it")


def _rows_of_json(text: str, name: str) -> Iterator[Row | DataError]:
    """The rows of a JSON list, or of JSON lines if the first line is an object by itself."""
    try:
        parsed = _parse(text)
    except json.JSONDecodeError as error:
        first_line = text.lstrip().partition("\n")[0]
        is_first_valid = text[: error.pos].strip() == first_line.strip()
        if first_line.startswith("{") and is_first_valid:
            yield from _rows_of_json_lines(text, name)
            return
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        remedy = "give a JSON file, or download it again"
        raise DataError(f"{name} is not valid JSON ({where}); {remedy}") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number too long
        raise DataError(f"{name} is not usable JSON ({error}); give a data set file") from None

    if not isinstance(parsed.value, list):
        kind = type(parsed.value).__name__
        raise DataError(f"{name} holds a JSON {kind}, not a list of rows; give a data set file")
    for index, value in enumerate(parsed.value):
        yield _row_of(value, name, index, parsed.repeated_keys)


class _RepeatedKey(NamedTuple):
    """A key that an object has twice in JSON, and the object, so that no other gets its `id`."""

    key: str
    parsed: object


class _Parsed(NamedTuple):
    """A value of JSON, and by their `id` the objects in it that have a key twice."""

    value: Any
    repeated_keys: Mapping[int, _RepeatedKey]


def _parse(text: str) -> _Parsed:
    """Parse JSON. Raises ValueError, RecursionError."""
    repeated_keys = dict[int, _RepeatedKey]()

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
            repeated_keys[id(values)] = _RepeatedKey(key, values)
        return values

    return _Parsed(json.loads(text, object_pairs_hook=object_of), repeated_keys)


def _row_of(
    value: object, name: str, index: int, repeated_keys: Mapping[int, _RepeatedKey]
) -> Row | DataError:
    """A row of JSON; a list of objects (a group of records) becomes its single field."""
    if repeated_keys:
        for part in _parts_of(value):
            if id(part) in repeated_keys:
                key = shown(repeated_keys[id(part)].key)
                return DataError(
                    f"{name}, row {index} has the key {key!r} twice in one object; "
                    "remove one of them"
                )
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        value = {GROUP: value}
    if not isinstance(value, dict):
        what = f"is a {type(value).__name__}, not an object with fields"
        return DataError(f"{name}, row {index} {what}; give a file of a known form")
    return Row(name, index, value)


def _parts_of(value: object) -> Iterator[object]:
    """A value and all objects and lists in it, the outer ones first."""
    parts = [value]
    for part in parts:  # which grows
        yield part
        if isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list):
            parts += part
