"""Put a report together: a summary, then every table and figure, then the settings of the runs.

Nothing here knows HTML: `page` writes a document as a page, `markdown` and `latex` write its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.report import figures
from drike.report.figures import Figure
from drike.report.findings import SCORES, findings, gaps
from drike.report.groups import BASELINE, METHOD, UNEDITED, Group
from drike.report.latex import HEAD, as_latex
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, TABLES
from drike.report.tables import (
    COLUMNS,
    INTERVALS,
    PER_PROMPT,
    STARRED,
    Block,
    Row,
    Table,
    as_markdown,
    beside,
    costs,
    difference_row,
    shown,
    work,
)
from drike.report.training import epochs_table
from drike.report.variants import distribution_of, reordered_of, variations


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, figures, tables, in this order."""

    id: str
    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Document:
    """A whole report. groups: their outcomes go into the case viewer."""

    title: str
    groups: tuple[Group, ...]
    sections: tuple[Section, ...]


def document(groups: Sequence[Group], across: Iterable[str] = ()) -> Document:
    """The report of groups of runs (see `groups.grouped`); `across`: the settings in which the groups differ."""
    names = list(dict.fromkeys(group.label for group in groups))
    sections = (
        _summary(groups),
        Section("paper", "Tables of the paper, measured and published", tables=tuple(counterparts(groups, across))),
        _differences(groups),
        _variants(groups),
        _cost(groups),
        _training(groups),
        _budgets(groups),
        _about(groups),
    )
    kept = tuple(section for section in sections if section.text or section.figures or section.tables)
    return Document(f"drike report: {'; '.join(names)}", tuple(groups), kept)


def markdown(document: Document) -> str:
    """The summary and all tables as Markdown."""
    lines = [f"# {document.title}\n"]
    for section in document.sections:
        lines.append(f"## {section.title}\n")
        if section.text:
            lines.append("\n".join(f"* {line}" for line in section.text) + "\n")
        lines += map(as_markdown, section.tables)
    return "\n".join(lines)


def latex(document: Document) -> str:
    """All tables as LaTeX."""
    numbered = (
        (f"tab:{section.id}-{i}", table) for section in document.sections for i, table in enumerate(section.tables, 1)
    )
    return "\n".join((HEAD, *(as_latex(table, label) for label, table in numbered)))


def counterparts(groups: Sequence[Group], across: Iterable[str] = ()) -> Iterator[Table]:
    """The paper's tables that these runs have a counterpart of, measured rows above the published ones."""
    by_number = {table.number: table for table in TABLES}
    methods = [name for group in groups for name in group.summaries]
    yield beside(by_number[1], map(_block, groups))
    if any(name.startswith("Rank-") for name in methods):
        names = {BASELINE: "IKE-All", "Rank-All": "Rank-All", "Rank-50%": "Rank-50%", METHOD: METHOD}
        yield beside(by_number[2], (_block(group, names) for group in groups), "Retains")
    if table := by_model(groups):
        yield table
    pair = {name: name for name in (BASELINE, METHOD)}
    if silent := [group for group in groups if not group.scores]:
        yield beside(by_number[4], (_block(group, pair) for group in silent))
    if other := [group for group in groups if _named(group, "zsre", "wiki")]:
        yield beside(by_number[5], (_block(group, pair) for group in other))
    varied = [group for group in groups if METHOD in group.summaries and group.variant]
    for number, word in ((6, "budget"), (7, "delay")):
        if varied and any(word in name for name in across):
            heading = f"{METHOD}, {varied[0].model}"
            yield beside(by_number[number], [_rows(METHOD, heading, {g.variant: g for g in varied})], "Setting")
    if special := [group for group in groups if _named(group, "temporal", "numer")]:
        yield beside(by_number[8], (_block(group, pair) for group in special))


