"""Benchmarks from their published files: `load` recognises the form and counts what it kept, cut and dropped.

`forms` has a module for each published form; `screening` drops what cannot be judged, `paraphrases` cleans; `published`
lists public files by name, `fetch` downloads; `splits` and `subsets` choose rows; `inspect` describes a data set.
Reading never changes a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from drike import tinyfacts
from drike.datasets.dataset import Dataset, Source, by_case_id, order_of
from drike.datasets.fetch import fetch, is_address
from drike.datasets.forms import counterfact, flat, knowedit, temporal, zsre
from drike.datasets.published import PUBLISHED
from drike.datasets.rows import GROUP, Cleaning, Cut, Dropped, Parsed, Row, Target, read_rows, shown, summarise, tally
from drike.datasets.screening import Events
from drike.edits import Edit, EditCase, Probe
from drike.errors import DataError

__all__ = ["TINYFACTS", "Cleaning", "Cut", "Dataset", "Dropped", "Source", "Target", "by_case_id", "load"]

TINYFACTS = "tinyfacts"  # the name of the embedded benchmark


class Form(Protocol):
    """What each module of `forms` provides."""

    NAME: str

    def recognises(self, row: Row) -> bool:
        """Whether a row has this form."""

    def case_id(self, row: Row) -> str | None:
        """The row's id in its file, or None for a row that has to be numbered."""

    def parse(self, rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
        """Turn rows into cases, and count what was dropped."""


_FORMS: tuple[Form, ...] = (counterfact, knowedit, flat, zsre, temporal)


def load(*sources: str | Path, name: str | None = None, cleaning: bool = True, target: Target = "alt") -> Dataset:
    """Read one or several files as one data set, in order of case_id.

    Args:
        sources: paths, http(s) addresses, "tinyfacts", or names of `PUBLISHED`. Of rows with the same case_id the first
            source's is kept and the others are counted, so full rows can be given ahead of flat ones. Rows of forms
            without a case_id are numbered in order, above all numeric case_ids.
        name: of the data set; default the files' names.
        cleaning: cut the unrelated sentences off CounterFact's paraphrases.
        target: what zsRE's edits lead to: "alt", the made-up object, or "answers", the true one.

    Raises DataError, one sentence with file, row, field and remedy.
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
        name or "+".join(_title(source) for source in read),
        tuple(read),
        tuple(cases),
        left_out,
        summarise([cut for part in parsed for cut in part.cuts]),
    )


def _local(source: str | Path) -> Path:
    """Where a source lies on this machine, downloaded if need be; a public name precedes a file of that name."""
    if source == TINYFACTS:
        return tinyfacts.rows_path()
    if isinstance(source, str) and source in PUBLISHED:
        return fetch(PUBLISHED[source].address, expected=PUBLISHED[source].sha256)
    return fetch(str(source)) if is_address(source) else Path(source).expanduser()


def _title(source: Source) -> str:
    return "TinyFacts" if source.sha256 == tinyfacts.rows_sha256() else Path(source.given).stem


def _recognise(row: Row) -> Form:
    """The form of a file, by its first row. Raises DataError if none fits."""
    for form in _FORMS:
        if form.recognises(row):
            return form
    shape = (
        "is a list of records" if GROUP in row.values else "has the fields " + ", ".join(map(shown, sorted(row.values)))
    )
    known = "; ".join(form.NAME for form in _FORMS)
    raise DataError(
        f"{row.file} has no known form: its first row {shape if row.values else 'has no fields'}, "
        f"and drike reads {known}; give a file of one of these"
    )


def _identified(found: Sequence[tuple[Form, Row]], dropped: Events) -> tuple[dict[str, list[Row]], set[str]]:
    """Rows by form, each with a unique case_id, and the case_ids that were assigned by numbering.

    Repeated rows are added to `dropped`. Raises DataError for a missing case_id in a form that has them, or for
    different rows of one file with the same case_id.
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
    start = max((number + 1 for rank, number, _ in map(order_of, first) if rank == 0), default=0)
    for number, (form, row) in enumerate(nameless, start):
        by_form[form.NAME].append(replace(row, values=row.values | {"case_id": number}))
    return by_form, {str(start + i) for i in range(len(nameless))}


def _without_twins(cases: Iterable[EditCase], places: Mapping[str, str], dropped: Events) -> Iterator[EditCase]:
    """Drop cases of `places` (rows without a case_id) that repeat the edit and probes of an earlier one."""
    seen: set[tuple[Edit, tuple[Probe, ...]]] = set()
    for case in cases:
        content = case.edit, case.probes
        if case.case_id in places and content in seen:
            dropped.append(("row", "edit and probes repeat another row's", places[case.case_id]))
        else:
            seen.add(content)
            yield case


def _repeated(row: Row, first: Row) -> str:
    """Why a row with a known case_id is dropped. Raises DataError where one file contradicts itself."""
    if row.file != first.file:
        return "case_id occurs in an earlier file"
    if row.values == first.values:
        return "row is repeated in its file"
    raise row.wrong("case_id", f"is also the one of row {first.index}, whose content differs")
