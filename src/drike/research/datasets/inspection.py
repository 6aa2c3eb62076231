"""What is in a data set, in words: the lines that `drike data inspect` prints."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase, Probe
from drike.research.datasets.dataset import SUBSETS, Dataset, Source
from drike.research.datasets.downloads import PUBLISHED
from drike.research.datasets.read_log import Cut, Dropped
from drike.support.rows import shown
from drike.support.table import counted

_CUTS_SHOWN = 3
_SUSPICIOUS_SHOWN = 10
_ANSWERS_SHOWN = 3


def description(dataset: Dataset) -> Iterator[str]:
    """The lines that `drike data inspect` prints."""
    relations = {case.edit.relation for case in dataset.cases} - {None}
    cases = counted(len(dataset.cases), "case")
    yield f"{dataset.name}: {cases}, {counted(len(relations), 'relation')}"
    for source in dataset.sources:
        yield _source_line(source)

    yield from _count_lines(dataset.cases)
    for name, is_within in SUBSETS.items():
        count = sum(is_within(case) for case in dataset.cases)
        yield f"  subset {name}: {count:,} cases"

    yield from _example_lines(dataset.cases)
    yield from _dropped_lines(dataset.dropped)
    yield from _cut_lines(dataset.cuts)


def _source_line(source: Source) -> str:
    public = PUBLISHED.get(source.given)
    if public is None:
        comparison = ""
    elif public["sha256"]:
        comparison = ", as recorded"
    else:
        comparison = ", none recorded"
    return (
        f"  from {source.given}: {source.rows:,} rows, {source.form}, "
        f"sha256 {source.sha256}{comparison}"
    )


def _count_lines(cases: Sequence[EditCase]) -> Iterator[str]:
    """How many probes and questions there are of each kind."""
    yield from _by_number("edits in force", "cases", [len(case.edits) for case in cases])

    unanswered = Counter(question.aspect for case in cases for question in case.baseline_questions)
    for aspect in Aspect:
        counts = [sum(probe.aspect is aspect for probe in case.asked) for case in cases]
        if any(counts):
            cases_without = counts.count(0)
            missing = f"; {cases_without:,} cases have none" if cases_without else ""
            found = f"{sum(counts):,}{missing}"
        else:
            found = "none published" if aspect in unanswered else "n/a"
        yield f"  {aspect.value} probes: {found}"

    hops = [probe.hops for case in cases for probe in case.further]
    yield from _by_number("hops", "multi_hop probes", hops)
    if unanswered:
        counts_by_aspect = ", ".join(
            f"{count:,} {aspect.value}" for aspect, count in unanswered.items()
        )
        yield (
            f"  questions without a published answer: {counts_by_aspect}; "
            "right is what the unedited model says"
        )


def _by_number(what: str, where: str, numbers: Iterable[int | None]) -> Iterator[str]:
    """How often each number occurs, in a line; none if it is always 1 or unknown."""
    counts = Counter(number for number in numbers if number is not None)
    if set(counts) - {1}:
        parts = [f"{number} in {counts[number]:,} {where}" for number in sorted(counts)]
        yield f"  {what}: {', '.join(parts)}"


def _example_lines(cases: Sequence[EditCase]) -> Iterator[str]:
    """The case with probes of the most aspects, and its first probe of each."""
    example = max(cases, key=_number_of_aspects)
    edit = example.edit
    objects = f"{edit.target_true or 'unknown'} -> {edit.target_new}"
    yield f"example: case {example.case_id}, {edit.query} [{objects}]"

    first_probes = {probe.aspect: probe for probe in reversed(example.asked)}
    further_aspects = [probe.aspect for probe in example.further]
    for aspect in dict.fromkeys((*ASPECTS_OF_S[1:], *further_aspects)):
        if aspect in first_probes:
            yield f"  {aspect.value}: {_with_answers(first_probes[aspect])}"
        else:
            yield f"  {aspect.value}: n/a"


def _number_of_aspects(case: EditCase) -> int:
    return len({probe.aspect for probe in case.asked})


def _with_answers(probe: Probe) -> str:
    answers = [shown(text) for text in (probe.target, *probe.also)]
    return f"{probe.query} [{' or '.join(answers[:_ANSWERS_SHOWN])}]"


def _dropped_lines(dropped: Sequence[Dropped]) -> Iterator[str]:
    yield "dropped:" if dropped else "dropped: nothing"
    for drop in dropped:
        yield f"  {drop.count:,} x {drop.what}: {drop.reason} (first: {drop.example})"


def _cut_lines(cuts: Sequence[Cut]) -> Iterator[str]:
    """How paraphrases were cut, with examples, and with those that may be wrong."""
    if not cuts:
        yield "paraphrases: as published"
        return

    suspicious = [cut for cut in cuts if cut.suspicious]
    times = Counter(cut.how for cut in cuts)
    yield (
        f"paraphrases: {len(cuts):,} examined; {times['unchanged']:,} unchanged, "
        f"{times['template']:,} cut to a known wording, {times['sentence']:,} after a sentence "
        f"end, {times['subject']:,} at the subject; {len(suspicious):,} doubtful"
    )

    changed = [cut for cut in cuts if cut.before != cut.after]
    step = max(1, len(changed) // _CUTS_SHOWN)
    for cut in changed[::step][:_CUTS_SHOWN]:
        yield f"  cut: {cut.before!r} -> {cut.after!r}"
    for cut in suspicious[:_SUSPICIOUS_SHOWN]:
        yield f"  doubtful: {cut.before!r} -> {cut.after!r}"
