"""The paper's tables, with measured rows above the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from drike.report.groups import BASELINE, METHOD, Group
from drike.report.paper import TABLES, PaperTable
from drike.report.tables import INTERVALS, cell, published_cells
from drike.support.table import Cell, Number, Table

_BY_MODEL = 3  # the table whose rows are models; it gets S, too
_CAUTION = "Published rows: other models, other data, no intervals. Compare directions, not values."
_SECONDS = (
    "s/query, measured: wall time of a case divided by its number of probes, which are asked together and share the "
    "work on common prefixes; published: time per iteration, apparently of one prompt at a time. Do not compare them."
)
_TRAINED = (
    "Extra Params, measured: what was trained, the head and any learned budget; published: apparently including frozen "
    "encoders, as DR-IKE's 29M above IKE are the size of its BERT."
)

# A heading, and for each measured row below it its name, its group and its editor; rows without outcomes are left out.
Block = tuple[str, Mapping[str, tuple[Group, str]]]


def paper_tables(groups: Sequence[Group]) -> Iterator[Table]:
    """The paper's tables that these groups can be compared with."""
    methods = [name for group in groups for name in group.summaries]
    yield with_published(TABLES[0], [_editors(group, {name: name for name in group.summaries}) for group in groups])
    if any(name.startswith("Rank-") for name in methods):
        names = {"IKE-All": BASELINE, "Rank-All": "Rank-All", "Rank-50%": "Rank-50%", METHOD: METHOD}
        yield with_published(TABLES[1], [_editors(group, names) for group in groups], "Retains")
    if models := by_model(groups):
        yield models
    if without_scores := [group for group in groups if not group.scores]:
        yield with_published(TABLES[3], map(_editors, without_scores))
    if other_data := [group for group in groups if _about(group, "zsre", "wiki")]:
        yield with_published(TABLES[4], map(_editors, other_data))
    if changing := [group for group in groups if _about(group, "temporal", "numer")]:
        yield with_published(TABLES[7], map(_editors, changing))


def by_model(groups: Sequence[Group]) -> Table | None:
    """The counterpart of Table 3: models as rows, for DR-IKE and then IKE; None for runs of a single model."""
    if len({group.model for group in groups if METHOD in group.summaries}) < 2:
        return None
    alike = len({(group.data, group.variant) for group in groups}) == 1
    named = {group.model if alike else group.label: group for group in groups}
    suffix = groups[0].label.removeprefix(groups[0].model) if alike else ""
    blocks = [
        (f"{editor}{suffix}", {name: (group, editor) for name, group in named.items()}) for editor in (METHOD, BASELINE)
    ]
    return with_published(TABLES[2], blocks, "Model")


def with_published(paper: PaperTable, blocks: Iterable[Block], first_column: str = "Editor") -> Table:
    """Measured rows in the columns of one of the paper's tables, above the published ones."""
    models_as_rows = paper.number == _BY_MODEL
    columns = (*paper.columns, "S") if models_as_rows else paper.columns
    rows: list[tuple[Cell, ...]] = []
    for title, named in blocks:
        measured = {name: row for name, row in named.items() if row[1] in row[0].summaries}
        rows += [(f"Measured: {title}",)] if measured else []
        rows += [(name, *_cells(group, editor, columns, paper)) for name, (group, editor) in measured.items()]
    for heading, published in groupby(paper.rows, lambda row: (row.editor if models_as_rows else row.model, row.data)):
        rows.append((f"Published: {', '.join(heading).removeprefix('not named, ')}",))
        for row in published:
            name = row.variant or (row.model if models_as_rows else row.editor)
            rows.append((name, *published_cells(row, columns, extra=paper.has_extra)))
    computed = "S of published rows: computed here from their ESR, PC and RR."
    further = {_SECONDS: "s/query" in columns, _TRAINED: paper.has_extra, computed: models_as_rows}
    notes = (INTERVALS, _CAUTION, *(note for note, applies in further.items() if applies))
    header = (first_column, *columns, *(["Extra Params"] if paper.has_extra else []))
    return Table(f"Table {paper.number} of the paper: {paper.about}", header, tuple(rows), notes)


def _cells(group: Group, editor: str, columns: Iterable[str], paper: PaperTable) -> Iterator[Cell]:
    seconds = Number(fmean(outcome.seconds for outcome in group.outcomes[editor]), ".3f")
    yield from (seconds if column == "s/query" else cell(group.summaries[editor], column) for column in columns)
    if paper.has_extra:
        yield Number(group.parameters(editor))


def _editors(group: Group, names: Mapping[str, str] = {BASELINE: BASELINE, METHOD: METHOD}) -> Block:
    """A group's editors by the names that the paper gives them."""
    return group.label, {name: (group, editor) for name, editor in names.items()}


def _about(group: Group, *words: str) -> bool:
    data = f"{group.data} {group.runs[0].form}".casefold()
    return any(word in data for word in words)
