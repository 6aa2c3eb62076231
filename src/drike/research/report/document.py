"""A report, section by section in the order in which a reader sees them.

`page` writes it as HTML, `markdown` as text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.edits.edit import Aspect
from drike.research.datasets.generated import GENERATED
from drike.research.editors.meanings import meanings
from drike.research.evaluation.judge import RULES
from drike.research.evaluation.metrics import Outcome
from drike.research.report import sentences, tables
from drike.research.report.gate_tables import deployed_tables
from drike.research.report.groups import BASELINE, METHOD, PER_QUERY, UNEDITED, Group
from drike.research.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, paper_tables
from drike.research.report.reported_runs import ReportedRun
from drike.research.report.tables import INTERVALS, MEANINGS, PER_PROMPT, SCORES
from drike.research.report.training_tables import by_epoch, epochs_table
from drike.research.training.algorithm1 import EpisodeRecord
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
    """The report of groups of runs (see `groups.grouped`), without sections that have no table."""
    sections = (
        _summary(groups),
        _comparison_with_paper(groups),
        _differences(groups),
        _many_edits_in_force(groups),
        _quality_and_cost(groups),
        _training(groups),
        _retain_budget(groups),
        _settings(groups),
    )
    labels = dict.fromkeys(group.label for group in groups)
    return Document(
        title=f"drike report: {'; '.join(labels)}",
        groups=tuple(groups),
        sections=tuple(section for section in sections if section.tables),
    )


def markdown(document: Document) -> str:
    """The text and the tables of all sections as Markdown."""
    lines = [f"# {markdown_text(document.title, first=True)}\n"]
    for section in document.sections:
        lines.append(f"## {markdown_text(section.title, first=True)}\n")
        if section.text:
            items = [f"* {markdown_text(paragraph, first=True)}" for paragraph in section.text]
            lines.append("\n".join(items) + "\n")
        lines += map(as_markdown, section.tables)
    return "\n".join(lines)


# Summary.


def _summary(groups: Sequence[Group]) -> Section:
    """What was found, in sentences, and the scores."""
    text = [gap for group in groups for gap in sentences.gaps(group)]
    for group in groups:
        text.append(sentences.about(group))
        text.append(sentences.verdict(group))
        text += sentences.on_retention(group.summaries, group.label)
    if any(group.data == "TinyFacts" for group in groups):
        text.append(
            "TinyFacts shows that the method runs; its numbers are no evidence about large models."
        )
    score_tables = [table for group in groups for table in scores(group)]
    return Section("summary", "Summary", text, score_tables)


def scores(group: Group) -> list[Table]:
    """The scores of a group's editors; then those of aspects that S does not count, if any."""
    notes = []
    if any(run.settings.get("probes") == "all" for run in group.runs):
        notes.append(GENERATED)
    aspects = tables.aspects(list(group.summaries.values()), *notes)
    if aspects is None:
        return [_score_table(group)]
    return [_score_table(group), replace(aspects, title=f"{aspects.title}, {group.label}")]


def _score_table(group: Group) -> Table:
    """Scores and costs of editors, with their headline metric minus the baseline's."""
    costs = ("retains/prompt", "tokens/prompt")
    editors = group.summaries.keys() - {UNEDITED}
    has_baseline = BASELINE in editors and len(editors) > 1

    header = ["Editor", *SCORES]
    if has_baseline:
        header.append(f"{group.headline} minus {BASELINE}")
    header += costs

    rows = []
    for editor, summary in group.summaries.items():
        row: list[Cell] = [editor]
        row += [tables.cell(summary, column) for column in SCORES]
        if has_baseline:
            row.append(_minus_baseline(group, editor))
        row += [tables.cell(summary, column) for column in costs]
        rows.append(tuple(row))

    of_editors = meanings(list(group.summaries))
    explained = [MEANINGS, of_editors] if of_editors else [MEANINGS]
    notes = (*explained, *_rule_captions(group.runs), INTERVALS, PER_PROMPT)
    return Table(group.label, tuple(header), tuple(rows), notes)


