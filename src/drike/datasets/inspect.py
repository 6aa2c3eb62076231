"""Describe a data set before it is used: counts, what was dropped and cut, and how near its demonstrations are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drike.datasets.dataset import SUBSETS, Dataset
from drike.datasets.fetch import PUBLISHED
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
    of all other rows, editable ones too. More rows give more similarity.
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

    `example` is a case with a probe of every aspect the data set has, if there is one.
    """

    dataset: Dataset
    relations: int
    probes: dict[Aspect, int]
    without: dict[Aspect, int]
    subsets: dict[str, int]
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
    """Describe a data set; with an encoder also measure nearness.

    Nearness is that of the first `editable` rows (default: the data set's) to all others, none of them excluded.
    """
    counts = {aspect: [sum(p.aspect is aspect for p in case.probes) for case in dataset.cases] for aspect in Aspect}
    return Inspection(
        dataset=dataset,
        relations=len({case.edit.relation for case in dataset.cases} - {None}),
        probes={aspect: sum(numbers) for aspect, numbers in counts.items()},
        without={aspect: numbers.count(0) for aspect, numbers in counts.items()},
        subsets={name: sum(map(within, dataset.cases)) for name, within in SUBSETS.items()},
        example=max(dataset.cases, key=lambda case: len({probe.aspect for probe in case.probes})),
        nearness=_nearness(dataset, encoder, editable, k, progress) if encoder else None,
    )


def lines(found: Inspection) -> Iterator[str]:
    """The lines that `drike data inspect` prints."""
    dataset, cleaning, near = found.dataset, found.dataset.cleaning, found.nearness
    yield f"{dataset.name}: {len(dataset.cases):,} cases, {found.relations} relations"
    for source in dataset.sources:
        public = PUBLISHED.get(source.given)
        checked = "" if public is None else ", as recorded" if public.sha256 else ", none recorded"
        yield f"  from {source.given}: {source.rows:,} rows, {source.form}, sha256 {source.sha256}{checked}"
    for aspect, count in found.probes.items():
        missing = f"; {found.without[aspect]:,} cases have none" if count and found.without[aspect] else ""
        yield f"  {aspect.value} probes: {count:,}{missing}" if count else f"  {aspect.value} probes: n/a"
    for name, count in found.subsets.items():
        yield f"  subset {name}: {count:,} cases"
    example, edit = found.example, found.example.edit
    yield f"example: case {example.case_id}, {edit.query} [{edit.target_true or 'unknown'} -> {edit.target_new}]"
    for aspect, probes in (Aspect.PARAPHRASE, example.paraphrases), (Aspect.NEIGHBORHOOD, example.neighborhood):
        yield f"  {aspect.value}: " + (f"{probes[0].query} [{probes[0].target}]" if probes else "n/a")
    yield "dropped:" if dataset.dropped else "dropped: nothing"
    for one in dataset.dropped:
        yield f"  {one.count:,} x {one.what}: {one.reason} (first: {one.example})"
    if cleaning.cuts:
        yield (
            f"paraphrases: {len(cleaning.cuts):,} examined; {cleaning.count('unchanged'):,} unchanged, "
            f"{cleaning.count('template'):,} cut to a known wording, {cleaning.count('sentence'):,} after a sentence "
            f"end, {cleaning.count('subject'):,} at the subject; {len(cleaning.suspicious):,} doubtful"
        )
    else:
        yield "paraphrases: as published"
    for cut in cleaning.examples:
        yield f"  cut: {cut.before!r} -> {cut.after!r}"
    for cut in cleaning.suspicious[:_DOUBTS_SHOWN]:
        yield f"  doubtful: {cut.before!r} -> {cut.after!r}"
    if near:
        yield (
            f"mean cosine similarity of the first {near.editable:,} edits to their {near.k} nearest of "
            f"{near.demonstrations:,} demonstration rows: {near.mean:.3f} (nearest {near.first:.3f}, farthest "
            f"{near.last:.3f}); of all other rows: {near.others:.3f} ({near.encoder})"
        )


def _nearness(
    dataset: Dataset, encoder: TextEncoder, editable: int | None, k: int, progress: Progress | None
) -> Nearness:
    count = len(dataset.cases)
    first = dataset.editable if editable is None else editable
    if not 0 < first < count or k < 1:
        raise DataError(
            f"nearness needs editable rows, other rows and k >= 1, but {first} of {dataset.name}'s {count} rows are "
            f"editable and k is {k}; change these numbers"
        )
    vectors = encoder.encode([query_block(case.edit, case.edit.query) for case in dataset.cases], progress)
    _, similarities = nearest(vectors[:first], vectors[first:], k)
    # Each edit's nearest row is itself or a copy of it, so the first of the k + 1 best is left out.
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