def by_model(groups: Sequence[Group]) -> Table | None:
    """The counterpart of Table 3: models as rows, for DR-IKE and then IKE; None for runs of a single model."""
    if len({group.model for group in groups if METHOD in group.summaries}) < 2:
        return None
    alike = len({(group.data, group.variant) for group in groups}) == 1
    named = {group.model if alike else group.label: group for group in groups}
    suffix = f", {groups[0].label.removeprefix(f'{groups[0].model}, ')}" if alike else ""
    blocks = [_rows(editor, f"{editor}{suffix}", named) for editor in (METHOD, BASELINE)]
    return beside(TABLES[2], blocks, "Model")


def _block(group: Group, names: Mapping[str, str] | None = None) -> Block:
    """A group's rows under its label: all editors, or those in `names`, under the names the paper gives them."""
    names = names or {name: name for name in group.summaries}
    return Block(group.label, tuple(_row(names[name], group, name) for name in names if name in group.summaries))


def _rows(editor: str, heading: str, named: Mapping[str, Group]) -> Block:
    """One editor's rows, a group each."""
    rows = (_row(name, group, editor) for name, group in named.items() if editor in group.summaries)
    return Block(heading, tuple(rows))


def _row(name: str, group: Group, editor: str) -> Row:
    return Row(name, group.summaries[editor], group.seconds_per_query(editor), group.parameters(editor))


def _named(group: Group, *words: str) -> bool:
    data = f"{group.data} {group.runs[0].form}".casefold()
    return any(word in data for word in words)


def _summary(groups: Sequence[Group]) -> Section:
    """Best editor, its scores, cost and uncertainty."""
    text = [sentence for group in groups for sentence in gaps(group)]
    text += [sentence for group in groups for sentence in findings(group)]
    if any(group.data == "TinyFacts" for group in groups):
        text += ["TinyFacts shows that the method runs; its numbers are no evidence about large models."]
    drawn = [figures.intervals(groups, metric) for metric in SCORES]
    present = tuple(figure for figure in drawn if figure is not None)
    return Section("summary", "Summary", tuple(text), present, tuple(_overview(group) for group in groups))


def _overview(group: Group) -> Table:
    header = ("Editor", "S", "ESR", "PC", "RR", "retains/prompt", "tokens/prompt")
    rows = tuple(
        (
            name,
            *(shown(estimate) for estimate in (one.s, one.esr, one.pc, one.rr)),
            f"{one.shots:.2f}",
            "n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}",
        )
        for name, one in group.summaries.items()
    )
    return Table(group.label, header, rows, (_WORDS, INTERVALS, PER_PROMPT))


_WORDS = (
    "ESR: share of edits that take effect. PC: share of their paraphrases answered with the new object. RR: share of "
    "neighbouring facts still answered right. S: harmonic mean of the three."
)


def _differences(groups: Sequence[Group]) -> Section:
    """Every editor against IKE, and DR-IKE against every other editor."""
    tables = []
    for group in groups:
        editors = [name for name in group.outcomes if name not in (UNEDITED, BASELINE)]
        pairs = [(name, BASELINE) for name in editors] + [(METHOD, name) for name in editors if name != METHOD]
        rows = tuple(
            difference_row(f"{one} minus {other}", group.outcomes[one], group.outcomes[other])
            for one, other in pairs if group.comparable(one, other)
        )  # fmt: skip
        if rows:
            notes = ("Paired bootstrap over the same edits.", STARRED)
            tables.append(Table(f"Paired differences, {group.label}", ("", *COLUMNS), rows, notes))
    return Section("differences", "Differences", tables=tuple(tables))


def _variants(groups: Sequence[Group]) -> Section:
    """The effect of other orders of the retains, and S over a sweep of sigma, where they were measured."""
    tables = []
    for group in groups:
        # a reordered editor is compared with the same editor in its own order, on the same edits
        asked = {
            name: of_editor for name, of_editor in group.outcomes.items()
            if not (base := reordered_of(name)) or group.comparable(name, base)
        }  # fmt: skip
        tables += [
            replace(table, title=f"{table.title}, {group.label}")
            for table in variations(asked, [group.summaries[name] for name in asked])
        ]
    return Section("variants", "Order and sigma", tables=tuple(tables))