def _minus_baseline(group: Group, editor: str) -> Cell:
    """An editor's headline metric minus the baseline's."""
    if editor == BASELINE:
        return NOT_MEASURED
    return group.difference(editor, BASELINE, group.headline) or NOT_MEASURED


def _rule_captions(runs: Sequence[ReportedRun]) -> list[str]:
    """By which rules answers were judged, as far as the runs say: older ones do not."""
    names = dict.fromkeys(run.settings.get("judge", "") for run in runs)
    return [RULES[name].caption for name in names if name in RULES]


@dataclass(frozen=True)
class Example:
    """An edit that took effect: what the model says without it and under it."""

    outcome: Outcome  # of the edit's own query
    before: str
    after: str


def example(group: Group, editor: str) -> Example | None:
    """The first edit that took effect under an editor, of those with written answers."""
    for run in group.runs:
        for outcome in run.outcomes.get(editor, ()):
            if outcome.aspect is not Aspect.REWRITE or not outcome.correct:
                continue
            before = _rewrite_answer(run, UNEDITED, outcome.case_id)
            after = _rewrite_answer(run, editor, outcome.case_id)
            if before is not None and after is not None:
                return Example(outcome, before.strip() or "(nothing)", after.strip())
    return None


def _rewrite_answer(run: ReportedRun, editor: str, case_id: str) -> str | None:
    """What the model wrote to the first probe of a case, which is its edit's own query."""
    answers = run.written.get(editor, {}).get(case_id)
    return answers[0] if answers else None


# Compared with the paper.


def _comparison_with_paper(groups: Sequence[Group]) -> Section:
    return Section("paper", "Compared with the paper", (), list(paper_tables(groups)))


# Differences.


def _differences(groups: Sequence[Group]) -> Section:
    paired = [table for group in groups for table in _paired_differences(group)]
    return Section("differences", "Differences", (), paired)


def _paired_differences(group: Group) -> list[Table]:
    """Every editor against IKE, DR-IKE against every other editor, DR-IKE-Q against its controls.

    Pairs of editors that were not measured on the same edits are left out.
    """
    editors = [name for name in group.outcomes if name not in (UNEDITED, BASELINE)]
    pairs = [(editor, BASELINE) for editor in editors]
    pairs += [(METHOD, editor) for editor in editors if editor not in (METHOD, PER_QUERY)]
    pairs += tables.compared(list(group.outcomes))

    each_once = dict.fromkeys(pairs)
    comparable = [pair for pair in each_once if group.comparable(*pair)]
    return tables.paired(group.counts, comparable, f"Paired differences, {group.label}")


# Many edits in force.


def _many_edits_in_force(groups: Sequence[Group]) -> Section:
    deployed: list[Table] = []
    for group in groups:
        for run in group.runs:
            if run.gate:  # evaluated with --stored
                title = f"{run.stored} edits in force, {run.data}, model {run.model}"
                captions = _rule_captions([run])
                deployed += deployed_tables(run.outcomes, run.deployed, run.gate, title, *captions)
    return Section("deployed", "Many edits in force", (), deployed)


# Quality and cost.


def _quality_and_cost(groups: Sequence[Group]) -> Section:
    costs = [table for group in groups for table in _costs(group)]
    return Section("cost", "Quality and cost", (), costs)


def _costs(group: Group) -> list[Table]:
    """Multi-hop questions, what prompts cost, and the model's work in each run."""
    summaries = list(group.summaries.values())
    costs = []
    by_hops = tables.hops(summaries)
    if by_hops is not None:
        costs.append(_titled(by_hops, group.label))
    costs.append(_titled(tables.costs(summaries), group.label))
    for run in group.runs:
        if run.usage:
            costs.append(_titled(tables.work(run.usage), f"{group.label}, seed {run.seed}"))
    return costs


def _titled(table: Table, label: str) -> Table:
    """The table with what it is about in its title."""
    return replace(table, title=f"{table.title}, {label}")


# Training.


