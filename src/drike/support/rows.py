"""Raw rows of files, with typed access, and what of them is dropped and cut; every problem is a `DataError`."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import Any, Literal

from drike.errors import DataError

How = Literal["unchanged", "template", "sentence", "subject"]  # where a paraphrase was cut

GROUP = "records"  # the single field of a row that is published as a bare list of objects
_LONGEST_SHOWN, _LONGEST = 60, 10_000  # characters
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # half a character: JSON can spell it, UTF-8 cannot
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # of CSV files


@dataclass(frozen=True)
class Row:
    """One raw row of a file, or an object inside one; accessors raise DataError for a missing or wrong field."""

    file: str
    index: int  # from 0 in JSON, and as a spreadsheet counts in CSV, whose header is 1
    values: dict[str, Any]
    within: str = ""  # the path to an inner object

    @property
    def place(self) -> str:
        """File and row, for messages."""
        named = f" (case_id {shown(self.values['case_id'])})" if "case_id" in self.values else ""
        return f"{self.file}, row {self.index}{named}"

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
        return self._stripped(
            self._required(path, "a text", lambda value: isinstance(value, str)), path
        )

    def texts(self, *path: str) -> tuple[str, ...]:
        """The texts of the list at `path`, stripped."""
        return tuple(
            self._stripped(text, path)
            for text in self._required(path, "a list of texts", _is_list_of(str))
        )

    def aliases(self, *path: str) -> tuple[str, ...]:
        """The texts at `path`, be it one, a list, or a list of lists of aliases; stripped, without blanks."""
        expected = "a text, a list of texts or a list of lists of texts"
        value = self._required(path, expected, lambda value: _is_list_of(str)(_flat(value)))
        return tuple(filter(None, (self._stripped(text, path) for text in _flat(value))))

    def answer(self, *path: str) -> str:
        """The first of the aliases at `path`, or "" if there is none."""
        return next(iter(self.aliases(*path)), "")

    def objects(self, *path: str) -> tuple[Row, ...]:
        """The objects of the list at `path`, as rows with a path of their own; () if there is no such field."""
        if at(self.values, *path) is None:
            return ()
        objects = self._required(path, "a list of objects", _is_list_of(dict))
        within = self.within + ".".join(path)
        return tuple(
            Row(self.file, self.index, values, f"{within}[{i}].")
            for i, values in enumerate(objects)
        )

    def _required(self, path: Sequence[str], expected: str, fits: Callable[[object], bool]) -> Any:
        value = at(self.values, *path)
        if value is None or not fits(value):
            raise self.wrong(
                ".".join(path), "is missing" if value is None else f"must be {expected}"
            )
        return value

    def _stripped(self, text: str, path: Sequence[str]) -> str:
        if _SURROGATE.search(text):
            raise self.wrong(".".join(path), "holds half a character (a lone surrogate)")
        if "\0" in text:
            raise self.wrong(".".join(path), "holds a NUL character")
        if len(text) > _LONGEST:
            raise self.wrong(
                ".".join(path),
                f"holds {len(text):,} characters, where at most {_LONGEST:,} are read",
            )
        return text.strip()


@dataclass(frozen=True)
class Dropped:
    """How many rows or probes were dropped for one reason; `example` is the first place."""

    what: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class Cut:
    """One paraphrase: as published, as kept, how it was cut, and whether the cut may be wrong."""

    before: str
    after: str
    how: How
    suspicious: bool


@dataclass(frozen=True)
class ReadLog:
    """Collects, while files are read, the rows that are dropped or lack a probe, by what and reason, and the cuts."""

    dropped: defaultdict[tuple[str, str], list[Row]] = field(
        default_factory=lambda: defaultdict(list)
    )
    cuts: list[Cut] = field(default_factory=list)


def at(value: object, *path: str) -> Any:
    """What an object has at a path; None if it, or something on the way to it, is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is_list_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _flat(value: object) -> list[Any]:
    """The members of a list and of the lists in it; a single value by itself."""
    outer = value if isinstance(value, list) else [value]
    return [item for part in outer for item in (part if isinstance(part, list) else [part])]


def shown(value: object) -> str:
    """A value from a file for use in a message: printable, on one line, cut after some characters."""
    text = str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def read_rows(path: Path, name: str) -> tuple[list[Row], str]:
    """The rows of a JSON list, JSON lines or CSV file; its SHA-256. Raises DataError as `scan_rows` and for a row."""
    scanned, sha256 = scan_rows(path, name)
    if problem := next((row for row in scanned if isinstance(row, DataError)), None):
        raise problem
    return [row for row in scanned if isinstance(row, Row)], sha256


def scan_rows(path: Path, name: str) -> tuple[list[Row | DataError], str]:
    """The rows of a file in order, with the error in place of each unusable one, and the file's SHA-256.

    The name's ending says what it is: .csv, .jsonl, or JSON. Raises DataError if the file cannot be read as that.
    """
    try:
        content = path.read_bytes()
        return rows_in(content.decode("utf-8-sig"), name), hashlib.sha256(content).hexdigest()
    except OSError as error:
        remedy = "check the path, or give the file's public address"
        raise DataError(f"{name} cannot be read ({error.strerror}); {remedy}") from None
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8, or download it again"
        raise DataError(f"{name} is not UTF-8 text (byte {error.start}); {remedy}") from None
    except ValueError as error:  # a NUL character in the path
        raise DataError(f"{shown(name)} cannot be read ({error}); check the path") from None


