"""`python -m tools.tinyfacts`: build the embedded model, or check that it meets its requirements."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from drike.cli import main as run
from drike.cli.console import console, draw, progress
from drike.errors import UsageError
from drike.models import EMBEDDED, load
from drike.support.table import Table
from tools.tinyfacts.check import Measure, held_out, measure
from tools.tinyfacts.world import other_templates

app = typer.Typer(help="Build and check the embedded model of TinyFacts.", no_args_is_help=True)


@app.command("build")
def build(
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the model; an existing model there is replaced"),
    ],
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Another seed gives another model")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads; default: torch's")
    ] = None,
    other: Annotated[
        bool,
        typer.Option(
            "--other", help="Another model: narrower, other wordings, with its rows in rows.json"
        ),
    ] = False,
) -> None:
    """Train the embedded model from scratch on the CPU and check it; exits with code 1 if the check fails."""
    from tools.tinyfacts import build as builder

    if out.exists() and not (out / "config.json").exists():
        raise UsageError(f"{out} exists and holds no model: name a new folder, or a model's folder")
    if (
        shutil.disk_usage(out.absolute().parent if out.absolute().parent.exists() else ".").free
        < 100_000_000
    ):
        raise UsageError(f"less than 100 MB are free for {out}: make room or choose another --out")
    with progress("training the embedded model") as (bar, task):
        for step in builder.build(out, seed=seed, threads=threads, other=other):
            losses = "  ".join(
                f"{name} {value:.3f}" for name, value in (step.parts or step.plain).items()
            )
            bar.update(task, total=step.steps, completed=step.step, status=losses)
            if step.step % 100 == 0 or step.step == step.steps:
                console.print(
                    f"step {step.step} of {step.steps}: {losses}", markup=False, soft_wrap=True
                )
    console.print(f"Written to {out}", markup=False)
    check(str(out))


@app.command("check")
def check(
    model: Annotated[
        str, typer.Option("--model", help="embedded, reader, or a folder that build wrote")
    ] = EMBEDDED,
) -> None:
    """Measure every requirement on held-out edits; exits with code 1 if one is not met.

    A folder that `build --other` wrote is asked in the wordings of its rows.json.
    """
    asked = load(model)
    if asked.score is None:
        raise UsageError(f"{model} gives no scores: the check needs a local model")
    with progress("checking"):
        other = Path(model, "rows.json")
        found = tuple(
            measure(asked, data=other, templates=other_templates())
            if other.exists()
            else measure(asked)
        )
    rows = tuple((one.name, f"{one.value:.3f}", _range(one), _verdict(one)) for one in found)
    title = f"Requirements on {asked.info.name}, {len(held_out())} held-out edits"
    draw(Table(title, ("what", "value", "required", ""), rows))
    if not all(one.ok for one in found):
        raise typer.Exit(1)


def _range(one: Measure) -> str:
    if one.low is not None and one.high is not None:
        return f"{one.low:.2f} to {one.high:.2f}"
    if one.low is not None:
        return f"at least {one.low:.2f}"
    return "" if one.high is None else f"at most {one.high:.2f}"


def _verdict(one: Measure) -> str:
    return "" if one.low is None and one.high is None else "met" if one.ok else "NOT MET"


def main() -> None:
    """Run the command; an error is one sentence, as with `drike`."""
    run(command=app, name="python -m tools.tinyfacts")


if __name__ == "__main__":
    main()
