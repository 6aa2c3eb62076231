"""`python -m tools.tinyfacts`: make the embedded model again, or check that it behaves as promised."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from drike import tinyfacts
from drike.cli.console import console, draw, progress
from drike.cli.options import LARGEST_SEED
from drike.errors import UsageError
from drike.models import EMBEDDED, load
from drike.report import Table
from tools.tinyfacts.check import measure

app = typer.Typer(help="The embedded benchmark and model: build and check them.", no_args_is_help=True)


@app.callback()
def embedded() -> None:
    """Build and check the embedded model."""


@app.command("build")
def build(
    out: Annotated[Path, typer.Option("--out", help="Folder for the model; a model that stands there is replaced")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Another seed gives another model")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads; default torch's choice")] = None,
) -> None:
    """Train the embedded model from scratch on the CPU, then check it; exit code 1 if a promise is not kept."""
    from tools.tinyfacts import build as maker

    if out.exists() and not (out / "config.json").exists():
        raise UsageError(f"{out} exists and holds no model: name a new folder or a model's")
    if shutil.disk_usage(out.absolute().parent if out.absolute().parent.exists() else ".").free < 100_000_000:
        raise UsageError(f"less than 100 MB are free where {out} is to stand: make room or choose another --out")
    with progress("training the embedded model") as (bar, task):
        for step in maker.build(out, seed=seed, threads=threads):
            losses = "  ".join(f"{name} {value:.3f}" for name, value in (step.parts or step.plain).items())
            bar.update(task, total=step.steps, completed=step.step, status=losses)
            if step.step % 100 == 0 or step.step == step.steps:
                console.print(f"step {step.step} of {step.steps}: {losses}", markup=False, soft_wrap=True)
    console.print(f"Written to {out}")
    check(str(out))


@app.command("check")
def check(
    model: Annotated[str, typer.Option("--model", help="embedded, reader, or a folder that build wrote")] = EMBEDDED,
) -> None:
    """Measure every promise on held-out edits; exit code 1 if one is not kept."""
    asked = load(model)
    if asked.score is None:
        raise UsageError(f"{model} gives no scores: the check needs a local model")
    with progress("checking"):
        found = tuple(measure(asked))
    rows = tuple((m.name, f"{m.value:.3f}", _band(m.low, m.high), _verdict(m.low, m.high, m.ok)) for m in found)
    draw(Table(f"Promises of {asked.info.name}, {tinyfacts.EDITABLE - tinyfacts.EDITABLE // 2} held-out edits",
               ("what", "value", "band", ""), rows))  # fmt: skip
    if not all(m.ok for m in found):
        raise typer.Exit(1)


def _band(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "for reading"
    if low is None or high is None:
        return f"at most {high:.2f}" if low is None else f"at least {low:.2f}"
    return f"{low:.2f} to {high:.2f}"


def _verdict(low: float | None, high: float | None, ok: bool) -> str:
    if low is None and high is None:
        return ""
    return "kept" if ok else "NOT KEPT"


if __name__ == "__main__":
    app()
