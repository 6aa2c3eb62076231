"""Variants of editors compared with their originals: pure functions of outcomes.

distribution_of, ...   how many retains an edit gets (appendix, "Retain Budget Distribution")
agreement              share of verdicts that another order does not change (appendix, "Sensitivity")
frontier_table         S against prompt tokens, for a sweep of sigma
further                whichever of these tables apply to a set of editors
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from drike.edits import Aspect
from drike.metrics import Estimate, Outcome, Summary, estimate
from drike.prompts import ORDERS
from drike.report.tables import STARRED, differences, shown
from drike.table import Table

_BAR = 30
_SIGMA = " (sigma "


@dataclass(frozen=True)
class Distribution:
    """counts[k]: how many edits got k retains. std: of the population."""

    counts: Mapping[int, int]
    mean: float
    std: float


def distribution_of(outcomes: Sequence[Outcome]) -> Distribution:
    """Count one editor's retains, every edit once. Raises ValueError if there is no outcome of a rewrite probe."""
    shots = [outcome.shots for outcome in outcomes if outcome.aspect is Aspect.REWRITE]
    if not shots:
        raise ValueError("no outcome of a rewrite probe: retains are counted once per edit, at its rewrite probe")
    return Distribution(dict(sorted(Counter(shots).items())), fmean(shots), pstdev(shots))


def distribution_table(outcomes: Sequence[Outcome]) -> Table:
    """Histogram of retains per edit with mean and standard deviation, as in the paper's figures 4 and 5."""
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

    Raises ValueError if the two do not have the same probes in the same order.
    """
    if [(o.case_id, o.query) for o in ours] != [(o.case_id, o.query) for o in theirs]:
        raise ValueError("agreement needs the same probes, in the same order, on both sides")
    counts: dict[str, list[int]] = {}
    for mine, other in zip(ours, theirs, strict=True):
        row = counts.setdefault(mine.case_id, [0, 0])
        row[0] += mine.correct == other.correct
        row[1] += 1
    return estimate(list(map(tuple, counts.values())), lambda total: total[0] / total[1])


def agreement_table(outcomes: Mapping[str, Sequence[Outcome]], pairs: Sequence[tuple[str, str]]) -> Table:
    """The first editor of each pair against the second: share of equal verdicts, and paired differences."""
    rows = []
    for name, base in pairs:
        same = agreement(outcomes[name], outcomes[base])
        rows.append((name, shown(same), *differences(outcomes[name], outcomes[base]).rows[0][1:5]))
    header = ("Editor", "same verdict", "S", "ESR", "PC", "RR")
    notes = (
        "Differences from the same editor in its own order. same verdict: share of probes both answer right or both "
        "wrong.",
        STARRED,
    )
    return Table("Effect of the order of retains, paired", header, tuple(rows), notes)


def frontier_table(summaries: Sequence[Summary]) -> Table:
    """S against prompt length, shortest first; an editor is on the frontier if no shorter prompt has as good an S.

    Length is in prompt tokens, or in retains if the model does not count tokens.
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
    """The tables that apply to a set of editors: DR-IKE's retains per edit, the effect of orders, S against length.

    Editors are recognised by the names that `drike evaluate` gives them.
    """
    tables = []
    if "DR-IKE" in outcomes:
        tables.append(distribution_table(outcomes["DR-IKE"]))
    return [*tables, *variations(outcomes, summaries)]


def reordered_of(editor: str) -> str:
    """The editor that a reordered editor is compared with; "" for an editor in its own order."""
    base, _, order = editor.removesuffix(")").rpartition(" (")
    return base if order in ORDERS else ""


def variations(outcomes: Mapping[str, Sequence[Outcome]], summaries: Sequence[Summary]) -> list[Table]:
    """The tables about reordered editors and about a sweep of sigma."""
    tables = []
    pairs = [(name, base) for name in outcomes if (base := reordered_of(name)) in outcomes]
    if pairs:
        tables.append(agreement_table(outcomes, pairs))
    if any(_SIGMA in name for name in outcomes):
        tables.append(frontier_table(summaries))
    return tables
