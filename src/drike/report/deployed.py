"""Many edits in force behind a gate: deployed S beside S, and what the gate did, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from drike.deployed import GateRecord
from drike.metrics import Counts, estimated, resampled, summary_of
from drike.report.tables import INTERVALS, shown
from drike.table import Table

NEAREST = 20


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


def gate_table(records: Sequence[GateRecord], gate: str) -> Table:
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
    return Table(f"The gate ({gate}), by kind of question", ("kind", "questions", "fires", "false"), rows, notes)


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate came nearest to deciding otherwise, or decided wrongly, the worst first."""
    wrong = [(1 - one.probability, one, "did not fire") for one in records if one.concerns and not one.fires]
    wrong += [(one.nearest_probability, one, "fired") for one in records if one.false]
    close = [
        (one.nearest_probability, one, "nearly fired")
        for one in records
        if not one.false and one.nearest is not None and one.nearest_probability > 0
    ]
    ordered = [sorted(some, key=lambda item: -item[0]) for some in (wrong, close)]
    seen = dict.fromkeys((one.query, one.nearest or "", p, one.kind, what) for some in ordered for p, one, what in some)
    rows = tuple((query, kind, what, edit, f"{p:.3f}") for query, edit, p, kind, what in list(seen)[:NEAREST])
    return Table(
        "Nearest misses of the gate",
        ("question", "kind", "", "most probable edit it does not ask", "p"),
        rows,
        wide=True,
    )


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
