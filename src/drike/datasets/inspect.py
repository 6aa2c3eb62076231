"""Describe a data set before it is used: counts, what was dropped and cut, and how near its demonstrations are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drike.datasets.dataset import SUBSETS, Dataset
from drike.datasets.fetch import PUBLISHED
from drike.datasets.rows import shown
from drike.edits import ASPECTS_OF_S, Aspect
from drike.encoders import TextEncoder
from drike.encoders.base import directions, nearest
from drike.errors import DataError
from drike.prompts import query_block

NEIGHBOURS = 32  # the paper's number of demonstrations
_CUTS_SHOWN, _SUSPICIOUS_SHOWN = 3, 10


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


def lines(dataset: Dataset, near: Nearness | None = None) -> Iterator[str]:
    """The lines that `drike data inspect` prints."""
    cases = dataset.cases
    yield f"{dataset.name}: {len(cases):,} cases, {len({case.edit.relation for case in cases} - {None})} relations"
    for source in dataset.sources:
        public = PUBLISHED.get(source.given)
        checked = "" if public is None else ", as recorded" if public.sha256 else ", none recorded"
        yield f"  from {source.given}: {source.rows:,} rows, {source.form}, sha256 {source.sha256}{checked}"
    yield from _by_number("edits in force", "cases", [len(case.edits) for case in cases])
    for aspect in Aspect:
        counts = [sum(probe.aspect is aspect for probe in case.asked) for case in cases]
        missing = f"; {none:,} cases have none" if (none := counts.count(0)) else ""
        unpublished = any(question.aspect is aspect for case in cases for question in case.baseline_questions)
        without = "none published" if unpublished else "n/a"
        yield f"  {aspect.value} probes: " + (f"{sum(counts):,}{missing}" if any(counts) else without)
    yield from _by_number("hops", "multi_hop probes", [probe.hops for case in cases for probe in case.further])
    if unanswered := [question.aspect.value for case in cases for question in case.baseline_questions]:
        counts_of = ", ".join(f"{unanswered.count(name):,} {name}" for name in dict.fromkeys(unanswered))
        yield f"  questions without a published answer: {counts_of}; right is what the unedited model says"
    for name, within in SUBSETS.items():
        yield f"  subset {name}: {sum(map(within, cases)):,} cases"
    example = max(cases, key=lambda case: len({probe.aspect for probe in case.asked}))
    edit = example.edit
    yield f"example: case {example.case_id}, {edit.query} [{edit.target_true or 'unknown'} -> {edit.target_new}]"
    by_aspect = {probe.aspect: probe for probe in reversed(example.asked)}
    for aspect in dict.fromkeys((*ASPECTS_OF_S[1:], *(probe.aspect for probe in example.further))):
        probe = by_aspect.get(aspect)
        answers = " or ".join(shown(text) for text in (probe.target, *probe.also)[:3]) if probe else ""
        yield f"  {aspect.value}: " + (f"{probe.query} [{answers}]" if probe else "n/a")
    yield "dropped:" if dataset.dropped else "dropped: nothing"
    for drop in dataset.dropped:
        yield f"  {drop.count:,} x {drop.what}: {drop.reason} (first: {drop.example})"
    suspicious = [cut for cut in dataset.cuts if cut.suspicious]
    times = Counter(cut.how for cut in dataset.cuts)
    kept = f"{len(dataset.cuts):,} examined; {times['unchanged']:,} unchanged"
    cuts = f"{times['template']:,} cut to a known wording, {times['sentence']:,} after a sentence end"
    doubtful = f"{times['subject']:,} at the subject; {len(suspicious):,} doubtful"
    yield f"paraphrases: {f'{kept}, {cuts}, {doubtful}' if dataset.cuts else 'as published'}"
    changed = [cut for cut in dataset.cuts if cut.before != cut.after]
    for cut in changed[:: max(1, len(changed) // _CUTS_SHOWN)][:_CUTS_SHOWN]:
        yield f"  cut: {cut.before!r} -> {cut.after!r}"
    for cut in suspicious[:_SUSPICIOUS_SHOWN]:
        yield f"  doubtful: {cut.before!r} -> {cut.after!r}"
    if near:
        rows = f"their {near.k} nearest of {near.demonstrations:,} demonstration rows"
        ends = f"{near.mean:.3f} (nearest {near.first:.3f}, farthest {near.last:.3f})"
        others = f"of all other rows: {near.others:.3f} ({near.encoder})"
        yield f"mean cosine similarity of the first {near.editable:,} edits to {rows}: {ends}; {others}"


def _by_number(what: str, where: str, numbers: Iterable[int | None]) -> Iterator[str]:
    """How often each number occurs, in a line; none if it is always 1 or unknown."""
    counts = Counter(number for number in numbers if number is not None)
    if set(counts) - {1}:
        yield f"  {what}: " + ", ".join(f"{number} in {counts[number]:,} {where}" for number in sorted(counts))


def nearness(dataset: Dataset, encoder: TextEncoder, *, editable: int | None = None, k: int = NEIGHBOURS) -> Nearness:
    """How near the first `editable` rows (default: the data set's) are to all others. Raises DataError for none."""
    count = len(dataset.cases)
    first = dataset.editable if editable is None else editable
    if not 0 < first < count or k < 1:
        given = f"{first} of {dataset.name}'s {count} rows are editable and k is {k}"
        raise DataError(f"nearness needs editable rows, other rows and k >= 1, but {given}; change these numbers")
    vectors = encoder.encode([query_block(case.edit, case.edit.query) for case in dataset.cases])
    records = directions(vectors)
    _, similarities = nearest(vectors[:first], records[first:], k)
    # Each edit's nearest row is itself or a copy of it, so the first of the k + 1 best is left out.
    _, everywhere = nearest(vectors[:first], records, min(k, count - 1) + 1)
    measured = (similarities, similarities[:, 0], similarities[:, -1], everywhere[:, 1:])
    means = (float(values.mean()) for values in measured)
    return Nearness(encoder.name, first, count - first, similarities.shape[1], *means)
