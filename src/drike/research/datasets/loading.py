"""Reading files as a data set: `load` recognises their forms and counts what it drops and cuts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from drike import tinyfacts
from drike.answers.matching import normalise
from drike.edits.edit import EditCase
from drike.errors import DataError
from drike.research.datasets import own
from drike.research.datasets.dataset import Dataset, Source, by_case_id, order_of, with_pool
from drike.research.datasets.downloads import PUBLISHED, fetch
from drike.research.datasets.form import Form, Paraphrases, Target, read_cases
from drike.research.datasets.forms import FORMS
from drike.research.datasets.forms.easyedit import SCREENED, flat_form
from drike.research.datasets.read_log import Dropped, ReadLog
from drike.support.files import sha256
from drike.support.rows import GROUP, Row, read_rows, shown

TINYFACTS = "tinyfacts"  # the name of the embedded benchmark
_MOST_NAMED = 4  # of more files, only the first is named


@dataclass(frozen=True)
class _Options:
    """How files are read: as `load` says."""

    cleaning: bool
    target: Target
    paraphrases: Paraphrases | None


@dataclass(frozen=True)
class _FormedRow:
    """A row, and the form that it is read in."""

    form: Form
    row: Row

    @property
    def fact(self) -> str:
        """The fact of its own edit, to compare it with that of another row."""
        return normalise(self.form.edits(self.row, "alt")[0].fact)

    def with_case_id(self, case_id: str | int) -> Row:
        """The row under a case_id."""
        return replace(self.row, values=self.row.values | {"case_id": case_id})


@dataclass(frozen=True)
class _IdentifiedRows:
    """Rows by form, each with a case_id of its own; numbered: the case_ids that are our numbers."""

    by_form: Mapping[Form, Sequence[Row]]
    numbered: frozenset[str]


def load(
    *sources: str | Path,
    name: str | None = None,
    cleaning: bool = True,
    target: Target = "alt",
    paraphrases: Paraphrases | None = None,
    pool: Sequence[str | Path] = (),
) -> Dataset:
    """Read one or several files as one data set, in order of case_id.

    sources: paths, http(s) addresses, "tinyfacts", or names of `PUBLISHED`. Of rows with the same
    case_id the first source's is kept and the others are counted, so full rows can be given ahead
    of flat ones. Rows of forms without a case_id are numbered in order, above all numeric case_ids.
    name: default the files' names. cleaning: cut the unrelated sentences off CounterFact's
    paraphrases. target: what zsRE's edits lead to: "alt", the made-up object, or "answers", the
    true one. paraphrases: of EasyEdit's flat form, "keep" as published or "screen"; default: only
    CounterFact's are screened. pool: sources whose rows are never edited and only supply
    demonstrations; they follow, as "pool:CASE_ID".

    Raises DataError, one sentence with file, row, field and remedy.
    """
    if not sources:
        raise DataError("no data file was given; give a path, an address or a public name")
    if target not in ("alt", "answers"):
        raise DataError(f"the target of zsRE's edits is alt or answers, not {target!r}")
    if paraphrases not in (None, "keep", "screen"):
        raise DataError(
            f"the paraphrases of EasyEdit's flat form are for keep or screen, not {paraphrases!r}"
        )

    read = _read_embedded if sources == (TINYFACTS,) else _read
    dataset = read(sources, name, _Options(cleaning, target, paraphrases))
    if not pool:
        return dataset
    demonstrations = load(*pool, cleaning=cleaning, target=target, paraphrases=paraphrases)
    return with_pool(dataset, demonstrations)


def _read(given: tuple[str | Path, ...], name: str | None, options: _Options) -> Dataset:
    log = ReadLog()
    sources: list[Source] = []
    formed_rows: list[_FormedRow] = []
    for address in given:
        path = _local(address)
        rows, checksum = read_rows(path, str(address))
        form = _form_of(rows, options)
        sources.append(Source(str(address), path, checksum, form.name, len(rows)))
        formed_rows += [_FormedRow(form, row) for row in rows]

    identified = _identify(formed_rows, log)
    cases = by_case_id(_cases(identified, options, log))
    dropped = tuple(
        Dropped(what, reason, len(rows), example=rows[0].place)
        for (what, reason), rows in log.dropped.items()
    )
    if not cases:
        raise _no_usable_row(sources, dropped)
    return Dataset(name or _title(sources), tuple(sources), tuple(cases), dropped, tuple(log.cuts))


_read_embedded = lru_cache(_read)  # a part of the package, which does not change


def _local(source: str | Path) -> Path:
    """The local path of a source, which is downloaded if need be.

    A public name precedes a file of that name.
    """
    if source == TINYFACTS:
        return tinyfacts.ROWS
    if isinstance(source, str) and source in PUBLISHED:
        return fetch(PUBLISHED[source]["address"], expected=PUBLISHED[source]["sha256"] or None)
    if str(source).lower().startswith(("http://", "https://")):
        return fetch(str(source))

    path = Path(source).expanduser()
    names = (TINYFACTS, *PUBLISHED)
    similar = get_close_matches(str(source).casefold(), names, n=1, cutoff=0.8)
    if similar and not path.exists():
        raise DataError(f"there is no file {source}: did you mean {similar[0]}?")
    return path


def _form_of(rows: Sequence[Row], options: _Options) -> Form:
    """The form of a file, by its first row. Raises DataError for an unknown one."""
    first_row = rows[0]
    for form in FORMS:
        if form.recognises(first_row):
            return flat_form(rows, options.paraphrases) if form is SCREENED else form

    incomplete = own.missing(first_row)
    if incomplete is not None:
        raise incomplete
    *published, own_facts = [form.name for form in FORMS]
    short_names = [name.partition(" (")[0] for name in published]
    raise DataError(
        f"{first_row.file} has no known form: its first row {_description(first_row)}; "
        f"give {own_facts}, or {', '.join(short_names)}"
    )


def _description(row: Row) -> str:
    if GROUP in row.values:
        return "is a list of records"
    if not row.values:
        return "has no fields"
    return "has the fields " + ", ".join(shown(field) for field in sorted(row.values))


def _identify(formed_rows: Sequence[_FormedRow], log: ReadLog) -> _IdentifiedRows:
    """Give each row a case_id of its own, and drop repeated rows.

    Rows without a case_id are numbered, and so are those of a later file that say something else
    under one that is taken. Raises DataError for a case_id that a file has twice, for two rows.
    """
    rows_by_form: dict[Form, list[Row]] = {form: [] for form in FORMS}
    first_by_id: dict[str, _FormedRow] = {}
    unnumbered: list[_FormedRow] = []
    for formed in formed_rows:
        row = formed.row
        case_id = formed.form.case_id(row)
        if case_id is None:
            unnumbered.append(formed)
            continue

        first = first_by_id.setdefault(case_id, formed)
        if first is formed:
            rows_by_form[formed.form].append(formed.with_case_id(case_id))
        elif row.file != first.row.file and first.fact != formed.fact:
            unnumbered.append(formed)
        elif row.file != first.row.file:
            log.drop("row", "case_id occurs in an earlier file", row)
        elif row.values == first.row.values:
            log.drop("row", "row is repeated in its file", row)
        else:
            raise row.wrong(
                "case_id", f"is also the one of row {first.row.index}, whose content differs"
            )

    start = _number_above(first_by_id)
    for number, formed in enumerate(unnumbered, start):
        rows_by_form[formed.form].append(formed.with_case_id(number))
    numbered = frozenset(str(start + place) for place in range(len(unnumbered)))
    return _IdentifiedRows(rows_by_form, numbered)


def _number_above(case_ids: Iterable[str]) -> int:
    """The first number above all case_ids that are numbers."""
    numbers = []
    for case_id in case_ids:
        kind, number, _ = order_of(case_id)
        if kind == 0:
            numbers.append(number)
    return max(numbers, default=-1) + 1


def _cases(identified: _IdentifiedRows, options: _Options, log: ReadLog) -> Iterator[EditCase]:
    """The cases of all rows, without numbered ones that repeat the edit and probes of another."""
    seen: set[EditCase] = set()
    for form in FORMS:
        rows = identified.by_form[form]
        pairs = read_cases(form, rows, log, cleaning=options.cleaning, target=options.target)
        for row, case in pairs:
            if not identified.numbered:  # hashing many cases takes long
                yield case
                continue
            content = replace(case, case_id="")
            if case.case_id in identified.numbered and content in seen:
                log.drop("row", "edit and probes repeat another row's", row)
            else:
                seen.add(content)
                yield case


def _no_usable_row(sources: Sequence[Source], dropped: Sequence[Dropped]) -> DataError:
    reasons = [f"{drop.count} left out: {drop.reason}" for drop in dropped if drop.what == "row"]
    return DataError(
        f"{sources[0].given} holds no usable row ({', '.join(reasons)}); give another file"
    )


def _title(sources: Sequence[Source]) -> str:
    """The names of the files; of many, the first and how many more."""
    names = []
    for source in sources:
        is_embedded = source.sha256 == sha256(tinyfacts.ROWS)
        names.append("TinyFacts" if is_embedded else Path(source.given).stem)
    if len(names) > _MOST_NAMED:
        names = [names[0], f"{len(names) - 1} more"]
    return "+".join(names)
