"""Raw rows of published files with typed access, and the records of what a loader dropped and cut.

Every problem of a file is a `DataError` with file, row, field and remedy. What the fields mean is in `forms`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drike.edits import EditCase
from drike.errors import DataError

Target = Literal["alt", "answers"]  # the new object of zsRE's edits: the made-up one, or the first true answer
GROUP = "records"  # the single field of a row that is published as a bare list of objects
_LONGEST_SHOWN = 60  # characters
_HALF = re.compile(r"[\ud800-\udfff]")  # a lone surrogate: JSON can spell it, UTF-8 cannot


@dataclass(frozen=True)
class Row:
    """One raw row of a file, or an object inside one.

    `file` is as the user named it, `index` counts from 0, `within` is the path of fields down to an inner object.
    """

    file: str
    index: int
    values: dict[str, Any]
    within: str = ""

    @property
    def place(self) -> str:
        """File and row, for messages."""
        named = f" (case_id {shown(self.values['case_id'])})" if "case_id" in self.values else ""
        return f"{self.file}, row {self.index}{named}"

    def wrong(self, field: str, problem: str) -> DataError:
        """The error for a field of this row."""
        return DataError(
            f"{self.place}: field {self.within}{field} {problem}; correct the row or remove it from the file"
        )

    def case_id(self) -> str:
        """The row's case_id as text. Raises DataError unless it is a number or a text that is not blank."""
        value = self.values.get("case_id")
        if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
            raise self.wrong("case_id", "must be a number or a name")
        return self._whole(str(value), "case_id")

    def text(self, *path: str) -> str:
        """The text at `path`, stripped. Raises DataError if there is none."""
        value = self._at(path)
        if not isinstance(value, str):
            raise self.wrong(".".join(path), "must be a text" if value is not None else "is missing")
        return self._whole(value, ".".join(path))

    def texts(self, field: str) -> tuple[str, ...]:
        """The texts of a list field, stripped. Raises DataError if it is missing or holds anything else."""
        value = self.values.get(field)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(field, "must be a list of texts" if value is not None else "is missing")
        return tuple(self._whole(one, field) for one in value)

    def aliases(self, *path: str) -> tuple[str, ...]:
        """The texts at `path`, be it one, a list, or a list of lists of aliases; stripped, without blanks.

        Raises DataError for anything else, or a missing field.
        """
        field, value = ".".join(path), self._at(path)
        if value is None:
            raise self.wrong(field, "is missing")
        outer = value if isinstance(value, list) else [value]
        flat = [one for entry in outer for one in (entry if isinstance(entry, list) else [entry])]
        texts = [self._whole(one, field) for one in flat if isinstance(one, str)]
        if len(texts) < len(flat):
            raise self.wrong(field, "must be a text, a list of texts or a list of lists of texts")
        return tuple(filter(None, texts))

    def objects(self, *path: str) -> tuple[Row, ...]:
        """The objects of the list at `path`, as rows that know their place; () without such a field."""
        field, value = ".".join(path), self._at(path)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(field, "must be a list of objects")
        return tuple(Row(self.file, self.index, one, f"{self.within}{field}[{i}].") for i, one in enumerate(value))

    def _at(self, path: Sequence[str]) -> object:
        """The value at `path`; None if it, or something on the way to it, is missing."""
        value: object = self.values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def _whole(self, text: str, field: str) -> str:
        if _HALF.search(text):
            raise self.wrong(field, "holds half a character (a lone surrogate)")
        return text.strip()


def shown(value: object) -> str:
    """A value from a file for use in a message: printable, on one line, cut after some characters."""
    text = str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


@dataclass(frozen=True)
class Dropped:
    """A count of rows, paraphrases or neighbours that were dropped for one reason; `example` is the first place."""

    what: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class Cut:
    """One paraphrase: as published, as kept, how it was cut (a field of `Cleaning`), and whether that may be wrong."""

    before: str
    after: str
    how: str
    suspicious: bool


