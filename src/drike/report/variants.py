"""Editors with one part exchanged, beside what they are compared with: pure functions of outcomes.

distribution_of, ...   how many retains an edit gets (appendix, "Retain Budget Distribution")
agreement              share of answers another order leaves as they were (appendix, "Sensitivity")
frontier_table         S against prompt tokens, for a sweep of sigma
further                the tables that a set of editors has a use for
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from drike.edits import Aspect
from drike.metrics import Estimate, Outcome, Summary, Tally, estimate
from drike.prompts import ORDERS
from drike.report.tables import STARRED, Table, differences

_BAR = 30
_SIGMA = " (sigma "


@dataclass(frozen=True)
class Distribution:
    """How many edits got how many retains: `counts[k]`; std is the population's."""

    counts: Mapping[int, int]
    mean: float
    std: float


def distribution_of(outcomes: Sequence[Outcome]) -> Distribution:
    """Of one editor's outcomes, every edit counted once. Raises ValueError where no rewrite was asked."""
    shots = [outcome.shots for outcome in outcomes if outcome.aspect is Aspect.REWRITE]
    if not shots:
        raise ValueError("no outcome of a rewrite probe: there is no edit whose retains could be counted")
    return Distribution(dict(sorted(Counter(shots).items())), fmean(shots), pstdev(shots))


def distribution_table(outcomes: Sequence[Outcome]) -> Table:
    """The histogram of retains per edit with mean and standard deviation, as the paper's figures 4 and 5."""
    found = distribution_of(outcomes)
    edits, most = sum(found.counts.values()), max(found.counts.values())
    rows = tuple(
        (str(k), str(found.counts.get(k, 0)), "█" * round(_BAR * found.counts.get(k, 0) / most))
        for k in range(min(found.counts), max(found.counts) + 1)
    )
    title = f"Retains per edit, {outcomes[0].editor}: mean {found.mean:.2f}, std {found.std:.2f}, {edits} edits"
    return Table(title, ("retains", "edits", ""), rows, wide=True)


def agreement(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Estimate:
    """Share of probes that two editors both answer right or both answer wrong, with its interval over cases.

    Raises ValueError if they were not asked the same in the same order.
    """
    if [(o.case_id, o.query) for o in ours] != [(o.case_id, o.query) for o in theirs]:
        raise ValueError("agreement needs the same probes, in the same order, on both sides")
    counts: dict[str, list[int]] = {}
    for mine, other in zip(ours, theirs, strict=True):
        row = counts.setdefault(mine.case_id, [0, 0])
        row[0] += mine.correct == other.correct
        row[1] += 1
    return estimate([Tally(tuple(row)) for row in counts.values()], lambda total: total[0] / total[1])


def agreement_table(outcomes: Mapping[str, Sequence[Outcome]], pairs: Sequence[tuple[str, str]]) -> Table:
    """What changes from the second editor of each pair to the first: verdicts, and the metrics, paired."""
    rows = []
    for name, base in pairs:
        same = agreement(outcomes[name], outcomes[base])
        rows.append((name, _share(same), *differences(outcomes[name], outcomes[base]).rows[0][1:5]))
    header = ("Editor", "same verdict", "S", "ESR", "PC", "RR")
    notes = (
        "Differences to the same editor in its own order. same verdict: probes both answer right, or both wrong.",
        STARRED,
    )
    return Table("What the order changes, paired", header, tuple(rows), notes)


def _share(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "n/a"
    return f"{one.value:.3f} [{one.low:.2f},{one.high:.2f}]"


def frontier_table(summaries: Sequence[Summary]) -> Table:
    """S against the length of the prompt, shortest first; the frontier is who is beaten by nobody on both.

    Cost is prompt tokens, or retains where the model does not count tokens.
    """
    points = sorted(((_cost(one), one.s.value or 0.0, one) for one in summaries), key=lambda p: (p[0], -p[1]))
    rows, best = [], 0.0
    for _, s, one in points:
        tokens = "n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}"
        rows.append((one.editor, tokens, f"{one.shots:.2f}", f"{s:.3f}", "yes" if s > best else ""))
        best = max(best, s)
    header = ("Editor", "tokens/prompt", "retains/prompt", "S", "frontier")
    return Table("S against prompt length", header, tuple(rows), ("frontier: no shorter prompt has as good an S.",))


def _cost(summary: Summary) -> float:
    return summary.shots if summary.prompt_tokens is None else summary.prompt_tokens


def further(outcomes: Mapping[str, Sequence[Outcome]], summaries: Sequence[Summary]) -> list[Table]:
    """What variants are measured for: retains per edit of DR-IKE, answers that an order changes, S against length.

    Each only where there are editors for it; editors as `drike evaluate` names them.
    """
    tables = []
    if "DR-IKE" in outcomes:
        tables.append(distribution_table(outcomes["DR-IKE"]))
    return [*tables, *variations(outcomes, summaries)]


def reordered_of(editor: str) -> str:
    """The editor that one with another order of its retains is to be compared with; "" for others."""
    base, _, order = editor.removesuffix(")").rpartition(" (")
    return base if order in ORDERS else ""


def variations(outcomes: Mapping[str, Sequence[Outcome]], summaries: Sequence[Summary]) -> list[Table]:
    """Of `further`, the tables about reordered editors and about a sweep of sigma."""
    tables = []
    pairs = [(name, base) for name in outcomes if (base := reordered_of(name)) in outcomes]
    if pairs:
        tables.append(agreement_table(outcomes, pairs))
    if any(_SIGMA in name for name in outcomes):
        tables.append(frontier_table(summaries))
    return tables
