"""`drike paper`: the paper's tables and figures, the recipe that repeats each, and what it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import draw, say
from drike.cli.options import command
from drike.errors import UsageError
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, STUDIES, TABLES, Study, study
from drike.report.tables import published
from drike.support.table import Table


@command()
def paper(
    name: Annotated[str | None, typer.Argument(help="One of them, such as table2", metavar="NAME", hidden=True)] = None,
) -> None:
    """List the paper's tables and figures with the recipe that repeats each, or show one."""
    if name is None:
        return draw(_studies())
    chosen = study(name)
    if chosen is None:
        raise UsageError(f"{name!r} is not in the paper: choose from {', '.join(row.name for row in STUDIES)}")
    say(f"{chosen.place}: {chosen.about}", style="bold")
    lines = {
        "recipe": f"sh {chosen.recipe}   (in minutes, on TinyFacts: MODEL=embedded sh {chosen.recipe})",
        "models": ", ".join(chosen.models) + (" (needs an API key)" if chosen.needs_api else ""),
        "data": ", ".join(chosen.data),
        "work": f"{chosen.trainings} training run(s) and {chosen.editors} evaluated editor(s) for each model",
        "unclear": chosen.unclear,
    }
    for label, text in lines.items():
        if text:
            say(f"  {label:<8}{text}")
    draw(*_reported(chosen))


def _studies() -> Table:
    rows = []
    for row in STUDIES:
        needs = (str(len(row.models)), ", ".join(row.data), "yes" if row.needs_api else "")
        rows.append((row.name, row.place, row.about, *needs))
    header = ("recipe", "in the paper", "what", "models", "data", "API")
    fast = "Run one: sh recipes/table2.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/table2.sh"
    notes = (fast, "What one needs and what the paper reports: drike paper table2")
    return Table("The paper's tables and figures", header, tuple(rows), notes, wide=True)


def _reported(chosen: Study) -> list[Table]:
    """The figures that the paper prints for a study, if it prints any."""
    title = "What the paper reports"
    if chosen.name == "figure4":
        budgets = tuple((model, f"{mean:.2f}", f"{std:.2f}") for model, (mean, std) in RETAIN_BUDGETS.items())
        return [Table(title, ("Model", "mean", "std"), budgets)]
    if chosen.name == "efficiency":
        times = EPOCH_SECONDS.items()
        epochs = tuple((model, f"{old:.1f}", f"{new:.1f}", f"{1 - new / old:.1%}") for model, (old, new) in times)
        return [Table(title, ("Model", "s/epoch without", "s/epoch with", "saved"), epochs)]
    return [published(table) for table in TABLES if chosen.name == f"table{table.number}"]
