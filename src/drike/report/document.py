"""A report put together: what a reader wants to know first, then every table and figure, then what was run.

Nothing here knows HTML; `page` writes a document as a page, `markdown` and `latex` write its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from drike.report import figures
from drike.report.figures import Figure
from drike.report.findings import findings
from drike.report.latex import HEAD, as_latex
from drike.report.measured import BASELINE, METHOD, UNEDITED, Group, Run
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, TABLES
from drike.report.tables import (
    COLUMNS,
    INTERVALS,
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
    """A whole report. groups: whose outcomes the case viewer shows."""

    title: str
    groups: tuple[Group, ...]
    sections: tuple[Section, ...]


def document(groups: Sequence[Group], across: Iterable[str] = ()) -> Document:
    """The report of groups of runs (`measured.grouped`); `across` names the settings they were set apart by."""
    names = list(dict.fromkeys(group.label for group in groups))
    sections = (
        _summary(groups),
        Section("paper", "The paper's tables, measured and published", tables=tuple(counterparts(groups, across))),
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
    """The paper's tables that these runs have a counterpart of, our rows above the published ones."""
    by_number = {table.number: table for table in TABLES}
    methods = [name for group in groups for name in group.summaries]
    yield beside(by_number[1], map(_block, groups))
    if any(name.startswith("Rank-") for name in methods):
        names = {BASELINE: "IKE-All", "Rank-All": "Rank-All", "Rank-50%": "Rank-50%", METHOD: METHOD}
        yield beside(by_number[2], (_block(group, names) for group in groups), "Retains")
    trained = [group for group in groups if METHOD in group.summaries]
    if len({group.model for group in trained}) > 1:
        yield beside(by_number[3], [_rows(METHOD, [(g.label, g) for g in trained])], "Model")
    pair = {name: name for name in (BASELINE, METHOD)}
    if silent := [group for group in groups if not group.scores]:
        yield beside(by_number[4], (_block(group, pair) for group in silent))
    if other := [group for group in groups if _named(group, "zsre", "wiki")]:
        yield beside(by_number[5], (_block(group, pair) for group in other))
    varied = [(group.variant, group) for group in trained if group.variant]
    for number, word in ((6, "budget"), (7, "delay")):
        if varied and any(word in name for name in across):
            yield beside(by_number[number], [_rows(f"{METHOD}, {varied[0][1].model}", varied)], "Setting")
    if special := [group for group in groups if _named(group, "temporal", "numer")]:
        yield beside(by_number[8], (_block(group, pair) for group in special))


def _block(group: Group, names: Mapping[str, str] | None = None) -> Block:
    """A group's rows under its label: all editors, or those of `names` by what the paper calls them."""
    called = names or {name: name for name in group.summaries}
    return Block(
        group.label,
        tuple(_row(called[name], group, name) for name in called if name in group.summaries),
    )


def _rows(heading: str, named: Sequence[tuple[str, Group]]) -> Block:
    return Block(heading, tuple(_row(name, group, METHOD) for name, group in named))


def _row(called: str, group: Group, editor: str) -> Row:
    return Row(called, group.summaries[editor], group.seconds_per_query(editor), group.parameters(editor))


def _named(group: Group, *words: str) -> bool:
    told = f"{group.data} {group.runs[0].form}".casefold()
    return any(word in told for word in words)


def _summary(groups: Sequence[Group]) -> Section:
    """Which editor, how good, how dear, how sure."""
    text = tuple(sentence for group in groups for sentence in findings(group))
    text += tuple(_unfinished(groups))
    if any(group.data == "TinyFacts" for group in groups):
        text += ("TinyFacts shows the machinery at work: its numbers are no evidence about large models.",)
    drawn = tuple(figures.intervals(groups, metric) for metric in ("S", "ESR", "PC", "RR"))
    return Section("summary", "In short", text, drawn, tuple(_glance(group) for group in groups))


