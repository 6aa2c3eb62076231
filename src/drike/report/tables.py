"""Outcomes as the paper's tables: Table 1's layout with intervals, the published figures, and paired differences.

Tables are plain rows of strings; the command line draws them, `as_markdown` and `latex` write them into files. A row of
one cell is a heading over the rows that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drike.metrics import METRICS, Estimate, Outcome, Summary, paired_differences
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
STARRED = "*: a difference, as its interval excludes 0."
EXTRA = "Extra Params"
SECONDS = (
    "s/query, measured: a case's wall time over its number of probes, which are asked together and read what "
    "they share once; published: time per iteration, of a prompt by itself as it seems. The two do not compare."
)
COUNTED = (
    "Extra Params, measured: what was trained, the head and a learned budget; published: apparently with the frozen "
    "encoders, as DR-IKE's 29M above IKE are the size of its BERT."
)


def table1(summaries: Sequence[Summary], title: str) -> Table:
    """Our rows in the paper's columns, each statistic with its 95 % bootstrap interval over cases."""
    rows = tuple((one.editor, *(shown(_of(one, column)) for column in COLUMNS)) for one in summaries)
    return Table(title, ("Editor", *COLUMNS), rows, (INTERVALS,))


def costs(summaries: Sequence[Summary]) -> Table:
    """What each editor's prompts hold and cost, and RR without the model's ignorance."""
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
    note = "RR known: on neighbours the unedited model answers right. tokens: of the prompt that is answered."
    return Table("Retention of what was known, and cost", header, rows, (note,))


def work(usages: Mapping[str, Usage]) -> Table:
    """What the model did for each piece of a run: requests, forwards, tokens computed and spared, seconds."""
    rows = tuple(
        (
            name,
            f"{one.prompts:,}",
            f"{one.forwards:,}",
            f"{one.tokens:,}",
            f"{one.tokens_computed:,}",
            f"{one.tokens_shared:,}",
            f"{one.tokens_cached:,}",
            f"{one.seconds:.1f}" if one.seconds else "n/a",
        )
        for name, one in usages.items()
    )
    tokens = ("tokens (if read one by one)", "computed", "shared prefix", "cached")
    header = ("", "prompts", "forwards", *tokens, "seconds")
    note = "shared prefix: read once for several prompts, self-checks subtracted; cached: of prompts asked before."
    return Table("What the model did", header, rows, (note,))


def published(model: str | None = None) -> Table:
    """Table 1 as the paper prints it, all models or one."""
    columns = (*COLUMNS, "s/query")
    rows = tuple(
        (f"{p.editor} ({p.model})", *(_value(p, column, 2) for column in columns), p.extra_parameters)
        for p in PAPER_TABLE1
        if model is None or p.model == model
    )
    title = "For reference: the paper's Table 1 (other models, other data)"
    notes = (
        "s/query: the paper's time per iteration, of a prompt by itself as it seems; our s/edit is a case's with all "
        "its probes, which read what they share once.",
        "params: the paper's Extra Params, apparently with the frozen encoders; ours are the trained head's, which a "
        "report gives.",
    )
    return Table(title, ("Editor", *columns, "params"), rows, notes)  # short, for names to stay whole


def as_published(table: PaperTable) -> Table:
    """One of the paper's tables as it prints it; a row is named by what it is about."""
    rows = tuple(
        (", ".join(filter(None, (p.editor, p.variant, p.model, p.data))), *(_published(p, c) for c in table.columns))
        for p in table.rows
    )
    return Table(f"For reference: the paper's Table {table.number}, {table.about}", ("", *table.columns), rows)


def _published(row: Published, column: str) -> str:
    value = row.value(column)
    return "n/a" if value is None else f"{value:g}"


