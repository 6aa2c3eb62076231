"""`drike paper`: the paper's tables and figures, the recipe of each, and what it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from drike.cli.console import console, draw
from drike.errors import UsageError
from drike.report import Table
from drike.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, TABLES
from drike.report.recipes import LARGE, SMALL, STUDIES, Card, Study, study
from drike.report.tables import as_published

_ESTIMATE = (
    "Memory and hours are estimates, not measurements: 2 bytes a weight and 4 GB; 2 x weights x tokens at 40 % of the "
    "card's bf16 peak, doubled. They count on prompts that share their beginnings being read once."
)


def paper(
    name: Annotated[str | None, typer.Argument(help="One of them, such as table2", metavar="NAME", hidden=True)] = None,
) -> None:
    """List the paper's tables and figures with the recipe that makes each again; or show one."""
    if name is None:
        _list()
        return
    found = study(name)
    if found is None:
        raise UsageError(f"there is no {name!r} in the paper: choose of {', '.join(one.name for one in STUDIES)}")
    _show(found)


def _list() -> None:
    rows = tuple(
        (
            one.name,
            one.place,
            one.about,
            str(len(one.models)),
            _memory(one),
            f"{_hours(one, SMALL)} / {_hours(one, LARGE)}",
        )
        for one in STUDIES
    )
    header = ("recipe", "in the paper", "what", "models", "GPU", "hours")
    notes = (
        f"hours: on {SMALL.name} / on {LARGE.name}. {_ESTIMATE}",
        "Run one: sh recipes/table2.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/table2.sh",
        "What one needs and what the paper reports: drike paper table2",
    )
    draw(Table("The paper's tables and figures", header, rows, notes, wide=True))


def _show(one: Study) -> None:
    console.print(f"{one.place}: {one.about}", style="bold", markup=False)
    lines = [
        ("recipe", f"sh {one.recipe}   (in minutes, on TinyFacts: MODEL=embedded sh {one.recipe})"),
        ("models", ", ".join(one.models)),
        ("data", ", ".join(one.data)),
        ("work", f"{one.work.trainings} training(s) of {one.work.edits} edits x {one.work.epochs} epochs and "
                 f"{one.work.editors} editor(s) on {one.work.test} test edits, for each model: some "
                 f"{one.work.calls:,} prompts, {one.work.tokens / 1e6:.1f} M tokens read once"),
        ("GPU", _memory(one)),
        ("hours", f"{_hours(one, SMALL)} on {SMALL.name}, {_hours(one, LARGE)} on {LARGE.name}"),
    ]  # fmt: skip
    for label, text in lines:
        console.print(f"  {label:<8}{text}", markup=False, soft_wrap=True)
    console.print(f"  {_ESTIMATE}", style="dim", markup=False, soft_wrap=True)
    if one.open:
        console.print(f"  open    {one.open}", markup=False, soft_wrap=True)
    reported = _reported(one)
    if reported is not None:
        draw(reported)


def _reported(one: Study) -> Table | None:
    """The figures the paper prints for a study; None where it prints none."""
    title = "What the paper reports"
    if one.name == "figure4":
        budgets = tuple((row.model, f"{row.mean:.2f}", f"{row.std:.2f}") for row in RETAIN_BUDGETS)
        return Table(title, ("Model", "mean", "std"), budgets)
    if one.name == "efficiency":
        epochs = tuple(
            (row.model, f"{row.without:.1f}", f"{row.seconds:.1f}", f"{1 - row.seconds / row.without:.1%}")
            for row in EPOCH_SECONDS
        )
        return Table(title, ("Model", "s/epoch without", "s/epoch with", "saved"), epochs)
    found = next((table for table in TABLES if one.name == f"table{table.number}"), None)
    return None if found is None else as_published(found)


def _memory(one: Study) -> str:
    return "none (API)" if one.memory is None else f"{one.memory:.0f} GB"


def _hours(one: Study, card: Card) -> str:
    hours = one.hours(card)
    return "n/a" if hours is None else f"{hours:.1f}"
