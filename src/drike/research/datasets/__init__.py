"""Benchmarks and own facts from files: `load` recognises the form and counts what it kept, cut and dropped.

`rows` reads a file, `forms` and `own` its fields; `form` drops what cannot be judged and cleans; `dataset` splits.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from drike import tinyfacts
from drike.answers.matching import normalise
from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase
from drike.errors import DataError
from drike.research.datasets import own
from drike.research.datasets.dataset import (
    SUBSETS,
    Dataset,
    Source,
    SplitIds,
    by_case_id,
    order_of,
    with_pool,
)
from drike.research.datasets.form import Form, Paraphrases, Target, read_cases
from drike.research.datasets.forms import FORMS, SCREENED, flat_form
from drike.research.datasets.read_log import Dropped, ReadLog
from drike.support.files import cache_folder, sha256, write_bytes, write_text
from drike.support.rows import GROUP, Row, read_rows, shown
from drike.support.table import counted

__all__ = [
    "PUBLISHED",
    "SUBSETS",
    "TINYFACTS",
    "Dataset",
    "Paraphrases",
    "SplitIds",
    "Target",
    "by_case_id",
    "load",
]

_NAMED = 4  # of more files, only the first is named
TINYFACTS = "tinyfacts"  # the name of the embedded benchmark
TIMEOUT, DEADLINE = 30.0, 900.0  # seconds without a byte, and for all of a file
LARGEST = 1 << 30  # bytes; the largest known file is 45 MB
_LONGEST_NAME = 100  # characters of a file's name
_CUTS_SHOWN, _SUSPICIOUS_SHOWN = 3, 10

# Public files: an address, pinned where the host allows it, and a SHA-256, if we had that very revision, else "".
_LINES = Path(__file__).with_name("published.csv").read_text(encoding="utf-8").splitlines()
PUBLISHED = {row["name"]: row for row in csv.DictReader(_LINES)}


def load(
    *sources: str | Path, name: str | None = None, cleaning: bool = True, target: Target = "alt",
    paraphrases: Paraphrases | None = None, pool: Sequence[str | Path] = (),
) -> Dataset:  # fmt: skip
    """Read one or several files as one data set, in order of case_id.

    sources: paths, http(s) addresses, "tinyfacts", or names of `PUBLISHED`. Of rows with the same case_id the first
    source's is kept and the others are counted, so full rows can be given ahead of flat ones. Rows of forms without a
    case_id are numbered in order, above all numeric case_ids. name: default the files' names. cleaning: cut the
    unrelated sentences off CounterFact's paraphrases. target: what zsRE's edits lead to: "alt", the made-up object, or
    "answers", the true one. paraphrases: of EasyEdit's flat form, "keep" as published or "screen"; default: only
    CounterFact's are screened. pool: sources whose rows are never edited and only supply demonstrations; they follow,
    as "pool:CASE_ID". Raises DataError, one sentence with file, row, field and remedy.
    """
    if not sources:
        raise DataError("no data file was given; give a path, an address or a public name")
    if target not in ("alt", "answers"):
        raise DataError(f"the target of zsRE's edits is alt or answers, not {target!r}")
    if paraphrases not in (None, "keep", "screen"):
        raise DataError(
            f"the paraphrases of EasyEdit's flat form are for keep or screen, not {paraphrases!r}"
        )
    read = _embedded if sources == (TINYFACTS,) else _load
    dataset = read(sources, name, cleaning, target, paraphrases)
    if pool:
        dataset = with_pool(
            dataset, load(*pool, cleaning=cleaning, target=target, paraphrases=paraphrases)
        )
    return dataset


def _load(
    sources: tuple[str | Path, ...],
    name: str | None,
    cleaning: bool,
    target: Target,
    paraphrases: Paraphrases | None,
) -> Dataset:
    log = ReadLog()
    read: list[Source] = []
    recognised: list[tuple[Form, Row]] = []
    for source in sources:
        path = _local(source)
        rows, checksum = read_rows(path, str(source))
        form = _recognise(rows[0])
        if form is SCREENED:
            form = flat_form(rows, paraphrases)
        read.append(Source(str(source), path, checksum, form.name, len(rows)))
        recognised += [(form, row) for row in rows]
    by_form, numbered = _identified(recognised, log)
    pairs = (
        pair
        for form in FORMS
        for pair in read_cases(form, by_form[form], log, cleaning=cleaning, target=target)
    )
    cases = by_case_id(_without_repeats(pairs, numbered, log))
    dropped = tuple(Dropped(*why, len(rows), rows[0].place) for why, rows in log.dropped.items())
    if not cases:
        why = ", ".join(
            f"{drop.count} left out: {drop.reason}" for drop in dropped if drop.what == "row"
        )
        raise DataError(f"{read[0].given} holds no usable row ({why}); give another file")
    titles = [
        "TinyFacts" if source.sha256 == sha256(tinyfacts.ROWS) else Path(source.given).stem
        for source in read
    ]
    shown_titles = titles if len(titles) <= _NAMED else [titles[0], f"{len(titles) - 1} more"]
    return Dataset(
        name or "+".join(shown_titles), tuple(read), tuple(cases), dropped, tuple(log.cuts)
    )


_embedded = lru_cache(_load)  # a part of the package, which does not change


def _local(source: str | Path) -> Path:
    """The local path of a source, which is downloaded if need be; a public name precedes a file of that name."""
    if source == TINYFACTS:
        return tinyfacts.ROWS
    if isinstance(source, str) and source in PUBLISHED:
        return fetch(PUBLISHED[source]["address"], expected=PUBLISHED[source]["sha256"] or None)
    if str(source).lower().startswith(("http://", "https://")):
        return fetch(str(source))
    path = Path(source).expanduser()
    near = get_close_matches(str(source).casefold(), (TINYFACTS, *PUBLISHED), n=1, cutoff=0.8)
    if near and not path.exists():
        raise DataError(f"there is no file {source}: did you mean {near[0]}?")
    return path


def _recognise(row: Row) -> Form:
    if form := next((form for form in FORMS if form.recognises(row)), None):
        return form
    if incomplete := own.missing(row):
        raise incomplete
    fields = (
        "has the fields " + ", ".join(map(shown, sorted(row.values)))
        if row.values
        else "has no fields"
    )
    described = "is a list of records" if GROUP in row.values else fields
    *published, own_facts = (form.name for form in FORMS)
    remedy = f"give {own_facts}, or {', '.join(name.partition(' (')[0] for name in published)}"
    raise DataError(f"{row.file} has no known form: its first row {described}; {remedy}")


def _identified(
    recognised: Sequence[tuple[Form, Row]], log: ReadLog
) -> tuple[dict[Form, list[Row]], set[str]]:
    """Rows by form, without repeated ones, each with a unique case_id, and the case_ids that are numbers of ours."""
    by_form: dict[Form, list[Row]] = {form: [] for form in FORMS}
    first: dict[str | None, tuple[Form, Row]] = {}
    unnamed: list[tuple[Form, Row]] = []
    for form, row in recognised:
        name = form.case_id(row)
        known, earlier = first.setdefault(name, (form, row))
        facts = (of.edits(each, "alt")[0].fact for of, each in ((known, earlier), (form, row)))
        if name is None or (row.file != earlier.file and len({*map(normalise, facts)}) > 1):
            unnamed.append((form, row))
        elif earlier is row:
            by_form[form].append(replace(row, values=row.values | {"case_id": name}))
        elif row.file != earlier.file:
            log.dropped["row", "case_id occurs in an earlier file"].append(row)
        elif row.values == earlier.values:
            log.dropped["row", "row is repeated in its file"].append(row)
        else:
            raise row.wrong(
                "case_id", f"is also the one of row {earlier.index}, whose content differs"
            )
    start = max(
        (number + 1 for rank, number, _ in map(order_of, filter(None, first)) if rank == 0),
        default=0,
    )
    for number, (form, row) in enumerate(unnamed, start):
        by_form[form].append(replace(row, values=row.values | {"case_id": number}))
    return by_form, {str(start + i) for i in range(len(unnamed))}


def _without_repeats(
    pairs: Iterable[tuple[Row, EditCase]], numbered: set[str], log: ReadLog
) -> Iterator[EditCase]:
    """Drop numbered rows that repeat the edit and probes of an earlier one."""
    seen: set[EditCase | None] = set()
    for row, case in pairs:
        content = replace(case, case_id="") if numbered else None  # hashing many cases takes long
        if case.case_id in numbered and content in seen:
            log.dropped["row", "edit and probes repeat another row's"].append(row)
        else:
            seen.add(content)
            yield case


def fetch(address: str, *, expected: str | None = None) -> Path:
    """The local copy of a file, downloaded unless it has the `expected` SHA-256; or DataError, whatever is sent."""
    folder = cache_folder() / "datasets"
    try:
        if not address.isprintable():
            raise ValueError("it holds a character that cannot be printed")
        name = Path(urlsplit(address).path).name[-_LONGEST_NAME:] or "data"
    except ValueError as error:
        remedy = "check it, or give the path of a file"
        raise DataError(f"{shown(address)} is not a valid address ({error}); {remedy}") from None
    path = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:12]}-{name}"
    recorded = path.with_name(path.name + ".sha256")
    try:
        if path.is_file() and recorded.is_file():
            kept = recorded.read_text(encoding="utf-8", errors="replace").strip()
            if kept == sha256(path) and expected in (None, kept):
                return path
        content = _download(address)
        sent = hashlib.sha256(content).hexdigest()
        if expected not in (None, sent):
            remedy = "try again, or download the file by hand, check it and give its path"
            raise DataError(
                f"{address} sent a file with sha256 {sent}, but {expected} is recorded for it; {remedy}"
            )
        write_bytes(path, content)
        write_text(recorded, sent + "\n")
    except OSError as error:
        remedy = "make room, or set XDG_CACHE_HOME to another folder"
        raise DataError(f"{folder} cannot hold downloads ({error}); {remedy}") from None
    return path


def _download(address: str) -> bytes:
    import http.client
    import urllib.request

    from drike.support.parallel import run_with_timeout

    def read() -> tuple[bytes, str | None]:
        request = urllib.request.Request(address, headers={"User-Agent": "drike"})  # noqa: S310 - http(s) only
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return answer.read(LARGEST + 1), answer.headers.get("Content-Length")

    try:
        content, promised = run_with_timeout(DEADLINE, read)
        if promised not in (None, str(len(content))) and len(content) <= LARGEST:
            raise ConnectionError(f"it announced {promised} bytes and sent {len(content)}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = shown(getattr(error, "reason", None) or error) or type(error).__name__
        remedy = "check the network, or download it by hand and give the path"
        raise DataError(f"{address} could not be downloaded ({reason}); {remedy}") from None
    if len(content) > LARGEST:
        raise DataError(
            f"{address} is larger than {LARGEST >> 20} MB; download it yourself and give the path"
        )
    return content


def description(dataset: Dataset) -> Iterator[str]:
    """The lines that `drike data inspect` prints."""
    cases = dataset.cases
    relations = {case.edit.relation for case in cases} - {None}
    yield f"{dataset.name}: {counted(len(cases), 'case')}, {counted(len(relations), 'relation')}"
    for source in dataset.sources:
        public = PUBLISHED.get(source.given)
        checked = (
            "" if public is None else ", as recorded" if public["sha256"] else ", none recorded"
        )
        yield f"  from {source.given}: {source.rows:,} rows, {source.form}, sha256 {source.sha256}{checked}"
    yield from _by_number("edits in force", "cases", [len(case.edits) for case in cases])
    unanswered = [question.aspect.value for case in cases for question in case.baseline_questions]
    for aspect in Aspect:
        counts = [sum(probe.aspect is aspect for probe in case.asked) for case in cases]
        missing = f"; {none:,} cases have none" if (none := counts.count(0)) else ""
        without = "none published" if aspect.value in unanswered else "n/a"
        yield f"  {aspect.value} probes: " + (
            f"{sum(counts):,}{missing}" if any(counts) else without
        )
    yield from _by_number(
        "hops", "multi_hop probes", [probe.hops for case in cases for probe in case.further]
    )
    if unanswered:
        counts_of = ", ".join(
            f"{unanswered.count(name):,} {name}" for name in dict.fromkeys(unanswered)
        )
        yield f"  questions without a published answer: {counts_of}; right is what the unedited model says"
    yield from (
        f"  subset {name}: {sum(map(within, cases)):,} cases" for name, within in SUBSETS.items()
    )
    example = max(cases, key=lambda case: len({probe.aspect for probe in case.asked}))
    edit = example.edit
    yield f"example: case {example.case_id}, {edit.query} [{edit.target_true or 'unknown'} -> {edit.target_new}]"
    by_aspect = {probe.aspect: probe for probe in reversed(example.asked)}
    for aspect in dict.fromkeys((*ASPECTS_OF_S[1:], *(probe.aspect for probe in example.further))):
        probe = by_aspect.get(aspect)
        answers = (
            " or ".join(shown(text) for text in (probe.target, *probe.also)[:3]) if probe else ""
        )
        yield f"  {aspect.value}: " + (f"{probe.query} [{answers}]" if probe else "n/a")
    yield "dropped:" if dataset.dropped else "dropped: nothing"
    yield from (
        f"  {drop.count:,} x {drop.what}: {drop.reason} (first: {drop.example})"
        for drop in dataset.dropped
    )
    if not dataset.cuts:
        return (yield "paraphrases: as published")
    suspicious = [cut for cut in dataset.cuts if cut.suspicious]
    times = Counter(cut.how for cut in dataset.cuts)
    kept = f"{len(dataset.cuts):,} examined; {times['unchanged']:,} unchanged"
    cuts = (
        f"{times['template']:,} cut to a known wording, {times['sentence']:,} after a sentence end"
    )
    yield f"paraphrases: {kept}, {cuts}, {times['subject']:,} at the subject; {len(suspicious):,} doubtful"
    changed = [cut for cut in dataset.cuts if cut.before != cut.after]
    for cut in changed[:: max(1, len(changed) // _CUTS_SHOWN)][:_CUTS_SHOWN]:
        yield f"  cut: {cut.before!r} -> {cut.after!r}"
    yield from (
        f"  doubtful: {cut.before!r} -> {cut.after!r}" for cut in suspicious[:_SUSPICIOUS_SHOWN]
    )


def _by_number(what: str, where: str, numbers: Iterable[int | None]) -> Iterator[str]:
    """How often each number occurs, in a line; none if it is always 1 or unknown."""
    counts = Counter(number for number in numbers if number is not None)
    if set(counts) - {1}:
        yield f"  {what}: " + ", ".join(
            f"{number} in {counts[number]:,} {where}" for number in sorted(counts)
        )
