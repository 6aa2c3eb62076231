"""Outcomes as the paper's tables: Table 1's layout with intervals, the published figures, and paired differences.

Tables are plain rows of strings; the command line draws them, `as_markdown` writes them into files. Figures and the
HTML report are left out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drike.metrics import METRICS, Estimate, Outcome, Summary, paired_difference
from drike.models import Usage


@dataclass(frozen=True)
class Table:
    """A titled table; the first column is text, the others are numbers, or text too if it is `wide`."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Published:
    """A row of the paper's Table 1: means without intervals, measured by its authors on 100 edits."""

    model: str
    editor: str
    s: float
    esr: float
    pc: float
    rr: float
    esm: float
    gsm: float
    seconds: float


PAPER_TABLE1: tuple[Published, ...] = (
    Published("Llama-3.1-8B-Instruct", "FactPrompt", 0.434, 0.61, 0.34, 0.43, 0.21, -0.05, 1.99),
    Published("Llama-3.1-8B-Instruct", "EditCoT", 0.431, 0.70, 0.33, 0.40, 0.24, -0.06, 2.02),
    Published("Llama-3.1-8B-Instruct", "IKE", 0.727, 0.76, 0.67, 0.76, 0.43, 0.39, 6.52),
    Published("Llama-3.1-8B-Instruct", "DR-IKE", 0.775, 0.89, 0.81, 0.66, 0.69, 0.49, 3.81),
    Published("Qwen 2.5-7B", "FactPrompt", 0.335, 0.48, 0.26, 0.33, 0.54, 0.45, 2.42),
    Published("Qwen 2.5-7B", "EditCoT", 0.424, 0.53, 0.43, 0.35, -0.09, -0.15, 2.25),
    Published("Qwen 2.5-7B", "IKE", 0.738, 0.75, 0.69, 0.78, 0.64, 0.57, 6.75),
    Published("Qwen 2.5-7B", "DR-IKE", 0.779, 0.89, 0.77, 0.70, 0.83, 0.74, 4.21),
)

_COLUMNS = ("S", "ESR", "PC", "RR", "ESM", "GSM")


def table1(summaries: Sequence[Summary], title: str) -> Table:
    """Our rows in the paper's columns, each statistic with its 95 % bootstrap interval over cases."""
    rows = tuple((one.editor, *map(_estimate, (one.s, one.esr, one.pc, one.rr, one.esm, one.gsm))) for one in summaries)
    return Table(title, ("Editor", *_COLUMNS), rows, ("Brackets: 95 % bootstrap interval over cases.",))


def costs(summaries: Sequence[Summary]) -> Table:
    """What each editor's prompts hold and cost, and RR without the model's ignorance."""
    rows = tuple(
        (
            one.editor,
            _estimate(one.rr_known),
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
            f"{one.tokens_read:,}",
            f"{one.tokens_computed:,}",
            f"{one.tokens_shared:,}",
            f"{one.tokens_remembered:,}",
            f"{one.seconds:.1f}",
        )
        for name, one in usages.items()
    )
    header = ("", "requests", "forwards", "tokens read", "computed", "shared", "remembered", "seconds")
    note = "shared: beginnings that were read once for several prompts, checks taken off; remembered: asked before."
    return Table("What the model did", header, rows, (note,))


def published(model: str | None = None) -> Table:
    """Table 1 as the paper prints it, all models or one."""
    rows = tuple(
        (f"{p.editor} ({p.model})", *(f"{value:.2f}" for value in (p.s, p.esr, p.pc, p.rr, p.esm, p.gsm, p.seconds)))
        for p in PAPER_TABLE1
        if model is None or p.model == model
    )
    header = ("Editor", "S", "ESR", "PC", "RR", "ESM", "GSM", "s/query")
    return Table("For reference: the paper's Table 1 (other models, other data)", header, rows)


def differences(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Table:
    """Paired differences of every metric on the same cases. Raises ValueError if the cases differ."""
    cells = [_estimate(paired_difference(ours, theirs, METRICS[name]), signed=True) for name in _COLUMNS]
    title = f"{ours[0].editor} minus {theirs[0].editor}, paired"
    return Table(title, ("", *_COLUMNS), (("difference", *cells),), ("An interval that excludes 0 is a difference.",))


def as_markdown(table: Table) -> str:
    """A table with its title and notes as Markdown."""
    aligned = ["---", *["---:"] * (len(table.header) - 1)]
    lines = [table.header, tuple(aligned), *table.rows]
    drawn = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    notes = "\n".join(table.notes)
    return f"**{table.title}**\n\n{drawn}\n" + (f"\n{notes}\n" if notes else "")


def _estimate(estimate: Estimate, *, signed: bool = False) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "n/a"
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.3f} [{_short(estimate.low)},{_short(estimate.high)}]"


def _short(value: float) -> str:
    """Two decimals without the zero ahead of the point: intervals stand in narrow columns."""
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
