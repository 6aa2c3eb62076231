"""The table of ceilings that `drike ceiling` writes into its folder, and a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drike.edits import ASPECTS_OF_S
from drike.evaluation.ceilings import ALL, METHOD, MOST, Measured
from drike.report.tables import INTERVALS
from drike.runs.folder import read_json
from drike.runs.run import Run
from drike.support.table import Cell, Number, Table

FILE = "ceilings.json"


def read_ceilings(folder: Path) -> Table | None:
    """The table of a folder's ceilings; None if it has none. Raises RunError."""
    choices = read_json(folder / FILE, Mapping[str, Measured], "remove it, or continue with drike ceiling --resume")
    if choices is None:
        return None
    run = Run.open(folder)
    return ceilings_table(choices, f"{run.split().title}, {len(run.split().test)} test edits, model {run.model}")


def ceilings_table(choices: Mapping[str, Measured], title: str, ceiling: str = MOST) -> Table:
    """A row for each choice, with its prompt tokens as a share of those of all demonstrations, and the gap it closes.

    The gap is the one between the paper's rule, or else all demonstrations, and the choice named `ceiling`.
    """
    floor = METHOD if METHOD in choices else ALL
    low, high = choices[floor].s.value or 0.0, choices[ceiling].s.value or 0.0
    all_tokens = choices[ALL].tokens
    rows: list[tuple[Cell, ...]] = []
    for name, choice in choices.items():
        rates = (Number(choice.rates.get(aspect), ".3f") for aspect in ASPECTS_OF_S)
        tokens = None if choice.tokens is None or not all_tokens else choice.tokens / all_tokens
        closed = None if high <= low else ((choice.s.value or 0.0) - low) / (high - low)
        rows.append((name, choice.s, *rates, Number(tokens, ".2f"), Number(closed, ".0%")))
    notes = [
        "best, greedy: chosen in hindsight, from the answers. k, subset: of the retains, with all copies and updates; "
        "mix: of all roles; k and mix show the nearest. Kinds of query: the edit's own, and neighbours.",
        f"tokens: of prompts, as a share of those with {ALL}. closed: share of the gap between {floor} and {ceiling}.",
        INTERVALS,
    ]
    absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in choices[ALL].rates]
    notes += [f"No test edit has a {' or a '.join(absent)} probe: S is of the others."] if absent else []
    return Table(title, ("choice", "S", "ESR", "PC", "RR", "tokens", "closed"), tuple(rows), tuple(notes))