def _training(groups: Sequence[Group]) -> Section:
    """Training by epoch, of the runs that trained."""
    episodes_by_run: dict[str, Sequence[EpisodeRecord]] = {}
    for group in groups:
        for run in group.runs:
            if not run.episodes:
                continue
            name = f"{group.label}, seed {run.seed}"
            # Two evaluations of one training show it once, two trainings are told apart.
            if episodes_by_run.get(name, run.episodes) != run.episodes:
                name = f"{name}, {run.folder}"
            episodes_by_run[name] = run.episodes
    epochs_by_run = {name: by_epoch(episodes) for name, episodes in episodes_by_run.items()}

    seconds = "; ".join(
        f"{model} {without:.1f} and {with_controller:.1f}"
        for model, (without, with_controller) in EPOCH_SECONDS.items()
    )
    published = (
        "Published seconds per epoch without and with the budget controller: "
        f"{seconds} (NVIDIA L4, 300 edits)."
    )
    table = [epochs_table(epochs_by_run)] if epochs_by_run else []
    return Section("training", "Training", [published], table)


# Retain budget.


def _retain_budget(groups: Sequence[Group]) -> Section:
    """How many retains budgets kept, measured and published."""
    measured: list[tuple[Cell, ...]] = []
    notes = []
    for group in groups:
        for editor, outcomes in group.outcomes.items():
            # DR-IKE-Q has no budget per edit.
            if not editor.startswith(METHOD) or editor == PER_QUERY:
                continue
            name = f"{editor}, {group.label}"
            retains = tables.distribution_of(outcomes)
            measured.append(_retains_row(name, retains))
            counts = ", ".join(f"{k} at {edits}" for k, edits in retains.counts.items())
            notes.append(f"{name}: edits by retains kept: {counts}.")
    if not measured:
        return Section("budget", "Retain budget")

    published = []
    for model, (mean, std) in RETAIN_BUDGETS.items():
        numbers = (Number(mean, ".2f"), Number(std, ".2f"), NOT_MEASURED, NOT_MEASURED)
        published.append((f"DR-IKE, {model}", *numbers))

    notes.append(
        "Every edit counts once here; retains/prompt in the other tables is a mean over prompts, "
        "so an edit with more probes counts more there."
    )
    notes.append("std: of the population; the paper does not say which it uses.")
    table = Table(
        "Retains kept per test edit",
        header=("Editor", "mean retains/edit", "std", "min", "max"),
        rows=(("Measured",), *measured, ("Published",), *published),
        notes=tuple(notes),
    )
    return Section("budget", "Retain budget", (), [table])


def _retains_row(name: str, retains: tables.Distribution) -> tuple[Cell, ...]:
    return (
        name,
        Number(retains.mean, ".2f"),
        Number(retains.std, ".2f"),
        Number(min(retains.counts), "d"),
        Number(max(retains.counts), "d"),
    )


# Settings.


def _settings(groups: Sequence[Group]) -> Section:
    """The settings of the runs, a column each: enough to repeat them."""
    runs: list[ReportedRun] = []
    for group in groups:
        runs += group.runs
    names: dict[str, None] = {}
    for run in runs:
        names.update(dict.fromkeys(run.settings))
    columns = [_settings_of(run, list(names)) for run in runs]

    rows: list[tuple[Cell, ...]] = []
    for name in columns[0]:
        cells = [column[name] for column in columns]
        rows.append((name, *cells))
    headings = [f"run {number}" for number in range(1, len(runs) + 1)]
    table = Table("Settings of the runs", ("", *headings), tuple(rows), wide=True)
    return Section("runs", "Settings", (), [table])


def _settings_of(run: ReportedRun, names: Sequence[str]) -> dict[str, str]:
    """A run's column. names: of the settings of all runs."""
    column = {
        "folder": run.folder,
        "started": run.started,
        "model": run.model,
        "dtype of the weights": run.identity.get("dtype", "n/a"),
        # Its beginning tells two apart.
        "SHA-256 of the weights": run.identity.get("weights_sha256", "n/a")[:16],
        "seed": str(run.seed),
    }
    for name in names:
        column[name] = run.settings.get(name, "default")
    for package in ("drike", "torch", "transformers"):
        column[package] = run.versions.get(package, "n/a")
    return column
