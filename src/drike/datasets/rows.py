"""The border between published files and our nouns: raw rows with typed access, and what a loader has to tell.

Every complaint about a file is one `DataError`: file, row, field, and what to do. Not here: what the forms mean
(`counterfact`, `flat`), where files come from (`fetch`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drike.edits import EditCase


class DataError(Exception):
    """A data file or split cannot be used; the message is one sentence with the place and the remedy."""


@dataclass(frozen=True)
class Row:
    """One raw row of a file: `file` as the user named it, `index` counted from 0."""

    file: str
    index: int
    values: dict[str, Any]

    @property
    def place(self) -> str:
        """Where the row stands, for messages."""
        return f"{self.file}, row {self.index} (case_id {self.values.get('case_id', 'missing')})"

    def wrong(self, field: str, problem: str) -> DataError:
        """The error for a field of this row."""
        return DataError(f"{self.place}: field {field} {problem}; correct the row or take it out of the file")

    def case_id(self) -> str:
        """The row's case_id as text; DataError unless it is a number or a text that is not blank."""
        value = self.values.get("case_id")
        if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
            raise self.wrong("case_id", "must be a number or a name")
        return str(value).strip()

    def text(self, *path: str) -> str:
        """The text at `path`, white space stripped at both ends; DataError if there is none."""
        value: object = self.values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, str):
            raise self.wrong(".".join(path), "must be a text" if value is not None else "is missing")
        return value.strip()

    def texts(self, field: str) -> tuple[str, ...]:
        """The texts of a list field, stripped; DataError if it is missing or holds anything else."""
        value = self.values.get(field)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(field, "must be a list of texts" if value is not None else "is missing")
        return tuple(one.strip() for one in value)


@dataclass(frozen=True)
class Dropped:
    """So many rows, paraphrases or neighbours were left out for one reason; `example` is the first place."""

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
    """What paraphrase cleaning did: counts by kind of cut, some cuts as examples, and all that may be wrong."""

    unchanged: int = 0
    template: int = 0
    sentence: int = 0
    subject: int = 0
    examples: tuple[Cut, ...] = ()
    suspicious: tuple[Cut, ...] = ()

    @property
    def total(self) -> int:
        """Paraphrases looked at."""
        return self.unchanged + self.template + self.sentence + self.subject


@dataclass(frozen=True)
class Parsed:
    """What a form's loader makes of rows: cases in file order, what it left out, and each paraphrase's cut."""

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
    """Count cuts by kind; the examples are spread over the cuts that changed something."""
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
    """The rows of a JSON list or JSON lines file, and its sha256; `shown` is the name used in messages.

    Raises DataError where the file cannot be read, is no JSON, is empty, or holds anything but objects.
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
        raise DataError(f"{shown} is not valid JSON ({where}); it may be cut short, download it again") from None
    if not isinstance(loaded, list):
        raise DataError(f"{shown} holds a JSON {type(loaded).__name__}, not a list of rows; give a data set file")
    if not loaded:
        raise DataError(f"{shown} holds no rows; give a file with at least one")
    for index, values in enumerate(loaded):
        if not isinstance(values, dict):
            kind = type(values).__name__
            raise DataError(f"{shown}, row {index} is a {kind}, not an object with fields; give a file of a known form")
    return [Row(shown, index, values) for index, values in enumerate(loaded)], hashlib.sha256(content).hexdigest()


def _parse(text: str) -> object:
    """JSON, or JSON lines where the text is several objects."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        if not text.lstrip().startswith("{") or len(lines) < 2:
            raise
        return [json.loads(line) for line in lines]
