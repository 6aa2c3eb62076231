"""Variants of editors compared with their originals: other orders of the retains, a sweep of sigma, retains kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drike.research.evaluation.bootstrap import share_over_cases
from drike.research.evaluation.metrics import Outcome, Summary, counted
from drike.research.report.tables import STARRED, cell, differences, distribution_of
from drike.support.table import Cell, Estimate, Number, Table

_BAR = 30  # blocks of the longest one in a histogram


def agreement(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Estimate:
    """Share of probes on which two editors agree, with its interval over cases. Raises ValueError for other probes."""
    if [(o.case_id, o.query) for o in ours] != [(o.case_id, o.query) for o in theirs]:
        raise ValueError("agreement needs the same probes, in the same order, on both sides")
    equal: dict[str, list[bool]] = {}
    for mine, other in zip(ours, theirs, strict=True):
        equal.setdefault(mine.case_id, []).append(mine.correct == other.correct)
    return share_over_cases(equal.values())


def agreement_table(
    outcomes: Mapping[str, Sequence[Outcome]], pairs: Sequence[tuple[str, str]]
) -> Table:
    """The first editor of each pair against the second: share of equal verdicts, and paired differences."""
    rows: list[tuple[Cell, ...]] = []
    for name, base in pairs:
        same = agreement(outcomes[name], outcomes[base])
        rows.append(
            (name, same, *differences(counted(outcomes[name]), counted(outcomes[base]))[:4])
        )
    header = ("Editor", "same verdict", "S", "ESR", "PC", "RR")
    meaning = "same verdict: share of probes both answer right or both wrong."
    notes = (f"Differences from the same editor in its own order. {meaning}", STARRED)
    return Table("Effect of the order of retains, paired", header, tuple(rows), notes)


def frontier_table(summaries: Sequence[Summary]) -> Table:
    """S against prompt length, shortest first: in prompt tokens, or in retains if the model does not count tokens."""

    def cost_and_s(summary: Summary) -> tuple[float, float]:
        return summary.shots if summary.prompt_tokens is None else summary.prompt_tokens, -(
            summary.s.value or 0.0
        )

    rows, best = [], 0.0
    for summary in sorted(summaries, key=cost_and_s):
        s, lengths = (
            summary.s.value or 0.0,
            (cell(summary, "tokens/prompt"), cell(summary, "retains/prompt")),
        )
        rows.append((summary.editor, *lengths, Number(s, ".3f"), "yes" if s > best else ""))
        best = max(best, s)
    header = ("Editor", "tokens/prompt", "retains/prompt", "S", "frontier")
    return Table(
        "S against prompt length",
        header,
        tuple(rows),
        ("frontier: no shorter prompt has as good an S.",),
    )


def distribution_table(outcomes: Sequence[Outcome]) -> Table:
    """Histogram of retains per edit with mean and standard deviation, as in the paper's figures 4 and 5."""
    distribution = distribution_of(outcomes)
    counts = distribution.counts
    edits, highest = sum(counts.values()), max(counts.values())
    every = {k: counts.get(k, 0) for k in range(min(counts), max(counts) + 1)}
    rows = tuple(
        (str(k), Number(n, "d"), "█" * round(_BAR * n / highest)) for k, n in every.items()
    )
    mean_and_std = f"mean {distribution.mean:.2f}, std {distribution.std:.2f}"
    title = f"Retains per edit, {outcomes[0].editor}: {mean_and_std}, {edits} edits"
    return Table(title, ("retains", "edits", ""), rows, wide=True)
