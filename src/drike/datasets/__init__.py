"""Benchmarks and own facts from files: `load` recognises the form and counts what it kept, cut and dropped.

`forms` reads the published forms and `own` own facts; `form` drops what cannot be judged, `paraphrases` cleans, and
`rows` records both; `fetch` downloads; `dataset` draws splits; `inspect` describes a data set. No file is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from drike import tinyfacts
from drike.datasets import own
from drike.datasets.dataset import SUBSETS, Dataset, Source, SplitIds, by_case_id, order_of, with_pool
from drike.datasets.fetch import PUBLISHED, fetch
from drike.datasets.form import Form, Paraphrases, Target, read_cases
from drike.datasets.forms import FORMS, SCREENED, flat_form
from drike.datasets.rows import GROUP, ReadLog, Row, read_rows, shown
from drike.edits import EditCase
from drike.errors import DataError

__all__ = ["PUBLISHED", "SUBSETS", "TINYFACTS", "Dataset", "Paraphrases", "SplitIds", "Target", "by_case_id", "load"]

_NAMED = 4  # of more files, only the first is named
TINYFACTS = "tinyfacts"  # the name of the embedded benchmark


def load(
    *sources: str | Path,
    name: str | None = None,
    cleaning: bool = True,
    target: Target = "alt",
    paraphrases: Paraphrases | None = None,
    pool: Sequence[str | Path] = (),
) -> Dataset:
    """Read one or several files as one data set, in order of case_id.

    Args:
        sources: paths, http(s) addresses, "tinyfacts", or names of `PUBLISHED`. Of rows with the same case_id the first
            source's is kept and the others are counted, so full rows can be given ahead of flat ones. Rows of forms
            without a case_id are numbered in order, above all numeric case_ids.
        name: of the data set; default the files' names.
        cleaning: cut the unrelated sentences off CounterFact's paraphrases.
        target: what zsRE's edits lead to: "alt", the made-up object, or "answers", the true one.
        paraphrases: of EasyEdit's flat form, "keep" as published or "screen"; default: only CounterFact's are screened.
        pool: sources whose rows are never edited and only supply demonstrations; they follow, as "pool:CASE_ID".

    Raises DataError, one sentence with file, row, field and remedy.
    """
    if not sources:
        raise DataError("no data file was given; give a path, an address or a public name")
    if target not in ("alt", "answers"):
        raise DataError(f"the target of zsRE's edits is alt or answers, not {target!r}")
    if paraphrases not in (None, "keep", "screen"):
        raise DataError(f"the paraphrases of EasyEdit's flat form are for keep or screen, not {paraphrases!r}")
    if pool:
        options: dict[str, Any] = {"cleaning": cleaning, "target": target, "paraphrases": paraphrases}
        return with_pool(load(*sources, name=name, **options), load(*pool, **options))
    read = _embedded if sources == (TINYFACTS,) else _load
    return read(sources, name, cleaning, target, paraphrases)


def _load(
    sources: tuple[str | Path, ...], name: str | None, cleaning: bool, target: Target, paraphrases: Paraphrases | None
) -> Dataset:
    log = ReadLog()
    read: list[Source] = []
    recognised: list[tuple[Form, Row]] = []
    for source in sources:
        path = _local(source)
        rows, sha256 = read_rows(path, str(source))
        form = _recognise(rows[0])
        if form is SCREENED:
            form = flat_form(rows, paraphrases)
        read.append(Source(str(source), path, sha256, form.name, len(rows)))
        recognised += [(form, row) for row in rows]
    by_form, numbered = _identified(recognised, log)
    pairs = (pair for form in FORMS for pair in read_cases(form, by_form[form], log, cleaning=cleaning, target=target))
    cases = by_case_id(_without_repeats(pairs, numbered, log))
    dropped = tuple(log.dropped.values())
    if not cases:
        why = ", ".join(f"{drop.count} left out: {drop.reason}" for drop in dropped if drop.what == "row")
        raise DataError(f"{read[0].given} holds no usable row ({why}); give another file")
    titles = ["TinyFacts" if source.sha256 == tinyfacts.rows_sha256() else Path(source.given).stem for source in read]
    shown_titles = titles if len(titles) <= _NAMED else [titles[0], f"{len(titles) - 1} more"]
    title = name or "+".join(shown_titles)
    return Dataset(title, tuple(read), tuple(cases), dropped, tuple(log.cuts))


_embedded = lru_cache(_load)  # a part of the package, which does not change


def _local(source: str | Path) -> Path:
    """The local path of a source, which is downloaded if need be; a public name precedes a file of that name."""
    if source == TINYFACTS:
        return tinyfacts.rows_path()
    if isinstance(source, str) and source in PUBLISHED:
        return fetch(PUBLISHED[source].address, expected=PUBLISHED[source].sha256)
    if str(source).lower().startswith(("http://", "https://")):
        return fetch(str(source))
    path = Path(source).expanduser()
    near = get_close_matches(str(source).casefold(), (TINYFACTS, *PUBLISHED), n=1, cutoff=0.8)
    if near and not path.exists():
        raise DataError(f"there is no file {source}: did you mean {near[0]}?")
    return path


def _recognise(row: Row) -> Form:
    for form in FORMS:
        if form.recognises(row):
            return form
    if incomplete := own.missing(row):
        raise incomplete
    fields = "has the fields " + ", ".join(map(shown, sorted(row.values))) if row.values else "has no fields"
    described = "is a list of records" if GROUP in row.values else fields
    *published, own_facts = (form.name for form in FORMS)
    remedy = f"give {own_facts}, or {', '.join(name.partition(' (')[0] for name in published)}"
    raise DataError(f"{row.file} has no known form: its first row {described}; {remedy}")


def _identified(recognised: Sequence[tuple[Form, Row]], log: ReadLog) -> tuple[dict[Form, list[Row]], set[str]]:
    """Rows by form, each with a unique case_id, and the case_ids that were assigned by numbering.

    Drops repeated rows. Raises DataError where a case_id is missing, or different rows of a file have the same one.
    """
    by_form: dict[Form, list[Row]] = {form: [] for form in FORMS}
    first: dict[str, Row] = {}
    unnamed: list[tuple[Form, Row]] = []
    for form, row in recognised:
        name = form.case_id(row)
        if name is None:
            unnamed.append((form, row))
        elif first.setdefault(name, row) is row:
            by_form[form].append(replace(row, values=row.values | {"case_id": name}))
        elif row.file != first[name].file:
            log.drop("row", "case_id occurs in an earlier file", row)
        elif row.values == first[name].values:
            log.drop("row", "row is repeated in its file", row)
        else:
            raise row.wrong("case_id", f"is also the one of row {first[name].index}, whose content differs")
    start = max((number + 1 for rank, number, _ in map(order_of, first) if rank == 0), default=0)
    for number, (form, row) in enumerate(unnamed, start):
        by_form[form].append(replace(row, values=row.values | {"case_id": number}))
    return by_form, {str(start + i) for i in range(len(unnamed))}


def _without_repeats(pairs: Iterable[tuple[Row, EditCase]], numbered: set[str], log: ReadLog) -> Iterator[EditCase]:
    """Drop numbered rows that repeat the edit and probes of an earlier one."""
    seen: set[EditCase | None] = set()
    for row, case in pairs:
        content = replace(case, case_id="") if numbered else None  # hashing many cases takes long
        if case.case_id in numbered and content in seen:
            log.drop("row", "edit and probes repeat another row's", row)
        else:
            seen.add(content)
            yield case
