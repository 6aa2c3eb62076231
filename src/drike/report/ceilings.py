"""The table of ceilings that `drike ceiling` writes into its folder, and a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drike.edits import ASPECTS_OF_S
from drike.evaluation.ceilings import ALL, METHOD, MOST, Measured
from drike.report.tables import INTERVALS, shown
from drike.runs.folder import read_json
from drike.runs.run import Run
from drike.support.table import Table

FILE = "ceilings.json"


def read_ceilings(folder: Path) -> Table | None:
    """The table of a folder's ceilings; None if it has none. Raises RunError."""
    found = read_json(folder / FILE, Mapping[str, Measured], "remove it, or continue with drike ceiling --resume")
    if found is None:
        return None
    run = Run.open(folder)
    return ceilings_table(found, f"{run.split().title}, {len(run.split().test)} test edits, model {run.model}")


def ceilings_table(found: Mapping[str, Measured], title: str, most: str = MOST) -> Table:
    """A row for each choice, with its prompt tokens as a share of those of all demonstrations, and the gap it closes.

    The gap is that between the paper's rule, or else all demonstrations, and the row `most`.
    """
    floor = METHOD if METHOD in found else ALL
    low, high = found[floor].s.value or 0.0, found[most].s.value or 0.0
    rows = []
    for name, one in found.items():
        rates = ("n/a" if (rate := one.rates.get(aspect)) is None else f"{rate:.3f}" for aspect in ASPECTS_OF_S)
        whole = found[ALL].tokens
        tokens = "n/a" if one.tokens is None or not whole else f"{one.tokens / whole:.2f}"
        closed = "n/a" if high <= low else f"{((one.s.value or 0.0) - low) / (high - low):.0%}"
        rows.append((name, shown(one.s), *rates, tokens, closed))
    notes = [
        "best, greedy: chosen in hindsight, from the answers. k, subset: of the retains, with all copies and updates; "
        "mix: of all roles; k and mix show the nearest. Kinds of query: the edit's own, and neighbours.",
        f"tokens: of prompts, as a share of those with {ALL}. closed: share of the gap between {floor} and {most}.",
        INTERVALS,
    ]
    absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in found[ALL].rates]
    notes += [f"No test edit has a {' or a '.join(absent)} probe: S is of the others."] if absent else []
    return Table(title, ("choice", "S", "ESR", "PC", "RR", "tokens", "closed"), tuple(rows), tuple(notes))