def rows_in(
    text: str, name: str, may_repeat: Callable[[str], bool] = lambda column: False
) -> list[Row | DataError]:
    """The rows of a file's text, as `scan_rows`. may_repeat: which columns of CSV, which then get a number."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}, line {line} holds a NUL character; save the file as UTF-8 text")
    if not text.strip():
        raise DataError(f"{name} is empty; give a file with rows")
    suffix = Path(
        name.partition("?")[0]
    ).suffix.casefold()  # of a path, or of an address without its query
    lines = _lines(text, name) if suffix == ".jsonl" else _json(text, name)
    if rows := list(_table(text, name, may_repeat) if suffix in (".csv", ".tsv") else lines):
        return rows
    raise DataError(f"{name} holds no rows; give a file with at least one")


def _table(text: str, name: str, may_repeat: Callable[[str], bool]) -> Iterator[Row | DataError]:
    """The rows of a CSV file without blank ones and repeated headers; the last fields of a short row are None."""
    # The header, which has none of the separators in its names, decides on one of them.
    separator = max(SEPARATORS, key=text.lstrip().partition("\n")[0].count)
    header, columns = list[str](), list[str]()
    index = 0
    try:
        for index, row in enumerate(
            csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 1
        ):
            cells = list(map(str.strip, row))
            while cells and not cells[-1]:
                del cells[-1]
            if not cells or cells == header:
                continue
            if not header:
                header = cells
                for cell in cells:
                    if cell in columns and not may_repeat(cell):
                        raise DataError(
                            f"{name} has the column {shown(cell)!r} twice; rename one of them"
                        )
                    numbered = (f"{cell}_{number}" for number in count(2))
                    columns.append(
                        next(column for column in chain([cell], numbered) if column not in columns)
                    )
            elif len(cells) > len(columns):
                remedy = f"put texts with {SEPARATORS[separator]} in quotes"
                yield DataError(
                    f"{name}, row {index} has {len(cells)} fields and the header {len(columns)}; {remedy}"
                )
            else:
                values = dict(zip_longest(columns, row[: len(columns)]))
                yield Row(
                    name, index, {column: value for column, value in values.items() if column}
                )
    except csv.Error as error:
        raise DataError(
            f"{name}, row {index + 1} is not valid CSV ({error}); correct its quotes"
        ) from None


def _lines(text: str, name: str) -> Iterator[Row | DataError]:
    """The rows of JSON lines. Lines end at line feeds only: strings may hold other line separators."""
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    for index, (number, line) in enumerate(lines):
        place = f"{name}, row {index} (line {number})"
        try:
            values, repeated = _parse(line)
            yield _row(values, name, index, repeated)
        except json.JSONDecodeError as error:
            yield DataError(
                f"{place} is not valid JSON (column {error.colno}: {error.msg}); write one object a line"
            )
        except (RecursionError, ValueError) as error:
            yield DataError(f"{place} is not usable JSON ({error}); correct the line or remove it")


def _json(text: str, name: str) -> Iterator[Row | DataError]:
    """The rows of a JSON list, or of JSON lines if the first line is an object by itself."""
    try:
        loaded, repeated = _parse(text)
    except json.JSONDecodeError as error:
        first = text.lstrip().partition("\n")[0]
        if first.startswith("{") and text[: error.pos].strip() == first.strip():
            return (yield from _lines(text, name))
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise DataError(
            f"{name} is not valid JSON ({where}); give a JSON file, or download it again"
        ) from None
    except (
        RecursionError,
        ValueError,
    ) as error:  # nested thousands deep, or a number of thousands of digits
        raise DataError(f"{name} is not usable JSON ({error}); give a data set file") from None
    if not isinstance(loaded, list):
        raise DataError(
            f"{name} holds a JSON {type(loaded).__name__}, not a list of rows; give a data set file"
        )
    yield from (_row(values, name, index, repeated) for index, values in enumerate(loaded))


def _row(
    values: object, name: str, index: int, repeated: Mapping[int, tuple[str, object]]
) -> Row | DataError:
    """A row of JSON; a list of objects (a group of records) becomes its single field."""
    parts = [values] if repeated else []
    for part in parts:  # which grows: every object and list of the row
        if id(part) in repeated:
            twice = shown(repeated[id(part)][0])
            return DataError(
                f"{name}, row {index} has the key {twice!r} twice in one object; remove one of them"
            )
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if isinstance(values, list) and values and all(isinstance(record, dict) for record in values):
        values = {GROUP: values}
    if not isinstance(values, dict):
        kind = type(values).__name__
        return DataError(
            f"{name}, row {index} is a {kind}, not an object with fields; give a file of a known form"
        )
    return Row(name, index, values)


def _parse(text: str) -> tuple[Any, dict[int, tuple[str, object]]]:
    """Parse JSON; also returns a repeated key of each object that has one, by its identity."""
    repeated: dict[
        int, tuple[str, object]
    ] = {}  # with the object, so that no other one gets its id

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            repeated[id(values)] = Counter(key for key, _ in pairs).most_common(1)[0][0], values
        return values

    return json.loads(text, object_pairs_hook=unique), repeated
