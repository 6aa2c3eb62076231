"""`drike evaluate`: editors side by side on test edits, as the paper's Table 1."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from drike import checkpoint
from drike.budget import Fraction
from drike.checkpoint import Checkpoint
from drike.cli.opening import (
    EMBEDDED,
    TINYFACTS,
    Bench,
    UsageError,
    describe_model,
    new_run,
    open_bench,
    open_model,
    record_run,
)
from drike.cli.showing import console, draw, progress
from drike.cli.training import Device, Editable, Out
from drike.editors import Editor
from drike.editors.editcot import EditCoT, EditCoTFull
from drike.editors.factprompt import FactPrompt
from drike.editors.ike import IKE
from drike.editors.unedited import Unedited
from drike.edits import EditCase
from drike.encoder import MINILM
from drike.evaluate import evaluate as outcomes_of
from drike.files import write_text
from drike.metrics import Outcome, Summary, summarise
from drike.models import LanguageModel
from drike.pool import Pool
from drike.report import as_markdown, costs, differences, published, table1
from drike.retriever import Retriever, Similarity
from drike.runs import RunError, saved, write_record

PLAIN = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")


def evaluate(
    *,
    run: Annotated[
        Path | None, typer.Option("--run", help="A training run: its data, model and trained retriever")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="As for train; default the run's, or tinyfacts")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="As for train; default the run's, or embedded")] = None,
    editors: Annotated[
        str | None,
        typer.Option("--editors", help=f"Comma-separated, of {', '.join((*PLAIN, 'editcot-full', *TRAINED))}"),
    ] = None,
    test: Annotated[int | None, typer.Option("--test", help="Edits to test; default the run's, or 100")] = None,
    edits: Annotated[int | None, typer.Option("--edits", help="Training edits kept apart; default the run's")] = None,
    editable: Editable = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the split; default the run's, or 0")] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Encoder that chooses the pool; default the run's")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Also record what the model writes, not only scores")] = False,
    template: Annotated[
        str | None, typer.Option("--template", help="plain or chat; default the run's, or plain")
    ] = None,
    device: Device = None,
    out: Out = None,
) -> None:
    """Measure ESR, PC, RR, S, ESM and GSM of editors on edits that were not trained on."""
    before = settings_of(run)
    settings: dict[str, Any] = {
        "data": data or before.get("data") or [TINYFACTS],
        "model": model or before.get("model") or EMBEDDED,
        "edits": edits if edits is not None else before.get("edits"),
        "test": test if test is not None else before.get("test"),
        "editable": editable if editable is not None else before.get("editable"),
        "seed": seed if seed is not None else before.get("seed", 0),
        "encoder": encoder or before.get("encoder") or MINILM,
        "template": template or before.get("template") or "plain",
    }
    trained = checkpoint.load(run / "checkpoint") if run is not None else None
    names = editors.split(",") if editors else [*PLAIN, *(TRAINED if trained else ())]
    folder = new_run(out, "evaluate")
    bench = open_bench(
        settings["data"], train=settings["edits"], test=settings["test"], editable=settings["editable"],
        seed=settings["seed"], encoder=settings["encoder"],
    )  # fmt: skip
    asked = open_model(settings["model"], template=settings["template"], device=device)
    made = [make_editor(name.strip(), bench.pool, asked, trained) for name in names]
    record_run(folder, bench, describe_model(settings["model"], asked), settings | {"editors": names, "run": str(run)})
    run_evaluation(folder, bench, asked, made, write=write)
    console.print(f"\nOutcomes and tables are in {folder}", markup=False)


def make_editor(  # noqa: PLR0911 - a return an editor
    name: str, pool: Pool, model: LanguageModel, trained: Checkpoint | None
) -> Editor:
    """An editor by its name on the command line. Raises UsageError for an unknown one, or one that needs training."""
    match name:
        case "unedited":
            return Unedited()
        case "factprompt":
            return FactPrompt()
        case "editcot":
            return EditCoT()
        case "editcot-full":
            return EditCoTFull(model)
        case "ike":
            return IKE("IKE", pool, Similarity(), Fraction(1.0), layout="ike")
    if name not in TRAINED:
        raise UsageError(f"there is no editor {name!r}: choose of {', '.join((*PLAIN, 'editcot-full', *TRAINED))}")
    if trained is None:
        raise UsageError(f"{name} needs a trained retriever: run `drike train` first and name its folder with --run")
    match name:
        case "rank-all":
            return IKE("Rank-All", pool, trained.retriever, Fraction(1.0))
        case "rank-50":
            return IKE("Rank-50%", pool, trained.retriever, Fraction(0.5))
    return IKE("DR-IKE", pool, trained.retriever, trained.budget)


def run_evaluation(
    folder: Path, bench: Bench, model: LanguageModel, editors: Sequence[Editor], *, write: bool = False
) -> dict[str, list[Outcome]]:
    """Evaluate every editor on the test edits; show the table and save outcomes, summary and table as they come."""
    cases = bench.parts.test
    if not cases:
        raise UsageError("there is no edit to test on: ask for --test edits")
    _warm(bench, editors, cases)
    outcomes: dict[str, list[Outcome]] = {}
    for editor in editors:
        with progress(editor.name) as (bar, task):
            bar.update(task, total=len(cases))
            outcomes[editor.name] = []
            for case in saved(folder, editor.name, outcomes_of(editor, model, cases, write=write)):
                outcomes[editor.name].extend(case)
                bar.update(task, advance=1)
    show_tables(folder, outcomes, f"{bench.dataset.name}, {len(cases)} test edits, model {model.name}")
    return outcomes


def show_tables(folder: Path, outcomes: dict[str, list[Outcome]], title: str) -> list[Summary]:
    """Draw and save Table 1 with the paper's beside it, and DR-IKE against IKE where both were run."""
    unedited = outcomes.get(Unedited().name, [])
    summaries = [summarise(of_editor, unedited) for of_editor in outcomes.values()]
    tables = [table1(summaries, title), costs(summaries)]
    if "IKE" in outcomes and "DR-IKE" in outcomes:
        tables.append(differences(outcomes["DR-IKE"], outcomes["IKE"]))
    tables.append(published())
    for table in tables:
        draw(table)
    write_text(folder / "table.md", "\n".join(as_markdown(table) for table in tables))
    write_record(folder, "summary.json", {summary.editor: asdict(summary) for summary in summaries})
    return summaries


def _warm(bench: Bench, editors: Sequence[Editor], cases: Sequence[EditCase]) -> None:
    """Encode all that rankers will read in one go, so that seconds per edit are not the first look-up's."""
    candidates = bench.pool.candidates([case.edit for case in cases])
    for retriever in {id(e.ranker): e.ranker for e in editors if isinstance(e, IKE)}.values():
        if isinstance(retriever, Retriever):
            retriever.encoder.encode(sorted({text for one in candidates for text in retriever.texts(one)}))


def settings_of(run: Path | None) -> dict[str, Any]:
    """How a training run was asked for; {} without one. Raises RunError with the remedy."""
    if run is None:
        return {}
    try:
        return dict(json.loads((run / "run.json").read_text("utf-8"))["settings"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunError(
            f"{run} is not a training run ({type(problem).__name__}): give a folder that drike train wrote"
        ) from problem
