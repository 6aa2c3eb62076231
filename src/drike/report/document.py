"""Put a report together: a summary, then every table and figure, then the settings of the runs.

Nothing here knows HTML: `page` writes a document as a page, `markdown` its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from drike.report import figures
from drike.report.comparison import paper_tables
from drike.report.deployed import deployed_of
from drike.report.figures import Figure
from drike.report.findings import findings, gaps
from drike.report.groups import BASELINE, METHOD, PER_QUERY, UNEDITED, Group
from drike.report.overview import generated, judges, scores
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS
from drike.report.tables import (
    INTERVALS,
    PER_PROMPT,
    SCORES,
    aspects,
    compared,
    costs,
    distribution_of,
    hops,
    paired,
    work,
)
from drike.report.training import epochs_table
from drike.support.table import NOT_MEASURED, Cell, Number, Table, as_markdown, markdown_text


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, figures, tables, in this order."""

    id: str
    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Document:
    """A whole report. groups: their outcomes go into the case viewer."""

    title: str
    groups: tuple[Group, ...]
    sections: tuple[Section, ...]


def document(groups: Sequence[Group]) -> Document:
    """The report of groups of runs (see `groups.grouped`)."""
    runs = [run for group in groups for run in group.runs]
    sections = (
        _summary(groups),
        Section("paper", "Compared with the paper", tables=list(paper_tables(groups))),
        _differences(groups),
        Section("deployed", "Many edits in force", tables=[*chain.from_iterable(map(deployed_of, runs))]),
        _cost(groups),
        _training(groups),
        _budgets(groups),
        _about(groups),
    )
    kept = tuple(section for section in sections if section.text or section.figures or section.tables)
    title = f"drike report: {'; '.join(dict.fromkeys(group.label for group in groups))}"
    return Document(title, tuple(groups), kept)


def markdown(document: Document) -> str:
    """The summary and all tables as Markdown."""
    lines = [f"# {markdown_text(document.title, first=True)}\n"]
    for section in document.sections:
        lines.append(f"## {markdown_text(section.title, first=True)}\n")
        if section.text:
            lines.append("\n".join(f"* {markdown_text(line, first=True)}" for line in section.text) + "\n")
        lines += map(as_markdown, section.tables)
    return "\n".join(lines)


def _summary(groups: Sequence[Group]) -> Section:
    text = [sentence for part in (gaps, findings) for group in groups for sentence in part(group)]
    if any(group.data == "TinyFacts" for group in groups):
        text += ["TinyFacts shows that the method runs; its numbers are no evidence about large models."]
    meanings = " ".join(f"{name}: {meaning}." for name, meaning in SCORES.items())
    tables = [scores(group, meanings, *judges(group), INTERVALS, PER_PROMPT) for group in groups]
    for group in groups:
        tables += _labelled(group.label, aspects(list(group.summaries.values()), *generated(group)))
    return Section("summary", "Summary", text, tables=tables)


def _differences(groups: Sequence[Group]) -> Section:
    """Every editor against IKE, DR-IKE against every other editor, and DR-IKE-Q against its controls."""
    tables: list[Table] = []
    for group in groups:
        editors = [name for name in group.outcomes if name not in (UNEDITED, BASELINE)]
        pairs = [(name, BASELINE) for name in editors]
        pairs += [(METHOD, name) for name in editors if name not in (METHOD, PER_QUERY)]
        pairs += compared(list(group.outcomes))
        comparable = [pair for pair in dict.fromkeys(pairs) if group.comparable(*pair)]
        tables += paired(group.counts, comparable, f"Paired differences, {group.label}")
    return Section("differences", "Differences", tables=tables)


def _cost(groups: Sequence[Group]) -> Section:
    tables: list[Table] = []
    for group in groups:
        summaries = list(group.summaries.values())
        tables += _labelled(group.label, hops(summaries), costs(summaries))
        for run in group.runs:
            tables += _labelled(f"{group.label}, seed {run.seed}", work(run.usage) if run.usage else None)
    return Section("cost", "Quality and cost", tables=tables)


def _labelled(label: str, *tables: Table | None) -> list[Table]:
    """The tables that there are, with the label in their titles."""
    return [replace(table, title=f"{table.title}, {label}") for table in tables if table]


def _training(groups: Sequence[Group]) -> Section:
    runs = {f"{group.label}, seed {run.seed}": run for group in groups for run in group.runs if run.episodes}
    if not runs:
        return Section("training", "Training")
    seconds = "; ".join(f"{model} {before:.1f} and {after:.1f}" for model, (before, after) in EPOCH_SECONDS.items())
    text = (f"Published seconds per epoch without and with the budget controller: {seconds} (NVIDIA L4, 300 edits).",)
    table = epochs_table({name: run.epochs for name, run in runs.items()})
    unfinished = tuple(
        f"Epoch {last.epoch} was stopped after {last.episodes} of {run.training_edits} edits ({name})."
        for name, run in runs.items() if (last := run.epochs[-1]).episodes < run.training_edits
    )  # fmt: skip
    table = replace(table, notes=(*table.notes, *unfinished))
    return Section("training", "Training", text, tables=[table])


def _budgets(groups: Sequence[Group]) -> Section:
    pairs = ((group, editor) for group in groups for editor in group.outcomes if editor.startswith(METHOD))
    with_budgets = [pair for pair in pairs if pair[1] != PER_QUERY]  # which has no budget per edit
    if not with_budgets:
        return Section("budget", "Retain budget")
    rows: list[tuple[Cell, ...]] = [("Measured",)]
    for group, editor in with_budgets:
        kept = distribution_of(group.outcomes[editor])
        extremes = (Number(end(kept.counts), "d") for end in (min, max))
        rows.append((f"{editor}, {group.label}", Number(kept.mean, ".2f"), Number(kept.std, ".2f"), *extremes))
    rows.append(("Published",))
    for model, published in RETAIN_BUDGETS.items():
        rows.append((f"DR-IKE, {model}", *(Number(value, ".2f") for value in published), NOT_MEASURED, NOT_MEASURED))
    notes = (
        "Every edit counts once here; retains/prompt in the other tables is a mean over prompts, so an edit with more "
        "probes counts more there.",
        "std: of the population; the paper does not say which it uses.",
    )
    header = ("Editor", "mean retains/edit", "std", "min", "max")
    table = Table("Retains kept per test edit", header, tuple(rows), notes)
    drawn = [figures.budget(group, editor) for group, editor in with_budgets]
    return Section("budget", "Retain budget", figures=drawn, tables=[table])


def _about(groups: Sequence[Group]) -> Section:
    """The settings of the runs: enough to repeat them."""
    runs = [run for group in groups for run in group.runs]
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    rows = [
        ("folder", *(run.folder for run in runs)),
        ("started", *(run.started for run in runs)),
        ("model", *(run.model for run in runs)),
        *(
            (what, *(run.identity.get(name, "n/a")[:16] for run in runs))
            for name, what in (("dtype", "dtype of the weights"), ("weights_sha256", "SHA-256 of the weights"))
        ),
        ("seed", *(str(run.seed) for run in runs)),
        *((name, *(run.settings.get(name, "default") for run in runs)) for name in names),
        *((name, *(run.versions.get(name, "n/a") for run in runs)) for name in ("drike", "torch", "transformers")),
    ]
    header = ("", *(f"run {i}" for i in range(1, len(runs) + 1)))
    return Section("runs", "Settings", tables=[Table("Settings of the runs", header, tuple(rows), wide=True)])