def differences(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Table:
    """Paired differences of every metric on the same cases. Raises ValueError if the cases differ."""
    title = f"{ours[0].editor} minus {theirs[0].editor}, paired"
    row = difference_row("difference", ours, theirs)
    return Table(title, ("", *COLUMNS), (row,), (STARRED,))


def difference_row(name: str, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> tuple[str, ...]:
    """A named row of paired differences, ours minus theirs."""
    by_name = paired_differences(ours, theirs, {column: METRICS[column] for column in COLUMNS})
    return (name, *(starred(by_name[column]) for column in COLUMNS))


@dataclass(frozen=True)
class Row:
    """One of our rows: what it is called, its summary, seconds per query, and trained parameters where known."""

    name: str
    summary: Summary
    seconds: float
    parameters: int | None = None


@dataclass(frozen=True)
class Block:
    """Our rows for one of the paper's tables, under one heading."""

    heading: str
    rows: tuple[Row, ...]


def beside(paper: PaperTable, ours: Iterable[Block], what: str = "Editor") -> Table:
    """Our rows in the columns of one of the paper's tables, and the published rows below them."""
    rows: list[tuple[str, ...]] = []
    extra = any(row.extra_parameters for row in paper.rows)
    for block in (block for block in ours if block.rows):
        rows.append((f"Measured: {block.heading}",))
        for row in block.rows:
            cells = (f"{row.seconds:.3f}" if c == "s/query" else shown(_of(row.summary, c)) for c in paper.columns)
            known = "n/a" if row.parameters is None else f"{row.parameters:,}"
            rows.append((row.name, *cells, *([known] if extra else [])))
    headings = [_heading(row, paper) for row in paper.rows]
    for i, (told, heading) in enumerate(zip(paper.rows, headings, strict=True)):
        if i == 0 or heading != headings[i - 1]:
            rows.append((f"Published: {heading}",))
        name = told.variant or (told.model if paper.number == _BY_MODEL else told.editor)
        parameters = [told.extra_parameters] if extra else []
        rows.append((name, *(_value(told, column) for column in paper.columns), *parameters))
    title = f"Table {paper.number} of the paper: {paper.about}"
    header = (what, *paper.columns, *([EXTRA] if extra else []))
    notes = (INTERVALS, _CAUTION, *((SECONDS,) if "s/query" in paper.columns else ()), *((COUNTED,) if extra else ()))
    return Table(title, header, tuple(rows), notes)


_BY_MODEL = 3
_CAUTION = "Published rows: other models, other data, no intervals; they show what to look for, not what to expect."


def _heading(row: Published, paper: PaperTable) -> str:
    if paper.number == _BY_MODEL:
        return f"{row.editor}, {row.data}"
    named = () if row.model == "not named" else (row.model,)
    return ", ".join((*named, row.data))


def _value(row: Published, column: str, digits: int | None = None) -> str:
    """A published value in its own rounding, or in `digits`."""
    value = row.value(column)
    if value is None:
        return "n/a"
    return str(f"{value:.2f}" if digits or round(value, 2) == value else value)


def _of(summary: Summary, column: str) -> Estimate:
    found: Estimate = getattr(summary, column.casefold())
    return found


def as_markdown(table: Table) -> str:
    """A table with its title and notes as Markdown; what it holds never turns into markup of its own."""
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
    """Text that Markdown shows as it is, in one line."""
    marked = re.sub(r"([\\|`*_]|\](?=[(\[]))", r"\\\1", " ".join(text.split()))
    return marked.replace("&", "&amp;").replace("<", "&lt;")


def shown(estimate: Estimate, *, signed: bool = False) -> str:
    """A statistic with its interval; n/a where nothing was measured."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "n/a"
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.3f} [{_short(estimate.low)},{_short(estimate.high)}]"


def starred(difference: Estimate) -> str:
    """A difference with its interval, marked where 0 is outside, which two decimals may not show."""
    told = shown(difference, signed=True)
    return told if has_0(difference) else told.replace(" [", "* [")


def has_0(difference: Estimate) -> bool:
    """Whether a difference's interval leaves its sign open; so does having none."""
    return difference.low is None or difference.high is None or difference.low <= 0 <= difference.high


def _short(value: float) -> str:
    """Two decimals without the zero ahead of the point: intervals stand in narrow columns."""
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
