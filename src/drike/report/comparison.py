"""The paper's tables with measured rows above the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from drike.edits import Aspect
from drike.report.groups import BASELINE, METHOD, Group
from drike.report.paper import HALLUEDIT, TABLES, PaperTable
from drike.report.tables import INTERVALS, cell, published_cells, shown
from drike.support.table import Table

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

_ITS_OWN = (
    "Published: computed from the answers that its authors publish (Huang et al. 2025). Other models, edits of each "
    "model's own errors, and another judge; pushback is one turn there. Compare directions, not values."
)

# A heading, and for each measured row below it its name, its group and its editor; rows without outcomes are left out.
Block = tuple[str, Mapping[str, tuple[Group, str]]]


def counterparts(groups: Sequence[Group], across: Iterable[str] = ()) -> Iterator[Table]:
    """The paper's tables that these groups have a counterpart of; `across`: the settings in which the groups differ."""
    methods = [name for group in groups for name in group.summaries]
    yield beside(TABLES[0], [_editors(group, {name: name for name in group.summaries}) for group in groups])
    if any(name.startswith("Rank-") for name in methods):
        names = {"IKE-All": BASELINE, "Rank-All": "Rank-All", "Rank-50%": "Rank-50%", METHOD: METHOD}
        yield beside(TABLES[1], [_editors(group, names) for group in groups], "Retains")
    if models := by_model(groups):
        yield models
    if silent := [group for group in groups if not group.scores]:
        yield beside(TABLES[3], map(_editors, silent))
    if other := [group for group in groups if _about(group, "zsre", "wiki")]:
        yield beside(TABLES[4], map(_editors, other))
    varied = {group.variant: group for group in groups if METHOD in group.summaries and group.variant}
    for table, word in ((TABLES[5], "budget"), (TABLES[6], "delay")):
        if varied and any(word in name for name in across):
            [model, *_] = (group.model for group in varied.values())
            yield beside(table, [_groups(METHOD, f"{METHOD}, {model}", varied)], "Setting")
    if special := [group for group in groups if _about(group, "temporal", "numer")]:
        yield beside(TABLES[7], map(_editors, special))
    if hallucinations := [group for group in groups if _about(group, "halluedit")]:
        yield beside_halluedit(hallucinations)


def by_model(groups: Sequence[Group]) -> Table | None:
    """The counterpart of Table 3: models as rows, for DR-IKE and then IKE; None for runs of a single model."""
    if len({group.model for group in groups if METHOD in group.summaries}) < 2:
        return None
    alike = len({(group.data, group.variant) for group in groups}) == 1
    named = {group.model if alike else group.label: group for group in groups}
    suffix = groups[0].label.removeprefix(groups[0].model) if alike else ""
    return beside(TABLES[2], [_groups(editor, f"{editor}{suffix}", named) for editor in (METHOD, BASELINE)], "Model")


def beside(paper: PaperTable, blocks: Iterable[Block], what: str = "Editor") -> Table:
    """Measured rows in the columns of one of the paper's tables, above the published ones."""
    by_model = paper.number == _BY_MODEL
    columns = (*paper.columns, "S") if by_model else paper.columns
    rows: list[tuple[str, ...]] = []
    for title, named in blocks:
        measured = {name: row for name, row in named.items() if row[1] in row[0].summaries}
        rows += [(f"Measured: {title}",)] if measured else []
        rows += [(name, *_cells(group, editor, columns, paper)) for name, (group, editor) in measured.items()]
    for heading, published in groupby(paper.rows, lambda row: (row.editor if by_model else row.model, row.data)):
        rows.append((f"Published: {', '.join(heading).removeprefix('not named, ')}",))
        for row in published:
            name = row.variant or (row.model if by_model else row.editor)
            rows.append((name, *published_cells(row, columns, extra=paper.has_extra)))
    notes = [INTERVALS, _CAUTION]
    notes += [_SECONDS] if "s/query" in columns else []
    notes += [_TRAINED] if paper.has_extra else []
    notes += ["S of published rows: computed here from their ESR, PC and RR."] if by_model else []
    header = (what, *columns, *(["Extra Params"] if paper.has_extra else []))
    return Table(f"Table {paper.number} of the paper: {paper.about}", header, tuple(rows), tuple(notes))


def beside_halluedit(groups: Iterable[Group]) -> Table:
    """Measured aspects on HalluEditBench, above those of its own in-context editor."""
    rows: list[tuple[str, ...]] = []
    for group in groups:
        rows.append((f"Measured: {group.label}",))
        for editor, one in group.summaries.items():
            of = one.aspects
            two_hops = one.hops.get("2")
            found = (of[Aspect.REWRITE], of[Aspect.SAME_SUBJECT], of[Aspect.PUSHBACK], two_hops)
            rows.append((editor, *("n/a" if share is None else shown(share.estimate) for share in found)))
    rows.append(("Published, not measured here: ICE, its in-context editor",))
    rows += [
        (one.model, *(f"{value:.2f}" for value in (one.rewrite, one.same_subject, one.pushback, one.two_hops)))
        for one in HALLUEDIT
    ]
    columns = ("rewrite (efficacy)", "same_subject (locality)", "pushback (robustness)", "multi_hop, 2 hops")
    return Table("HalluEditBench: beside its own figures", ("Editor", *columns), tuple(rows), (INTERVALS, _ITS_OWN))


def _cells(group: Group, editor: str, columns: Iterable[str], paper: PaperTable) -> Iterator[str]:
    seconds = f"{fmean(outcome.seconds for outcome in group.outcomes[editor]):.3f}"
    yield from (seconds if column == "s/query" else cell(group.summaries[editor], column) for column in columns)
    if paper.has_extra:
        count = group.parameters(editor)
        yield "n/a" if count is None else f"{count:,}"


def _editors(group: Group, names: Mapping[str, str] = {BASELINE: BASELINE, METHOD: METHOD}) -> Block:
    """A group's editors by the names that the paper gives them."""
    return group.label, {name: (group, editor) for name, editor in names.items()}


def _groups(editor: str, heading: str, named: Mapping[str, Group]) -> Block:
    """One editor in several groups."""
    return heading, {name: (group, editor) for name, group in named.items()}


def _about(group: Group, *words: str) -> bool:
    data = f"{group.data} {group.runs[0].form}".casefold()
    return any(word in data for word in words)
