"""Many edits in force behind a gate: deployed S beside S, and what the gate did, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from drike.deployment.evaluation import GateRecord
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Counts, counted, share_over_cases, summary_of
from drike.report.groups import ReportedRun
from drike.report.tables import INTERVALS, aspects
from drike.support.table import NOT_MEASURED, Cell, Noted, Number, Table

NEAREST = 20


def deployed_of(run: ReportedRun) -> list[Table]:
    """The tables of a run that was evaluated with --stored; none of another run."""
    if not run.gate:
        return []
    counts = {editor: (counted(run.outcomes[editor]), counted(outcomes)) for editor, outcomes in run.deployed.items()}
    judge = [RULES[run.settings["judge"]].caption] if run.settings.get("judge") in RULES else []
    title = f"{run.stored} edits in force, {run.data}, model {run.model}"
    return deployed_tables(counts, run.gate, title, *judge)


def deployed_tables(
    counts: Mapping[str, tuple[Counts, Counts]], records: Sequence[GateRecord], title: str, *notes: str
) -> list[Table]:
    """All tables of an evaluation with many edits in force."""
    tables = [deployed_table(counts, f"Deployed: {title}", *notes)]
    if further := aspects([summary_of(deployed) for _, deployed in counts.values()]):
        tables.append(replace(further, title="Deployed: aspects"))
    return [*tables, gate_table(records), near_misses(records)]


def deployed_table(counts: Mapping[str, tuple[Counts, Counts]], title: str, *notes: str) -> Table:
    """A row for each editor: S with every query under the edit, then S, ESR, PC and RR behind the gate, by `counts`."""
    rows: list[tuple[Cell, ...]] = []
    for editor, both in counts.items():
        paper, deployed = map(summary_of, both)
        tokens = (Number(summary.prompt_tokens, ".0f") for summary in (paper, deployed))
        rows.append((editor, paper.s, deployed.s, deployed.esr, deployed.pc, deployed.rr, *tokens))
    header = ("Editor", "S", "deployed S", "deployed ESR", "deployed PC", "deployed RR", "tokens", "deployed tokens")
    meaning = (
        "S: every query under its case's edit, as in the paper. Deployed: all edits are in force at once, and each "
        "query is asked under those that the gate matches to it; where another edit changed a fact, its new object is "
        "right.",
        "tokens: mean length of a prompt.",
    )
    return Table(title, header, tuple(rows), (*meaning, INTERVALS, *notes))


def gate_table(records: Sequence[GateRecord]) -> Table:
    """How often the gate gives a question the edits it is about, and others, by kind of question."""
    rows: list[tuple[Cell, ...]] = []
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind == kind]
        matched = _share([record for record in of_kind if record.concerns], lambda record: record.fires)
        rows.append((kind, Number(len(of_kind)), matched, _share(of_kind, lambda record: bool(record.false))))
    notes = (
        "matched: of the questions about an edit in force, those that get it. false matches: questions that get an "
        "edit they are not about.",
        f"{INTERVALS} Of unrelated questions, over questions.",
    )
    return Table("The gate, by kind of question", ("kind", "questions", "matched", "false matches"), tuple(rows), notes)


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate decided wrongly, then those it came nearest to deciding otherwise; worst first."""
    missed = [(r.probability, r, "missed it", r.asks) for r in records if r.concerns and not r.fires]
    false = [(r.nearest_probability, r, "matched it falsely", r.nearest) for r in records if r.false]
    others = (r for r in records if not r.false and r.nearest_probability > 0)
    close = [(r.nearest_probability, r, "nearly matched it", r.nearest) for r in others]
    wrong = sorted(missed, key=lambda item: item[0]) + sorted(false, key=lambda item: -item[0])
    ordered = [*wrong, *sorted(close, key=lambda item: -item[0])]
    rows = dict.fromkeys((r.query, r.kind, what, edit or "", f"{p:.3f}") for p, r, what, edit in ordered)
    header = ("question", "kind", "the gate", "edit", "p")
    return Table("Nearest misses of the gate", header, tuple(rows)[:NEAREST], ("p: of that edit.",), wide=True)


def _share(records: Sequence[GateRecord], holds: Callable[[GateRecord], bool]) -> Cell:
    """The share of records for which something holds, with its interval over cases, and the counts."""
    if not records:
        return NOT_MEASURED
    by_case: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        by_case[record.case_id or record.query].append(holds(record))
    return Noted(share_over_cases(by_case.values()), f"({sum(map(holds, records)):,} of {len(records):,})")
