"""Tables of outcomes with intervals: scores, aspects, costs, and paired differences of editors."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.models.protocols import Usage
from drike.research.evaluation.metrics import (
    Counts,
    Outcome,
    Share,
    Summary,
    paired_differences,
)
from drike.support.table import Cell, Difference, Estimate, Number, Table

COLUMNS = ("S", "ESR", "PC", "RR", "ESM", "GSM")
# Columns of the first table of an evaluation and of a report, and what they mean.
SCORES = {
    "S": "harmonic mean of ESR, PC and RR",
    "ESR": "share of edits that take effect",
    "PC": "share of paraphrases of the edits answered with the new object",
    "RR": "share of neighbouring facts still answered right",
    "RR known": "the same of those that the unedited model answers right",
    "RR unchanged": "share of neighbours answered as the unedited model does, letter for letter",
    "S known": "S with RR known",
    "S unchanged": "S with RR unchanged",
}
INTERVALS = (
    "Brackets: 95 % interval over cases, by bootstrap; by Clopper and Pearson's where all agree."
)
STARRED = "*: the interval excludes 0."
PER_PROMPT = (
    "retains/prompt: mean over the prompts of all probes, so an edit with more probes counts more; "
    "where a table says retains/edit, every edit counts once."
)
_COSTS: dict[str, Callable[[Summary], Number]] = {
    "retains/prompt": lambda summary: Number(summary.shots, ".2f"),
    "tokens/prompt": lambda summary: Number(summary.prompt_tokens, ".0f"),
    "calls/edit": lambda summary: Number(summary.calls, ".1f"),
    "s/edit": lambda summary: Number(summary.seconds, ".3f"),
}
_NO_SHARE = Share(Estimate(None), 0, 0)


def cell(summary: Summary, column: str) -> Cell:
    """A metric of a summary with its interval, or one of its costs."""
    if column in _COSTS:
        return _COSTS[column](summary)
    return summary.metric(column)


MEANINGS = " ".join(f"{name}: {meaning}." for name, meaning in SCORES.items())

# Summaries, an editor a row.


def table1(summaries: Sequence[Summary], title: str, *notes: str) -> Table:
    """ESR, PC, each reading of retention with its S; each with its 95 % interval over cases.

    `drike evaluate` prints this table; a report begins with that of `document.scores`.
    """
    return _summary_table(title, summaries, tuple(SCORES), MEANINGS, INTERVALS, *notes)


def costs(summaries: Sequence[Summary]) -> Table:
    """The margins of each editor, and the cost of its prompts."""
    title = "Margins and cost"
    note = (
        "ESM, GSM: mean of P(new object) - P(old object) over edits and over paraphrases. "
        "tokens/prompt: of the prompt answered."
    )
    return _summary_table(title, summaries, ("ESM", "GSM", *_COSTS), note, PER_PROMPT)


def _summary_table(
    title: str, summaries: Iterable[Summary], columns: Sequence[str], *notes: str
) -> Table:
    rows = []
    for summary in summaries:
        cells = [cell(summary, column) for column in columns]
        rows.append((summary.editor, *cells))
    return Table(title, ("Editor", *columns), tuple(rows), notes)


def aspects(summaries: Sequence[Summary], *notes: str) -> Table | None:
    """The share of right answers to each aspect that S does not count; None if no probe has one."""
    probed = []
    for aspect in Aspect:
        if aspect in ASPECTS_OF_S:
            continue
        if any(summary.aspects[aspect].probes for summary in summaries):
            probed.append(aspect)
    if not probed:
        return None

    shares_by_editor = {summary.editor: summary.aspects for summary in summaries}
    note = "Share of probes answered right; S does not count them."
    return _share_table("Aspects", probed, shares_by_editor, note, *notes)


def hops(summaries: Sequence[Summary]) -> Table | None:
    """The share of right answers to multi-hop questions by number of hops; None if it is the same.

    None, too, if there are no such questions.
    """
    numbers = sorted({number for summary in summaries for number in summary.hops}, key=int)
    if len(numbers) <= 1:
        return None

    shares_by_editor = {summary.editor: summary.hops for summary in summaries}
    note = "Share of multi_hop probes answered right, by how many facts they go through."
    return _share_table("Multi-hop questions by hops", numbers, shares_by_editor, note)


def _share_table(
    title: str,
    names: Sequence[str],
    shares_by_editor: Mapping[str, Mapping[str, Share]],
    note: str,
    *notes: str,
) -> Table:
    """Named shares of each editor, and how many probes and edits each has."""
    rows: list[tuple[Cell, ...]] = []
    for editor, shares in shares_by_editor.items():
        estimates = [shares.get(name, _NO_SHARE).estimate for name in names]
        rows.append((editor, *estimates))

    counts = []
    for name in names:
        of_editors = [shares.get(name, _NO_SHARE) for shares in shares_by_editor.values()]
        largest = max(of_editors, key=lambda share: share.probes)
        counts.append(f"{name} {largest.probes:,} ({largest.edits:,})")

    return Table(
        title,
        header=("Editor", *map(str, names)),
        rows=tuple(rows),
        notes=(note, f"Probes (edits) of each: {'; '.join(counts)}.", INTERVALS, *notes),
    )


# Editors compared with each other.


def differences(ours: Counts, theirs: Counts) -> tuple[Difference, ...]:
    """Paired differences of the metrics in COLUMNS. Raises ValueError for different cases."""
    by_name = paired_differences(ours, theirs)
    return tuple(Difference(by_name[column]) for column in COLUMNS)


def compared(editors: Sequence[str]) -> list[tuple[str, str]]:
    """The comparisons that matter: DR-IKE with IKE, DR-IKE-Q with its controls."""
    controls = ("IKE", "Rank-All", "Rank-50%", "DR-IKE", "Switch by name")
    pairs = [("DR-IKE", "IKE")]
    for editor in editors:
        if editor in controls or editor.startswith("Nearest"):
            pairs.append(("DR-IKE-Q", editor))
    return [pair for pair in pairs if {*pair} <= {*editors}]


def paired(
    counts: Mapping[str, Counts], pairs: Iterable[tuple[str, str]], title: str
) -> list[Table]:
    """A row for each pair of editors, the differences of every metric; no table without pairs."""
    rows: list[tuple[Cell, ...]] = []
    for ours, theirs in pairs:
        of_pair = differences(counts[ours], counts[theirs])
        rows.append((f"{ours} minus {theirs}", *of_pair))
    if not rows:
        return []
    notes = ("Paired bootstrap over the same edits.", STARRED)
    return [Table(title, ("", *COLUMNS), tuple(rows), notes)]


def disagreement(outcomes: Sequence[Outcome]) -> str:
    """A sentence on how often the rules greedy and generate differ.

    outcomes: of a sample of edits, judged by greedy and with the text that the model wrote.
    """
    differing = []
    for outcome in outcomes:
        if outcome.matched is not None and outcome.matched != outcome.correct:
            differing.append(outcome)

    example = ""
    if differing:
        first = differing[0]
        example = f", such as {first.editor}'s on {first.answer!r} for {first.target!r}"
    edits = len({outcome.case_id for outcome in outcomes})
    verdicts = f"{len(differing)} of {len(outcomes):,} verdicts differ"
    return f"Judged by greedy and by generate on a sample of {edits} edits: {verdicts}{example}."


# Work and retains.


def work(usage_by_part: Mapping[str, Usage]) -> Table:
    """The model's work for each part of a run: prompts, forwards, tokens, seconds."""
    header = ("", "prompts", "forwards", "tokens", "computed", "shared prefix", "cached", "seconds")
    rows = []
    for part, usage in usage_by_part.items():
        row = (
            part,
            Number(usage.prompts),
            Number(usage.forwards),
            Number(usage.tokens),
            Number(usage.tokens_computed),
            Number(usage.tokens_shared),
            Number(usage.tokens_cached),
            Number(usage.seconds or None, ".1f"),
        )
        rows.append(row)
    note = (
        "tokens: if every prompt were read by itself; shared prefix: computed once for all prompts "
        "that have them in common, minus those of self-checks; cached: tokens of prompts whose "
        "answer was known already."
    )
    return Table("Work of the model", header, tuple(rows), (note,))


@dataclass(frozen=True)
class Distribution:
    """counts[k]: how many edits got k retains. std: of the population."""

    counts: Mapping[int, int]
    mean: float
    std: float


def distribution_of(outcomes: Sequence[Outcome]) -> Distribution:
    """Count one editor's retains, every edit once. Raises ValueError without a rewrite probe."""
    retains = [outcome.shots for outcome in outcomes if outcome.aspect is Aspect.REWRITE]
    if not retains:
        raise ValueError(
            "no outcome of a rewrite probe: retains are counted once per edit, at its rewrite probe"
        )
    counts = dict(sorted(Counter(retains).items()))
    return Distribution(counts, mean=fmean(retains), std=pstdev(retains))
