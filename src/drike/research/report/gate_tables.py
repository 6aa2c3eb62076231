"""Tables of many edits in force: editors behind a gate, and what the gate decided."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from drike.research.deployment.gate_records import GateRecord
from drike.research.evaluation.bootstrap import share_over_cases
from drike.research.evaluation.metrics import Outcome, summarise
from drike.research.report.tables import INTERVALS, aspects
from drike.support.table import NOT_MEASURED, Cell, Noted, Number, Table

NEAREST = 20  # rows of the table of near misses


def deployed_tables(
    outcomes: Mapping[str, Sequence[Outcome]],
    deployed: Mapping[str, Sequence[Outcome]],
    records: Sequence[GateRecord],
    title: str,
    *notes: str,
) -> list[Table]:
    """All tables of an evaluation with many edits in force.

    outcomes: by editor, where each query is asked under its case's edit. deployed: the same,
    behind the gate. records: the gate's decisions.
    """
    tables = [_deployed_scores(outcomes, deployed, title, *notes)]
    further_aspects = aspects([summarise(of_editor) for of_editor in deployed.values()])
    if further_aspects is not None:
        tables.append(replace(further_aspects, title="Deployed: aspects"))
    tables.append(gate_table(records))
    tables.append(near_misses(records))
    return tables


def _deployed_scores(
    outcomes: Mapping[str, Sequence[Outcome]],
    deployed: Mapping[str, Sequence[Outcome]],
    title: str,
    *notes: str,
) -> Table:
    """Each editor's scores without and with the gate."""
    header = (
        "Editor",
        "S",
        "deployed S",
        "deployed ESR",
        "deployed PC",
        "deployed RR",
        "tokens",
        "deployed tokens",
    )
    rows = []
    for editor in deployed:
        alone = summarise(outcomes[editor])
        gated = summarise(deployed[editor])
        row = (
            editor,
            alone.s,
            gated.s,
            gated.esr,
            gated.pc,
            gated.rr,
            Number(alone.prompt_tokens, ".0f"),
            Number(gated.prompt_tokens, ".0f"),
        )
        rows.append(row)
    meaning = (
        "S: every query under its case's edit, as in the paper. Deployed: all edits are in force "
        "at once, and each query is asked under those that the gate matches to it; where another "
        "edit changed a fact, its new object is right."
    )
    all_notes = (meaning, "tokens: mean length of a prompt.", INTERVALS, *notes)
    return Table(f"Deployed: {title}", header, tuple(rows), all_notes)


def gate_table(records: Sequence[GateRecord]) -> Table:
    """How often a question gets the edits it is about, and others, by kind of question."""
    records_by_kind: dict[str, list[GateRecord]] = defaultdict(list)
    for record in records:
        records_by_kind[record.kind].append(record)

    rows = []
    for kind, of_kind in records_by_kind.items():
        about_an_edit = [record for record in of_kind if record.asks]
        matched = _share([(record, record.fires) for record in about_an_edit])
        false_matches = _share([(record, bool(record.false)) for record in of_kind])
        rows.append((kind, Number(len(of_kind)), matched, false_matches))
    notes = (
        "matched: of the questions about an edit in force, those that get it. "
        "false matches: questions that get an edit they are not about.",
        f"{INTERVALS} Of unrelated questions, over questions.",
    )
    header = ("kind", "questions", "matched", "false matches")
    return Table("The gate, by kind of question", header, tuple(rows), notes)


def _share(held: Sequence[tuple[GateRecord, bool]]) -> Cell:
    """How often something held for a record, with its interval over cases, and the counts."""
    if not held:
        return NOT_MEASURED
    held_by_case: dict[str, list[bool]] = defaultdict(list)
    for record, holds in held:
        # An unrelated question has no case and counts as one of its own.
        held_by_case[record.case_id or record.query].append(holds)
    times = sum(holds for _, holds in held)
    return Noted(share_over_cases(held_by_case.values()), f"({times:,} of {len(held):,})")


@dataclass(frozen=True)
class _NearMiss:
    """A question that the gate decided wrongly or nearly so. edit: the fact it is about."""

    question: str
    kind: str
    what: str
    edit: str
    probability: float

    @property
    def row(self) -> tuple[Cell, ...]:
        return (self.question, self.kind, self.what, self.edit, f"{self.probability:.3f}")


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate decided wrongly, then those it nearly did; worst first."""
    missed = []
    matched_falsely = []
    nearly_matched = []
    for record in records:
        nearest = record.nearest or ""
        if record.asks and not record.fires:
            missed.append(
                _NearMiss(record.query, record.kind, "missed it", record.asks, record.probability)
            )
        if record.false:
            what = "matched it falsely"
            matched_falsely.append(
                _NearMiss(record.query, record.kind, what, nearest, record.nearest_probability)
            )
        elif record.nearest_probability > 0:
            what = "nearly matched it"
            nearly_matched.append(
                _NearMiss(record.query, record.kind, what, nearest, record.nearest_probability)
            )

    missed.sort(key=lambda miss: miss.probability)
    matched_falsely.sort(key=lambda miss: -miss.probability)
    nearly_matched.sort(key=lambda miss: -miss.probability)
    rows = [miss.row for miss in (*missed, *matched_falsely, *nearly_matched)]
    rows_once = list(dict.fromkeys(rows))  # cases may share a question

    return Table(
        "Nearest misses of the gate",
        header=("question", "kind", "the gate", "edit", "p"),
        rows=tuple(rows_once[:NEAREST]),
        notes=("p: of that edit.",),
        wide=True,
    )
