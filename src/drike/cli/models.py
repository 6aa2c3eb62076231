"""`drike models`: train and evaluate on several models, on the same edits, and set them side by side (Table 3)."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer

from drike.budget import Threshold
from drike.cli.evaluating import make_editor, run_evaluation
from drike.cli.opening import (
    TINYFACTS,
    Bench,
    PromptTokens,
    Subset,
    UsageError,
    ZsreTarget,
    describe_model,
    limit_to,
    new_run,
    open_bench,
    open_encoder,
    open_model,
    record_run,
)
from drike.cli.serving import template_for
from drike.cli.showing import console, draw, errors
from drike.cli.training import Data, Device, Editable, Encoder, Epochs, Out, Seed, Template, run_training
from drike.encoder import MINILM
from drike.files import write_text
from drike.metrics import Summary, summarise
from drike.models import ModelError
from drike.reinforce import Switches
from drike.report import Table, as_markdown, table1
from drike.report.paper import TABLES
from drike.report.tables import as_published
from drike.report.variants import further
from drike.retriever import Retriever
from drike.runs import slug, write_record

EDITORS = ("ike", "dr-ike")


def models(
    *,
    model: Annotated[list[str], typer.Option("--model", help="As for train; give it once for each model")],
    data: Data = [TINYFACTS],  # noqa: B006 - typer copies it
    out: Out = None,
    edits: Annotated[int | None, typer.Option("--edits", min=1, help="As for train")] = None,
    test: Annotated[int | None, typer.Option("--test", min=1, help="As for train")] = None,
    editable: Editable = None,
    subset: Subset = None,
    zsre_target: ZsreTarget = "alt",
    epochs: Epochs = 5,
    seed: Seed = 0,
    encoder: Encoder = MINILM,
    policy_encoder: Annotated[str | None, typer.Option("--policy-encoder", help="As for train")] = None,
    prompt_tokens: PromptTokens = None,
    template: Template = None,
    device: Device = None,
) -> None:
    """Train DR-IKE and evaluate it and IKE on each model, in a run's folder each; a model that fails is skipped."""
    settings = {name: value for name, value in locals().items() if name != "out"}
    folders = {name: slug(name) for name in model}
    if len(set(folders.values())) < len(model):
        raise UsageError(f"--model must name different models, not {', '.join(model)}")
    if template not in (None, "plain", "chat"):
        raise UsageError(f"--template must be plain or chat, not {template}")
    folder = new_run(out, "models")
    bench = open_bench(
        data, train=edits, test=test, editable=editable, seed=seed, encoder=encoder, subset=subset, target=zsre_target
    )
    record_run(folder, bench, {"asked": model}, settings)
    summaries: dict[str, Mapping[str, Summary]] = {}
    failed: list[str] = []
    for name in model:
        console.print(f"\n{name}", style="bold", markup=False)
        of_model = settings | {"model": name, "template": template_for(name, template)}
        found = _attempt(folder / folders[name], bench, of_model, prompt_tokens)
        if isinstance(found, str):
            failed.append(found)
            _tell(f"Error: {found}")
        else:
            summaries[name] = found
        gc.collect()  # a model's memory is free before the next one is opened
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if summaries:
        tables = _tables(summaries, f"{bench.title}, {len(bench.parts.test)} test edits")
        for table in tables:
            draw(table)
        write_text(folder / "table.md", "\n".join(as_markdown(table) for table in tables))
        record = {name: {s.editor: asdict(s) for s in of_model.values()} for name, of_model in summaries.items()}
        write_record(folder, "summary.json", record)
        console.print(
            f"\nA run's folder for each model is in {folder}. Set them side by side: drike report {folder}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    if failed:
        _tell("\n  ".join([f"{len(failed)} of {len(model)} models failed:", *failed]))
        raise typer.Exit(1)


def _tell(what: str) -> None:
    errors.print(what, style="red", markup=False, highlight=False)


def _attempt(
    folder: Path, bench: Bench, settings: Mapping[str, object], prompt_tokens: int | None
) -> Mapping[str, Summary] | str:
    """Summaries by editor, or in one sentence why this model gave none; what concerns all models is raised."""
    try:
        return _one(folder, bench, settings, prompt_tokens)
    except (ModelError, UsageError) as problem:
        return str(problem)
    except (MemoryError, torch.OutOfMemoryError):
        return f"{settings['model']} needs more memory than there is: take a smaller model, or a card with more"


def _one(
    folder: Path, bench: Bench, settings: Mapping[str, object], prompt_tokens: int | None
) -> Mapping[str, Summary]:
    """Train and evaluate on one model; what it leaves is a training run's folder with outcomes."""
    name, seed = str(settings["model"]), int(str(settings["seed"]))
    device = settings["device"]
    asked = open_model(name, template=str(settings["template"]), device=None if device is None else str(device))
    described, limit = describe_model(name, asked), limit_to(prompt_tokens, asked)
    record_run(folder, bench, described, settings)
    retriever = Retriever(open_encoder(str(settings["policy_encoder"] or settings["encoder"])), seed=seed)
    trained = run_training(
        folder, bench, asked, retriever, Threshold(),
        epochs=int(str(settings["epochs"])), learning_rate=1e-4, switches=Switches(), seed=seed, described=described,
        limit=limit,
    )  # fmt: skip
    editors = [make_editor(editor, bench.pool, asked, trained, limit) for editor in EDITORS]
    outcomes = run_evaluation(folder, bench, asked, editors, further=further)
    return {editor: summarise(of_editor) for editor, of_editor in outcomes.items()}


def _tables(summaries: Mapping[str, Mapping[str, Summary]], title: str) -> Sequence[Table]:
    """Table 3's layout with S and intervals, DR-IKE and then IKE, and the paper's beside it."""
    tables = []
    for editor in ("DR-IKE", "IKE"):
        cells = table1([of_model[editor] for of_model in summaries.values()], "").rows
        rows = tuple((name, esr, pc, rr, s) for name, (_, s, esr, pc, rr, *_) in zip(summaries, cells, strict=True))
        tables.append(Table(f"{editor} by model, {title}", ("Model", "ESR", "PC", "RR", "S"), rows))
    return [*tables, as_published(TABLES[2])]
