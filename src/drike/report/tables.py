"""Tables: outcomes in the layout of the paper's tables with intervals, published figures, paired differences, costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from drike.edits import ASPECTS_OF_S, Aspect
from drike.evaluation.metrics import Counts, Estimate, Outcome, Share, Summary, harmonic_mean, paired_differences
from drike.models.protocols import Usage
from drike.report.paper import TABLES, PaperTable, Published
from drike.support.table import Table

COLUMNS = ("S", "ESR", "PC", "RR", "ESM", "GSM")
SCORES = {  # what a report begins with
    "S": "harmonic mean of ESR, PC and RR",
    "ESR": "share of edits that take effect",
    "PC": "share of paraphrases of the edits answered with the new object",
    "RR": "share of neighbouring facts still answered right",
}
INTERVALS = "Brackets: 95 % bootstrap interval over cases."
STARRED = "*: the interval excludes 0."
PER_PROMPT = (
    "retains/prompt: mean over the prompts of all probes, so an edit with more probes counts more; where a table says "
    "retains/edit, every edit counts once."
)
_COSTS: dict[str, Callable[[Summary], str]] = {
    "retains/prompt": lambda one: f"{one.shots:.2f}",
    "tokens/prompt": lambda one: "n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}",
    "calls/edit": lambda one: f"{one.calls:.1f}",
    "s/edit": lambda one: f"{one.seconds:.3f}",
}


def cell(summary: Summary, column: str) -> str:
    """A metric of a summary with its interval, or one of its costs."""
    return _COSTS[column](summary) if column in _COSTS else shown(summary.metric(column))


def summary_table(title: str, summaries: Iterable[Summary], columns: Sequence[str], *notes: str) -> Table:
    """A row for each editor in the given columns."""
    rows = tuple((one.editor, *(cell(one, column) for column in columns)) for one in summaries)
    return Table(title, ("Editor", *columns), rows, notes)


def table1(summaries: Sequence[Summary], title: str, *notes: str) -> Table:
    """Summaries in the columns of the paper's Table 1, each with its 95 % bootstrap interval over cases."""
    return summary_table(title, summaries, COLUMNS, INTERVALS, *notes)


def disagreement(sampled: Mapping[str, Sequence[Outcome]]) -> str:
    """A sentence on how often greedy and generate differ in each editor's outcomes, which have scores and text."""
    differing = {
        name: [one for one in of_editor if one.matched is not None and one.matched != one.correct]
        for name, of_editor in sampled.items()
    }
    edits = len({one.case_id for of_editor in sampled.values() for one in of_editor})
    asked, found = sum(map(len, sampled.values())), [one for of_editor in differing.values() for one in of_editor]
    begin = f"Judged by greedy and by generate on a sample of {edits} edits: {len(found)} of {asked:,} verdicts differ"
    if not found:
        return f"{begin}."
    counts = ", ".join(f"{name} {len(of_editor)}" for name, of_editor in differing.items() if of_editor)
    return f"{begin} ({counts}), such as that on {found[0].answer!r} for {found[0].target!r}."


def costs(summaries: Sequence[Summary]) -> Table:
    """The cost of each editor's prompts, and RR on the neighbours that the model knew."""
    note = "RR known: RR on neighbours that the unedited model answers right. tokens/prompt: of the prompt answered."
    return summary_table("Retention of known facts, and cost", summaries, ("RR known", *_COSTS), note, PER_PROMPT)


def aspects(summaries: Sequence[Summary], *notes: str) -> Table | None:
    """The share of right answers to each aspect that S does not count; None where no probe asks one."""
    asked = [one for one in Aspect if one not in ASPECTS_OF_S and any(s.aspects[one].probes for s in summaries)]
    note = "Share of probes answered right; S does not count them."
    return _shares("Aspects", asked, {one.editor: one.aspects for one in summaries}, note, *notes) if asked else None


def hops(summaries: Sequence[Summary]) -> Table | None:
    """The share of right answers to multi-hop questions by their number of hops; None unless it varies."""
    numbers = sorted({number for one in summaries for number in one.hops}, key=int)
    note = "Share of multi_hop probes answered right, by how many facts they go through."
    by_editor = {one.editor: one.hops for one in summaries}
    return _shares("Multi-hop questions by hops", numbers, by_editor, note) if len(numbers) > 1 else None


def _shares(
    title: str, names: Sequence[str], by_editor: Mapping[str, Mapping[str, Share]], note: str, *notes: str
) -> Table:
    """Named shares of each editor, and how many probes and edits each has."""
    none = Share(Estimate(None), 0, 0)
    rows = tuple(
        (editor, *(shown(shares.get(name, none).estimate) for name in names)) for editor, shares in by_editor.items()
    )
    most = {name: max((of.get(name, none) for of in by_editor.values()), key=lambda one: one.probes) for name in names}
    counts = "; ".join(f"{name} {of.probes:,} ({of.edits:,})" for name, of in most.items())
    own = (note, f"Probes (edits) of each: {counts}.", INTERVALS)
    return Table(title, ("Editor", *map(str, names)), rows, (*own, *notes))


