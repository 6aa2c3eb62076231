"""Many edits in force behind a gate: deployed S beside S, and what the gate did, as tables and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from drike.deployment.evaluation import GateRecord
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Counts, counted, estimated, resampled, summary_of
from drike.report.figures import Figure, gate_curve
from drike.report.groups import ReportedRun
from drike.report.tables import INTERVALS, aspects
from drike.support.table import NOT_MEASURED, Cell, Noted, Number, Table

NEAREST = 20
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_BINS = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class CalibrationBin:
    """The edits whose probability is in [low, high): its mean, and the share of them that the question asks."""

    low: float
    high: float
    mean: float
    asked: float
    edits: int


@dataclass(frozen=True)
class ThresholdRates:
    """At a threshold, the share of questions whose edit reaches it, and of those on which another edit does."""

    threshold: float
    matched: float
    false: float


def deployed_of(run: ReportedRun) -> tuple[list[Table], list[Figure]]:
    """The tables and figures of a run that was evaluated with --stored; none of another run."""
    if not run.gate:
        return [], []
    counts = {editor: (counted(run.outcomes[editor]), counted(outcomes)) for editor, outcomes in run.deployed.items()}
    judge = [RULES[run.settings["judge"]].caption] if run.settings.get("judge") in RULES else []
    title = f"{run.stored} edits in force, {run.data}, model {run.model}"
    return deployed_tables(counts, run.gate, title, *judge), gate_figures(run.gate)


def deployed_tables(
    counts: Mapping[str, tuple[Counts, Counts]], records: Sequence[GateRecord], title: str, *notes: str
) -> list[Table]:
    """All tables of an evaluation with many edits in force; those of probabilities only where the gate has them."""
    tables = [deployed_table(counts, f"Deployed: {title}", *notes)]
    if further := aspects([summary_of(deployed) for _, deployed in counts.values()]):
        tables.append(replace(further, title="Deployed: aspects"))
    tables.append(gate_table(records))
    if has_probabilities(records):
        tables += [calibration_table(records), thresholds_table(records)]
    return [*tables, near_misses(records)]


def has_probabilities(records: Sequence[GateRecord]) -> bool:
    """Whether the gate gave more than yes and no."""
    return len({record.probability for record in records} | {record.nearest_probability for record in records}) > 2


def gate_figures(records: Sequence[GateRecord]) -> list[Figure]:
    """How well the gate's probabilities hold, and fires against false fires; none for a gate without probabilities."""
    if not has_probabilities(records):
        return []
    held = [(each.mean, each.asked) for each in calibration(records)]
    fires = [(rates.false, rates.matched) for rates in threshold_rates(records)]
    return [
        gate_curve(held, "probability", "Share of edits that are asked, by the gate's probability", diagonal=True),
        gate_curve(fires, "false fires", "Questions on which the edit fires that they ask, against false fires"),
    ]


def deployed_table(counts: Mapping[str, tuple[Counts, Counts]], title: str, *notes: str) -> Table:
    """A row for each editor: its S with every query under the edit, and S, ESR, PC and RR behind the gate.

    counts: with every query under the case's edit, and behind the gate.
    """
    rows: list[tuple[Cell, ...]] = []
    for editor, both in counts.items():
        paper, deployed = map(summary_of, both)
        tokens = (Number(summary.prompt_tokens, ".0f") for summary in (paper, deployed))
        rows.append((editor, paper.s, deployed.s, deployed.esr, deployed.pc, deployed.rr, *tokens))
    header = ("Editor", "S", "deployed S", "deployed ESR", "deployed PC", "deployed RR", "tokens", "deployed tokens")
    meaning = (
        "S: every query under its case's edit, as in the paper. Deployed: all edits in force at once, and each query "
        "under those that the gate lets fire; a fact that another edit has changed is right as changed.",
        "tokens: mean length of a prompt.",
    )
    return Table(title, header, tuple(rows), (*meaning, INTERVALS, *notes))


