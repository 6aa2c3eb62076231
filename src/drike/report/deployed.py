"""Many edits in force behind a gate: deployed S beside S, and what the gate did, as tables.

`read_deployed` makes them from the folder of an evaluation with --stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from drike.deployment.evaluation import GateRecord
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Counts, counted, estimated, resampled, summary_of
from drike.report.figures import Figure, gate_curve
from drike.report.tables import INTERVALS, aspects, shown
from drike.runs.folder import DEPLOYED, GATE, outcomes_path, read_lines, read_outcomes
from drike.runs.run import Run
from drike.support.table import Table

NEAREST = 20
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_BINS = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class DeployedRun:
    """What a report shows of a run that was evaluated with --stored."""

    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]


def read_deployed(folder: Path) -> DeployedRun | None:
    """What to show of a run that was evaluated with --stored; None for another run. Raises RunError."""
    path = folder / DEPLOYED / GATE
    if not path.exists():
        return None
    run = Run.open(folder)
    records = read_lines(path, GateRecord, "evaluate again")
    names = [name for name in run.editors or () if outcomes_path(folder, name, DEPLOYED).exists()]
    counts = {
        name: (
            counted(read_outcomes(outcomes_path(folder, name))),
            counted(read_outcomes(outcomes_path(folder, name, DEPLOYED))),
        )
        for name in names
    }
    judge = [RULES[run.judge].caption] if run.judge else []
    title = f"{run.settings['stored']} edits in force, {run.split().title}, model {run.model}"
    tables = deployed_tables(counts, records, title, *judge)
    return DeployedRun(tuple(gate_figures(records)), tuple(tables))


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
    return len({one.probability for one in records} | {one.nearest_probability for one in records}) > 2


def gate_figures(records: Sequence[GateRecord]) -> list[Figure]:
    """How well the gate's probabilities hold, and fires against false fires; none for a gate without probabilities."""
    if not has_probabilities(records):
        return []
    held = [(float(mean), float(asked)) for _, mean, asked, _ in calibration_table(records).rows]
    fires = [(float(false), float(right)) for _, right, false in thresholds_table(records).rows]
    return [
        gate_curve(held, "probability", "Share of edits that are asked, by the gate's probability", diagonal=True),
        gate_curve(fires, "false fires", "Questions on which the edit fires that they ask, against false fires"),
    ]


def deployed_table(counts: Mapping[str, tuple[Counts, Counts]], title: str, *notes: str) -> Table:
    """A row for each editor: its S with every query under the edit, and S, ESR, PC and RR behind the gate.

    counts: with every query under the case's edit, and behind the gate.
    """
    rows = []
    for name, both in counts.items():
        paper, deployed = map(summary_of, both)
        tokens = ("n/a" if one.prompt_tokens is None else f"{one.prompt_tokens:.0f}" for one in (paper, deployed))
        metrics = (paper.s, deployed.s, deployed.esr, deployed.pc, deployed.rr)
        rows.append((name, *map(shown, metrics), *tokens))
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
    for one in records:
        by_kind[one.kind].append(one)
    rows = tuple(
        (
            kind,
            f"{len(of_kind):,}",
            _share([one for one in of_kind if one.concerns], lambda one: one.fires),
            _share(of_kind, lambda one: bool(one.false)),
        )
        for kind, of_kind in by_kind.items()
    )
    notes = (
        "fires: of the questions that ask an edit in force, those on which it fires. false: questions on which an edit "
        "fires that they do not ask.",
        "Brackets: 95 % bootstrap interval over edits; over questions for unrelated ones.",
    )
    return Table("The gate, by kind of question", ("kind", "questions", "fires", "false"), rows, notes)


def calibration_table(records: Sequence[GateRecord]) -> Table:
    """How often an edit is asked that the gate gives a probability, in ranges of the probability."""
    pairs = [(one.probability, True) for one in records if one.concerns]
    pairs += [(one.nearest_probability, False) for one in records if one.nearest is not None]
    rows = []
    for low, high in pairwise(_BINS):
        within = [(p, asked) for p, asked in pairs if low <= p < high or p == high == 1]
        if within:
            mean, share = (sum(column) / len(within) for column in zip(*within, strict=True))
            rows.append((f"{low:g} to {high:g}", f"{mean:.3f}", f"{share:.3f}", f"{len(within):,}"))
    note = "Of each question the edit that it asks, and the most probable one of the others."
    return Table("Calibration of the gate", ("probability", "mean", "asked", "edits"), tuple(rows), (note,))


def thresholds_table(records: Sequence[GateRecord]) -> Table:
    """Fires on asked edits against false ones, at several thresholds."""
    asked = [one.probability for one in records if one.concerns]
    others = [one.nearest_probability for one in records]
    rows = tuple(
        (f"{t:g}", f"{sum(p >= t for p in asked) / max(1, len(asked)):.3f}",
         f"{sum(p >= t for p in others) / max(1, len(others)):.4f}")
        for t in THRESHOLDS
    )  # fmt: skip
    notes = ("fires: questions that ask an edit which reaches the threshold; false: questions on which another does.",)
    return Table("Fires and false fires by threshold", ("threshold", "fires", "false"), rows, notes)


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate came nearest to deciding otherwise, or decided wrongly, the worst first."""
    missed = [(one.probability, one, "did not fire", one.asks) for one in records if one.concerns and not one.fires]
    false = [(one.nearest_probability, one, "fired falsely", one.nearest) for one in records if one.false]
    close = [
        (one.nearest_probability, one, "nearly fired", one.nearest)
        for one in records
        if not one.false and one.nearest_probability > 0
    ]
    wrong = sorted(missed, key=lambda item: item[0]) + sorted(false, key=lambda item: -item[0])
    ordered = [*wrong, *sorted(close, key=lambda item: -item[0])]
    rows = dict.fromkeys((one.query, one.kind, what, edit or "", f"{p:.3f}") for p, one, what, edit in ordered)
    header = ("question", "kind", "the gate", "edit", "p")
    return Table("Nearest misses of the gate", header, tuple(rows)[:NEAREST], ("p: of that edit.",), wide=True)


def _share(records: Sequence[GateRecord], true: Callable[[GateRecord], bool]) -> str:
    """The share of records with its interval over cases, and the counts."""
    if not records:
        return "n/a"
    by_case: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in records:
        sums = by_case[one.case_id or one.query]
        sums[0] += true(one)
        sums[1] += 1
    sums_of = np.array(list(by_case.values()))
    drawn = resampled(sums_of)
    [found] = estimated(np.array([sums_of[:, 0].sum() / sums_of[:, 1].sum()]), drawn[:, :1] / drawn[:, 1:])
    return f"{shown(found)} ({sum(map(true, records)):,} of {len(records):,})"