def _cost(groups: Sequence[Group]) -> Section:
    drawn = tuple(figures.pareto(group) for group in groups if len(_with_tokens(group)) > 1)
    tables = []
    for group in groups:
        table = costs(list(group.summaries.values()))
        tables.append(Table(f"{table.title}, {group.label}", table.header, table.rows, table.notes))
        for run in (run for run in group.runs if run.usage):
            done = work(run.usage)
            tables.append(Table(f"{done.title}, {group.label}, seed {run.seed}", done.header, done.rows, done.notes))
    return Section("cost", "Quality and cost", (), drawn, tuple(tables))


def _with_tokens(group: Group) -> list[str]:
    return [name for name, one in group.summaries.items()
            if name != UNEDITED and one.prompt_tokens is not None and one.s.value is not None]  # fmt: skip


def _training(groups: Sequence[Group]) -> Section:
    """Training by epoch of every run; empty if no run was trained."""
    runs = {f"{group.label}, seed {run.seed}": run for group in groups for run in group.runs if run.steps}
    if not runs:
        return Section("training", "Training")
    drawn = [figures.training(groups, curve) for curve in figures.CURVES]
    seconds = "; ".join(f"{paper.model} {paper.without:.1f} and {paper.seconds:.1f}" for paper in EPOCH_SECONDS)
    text = (f"Published seconds per epoch without and with the budget controller: {seconds} (NVIDIA L4, 300 edits).",)
    epochs = {name: run.epochs for name, run in runs.items()}
    table = epochs_table(epochs)
    unfinished = tuple(
        f"Epoch {last.epoch} was stopped after {last.episodes} of {runs[name].training_edits} edits ({name})."
        for name, (*_, last) in epochs.items() if last.episodes < runs[name].training_edits
    )  # fmt: skip
    table = replace(table, notes=(*table.notes, *unfinished))
    return Section("training", "Training", text, tuple(figure for figure in drawn if figure is not None), (table,))


def _budgets(groups: Sequence[Group]) -> Section:
    """How many retains DR-IKE keeps on test edits, here and in the paper."""
    found = [(group, editor) for group in groups for editor in group.outcomes if editor.casefold().startswith("dr-ike")]
    if not found:
        return Section("budget", "Retain budget")
    rows: list[tuple[str, ...]] = [("Measured",)]
    for group, editor in found:
        kept = distribution_of(group.outcomes[editor])
        least, most = min(kept.counts), max(kept.counts)
        rows.append((f"{editor}, {group.label}", f"{kept.mean:.2f}", f"{kept.std:.2f}", str(least), str(most)))
    rows.append(("Published",))
    rows += [(f"DR-IKE, {p.model}", f"{p.mean:.2f}", f"{p.std:.2f}", "n/a", "n/a") for p in RETAIN_BUDGETS]
    notes = (
        "Every edit counts once here; retains/prompt in the other tables is a mean over prompts, so an edit with more "
        "probes counts more there.",
        "std: of the population; the paper does not say which it uses.",
    )
    header = ("Editor", "mean retains/edit", "std", "min", "max")
    table = Table("Retains kept per test edit", header, tuple(rows), notes)
    return Section("budget", "Retain budget", (), tuple(figures.budget(*one) for one in found), (table,))


def _about(groups: Sequence[Group]) -> Section:
    """The settings of the runs: enough to repeat them."""
    runs = [run for group in groups for run in group.runs]
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    rows = [
        ("folder", *(run.folder for run in runs)),
        ("started", *(run.started for run in runs)),
        ("model", *(run.model for run in runs)),
        *(
            (f"model's {name}", *(run.identity.get(name, "n/a")[:16] for run in runs))
            for name in ("dtype", "weights_sha256")
        ),
        ("seed", *(str(run.seed) for run in runs)),
        *((name, *(run.settings.get(name, "default") for run in runs)) for name in names),
        *((name, *(run.versions.get(name, "n/a") for run in runs)) for name in ("drike", "torch", "transformers")),
    ]
    header = ("", *(f"run {i}" for i in range(1, len(runs) + 1)))
    return Section("runs", "Settings", tables=(Table("Settings of the runs", header, tuple(rows), wide=True),))
