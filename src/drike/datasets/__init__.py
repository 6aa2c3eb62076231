"""Benchmarks from their published files: `load` recognises the form, and tells what it kept, cut and left out.

`counterfact`, `flat`, `zsre`, `knowedit` and `temporal` each read one form; `screening` leaves out what cannot be
judged, `paraphrases` cleans; `published` knows public files by name, `fetch` downloads; `splits` draws named, seeded
parts, `subsets` names kinds of edits; `inspect` looks a data set over. Reading never changes a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from drike.datasets.fetch import fetch, is_address
from drike.datasets.forms import counterfact, flat, knowedit, temporal, zsre
from drike.datasets.published import PUBLISHED
from drike.datasets.rows import GROUP, Cleaning, Cut, Dropped, Parsed, Row, Target, read_rows, shown, summarise, tally
from drike.datasets.screening import Events
from drike.edits import Edit, EditCase, Probe
from drike.errors import DataError

__all__ = ["Cleaning", "Cut", "Dataset", "Dropped", "Source", "Target", "by_case_id", "load"]


class Form(Protocol):
    """What a module that reads one published form offers."""

    NAME: str

    def recognises(self, row: Row) -> bool:
        """Whether a row has this form."""

    def case_id(self, row: Row) -> str | None:
        """The id the row has in its file; None where it has none, and is numbered."""

    def parse(self, rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
        """Rows -> cases, and what was left out."""


_LONGEST_NUMBER = 18  # digits; what is longer is a name
_FORMS: tuple[Form, ...] = (counterfact, knowedit, flat, zsre, temporal)


@dataclass(frozen=True)
class Source:
    """One file of a data set: `given` is the path, address or public name the user gave."""

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
    number = case_id.isascii() and case_id.isdigit() and len(case_id) <= _LONGEST_NUMBER
    return (0, int(case_id), case_id) if number else (1, 0, case_id)


def load(*sources: str | Path, name: str | None = None, cleaning: bool = True, target: Target = "alt") -> Dataset:
    """Read one or several files (paths, http(s) addresses or names of `PUBLISHED`) as one data set, by case_id.

    A case_id that a later source repeats is dropped there and counted, so that full rows can be given ahead of flat
    ones. Rows of forms without a case_id are numbered as they come, above all case_ids that are numbers.
    `cleaning=False` leaves CounterFact's paraphrases as published; `target` says what zsRE's edits lead to. Raises
    DataError, one sentence with file, row, field and remedy.
    """
    if not sources:
        raise DataError("no data file was given; give a path, an address or a public name")
    if target not in ("alt", "answers"):
        raise DataError(f"the target of zsRE's edits is alt or answers, not {target!r}")
    read: list[Source] = []
    found: list[tuple[Form, Row]] = []
    for source in sources:
        path = _local(source)
        rows, sha256 = read_rows(path, str(source))
        form = _recognise(rows[0])
        read.append(Source(str(source), path, sha256, form.NAME, len(rows)))
        found += [(form, row) for row in rows]
    dropped: Events = []
    by_form, numbered = _identified(found, dropped)
    parsed = [form.parse(by_form[form.NAME], cleaning=cleaning, target=target) for form in _FORMS]
    places = {row.case_id(): row.place for rows in by_form.values() for row in rows if row.case_id() in numbered}
    cases = by_case_id(_without_twins((case for one in parsed for case in one.cases), places, dropped))
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


def _local(source: str | Path) -> Path:
    """Where a source lies on this machine, downloaded if need be; a public name goes before a file of that name."""
    if isinstance(source, str) and source in PUBLISHED:
        return fetch(PUBLISHED[source].address, expected=PUBLISHED[source].sha256)
    return fetch(str(source)) if is_address(source) else Path(source).expanduser()


def _recognise(row: Row) -> Form:
    """The form of a file, told by its first row; DataError if none fits."""
    for form in _FORMS:
        if form.recognises(row):
            return form
    shape = (
        "is a list of records" if GROUP in row.values else "has the fields " + ", ".join(map(shown, sorted(row.values)))
    )
    known = "; ".join(form.NAME for form in _FORMS)
    raise DataError(
        f"{row.file} has no known form: its first row {shape if row.values else 'has no fields'}, "
        f"and what is read is {known}; give a file of one of these"
    )


def _identified(found: Sequence[tuple[Form, Row]], dropped: Events) -> tuple[dict[str, list[Row]], set[str]]:
    """Rows by form, each with a case_id of its own, and the case_ids that are mere numbers.

    Repeated rows are added to `dropped`. Raises DataError for a case_id that is missing where the form has one, or
    that one file gives to different rows.
    """
    by_form: dict[str, list[Row]] = {form.NAME: [] for form in _FORMS}
    first: dict[str, Row] = {}
    nameless: list[tuple[Form, Row]] = []
    for form, row in found:
        name = form.case_id(row)
        if name is None:
            nameless.append((form, row))
        elif first.setdefault(name, row) is row:
            by_form[form.NAME].append(replace(row, values=row.values | {"case_id": name}))
        else:
            dropped.append(("row", _repeated(row, first[name]), row.place))
    start = max((number + 1 for rank, number, _ in map(_order, first) if rank == 0), default=0)
    for number, (form, row) in enumerate(nameless, start):
        by_form[form.NAME].append(replace(row, values=row.values | {"case_id": number}))
    return by_form, {str(start + i) for i in range(len(nameless))}


def _without_twins(cases: Iterable[EditCase], places: Mapping[str, str], dropped: Events) -> Iterator[EditCase]:
    """The cases but those of `places` that have the edit and the probes of another; without case_ids rows recur."""
    seen: set[tuple[Edit, tuple[Probe, ...]]] = set()
    for case in cases:
        content = case.edit, case.probes
        if case.case_id in places and content in seen:
            dropped.append(("row", "edit and probes are those of another row", places[case.case_id]))
        else:
            seen.add(content)
            yield case


def _repeated(row: Row, first: Row) -> str:
    """Why a row with a known case_id goes; DataError where one file contradicts itself."""
    if row.file != first.file:
        return "case_id stands in an earlier file"
    if row.values == first.values:
        return "row stands twice in its file"
    raise row.wrong("case_id", f"is also that of row {first.index}, whose content differs")
