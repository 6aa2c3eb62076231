"""Put a report together: a summary, then every table, then the settings of the runs.

Nothing here knows HTML: `page` writes a document as a page, `markdown` its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.evaluation.judge import RULES
from drike.evaluation.metrics import counted
from drike.report.groups import BASELINE, METHOD, PER_QUERY, UNEDITED, Group, ReportedRun
from drike.report.overview import about, gaps, tables, verdict
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, paper_tables
from drike.report.tables import compared, costs, deployed_tables, distribution_of, epochs_table, hops, paired, work
from drike.support.table import NOT_MEASURED, Cell, Number, Table, as_markdown, markdown_text


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, then tables."""

    id: str
    title: str
    text: Sequence[str] = ()
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
    seconds = "; ".join(f"{model} {before:.1f} and {after:.1f}" for model, (before, after) in EPOCH_SECONDS.items())
    published = f"Published seconds per epoch without and with the budget controller: {seconds} (NVIDIA L4, 300 edits)."
    sections = (
        Section("summary", "Summary", _summary(groups), [table for group in groups for table in tables(group)]),
        Section("paper", "Compared with the paper", (), list(paper_tables(groups))),
        Section("differences", "Differences", (), [table for group in groups for table in _differences(group)]),
        Section("deployed", "Many edits in force", (), [table for run in runs for table in _deployed(run)]),
        Section("cost", "Quality and cost", (), [table for group in groups for table in _costs(group)]),
        Section("training", "Training", [published], _training(groups)),
        Section("budget", "Retain budget", (), _budgets(groups)),
        Section("runs", "Settings", (), [_settings(runs)]),
    )
    title = f"drike report: {'; '.join(dict.fromkeys(group.label for group in groups))}"
    return Document(title, tuple(groups), tuple(section for section in sections if section.tables))


def markdown(document: Document) -> str:
    """The summary and all tables as Markdown."""
    lines = [f"# {markdown_text(document.title, first=True)}\n"]
    for section in document.sections:
        lines.append(f"## {markdown_text(section.title, first=True)}\n")
        if section.text:
            lines.append("\n".join(f"* {markdown_text(line, first=True)}" for line in section.text) + "\n")
        lines += map(as_markdown, section.tables)
    return "\n".join(lines)


def _summary(groups: Sequence[Group]) -> list[str]:
    text = [sentence for group in groups for sentence in gaps(group)]
    text += [sentence for group in groups for sentence in (about(group), verdict(group))]
    if any(group.data == "TinyFacts" for group in groups):
        text += ["TinyFacts shows that the method runs; its numbers are no evidence about large models."]
    return text


def _differences(group: Group) -> list[Table]:
    """Every editor against IKE, DR-IKE against every other editor, and DR-IKE-Q against its controls."""
    editors = [name for name in group.outcomes if name not in (UNEDITED, BASELINE)]
    against = [(METHOD, name) for name in editors if name not in (METHOD, PER_QUERY)]
    pairs = dict.fromkeys((*((name, BASELINE) for name in editors), *against, *compared(list(group.outcomes))))
    comparable = [pair for pair in pairs if group.comparable(*pair)]
    return paired(group.counts, comparable, f"Paired differences, {group.label}")


def _deployed(run: ReportedRun) -> list[Table]:
    """The tables of a run that was evaluated with --stored; none of another run."""
    if not run.gate:
        return []
    counts = {editor: (counted(run.outcomes[editor]), counted(outcomes)) for editor, outcomes in run.deployed.items()}
    judge = [RULES[run.settings["judge"]].caption] if run.settings.get("judge") in RULES else []
    title = f"{run.stored} edits in force, {run.data}, model {run.model}"
    return deployed_tables(counts, run.gate, title, *judge)


def _costs(group: Group) -> list[Table]:
    summaries = list(group.summaries.values())
    found = [(group.label, hops(summaries)), (group.label, costs(summaries))]
    found += [(f"{group.label}, seed {run.seed}", work(run.usage)) for run in group.runs if run.usage]
    return [replace(table, title=f"{table.title}, {label}") for label, table in found if table]


def _training(groups: Sequence[Group]) -> list[Table]:
    runs = {f"{group.label}, seed {run.seed}": run.epochs for group in groups for run in group.runs if run.episodes}
    return [epochs_table(runs)] if runs else []


def _budgets(groups: Sequence[Group]) -> list[Table]:
    pairs = ((group, editor) for group in groups for editor in group.outcomes if editor.startswith(METHOD))
    with_budgets = [pair for pair in pairs if pair[1] != PER_QUERY]  # which has no budget per edit
    rows: list[tuple[Cell, ...]] = [("Measured",)]
    notes: list[str] = []
    for group, editor in with_budgets:
        kept = distribution_of(group.outcomes[editor])
        extremes = (Number(end(kept.counts), "d") for end in (min, max))
        rows.append((f"{editor}, {group.label}", Number(kept.mean, ".2f"), Number(kept.std, ".2f"), *extremes))
        edits = ", ".join(f"{k} at {number}" for k, number in kept.counts.items())
        notes.append(f"{editor}, {group.label}: edits by retains kept: {edits}.")
    rows.append(("Published",))
    for model, published in RETAIN_BUDGETS.items():
        rows.append((f"DR-IKE, {model}", *(Number(value, ".2f") for value in published), NOT_MEASURED, NOT_MEASURED))
    notes += [
        "Every edit counts once here; retains/prompt in the other tables is a mean over prompts, so an edit with more "
        "probes counts more there.",
        "std: of the population; the paper does not say which it uses.",
    ]
    header = ("Editor", "mean retains/edit", "std", "min", "max")
    return [Table("Retains kept per test edit", header, tuple(rows), tuple(notes))] if with_budgets else []


def _settings(runs: Sequence[ReportedRun]) -> Table:
    """The settings of the runs: enough to repeat them."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    weights = {"dtype": "dtype of the weights", "weights_sha256": "SHA-256 of the weights"}
    rows = [(name, *(str(getattr(run, name)) for run in runs)) for name in ("folder", "started", "model")]
    rows += [(what, *(run.identity.get(name, "n/a")[:16] for run in runs)) for name, what in weights.items()]
    rows += [("seed", *(str(run.seed) for run in runs))]
    rows += [(name, *(run.settings.get(name, "default") for run in runs)) for name in names]
    programs = ("drike", "torch", "transformers")
    rows += [(name, *(run.versions.get(name, "n/a") for run in runs)) for name in programs]
    header = ("", *(f"run {i}" for i in range(1, len(runs) + 1)))
    return Table("Settings of the runs", header, tuple(rows), wide=True)
