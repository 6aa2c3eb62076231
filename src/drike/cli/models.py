"""`drike models`: train and evaluate on several models, on the same edits, and set them side by side (Table 3)."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from drike.cli.api_options import ApiOptions, DryRun, metered, spent_in, template_for, with_api_options
from drike.cli.console import console, draw, errors
from drike.cli.dry_run import count_training, counting_model, show_bound
from drike.cli.evaluate import run_evaluation
from drike.cli.resume import options_in
from drike.cli.setup import (
    TINYFACTS,
    PromptTokens,
    Setup,
    Subset,
    ZsreTarget,
    describe_model,
    limit_to,
    new_run,
    open_encoder,
    open_model,
    open_setup,
    record_run,
)
from drike.cli.train import Data, Device, Editable, Encoder, Epochs, Out, Seed, Template, run_training
from drike.editors import make
from drike.editors.ike import IKE
from drike.encoders import MINILM
from drike.errors import ModelError, SpendingLimitError, UsageError
from drike.evaluation import evaluate
from drike.files import write_text
from drike.metrics import Summary, summarise
from drike.prompts import PromptStyle
from drike.report import Table, as_markdown, table1
from drike.report.paper import TABLES
from drike.report.tables import published
from drike.report.variants import further
from drike.retrieval.budget import Fraction, Threshold
from drike.retrieval.retriever import Retriever, Similarity
from drike.runs.folder import slug, write_record
from drike.training.reinforce import Switches

EDITORS = ("ike", "dr-ike")


@with_api_options
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
    dry_run: DryRun = False,
    terms: ApiOptions,
) -> None:
    """Train DR-IKE and evaluate it and IKE on each model, in a run's folder each; a model that fails is skipped.

    Limits on calls and money are for all models together, and the same prices are taken for each.
    """
    settings = options_in(locals())
    folders = {name: slug(name) for name in model}
    if len(set(folders.values())) < len(model):
        raise UsageError(f"--model must name different models, not {', '.join(model)}")
    if template not in (None, "plain", "chat"):
        raise UsageError(f"--template must be plain or chat, not {template}")
    folder = new_run(out, "models")
    setup = open_setup(
        data, train=edits, test=test, editable=editable, seed=seed, encoder=encoder, subset=subset, target=zsre_target
    )
    if dry_run:
        for name in model:
            _bound(setup, settings | {"model": name, "template": template_for(name, template)}, terms)
        return
    record_run(folder, setup, {"asked": model}, settings)
    summaries: dict[str, Mapping[str, Summary]] = {}
    failed: list[str] = []
    spent: SpendingLimitError | None = None
    for name in model:
        console.print(f"\n{name}", style="bold", markup=False)
        of_model = settings | {"model": name, "template": template_for(name, template)}
        found = _attempt(folder / folders[name], setup, of_model, terms)
        terms = terms.after(spent_in(folder / folders[name]))
        if isinstance(found, SpendingLimitError):
            spent = found
            break  # the limit is for all of them
        if isinstance(found, str):
            failed.append(found)
            _tell(f"Error: {found}")
        else:
            summaries[name] = found
        gc.collect()  # a model's memory is free before the next one is opened
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if summaries:
        _show(folder, summaries, f"{setup.title}, {len(setup.parts.test)} test edits")
    if spent is not None:
        raise spent
    if failed:
        _tell("\n  ".join([f"{len(failed)} of {len(model)} models failed:", *failed]))
        raise typer.Exit(1)


def _show(folder: Path, summaries: Mapping[str, Mapping[str, Summary]], title: str) -> None:
    """Draw and save the models side by side."""
    tables = _tables(summaries, title)
    for table in tables:
        draw(table)
    write_text(folder / "table.md", "\n".join(as_markdown(table) for table in tables))
    record = {name: {s.editor: asdict(s) for s in of_model.values()} for name, of_model in summaries.items()}
    write_record(folder, "summary.json", record)
    console.print(
        f"\nA run's folder for each model is in {folder}. Set them side by side: drike report {folder}",
        markup=False, soft_wrap=True,
    )  # fmt: skip


def _tell(what: str) -> None:
    errors.print(what, style="red", markup=False, highlight=False)


def _bound(setup: Setup, settings: Mapping[str, Any], terms: ApiOptions) -> None:
    """Show what training and evaluating on one model would cost at most."""
    name, template = settings["model"], settings["template"]
    training, testing = counting_model(name, template, terms), counting_model(name, template, terms)
    limit = limit_to(settings["prompt_tokens"], training, terms.tokenizer, template)
    candidates = setup.pool.candidates([case.edit for case in setup.parts.train])
    count_training(training.tally, candidates, Threshold().max_shots, PromptStyle(), limit)
    # Whatever is learned, DR-IKE shows no more than all retains; under a limit it may choose those that fill it best.
    longest = IKE("DR-IKE", setup.pool, Similarity(), Fraction(1.0))
    for editor in (make("ike", pool=setup.pool), longest):
        list(evaluate(editor, testing, setup.parts.test))
    show_bound(training.tally, terms, settings["epochs"], f"Training on {name}: at most; nothing was sent")
    show_bound(testing.tally, terms, title=f"Evaluating on {name}: at most; nothing was sent")


def _attempt(
    folder: Path, setup: Setup, settings: Mapping[str, object], terms: ApiOptions
) -> Mapping[str, Summary] | SpendingLimitError | str:
    """Summaries by editor, or in one sentence why this model gave none; what concerns all models is raised."""
    try:
        return _one(folder, setup, settings, terms)
    except SpendingLimitError as problem:
        return problem
    except (ModelError, UsageError) as problem:
        return str(problem)
    except (MemoryError, torch.OutOfMemoryError):
        return f"{settings['model']} needs more memory than there is: take a smaller model, or a card with more"


def _one(folder: Path, setup: Setup, settings: Mapping[str, Any], terms: ApiOptions) -> Mapping[str, Summary]:
    """Train and evaluate on one model; what it leaves is a training run's folder with outcomes."""
    name, seed = settings["model"], settings["seed"]
    asked = open_model(name, template=settings["template"], device=settings["device"], terms=terms)
    limit = limit_to(settings["prompt_tokens"], asked, terms.tokenizer, settings["template"])
    described = describe_model(name, asked)
    record_run(folder, setup, described, settings)
    retriever = Retriever(open_encoder(settings["policy_encoder"] or settings["encoder"]), seed=seed)
    with metered(asked, "training and evaluation", folder):
        trained = run_training(
            folder, setup, asked, retriever, Threshold(),
            epochs=settings["epochs"], learning_rate=1e-4, switches=Switches(), seed=seed, described=described,
            limit=limit,
        )  # fmt: skip
        editors = [make(editor, pool=setup.pool, trained=trained, limit=limit) for editor in EDITORS]
        outcomes = run_evaluation(folder, setup, asked, editors, further=further)
    return {editor: summarise(of_editor) for editor, of_editor in outcomes.items()}


def _tables(summaries: Mapping[str, Mapping[str, Summary]], title: str) -> Sequence[Table]:
    """Table 3's layout with S and intervals, DR-IKE and then IKE, and the paper's beside it."""
    tables = []
    for editor in ("DR-IKE", "IKE"):
        cells = table1([of_model[editor] for of_model in summaries.values()], "").rows
        rows = tuple((name, esr, pc, rr, s) for name, (_, s, esr, pc, rr, *_) in zip(summaries, cells, strict=True))
        tables.append(Table(f"{editor} by model, {title}", ("Model", "ESR", "PC", "RR", "S"), rows))
    return [*tables, published(TABLES[2])]
