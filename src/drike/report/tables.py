"""Tables: outcomes in the layout of the paper's tables with intervals, published figures, paired differences, costs.

A table is rows of strings. The command line draws it; `as_markdown` and `latex` write it into files. A row of one cell
is a heading for the rows below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drike.metrics import METRICS, Estimate, Outcome, Summary, harmonic_mean, paired_differences
from drike.models.protocols import Usage
from drike.report.paper import PAPER_TABLE1, PaperTable, Published


@dataclass(frozen=True)
class Table:
    """A titled table; the first column is text, the others are numbers, or text too if it is `wide`."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    wide: bool = False


COLUMNS = ("S", "ESR", "PC", "RR", "ESM", "GSM")
INTERVALS = "Brackets: 95 % bootstrap interval over cases."
STARRED = "*: the interval excludes 0."
PER_PROMPT = (
    "retains/prompt: mean over the prompts of all probes, so an edit with more probes counts more; where a table says "
    "retains/edit, every edit counts once."
)
SECONDS = (
    "s/query, measured: wall time of a case divided by its number of probes, which are asked together and share the "
    "work on common prefixes; published: time per iteration, apparently of one prompt at a time. Do not compare them."
)
TRAINED = (
    "Extra Params, measured: what was trained, the head and any learned budget; published: apparently including frozen "
    "encoders, as DR-IKE's 29M above IKE are the size of its BERT."
)


def table1(summaries: Sequence[Summary], title: str) -> Table:
    """Summaries in the columns of the paper's Table 1, each with its 95 % bootstrap interval over cases."""
    rows = tuple((one.editor, *(shown(_of(one, column)) for column in COLUMNS)) for one in summaries)
    return Table(title, ("Editor", *COLUMNS), rows, (INTERVALS,))


def costs(summaries: Sequence[Summary]) -> Table:
    """The cost of each editor's prompts, and RR on the neighbours that the model knew."""
    rows = tuple(
        (
            one.editor,
            shown(one.rr_known),
            f"{one.shots:.2f}",
            "n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}",
            f"{one.calls:.1f}",
            f"{one.seconds:.3f}",
        )
        for one in summaries
    )
    header = ("Editor", "RR known", "retains/prompt", "tokens/prompt", "calls/edit", "s/edit")
    note = "RR known: RR on neighbours that the unedited model answers right. tokens/prompt: of the prompt answered."
    return Table("Retention of known facts, and cost", header, rows, (note, PER_PROMPT))


def work(usages: Mapping[str, Usage]) -> Table:
    """The model's work for each part of a run: prompts, forwards, tokens computed and saved, seconds."""
    rows = tuple(
        (
            name,
            f"{one.prompts:,}",
            f"{one.forwards:,}",
            f"{one.tokens_read:,}",
            f"{one.tokens_computed:,}",
            f"{one.tokens_shared:,}",
            f"{one.tokens_remembered:,}",
            f"{one.seconds:.1f}",
        )
        for name, one in usages.items()
    )
    header = (
        "",
        "prompts",
        "forwards",
        "tokens (if read one by one)",
        "computed",
        "shared prefix",
        "cached",
        "seconds",
    )
    note = (
        "shared prefix: tokens that several prompts have in common and that were computed once, minus those of "
        "self-checks; cached: tokens of prompts whose answer was known already."
    )
    return Table("Work of the model", header, rows, (note,))


def published(model: str | None = None) -> Table:
    """Table 1 as the paper prints it, for all models or for one."""
    columns = (*COLUMNS, "s/query")
    rows = tuple(
        (f"{p.editor} ({p.model})", *(_value(p, column, 2) for column in columns), p.extra_parameters)
        for p in PAPER_TABLE1
        if model is None or p.model == model
    )
    title = "For reference: the paper's Table 1 (other models, other data)"
    notes = (
        "s/query: the paper's time per iteration, apparently of one prompt at a time; our s/edit is the time of all "
        "probes of an edit, which share the work on common prefixes.",
        "params: the paper's Extra Params, apparently including frozen encoders; `drike report` counts ours.",
    )
    return Table(title, ("Editor", *columns, "params"), rows, notes)  # "params" is short so that names fit


def as_published(table: PaperTable) -> Table:
    """One of the paper's tables as it prints it."""
    rows = tuple(
        (", ".join(filter(None, (p.editor, p.variant, p.model, p.data))), *(_published(p, c) for c in table.columns))
        for p in table.rows
    )
    return Table(f"For reference: the paper's Table {table.number}, {table.about}", ("", *table.columns), rows)


