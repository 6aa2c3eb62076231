"""Benchmarks from their published files: `load` recognises the form, and tells what it kept, cut and left out.

`counterfact` and `flat` each read one form; `paraphrases` cleans; `fetch` downloads; `splits` draws named, seeded
parts; `inspect` looks a data set over. Reading never changes a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from drike.datasets import counterfact, flat
from drike.datasets.fetch import fetch, is_address
from drike.datasets.rows import Cleaning, Cut, DataError, Dropped, Row, read_rows, summarise, tally
from drike.edits import EditCase

__all__ = ["Cleaning", "Cut", "DataError", "Dataset", "Dropped", "Source", "by_case_id", "load"]

_FORMS = (counterfact, flat)


@dataclass(frozen=True)
class Source:
    """One file of a data set: `given` is the path or address the user named."""

    given: str
    path: Path
    sha256: str
    form: str
    rows: int


@dataclass(frozen=True)
class Dataset:
    """Cases in order of case_id, where they came from, and what reading them did."""

    name: str
    sources: tuple[Source, ...]
    cases: tuple[EditCase, ...]
    dropped: tuple[Dropped, ...]
    cleaning: Cleaning

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 of all edits, whatever files or order they came in: tells whether a split belongs to these cases."""
        lines = (f"{case.case_id}\t{case.edit.query}\t{case.edit.target_new}\n" for case in by_case_id(self.cases))
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def by_case_id(cases: Iterable[EditCase]) -> list[EditCase]:
    """Cases by case_id, numbers as numbers and ahead of names: what "the first 2,000 rows" counts on."""
    return sorted(cases, key=lambda case: _order(case.case_id))


def _order(case_id: str) -> tuple[int, int, str]:
    number = case_id.isascii() and case_id.isdigit()
    return (0, int(case_id), case_id) if number else (1, 0, case_id)


def load(*sources: str | Path, name: str | None = None, cleaning: bool = True) -> Dataset:
    """Read one or several files (paths or http(s) addresses) as one data set, sorted by case_id.

    A case_id that a later source repeats is dropped there and counted, so that full rows can be given ahead of flat
    ones. `cleaning=False` leaves CounterFact's paraphrases as published. Raises DataError, one sentence with file, row,
    field and remedy.
    """
    if not sources:
        raise DataError("no data file was given; give a path or an address")
    read: list[Source] = []
    rows: dict[str, list[Row]] = {form.NAME: [] for form in _FORMS}
    seen: dict[str, Row] = {}
    dropped: list[tuple[str, str, str]] = []
    for source in sources:
        given = str(source)
        path = fetch(given) if is_address(source) else Path(source).expanduser()
        found, sha256 = read_rows(path, given)
        form = _recognise(found[0])
        read.append(Source(given, path, sha256, form, len(found)))
        for row in found:
            first = seen.setdefault(row.case_id(), row)
            if first is row:
                rows[form].append(row)
            else:
                dropped.append(("row", _repeated(row, first), row.place))
    parsed = [form.parse(rows[form.NAME], cleaning=cleaning) for form in _FORMS]
    cases = by_case_id(case for one in parsed for case in one.cases)
    left_out = tally(dropped) + tuple(one for part in parsed for one in part.dropped)
    if not cases:
        why = ", ".join(f"{one.count} left out: {one.reason}" for one in left_out if one.what == "row")
        raise DataError(f"{read[0].given} holds no usable row ({why}); give another file")
    return Dataset(
        name or "+".join(Path(source.given).stem for source in read),
        tuple(read),
        tuple(cases),
        left_out,
        summarise([cut for part in parsed for cut in part.cuts]),
    )


def _recognise(row: Row) -> str:
    """The name of the form of a file, told by its first row; DataError if none fits."""
    for form in _FORMS:
        if form.recognises(row):
            return str(form.NAME)
    fields = ", ".join(sorted(row.values)) or "none"
    known = "; ".join(form.NAME for form in _FORMS)
    raise DataError(f"{row.file} has no known form: its first row has the fields {fields}, and what is read is {known}")


def _repeated(row: Row, first: Row) -> str:
    """Why a row with a known case_id goes; DataError where one file contradicts itself."""
    if row.file != first.file:
        return "case_id stands in an earlier file"
    if row.values == first.values:
        return "row stands twice in its file"
    raise row.wrong("case_id", f"is also that of row {first.index}, whose content differs")
