"""What the paper publishes, and its eight tables with measured rows above the published ones.

The numbers are in paper.toml.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import ClassVar

from drike.research.evaluation.metrics import harmonic_mean
from drike.research.report.groups import BASELINE, METHOD, Group
from drike.research.report.tables import INTERVALS, cell
from drike.support.records import read
from drike.support.table import Cell, Number, Table

_BY_MODEL = 3  # the table whose rows are models; it gets S, too
_CAUTION = "Published rows: other models, other data, no intervals. Compare directions, not values."
_SECONDS = (
    "s/query, measured: wall time of a case divided by its number of probes, which are asked "
    "together and share the work on common prefixes; published: time per iteration, apparently of "
    "one prompt at a time. Do not compare them."
)
_COMPUTED_S = "S of published rows: computed here from their ESR, PC and RR."


@dataclass(frozen=True)
class Published:
    """A row of the paper. values: by column, without those that the paper does not print."""

    sparse: ClassVar[bool] = True
    model: str
    editor: str
    values: Mapping[str, float]
    data: str = "CounterFact"
    variant: str = ""  # the setting of DR-IKE that the row is about


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper. label: in its source. about: what it compares."""

    number: int
    label: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Published, ...]


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
TABLES = tuple(read(PaperTable, table) for table in _PAPER["table"])

# By model: mean and standard deviation of retains per prompt of DR-IKE, on 100 test edits
# (appendix).
RETAIN_BUDGETS: dict[str, tuple[float, float]] = {
    row["model"]: (row["mean"], row["std"]) for row in _PAPER["retains"]
}
# By model: seconds per epoch of training without and with the budget controller (section 5.3).
EPOCH_SECONDS = {row["model"]: (row["without"], row["seconds"]) for row in _PAPER["epoch_seconds"]}


@dataclass(frozen=True)
class MeasuredEditor:
    """A measured row: an editor of a group, and the name that it has in the table."""

    name: str
    group: Group
    editor: str

    def cell(self, column: str) -> Cell:
        """The editor's value in a column."""
        if column == "s/query":
            seconds = fmean(outcome.seconds for outcome in self.group.outcomes[self.editor])
            return Number(seconds, ".3f")
        return cell(self.group.summaries[self.editor], column)


# A heading, and the measured rows below it.
Block = tuple[str, Sequence[MeasuredEditor]]


def paper_tables(groups: Sequence[Group]) -> Iterator[Table]:
    """The paper's tables that these groups can be compared with."""
    all_editors = [_block(group, {name: name for name in group.summaries}) for group in groups]
    yield with_published(TABLES[0], all_editors)

    if any(editor.startswith("Rank-") for group in groups for editor in group.summaries):
        editors = {
            "IKE-All": BASELINE,
            "Rank-All": "Rank-All",
            "Rank-50%": "Rank-50%",
            METHOD: METHOD,
        }
        blocks = [_block(group, editors) for group in groups]
        yield with_published(TABLES[1], blocks, "Retains")

    models = by_model(groups)
    if models is not None:
        yield models

    without_scores = [group for group in groups if not _has_scores(group)]
    other_data = [group for group in groups if _is_about(group, "zsre", "wiki")]
    temporal_or_numerical = [group for group in groups if _is_about(group, "temporal", "numer")]
    both = {BASELINE: BASELINE, METHOD: METHOD}
    for table, similar_groups in (
        (TABLES[3], without_scores),
        (TABLES[4], other_data),
        (TABLES[7], temporal_or_numerical),
    ):
        if similar_groups:
            yield with_published(table, [_block(group, both) for group in similar_groups])


def _has_scores(group: Group) -> bool:
    """Whether the model gave scores of answers."""
    return any(
        outcome.logit_gap is not None
        for outcomes in group.outcomes.values()
        for outcome in outcomes
    )


def _is_about(group: Group, *words: str) -> bool:
    """Whether the name or form of a group's data has one of the words."""
    data = f"{group.data} {group.runs[0].form}".casefold()
    return any(word in data for word in words)


def by_model(groups: Sequence[Group]) -> Table | None:
    """The counterpart of Table 3: models as rows, for DR-IKE and then IKE.

    None for runs of a single model.
    """
    models = {group.model for group in groups if METHOD in group.summaries}
    if len(models) < 2:
        return None

    # What follows the model in all labels goes into the headings.
    suffixes = {group.label.removeprefix(group.model) for group in groups}
    suffix = suffixes.pop() if len(suffixes) == 1 else ""
    group_by_name = {group.label.removesuffix(suffix): group for group in groups}
    blocks = []
    for editor in (METHOD, BASELINE):
        rows = [MeasuredEditor(name, group, editor) for name, group in group_by_name.items()]
        blocks.append((f"{editor}{suffix}", rows))
    return with_published(TABLES[2], blocks, "Model")


def _block(group: Group, editor_by_name: Mapping[str, str]) -> Block:
    """A group's editors by the names that the paper gives them."""
    rows = [MeasuredEditor(name, group, editor) for name, editor in editor_by_name.items()]
    return group.label, rows


def with_published(
    paper: PaperTable, blocks: Iterable[Block], first_column: str = "Editor"
) -> Table:
    """Measured rows in the columns of one of the paper's tables, above the published ones.

    Rows of editors that were not measured are left out.
    """
    models_as_rows = paper.number == _BY_MODEL
    columns = paper.columns
    if models_as_rows:
        columns = (*columns, "S")

    notes = [INTERVALS, _CAUTION]
    if "s/query" in columns:
        notes.append(_SECONDS)
    if models_as_rows:
        notes.append(_COMPUTED_S)
    return Table(
        f"Table {paper.number} of the paper: {paper.about}",
        header=(first_column, *columns),
        rows=(*_measured_rows(blocks, columns), *_published_rows(paper, columns)),
        notes=tuple(notes),
    )


def _measured_rows(blocks: Iterable[Block], columns: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for heading, editors in blocks:
        measured = [row for row in editors if row.editor in row.group.summaries]
        if measured:
            yield (f"Measured: {heading}",)
        for row in measured:
            cells = [row.cell(column) for column in columns]
            yield (row.name, *cells)


def _published_rows(paper: PaperTable, columns: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    models_as_rows = paper.number == _BY_MODEL

    def heading_of(row: Published) -> str:
        varied = row.editor if models_as_rows else row.model
        return f"{varied}, {row.data}".removeprefix("not named, ")

    for heading, rows in groupby(paper.rows, heading_of):
        yield (f"Published: {heading}",)
        for row in rows:
            name = row.variant or (row.model if models_as_rows else row.editor)
            cells = [_published_cell(row, column) for column in columns]
            yield (name, *cells)


def _published_cell(row: Published, column: str) -> Number:
    """A value as printed; S follows from ESR, PC and RR where it is not printed."""
    printed = row.values.get(column)
    rates = [row.values[name] for name in ("ESR", "PC", "RR") if name in row.values]
    if printed is None and column == "S" and len(rates) == 3:
        return Number(float(harmonic_mean(rates)), ".3f")
    if printed is None or round(printed, 2) == printed:
        return Number(printed, ".2f")
    return Number(printed, "")  # with more digits, all of them