def work(usages: Mapping[str, Usage]) -> Table:
    """The model's work for each part of a run: prompts, forwards, tokens computed and saved, seconds."""
    rows = []
    for name, one in usages.items():
        counts = (one.prompts, one.forwards, one.tokens, one.tokens_computed, one.tokens_shared, one.tokens_cached)
        rows.append((name, *(f"{count:,}" for count in counts), f"{one.seconds:.1f}" if one.seconds else "n/a"))
    header = ("", "prompts", "forwards", "tokens", "computed", "shared prefix", "cached", "seconds")
    note = (
        "tokens: if every prompt were read by itself; shared prefix: computed once for all prompts that have them in "
        "common, minus those of self-checks; cached: tokens of prompts whose answer was known already."
    )
    return Table("Work of the model", header, tuple(rows), (note,))


def published(table: PaperTable = TABLES[0]) -> Table:
    """One of the paper's tables as it prints it."""
    several = len({row.data for row in table.rows}) > 1
    rows = tuple(
        (
            f"{row.editor} ({', '.join(filter(None, (row.variant, row.model, row.data if several else '')))})",
            *published_cells(row, table.columns, extra=table.has_extra),
        )
        for row in table.rows
    )
    notes = (
        "s/query: the paper's time per iteration, apparently of one prompt at a time; our s/edit is the time of all "
        "probes of an edit, which share the work on common prefixes.",
        "params: the paper's Extra Params, apparently including frozen encoders; `drike report` counts ours.",
    )
    header = ("Editor", *table.columns, *(["params"] if table.has_extra else []))  # short, so that names fit
    title = f"For reference: the paper's Table {table.number}, {table.about} (other models, other data)"
    return Table(title, header, rows, notes if table.has_extra else ())


def published_cells(row: Published, columns: Iterable[str], *, extra: bool) -> tuple[str, ...]:
    """The values of a published row in their own rounding; S follows from ESR, PC and RR where it is not printed."""

    def value(column: str) -> str:
        printed = row.value(column)
        rates = [rate for rate in (row.esr, row.pc, row.rr) if rate is not None]
        if printed is None and column == "S" and len(rates) == 3:
            return f"{harmonic_mean(rates):.3f}"
        return "n/a" if printed is None else f"{printed:.2f}" if round(printed, 2) == printed else str(printed)

    return (*map(value, columns), *([row.extra_parameters] if extra else []))


def differences(ours: Counts, theirs: Counts) -> Table:
    """Paired differences of every metric. Raises ValueError if the two are not about the same cases."""
    by_name = paired_differences(ours, theirs)
    row = ("difference", *(starred(by_name[column]) for column in COLUMNS))
    return Table(f"{ours.editor} minus {theirs.editor}, paired", ("", *COLUMNS), (row,), (STARRED,))


def compared(editors: Sequence[str]) -> list[tuple[str, str]]:
    """The comparisons that matter: DR-IKE with IKE, and DR-IKE-Q with every editor that shows demonstrations."""
    controls = ("IKE", "Rank-All", "Rank-50%", "DR-IKE", "Switch by name")
    pairs = [("DR-IKE", "IKE")]
    pairs += [("DR-IKE-Q", one) for one in editors if one in controls or one.startswith("Nearest")]
    return [pair for pair in pairs if {*pair} <= {*editors}]


def paired(counts: Mapping[str, Counts], pairs: Iterable[tuple[str, str]], title: str) -> list[Table]:
    """A row for each pair of editors: the paired differences of every metric; no table without pairs."""
    rows = tuple((f"{one} minus {other}", *differences(counts[one], counts[other]).rows[0][1:]) for one, other in pairs)
    notes = ("Paired bootstrap over the same edits.", STARRED)
    return [Table(title, ("", *COLUMNS), rows, notes)] if rows else []


def shown(estimate: Estimate, *, signed: bool = False) -> str:
    """Format a statistic with its interval; n/a where nothing was measured."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "n/a"
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.3f} [{_short(estimate.low)},{_short(estimate.high)}]"


def starred(difference: Estimate) -> str:
    """Format a difference with its interval, with a star if the unrounded interval excludes 0."""
    text = shown(difference, signed=True)
    return text if has_0(difference) else text.replace(" [", "* [")


def has_0(difference: Estimate) -> bool:
    """Whether the interval of a difference includes 0; true if there is no interval."""
    return difference.low is None or difference.high is None or difference.low <= 0 <= difference.high


def _short(value: float) -> str:
    """Two decimals without a leading zero, because columns are narrow."""
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