def _published(row: Published, column: str) -> str:
    value = row.value(column)
    return "n/a" if value is None else f"{value:g}"


def differences(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Table:
    """Paired differences of every metric. Raises ValueError if the two are not about the same cases."""
    title = f"{ours[0].editor} minus {theirs[0].editor}, paired"
    row = difference_row("difference", ours, theirs)
    return Table(title, ("", *COLUMNS), (row,), (STARRED,))


def difference_row(name: str, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> tuple[str, ...]:
    """A named row of paired differences, ours minus theirs."""
    by_name = paired_differences(ours, theirs, {column: METRICS[column] for column in COLUMNS})
    return (name, *(starred(by_name[column]) for column in COLUMNS))


@dataclass(frozen=True)
class Row:
    """One measured row: its name, summary, seconds per query, and trained parameters where known."""

    name: str
    summary: Summary
    seconds: float
    parameters: int | None = None


@dataclass(frozen=True)
class Block:
    """Measured rows for one of the paper's tables, under one heading."""

    heading: str
    rows: tuple[Row, ...]


_BY_MODEL = 3  # the table whose rows are models; it gets S, too
_CAUTION = "Published rows: other models, other data, no intervals. Compare directions, not values."


def beside(paper: PaperTable, ours: Iterable[Block], what: str = "Editor") -> Table:
    """Measured rows in the columns of one of the paper's tables, above the published ones."""
    by_model = paper.number == _BY_MODEL
    columns = (*paper.columns, "S") if by_model else paper.columns
    extra = any(row.extra_parameters for row in paper.rows)
    rows: list[tuple[str, ...]] = []
    for block in (block for block in ours if block.rows):
        rows.append((f"Measured: {block.heading}",))
        for row in block.rows:
            cells = (f"{row.seconds:.3f}" if c == "s/query" else shown(_of(row.summary, c)) for c in columns)
            known = "n/a" if row.parameters is None else f"{row.parameters:,}"
            rows.append((row.name, *cells, *([known] if extra else [])))
    heading: tuple[str, ...] = ()
    for theirs in paper.rows:
        before, heading = heading, (f"Published: {_heading(theirs, by_model)}",)
        rows += [heading] if heading != before else []
        name = theirs.variant or (theirs.model if by_model else theirs.editor)
        rows.append((name, *(_value(theirs, c) for c in columns), *([theirs.extra_parameters] if extra else [])))
    notes = [INTERVALS, _CAUTION]
    notes += [SECONDS] if "s/query" in columns else []
    notes += [TRAINED] if extra else []
    notes += ["S of published rows: computed here from their ESR, PC and RR."] if by_model else []
    header = (what, *columns, *(["Extra Params"] if extra else []))
    return Table(f"Table {paper.number} of the paper: {paper.about}", header, tuple(rows), tuple(notes))


def _heading(row: Published, by_model: bool) -> str:
    if by_model:
        return f"{row.editor}, {row.data}"
    return row.data if row.model == "not named" else f"{row.model}, {row.data}"


def _value(row: Published, column: str, digits: int | None = None) -> str:
    """A published value in its own rounding, or in `digits`."""
    value = row.value(column)
    if value is None and column == "S":
        s = harmonic_mean([row.esr, row.pc, row.rr])
        return "n/a" if s is None else f"{s:.3f}"
    if value is None:
        return "n/a"
    return str(f"{value:.2f}" if digits or round(value, 2) == value else value)


def _of(summary: Summary, column: str) -> Estimate:
    found: Estimate = getattr(summary, column.casefold())
    return found


def as_markdown(table: Table) -> str:
    """Write a table with its title and notes as Markdown; text in it is escaped."""
    width = len(table.header)
    aligned = ["---", *["---" if table.wide else "---:"] * (width - 1)]
    body = (
        tuple(map(_escaped, row)) if len(row) == width else (f"**{_escaped(row[0])}**", *[""] * (width - 1))
        for row in table.rows
    )
    lines = [tuple(map(_escaped, table.header)), tuple(aligned), *body]
    drawn = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "\n".join(map(_escaped, table.notes))
    return f"**{_escaped(table.title)}**\n\n{drawn}\n" + (f"\n{notes}\n" if notes else "")


def _escaped(text: str) -> str:
    """Escape text so that Markdown shows it as it is, in one line."""
    marked = re.sub(r"([\\|`*_]|\](?=[(\[]))", r"\\\1", " ".join(text.split()))
    return marked.replace("&", "&amp;").replace("<", "&lt;")


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