def _unfinished(groups: Sequence[Group]) -> Iterator[str]:
    """What was asked for and is not in the report's numbers."""
    for group in groups:
        for run in group.runs:
            if run.missing:
                yield (
                    f"Not evaluated, though asked for: {', '.join(run.missing)}, in {run.folder}; "
                    f"drike evaluate --resume {run.folder} goes on."
                )
            if 0 < len(run.steps) < run.asked_episodes:
                done = f"{len(run.steps)} of {run.asked_episodes} episodes"
                yield f"Training stopped after {done}: {group.label}, seed {run.seed}."


def _glance(group: Group) -> Table:
    header = ("Editor", "S", "ESR", "PC", "RR", "retains", "tokens/prompt")
    rows = tuple(
        (
            name,
            *(shown(estimate) for estimate in (one.s, one.esr, one.pc, one.rr)),
            f"{one.shots:.2f}",
            "n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}",
        )
        for name, one in group.summaries.items()
    )
    return Table(group.label, header, rows, (INTERVALS, _WORDS))


_WORDS = (
    "ESR: share of edits that take. PC: of their rewordings. RR: of neighbouring facts left as they were. "
    "S: harmonic mean of the three."
)


def _differences(groups: Sequence[Group]) -> Section:
    """Everything against IKE, and DR-IKE against everything else."""
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
    """What another order of the retains changes, and S over a sweep of sigma, where they were measured."""
    tables = []
    for group in groups:
        # a reordered editor is set beside its own order, so both must have been asked the same
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
    return Section("cost", "Quality against cost", (), drawn, tuple(tables))


def _with_tokens(group: Group) -> list[str]:
    return [name for name, one in group.summaries.items()
            if name != UNEDITED and one.prompt_tokens is not None and one.s.value is not None]  # fmt: skip


def _training(groups: Sequence[Group]) -> Section:
    """Training by epoch, every run; empty where no run was trained."""
    runs = [run for group in groups for run in group.runs if run.epochs]
    if not runs:
        return Section("training", "Training")
    drawn = [figures.training(groups, curve) for curve in figures.CURVES]
    seconds = "; ".join(f"{paper.model} {paper.without:.1f} to {paper.seconds:.1f}" for paper in EPOCH_SECONDS)
    text = (f"Published seconds per epoch without and with the budget controller: {seconds} (NVIDIA L4, 300 edits).",)
    tables = tuple(
        _epochs(run, f"{group.label}, seed {run.seed}") for group in groups for run in group.runs if run.epochs
    )
    return Section("training", "Training", text, tuple(figure for figure in drawn if figure is not None), tables)


def _epochs(run: Run, label: str) -> Table:
    rows = tuple(
        (
            str(e.number), f"{e.esr:.3f}", f"{e.reward:+.3f}", f"{e.k:.2f}",
            "n/a" if e.sigma is None else f"{e.sigma:.4f}", f"{e.calls:,}",
            "n/a" if e.prompt_tokens is None else f"{e.prompt_tokens:,}", f"{e.seconds:.1f}",
        )
        for e in run.epochs
    )  # fmt: skip
    notes = [
        "ESR: under the prompt the budget gives. reward: mean over all prefixes tried. k: retains kept. sigma: at the "
        "epoch's end, or the mean where every edit has its own."
    ]
    last = run.epochs[-1]
    if last.edits < run.training_edits:
        notes.append(f"Epoch {last.number} was stopped after {last.edits} of {run.training_edits} edits.")
    header = ("epoch", "ESR", "reward", "mean k", "sigma", "calls", "prompt tokens", "seconds")
    return Table(f"Training by epoch, {label}", header, rows, tuple(notes))


def _budgets(groups: Sequence[Group]) -> Section:
    """How many retains DR-IKE keeps on test edits, and what the paper reports."""
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
    table = Table("Retains kept per test edit", ("Editor", "mean", "std", "least", "most"), tuple(rows),
                  ("std: of the population; the paper does not say which it is.",))  # fmt: skip
    return Section("budget", "Retain budget", (), tuple(figures.budget(*one) for one in found), (table,))


def _about(groups: Sequence[Group]) -> Section:
    """What was run: enough to run it again."""
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
    return Section("runs", "What was run", tables=(Table("Settings of the runs", header, tuple(rows), wide=True),))