def gate_table(records: Sequence[GateRecord]) -> Table:
    """How often the gate fires on edits that a question asks, and falsely, by kind of question."""
    by_kind: dict[str, list[GateRecord]] = defaultdict(list)
    for record in records:
        by_kind[record.kind].append(record)
    rows = tuple(
        (
            kind,
            Number(len(of_kind)),
            _share([record for record in of_kind if record.concerns], lambda record: record.fires),
            _share(of_kind, lambda record: bool(record.false)),
        )
        for kind, of_kind in by_kind.items()
    )
    notes = (
        "fires: of the questions that ask an edit in force, those on which it fires. false: questions on which an edit "
        "fires that they do not ask.",
        "Brackets: 95 % bootstrap interval over edits; over questions for unrelated ones.",
    )
    return Table("The gate, by kind of question", ("kind", "questions", "fires", "false"), rows, notes)


def calibration(records: Sequence[GateRecord]) -> list[CalibrationBin]:
    """How often an edit is asked that the gate gives a probability, in ranges of the probability that occur."""
    pairs = [(record.probability, True) for record in records if record.concerns]
    pairs += [(record.nearest_probability, False) for record in records if record.nearest is not None]
    bins = []
    for low, high in pairwise(_BINS):
        within = [(p, asked) for p, asked in pairs if low <= p < high or p == high == 1]
        if within:
            mean, share = (sum(column) / len(within) for column in zip(*within, strict=True))
            bins.append(CalibrationBin(low, high, mean, share, len(within)))
    return bins


def calibration_table(records: Sequence[GateRecord]) -> Table:
    """How often an edit is asked that the gate gives a probability, in ranges of the probability."""
    rows = tuple(
        (f"{b.low:g} to {b.high:g}", Number(b.mean, ".3f"), Number(b.asked, ".3f"), Number(b.edits))
        for b in calibration(records)
    )
    note = "Of each question the edit that it asks, and the most probable one of the others."
    return Table("Calibration of the gate", ("probability", "mean", "asked", "edits"), rows, (note,))


def threshold_rates(records: Sequence[GateRecord]) -> list[ThresholdRates]:
    """Fires on asked edits and false fires, at each of `THRESHOLDS`."""
    asked = [record.probability for record in records if record.concerns]
    others = [record.nearest_probability for record in records]

    def reached(probabilities: Sequence[float], threshold: float) -> float:
        return sum(p >= threshold for p in probabilities) / max(1, len(probabilities))

    return [ThresholdRates(t, reached(asked, t), reached(others, t)) for t in THRESHOLDS]


def thresholds_table(records: Sequence[GateRecord]) -> Table:
    """Fires on asked edits against false ones, at several thresholds."""
    rows = tuple(
        (f"{rates.threshold:g}", Number(rates.matched, ".3f"), Number(rates.false, ".4f"))
        for rates in threshold_rates(records)
    )
    notes = ("fires: questions that ask an edit which reaches the threshold; false: questions on which another does.",)
    return Table("Fires and false fires by threshold", ("threshold", "fires", "false"), rows, notes)


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate decided wrongly, then those it came nearest to deciding otherwise; worst first."""
    missed = [(r.probability, r, "did not fire", r.asks) for r in records if r.concerns and not r.fires]
    false = [(r.nearest_probability, r, "fired falsely", r.nearest) for r in records if r.false]
    close = [
        (r.nearest_probability, r, "nearly fired", r.nearest)
        for r in records
        if not r.false and r.nearest_probability > 0
    ]
    wrong = sorted(missed, key=lambda item: item[0]) + sorted(false, key=lambda item: -item[0])
    ordered = [*wrong, *sorted(close, key=lambda item: -item[0])]
    rows = dict.fromkeys((r.query, r.kind, what, edit or "", f"{p:.3f}") for p, r, what, edit in ordered)
    header = ("question", "kind", "the gate", "edit", "p")
    return Table("Nearest misses of the gate", header, tuple(rows)[:NEAREST], ("p: of that edit.",), wide=True)


def _share(records: Sequence[GateRecord], holds: Callable[[GateRecord], bool]) -> Cell:
    """The share of records for which something holds, with its interval over cases, and the counts."""
    if not records:
        return NOT_MEASURED
    by_case: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in records:
        sums = by_case[record.case_id or record.query]
        sums[0] += holds(record)
        sums[1] += 1
    counts = np.array(list(by_case.values()))
    drawn = resampled(counts)
    [share] = estimated(np.array([counts[:, 0].sum() / counts[:, 1].sum()]), drawn[:, :1] / drawn[:, 1:])
    return Noted(share, f"({sum(map(holds, records)):,} of {len(records):,})")
