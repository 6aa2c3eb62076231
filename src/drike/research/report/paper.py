"""What the paper publishes (paper.toml has the numbers), and its eight tables with measured rows above."""

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
    "s/query, measured: wall time of a case divided by its number of probes, which are asked together and share the "
    "work on common prefixes; published: time per iteration, apparently of one prompt at a time. Do not compare them."
)


@dataclass(frozen=True)
class Published:
    """A row of the paper: its coordinates, and its values by column, without those that the paper does not print."""

    sparse: ClassVar[bool] = True
    model: str
    editor: str
    values: Mapping[str, float]
    data: str = "CounterFact"
    variant: str = ""  # the setting of DR-IKE that the row is about
    extra_parameters: str = ""  # as printed


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: its number, its label in the source, what it compares, its columns and rows."""

    number: int
    label: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Published, ...]


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
TABLES = tuple(read(PaperTable, table) for table in _PAPER["table"])
# By model: mean and standard deviation of retains per prompt of DR-IKE, on 100 test edits (appendix); seconds per epoch
# of training without and with the budget controller (section 5.3).
RETAIN_BUDGETS: dict[str, tuple[float, float]] = {
    row["model"]: (row["mean"], row["std"]) for row in _PAPER["retains"]
}
EPOCH_SECONDS = {row["model"]: (row["without"], row["seconds"]) for row in _PAPER["epoch_seconds"]}

# A heading, and for each measured row below it its name, its group and its editor; rows without outcomes are left out.
Block = tuple[str, Mapping[str, tuple[Group, str]]]


def paper_tables(groups: Sequence[Group]) -> Iterator[Table]:
    """The paper's tables that these groups can be compared with."""
    yield with_published(
        TABLES[0], [_editors(group, {name: name for name in group.summaries}) for group in groups]
    )
    if any(name.startswith("Rank-") for group in groups for name in group.summaries):
        names = {
            "IKE-All": BASELINE,
            "Rank-All": "Rank-All",
            "Rank-50%": "Rank-50%",
            METHOD: METHOD,
        }
        yield with_published(TABLES[1], [_editors(group, names) for group in groups], "Retains")
    if models := by_model(groups):
        yield models
    about = {group.label: f"{group.data} {group.runs[0].form}".casefold() for group in groups}
    alike = {
        3: [
            group
            for group in groups
            if all(o.logit_gap is None for of in group.outcomes.values() for o in of)
        ],
        4: [
            group
            for group in groups
            if any(word in about[group.label] for word in ("zsre", "wiki"))
        ],
        7: [
            group
            for group in groups
            if any(word in about[group.label] for word in ("temporal", "numer"))
        ],
    }
    yield from (
        with_published(TABLES[i], map(_editors, chosen)) for i, chosen in alike.items() if chosen
    )


def by_model(groups: Sequence[Group]) -> Table | None:
    """The counterpart of Table 3: models as rows, for DR-IKE and then IKE; None for runs of a single model."""
    if len({group.model for group in groups if METHOD in group.summaries}) < 2:
        return None
    suffixes = {group.label.removeprefix(group.model) for group in groups}
    suffix = suffixes.pop() if len(suffixes) == 1 else ""
    of = {group.label.removesuffix(suffix): group for group in groups}
    blocks = [
        (f"{by}{suffix}", {name: (group, by) for name, group in of.items()})
        for by in (METHOD, BASELINE)
    ]
    return with_published(TABLES[2], blocks, "Model")


def with_published(
    paper: PaperTable, blocks: Iterable[Block], first_column: str = "Editor"
) -> Table:
    """Measured rows in the columns of one of the paper's tables, above the published ones."""
    models_as_rows = paper.number == _BY_MODEL
    columns = (*paper.columns, "S") if models_as_rows else paper.columns
    rows: list[tuple[Cell, ...]] = []
    for title, named in blocks:
        measured = {name: row for name, row in named.items() if row[1] in row[0].summaries}
        rows += [(f"Measured: {title}",)] if measured else []
        rows += [
            (name, *(_measured(*row, column) for column in columns))
            for name, row in measured.items()
        ]
    for heading, published in groupby(
        paper.rows, lambda row: (row.editor if models_as_rows else row.model, row.data)
    ):
        rows.append((f"Published: {', '.join(heading).removeprefix('not named, ')}",))
        for row in published:
            name = row.variant or (row.model if models_as_rows else row.editor)
            rows.append((name, *(_published(row, column) for column in columns)))
    computed = "S of published rows: computed here from their ESR, PC and RR."
    notes = (
        INTERVALS,
        _CAUTION,
        *[_SECONDS] * ("s/query" in columns),
        *[computed] * models_as_rows,
    )
    return Table(
        f"Table {paper.number} of the paper: {paper.about}",
        (first_column, *columns),
        tuple(rows),
        notes,
    )


def _measured(group: Group, editor: str, column: str) -> Cell:
    if column == "s/query":
        return Number(fmean(outcome.seconds for outcome in group.outcomes[editor]), ".3f")
    return cell(group.summaries[editor], column)


def _published(row: Published, column: str) -> Number:
    """A value as printed; S follows from ESR, PC and RR where it is not printed."""
    printed = row.values.get(column)
    rates = [row.values[name] for name in ("ESR", "PC", "RR") if name in row.values]
    if printed is None and column == "S" and len(rates) == 3:
        return Number(float(harmonic_mean(rates)), ".3f")
    return Number(printed, ".2f" if printed is None or round(printed, 2) == printed else "")


def _editors(
    group: Group, names: Mapping[str, str] = {BASELINE: BASELINE, METHOD: METHOD}
) -> Block:
    """A group's editors by the names that the paper gives them."""
    return group.label, {name: (group, editor) for name, editor in names.items()}
