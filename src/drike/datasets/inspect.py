"""A look at a data set before it is used: what was kept, cut and left out, and how near its demonstrations are.

The figures are data (`Inspection`); `lines` words them for a terminal. Left out: anything a model is needed for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drike.datasets import Cleaning, Dataset, Dropped, Source
from drike.datasets.published import PUBLISHED
from drike.datasets.splits import default_editable
from drike.datasets.subsets import SUBSETS
from drike.edits import Aspect, EditCase
from drike.encoders import Progress, TextEncoder, nearest
from drike.errors import DataError
from drike.prompts import query_block

NEIGHBOURS = 32  # the paper's number of demonstrations
_DOUBTS_SHOWN = 10


@dataclass(frozen=True)
class Nearness:
    """Mean cosine similarity of `editable` edits to their `k` nearest of the `demonstrations` rows.

    `mean` is over all k, `first` over the nearest alone, `last` over the k-th. `others` is the mean over the k nearest
    of all other rows, editable ones too: what the whole data set would offer. More rows, more similarity.
    """

    encoder: str
    editable: int
    demonstrations: int
    k: int
    mean: float
    first: float
    last: float
    others: float


@dataclass(frozen=True)
class Inspection:
    """The figures of a data set. `probes` counts by aspect, `without` cases that have none, `subsets` cases by name.

    `example` is a case with a probe of every aspect that the data set has, where there is one.
    """

    name: str
    sources: tuple[Source, ...]
    cases: int
    relations: int
    probes: tuple[tuple[Aspect, int], ...]
    without: tuple[tuple[Aspect, int], ...]
    subsets: tuple[tuple[str, int], ...]
    dropped: tuple[Dropped, ...]
    cleaning: Cleaning
    example: EditCase
    nearness: Nearness | None


def inspect(
    dataset: Dataset,
    encoder: TextEncoder | None = None,
    *,
    editable: int | None = None,
    k: int = NEIGHBOURS,
    progress: Progress | None = None,
) -> Inspection:
    """Look a data set over; with an encoder also measure nearness.

    Nearness is that of the first `editable` rows (default as in `splits.draw`) to the rest, nothing passed over.
    """
    counts = {aspect: [sum(p.aspect is aspect for p in case.probes) for case in dataset.cases] for aspect in Aspect}
    return Inspection(
        name=dataset.name,
        sources=dataset.sources,
        cases=len(dataset.cases),
        relations=len({case.edit.relation for case in dataset.cases} - {None}),
        probes=tuple((aspect, sum(numbers)) for aspect, numbers in counts.items()),
        without=tuple((aspect, numbers.count(0)) for aspect, numbers in counts.items()),
        subsets=tuple((name, sum(map(within, dataset.cases))) for name, within in SUBSETS.items()),
        dropped=dataset.dropped,
        cleaning=dataset.cleaning,
        example=max(dataset.cases, key=lambda case: len({probe.aspect for probe in case.probes})),
        nearness=_nearness(dataset, encoder, editable, k, progress) if encoder else None,
    )


def lines(inspection: Inspection) -> list[str]:
    """What `drike data inspect` prints, without markup."""
    return [*_contents(inspection), *_left_out(inspection), *_cuts(inspection.cleaning), *_distance(inspection)]


def _contents(inspection: Inspection) -> Iterator[str]:
    yield f"{inspection.name}: {inspection.cases:,} cases, {inspection.relations} relations"
    for source in inspection.sources:
        public = PUBLISHED.get(source.given)
        checked = "" if public is None else ", as recorded" if public.sha256 else ", none recorded"
        yield f"  from {source.given}: {source.rows:,} rows, {source.form}, sha256 {source.sha256}{checked}"
    without = dict(inspection.without)
    for aspect, count in inspection.probes:
        missing = f"; {without[aspect]:,} cases have none" if count and without[aspect] else ""
        yield f"  {aspect.value} probes: {count:,}{missing}" if count else f"  {aspect.value} probes: n/a"
    for name, count in inspection.subsets:
        yield f"  subset {name}: {count:,} cases"
    edit = inspection.example.edit
    old = edit.target_true or "not known"
    yield f"example: case {inspection.example.case_id}, {edit.query} [{old} -> {edit.target_new}]"
    for aspect in (Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD):
        probe = next((probe for probe in inspection.example.probes if probe.aspect is aspect), None)
        yield f"  {aspect.value}: {probe.query} [{probe.target}]" if probe else f"  {aspect.value}: n/a"


def _left_out(inspection: Inspection) -> Iterator[str]:
    yield "left out:" if inspection.dropped else "left out: nothing"
    for one in inspection.dropped:
        yield f"  {one.count:,} x {one.what}: {one.reason} (first: {one.example})"


def _cuts(cleaning: Cleaning) -> Iterator[str]:
    if not cleaning.total:
        yield "paraphrases: taken as published"
        return
    yield (
        f"paraphrases: {cleaning.total:,} looked at; {cleaning.unchanged:,} left as they are, cut to a known wording "
        f"{cleaning.template:,}, behind a sentence end {cleaning.sentence:,}, at the subject {cleaning.subject:,}; "
        f"{len(cleaning.suspicious):,} may be wrong"
    )
    for cut in cleaning.examples:
        yield f"  cut: {cut.before!r} -> {cut.after!r}"
    for cut in cleaning.suspicious[:_DOUBTS_SHOWN]:
        yield f"  worth a look: {cut.before!r} -> {cut.after!r}"


def _distance(inspection: Inspection) -> Iterator[str]:
    near = inspection.nearness
    if near:
        yield (
            f"mean cosine similarity of the first {near.editable:,} edits to their {near.k} nearest of "
            f"{near.demonstrations:,} rows that demonstrate: {near.mean:.3f} (nearest {near.first:.3f}, farthest "
            f"{near.last:.3f}); of all other rows: {near.others:.3f} ({near.encoder})"
        )


def _nearness(
    dataset: Dataset, encoder: TextEncoder, editable: int | None, k: int, progress: Progress | None
) -> Nearness:
    count = len(dataset.cases)
    first = default_editable(count) if editable is None else editable
    if not 0 < first < count or k < 1:
        raise DataError(
            f"nearness needs editable rows, other rows and k >= 1, but {first} of {dataset.name}'s {count} rows are "
            f"editable and k is {k}; change these numbers"
        )
    vectors = encoder.encode([query_block(case.edit, case.edit.query) for case in dataset.cases], progress)
    _, similarities = nearest(vectors[:first], vectors[first:], k)
    # Each edit is its own nearest row, or a copy of it is: one self is taken off the k + 1 best, whichever it is.
    _, everywhere = nearest(vectors[:first], vectors, min(k, count - 1) + 1)
    return Nearness(
        encoder=encoder.name,
        editable=first,
        demonstrations=count - first,
        k=similarities.shape[1],
        mean=float(similarities.mean()),
        first=float(similarities[:, 0].mean()),
        last=float(similarities[:, -1].mean()),
        others=float(everywhere[:, 1:].mean()),
    )