@dataclass(frozen=True)
class Cleaning:
    """What paraphrase cleaning did: counts by kind of cut, some examples, and all doubtful cuts."""

    unchanged: int = 0
    template: int = 0
    sentence: int = 0
    subject: int = 0
    examples: tuple[Cut, ...] = ()
    suspicious: tuple[Cut, ...] = ()

    @property
    def total(self) -> int:
        """How many paraphrases were examined."""
        return self.unchanged + self.template + self.sentence + self.subject


@dataclass(frozen=True)
class Parsed:
    """What a form's `parse` returns: cases in file order, counts of what it dropped, and each paraphrase's cut."""

    cases: tuple[EditCase, ...]
    dropped: tuple[Dropped, ...]
    cuts: tuple[Cut, ...]


def tally(events: Iterable[tuple[str, str, str]]) -> tuple[Dropped, ...]:
    """Group (what, reason, place) events by what and reason, in order of first appearance."""
    places: dict[tuple[str, str], list[str]] = {}
    for what, reason, place in events:
        places.setdefault((what, reason), []).append(place)
    return tuple(Dropped(what, reason, len(at), at[0]) for (what, reason), at in places.items())


def summarise(cuts: Sequence[Cut], examples: int = 3) -> Cleaning:
    """Count cuts by kind; examples are spread evenly over the cuts that changed something."""
    kinds = [cut.how for cut in cuts]
    changed = [cut for cut in cuts if cut.before != cut.after]
    step = max(1, len(changed) // examples)
    return Cleaning(
        unchanged=kinds.count("unchanged"),
        template=kinds.count("template"),
        sentence=kinds.count("sentence"),
        subject=kinds.count("subject"),
        examples=tuple(changed[::step][:examples]),
        suspicious=tuple(cut for cut in cuts if cut.suspicious),
    )


def read_rows(path: Path, shown: str) -> tuple[list[Row], str]:
    """The rows of a JSON list or JSON lines file, and its SHA-256; `shown` is the file's name in messages.

    Raises DataError if the file cannot be read, is not JSON, is empty, or holds anything but objects.
    """
    try:
        content = path.read_bytes()
        loaded = _parse(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"{shown} does not exist; check the path, or give the file's public address") from None
    except OSError as error:
        raise DataError(f"{shown} cannot be read ({error.strerror}); give the path of a JSON file") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{shown} is not UTF-8 text (byte {error.start}); download it again") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        if not content.strip():
            raise DataError(f"{shown} is empty; give a JSON file with rows") from None
        raise DataError(f"{shown} is not valid JSON ({where}); give a JSON file, or download it again") from None
    except RecursionError:
        raise DataError(f"{shown} nests lists or objects too deeply; give a data set file") from None
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"{shown} is not usable JSON ({error}); give a data set file") from None
    if not isinstance(loaded, list):
        raise DataError(f"{shown} holds a JSON {type(loaded).__name__}, not a list of rows; give a data set file")
    if not loaded:
        raise DataError(f"{shown} holds no rows; give a file with at least one")
    rows = [Row(shown, index, _fields(values, shown, index)) for index, values in enumerate(loaded)]
    return rows, hashlib.sha256(content).hexdigest()


def _fields(values: object, shown: str, index: int) -> dict[str, Any]:
    """A row as an object; a list of objects (a group of records) becomes its single field."""
    if isinstance(values, dict):
        return values
    if isinstance(values, list) and values and all(isinstance(one, dict) for one in values):
        return {GROUP: values}
    kind = type(values).__name__
    raise DataError(f"{shown}, row {index} is a {kind}, not an object with fields; give a file of a known form")


def _parse(text: str) -> object:
    """Parse JSON, or JSON lines if the text holds several objects."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        if not text.lstrip().startswith("{") or len(lines) < 2:
            raise
        return [json.loads(line) for line in lines]
