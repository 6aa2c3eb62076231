"""Describe a data set before it is used: counts, an example, and what was dropped and cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from drike.datasets.dataset import SUBSETS, Dataset
from drike.datasets.fetch import PUBLISHED
from drike.datasets.rows import shown
from drike.edits import ASPECTS_OF_S, Aspect
from drike.support.table import counted

_CUTS_SHOWN, _SUSPICIOUS_SHOWN = 3, 10


def lines(dataset: Dataset) -> Iterator[str]:
    """The lines that `drike data inspect` prints."""
    cases = dataset.cases
    relations = {case.edit.relation for case in cases} - {None}
    yield f"{dataset.name}: {counted(len(cases), 'case')}, {counted(len(relations), 'relation')}"
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


def _by_number(what: str, where: str, numbers: Iterable[int | None]) -> Iterator[str]:
    """How often each number occurs, in a line; none if it is always 1 or unknown."""
    counts = Counter(number for number in numbers if number is not None)
    if set(counts) - {1}:
        yield f"  {what}: " + ", ".join(f"{number} in {counts[number]:,} {where}" for number in sorted(counts))
