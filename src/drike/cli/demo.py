"""`drike demo`: correct a real model, then train, evaluate and edit a small one, offline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated

from drike.cli import models, runs, setups
from drike.cli.commands import MODEL, OUTPUT, command, option
from drike.cli.console import draw, say, this_command
from drike.cli.edit import before_after
from drike.cli.evaluation_view import watch_evaluation
from drike.cli.models import DEFAULTS, OpenedModel
from drike.cli.options import (
    VALUES_OF_MODEL,
    AllowHttp,
    Encoder,
    Epochs,
    ModelOptions,
    Seed,
    TestEdits,
    TrainingEdits,
)
from drike.cli.training_view import watch_query_policy, watch_training
from drike.edits.edit import Aspect, EditCase
from drike.encoders import MINILM, load_encoder
from drike.errors import UsageError
from drike.models import EMBEDDED, READER, ApiOptions
from drike.models.named import NAMED_MODELS, SMOLLM2, is_here
from drike.research.datasets import TINYFACTS
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.catalog import PER_QUERY, SAME_K, UNTRAINED, make
from drike.research.editors.editor import Editor
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.retriever import Retriever
from drike.research.evaluation.judge import Judge
from drike.research.evaluation.metrics import Outcome
from drike.research.runs import checkpoint
from drike.research.runs.folders import has_records
from drike.research.runs.method import Method, new_editor
from drike.research.runs.run import Run
from drike.research.runs.setup import Setup

_INTRODUCTION = (
    "TinyFacts: real facts, and a small model whose in-context behaviour was trained in from a "
    "stated document\nmodel. These numbers show the machinery at work; they are no evidence for "
    "claims about large models.\n"
)


@command(VALUES_OF_MODEL)
def demo(
    *,
    edits: TrainingEdits = 200,
    test: TestEdits = 100,
    seed: Seed = 0,
    model: Annotated[
        str | None,
        option(
            "--model",
            "MODEL",
            MODEL,
            "Only correct this model, or the one of the API at a URL; or, with embedded or reader, "
            "only train (default: smollm2, then embedded)",
        ),
    ] = None,
    epochs: Epochs = 5,
    encoder: Encoder = MINILM,
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", OUTPUT, "Of the run (default: runs/demo, else -2, ...)"),
    ] = None,
    allow_http: AllowHttp = False,
) -> None:
    """Correct a real model about ten facts; train DR-IKE on TinyFacts and evaluate it."""
    if model not in (None, EMBEDDED, READER):
        from drike.cli.ten_facts_view import show_ten_facts

        show_ten_facts(model, allow_http=allow_http)
        return
    if test < 1:
        raise UsageError("--test must be at least 1, not 0")
    folder = runs.new_run(out or _new_folder(), "demo")
    if model is None:
        _correct_a_real_model()
        model = EMBEDDED
    data = replace(DEFAULTS, seed=seed, encoder=encoder)
    setup = setups.open_setup(data, train=edits, test=test)
    opened = models.open_model(ModelOptions(model), ApiOptions(), data)
    settings = {
        "data": [TINYFACTS],
        "model": model,
        "edits": edits,
        "test": test,
        "epochs": epochs,
        "seed": seed,
        "encoder": encoder,
        "template": "plain",
        "judge": Judge(opened.model).rule.name,
    }
    _train_and_compare(folder, setup, opened, Method(epochs=epochs), settings)


def _train_and_compare(
    folder: Path,
    setup: Setup,
    opened: OpenedModel,
    method: Method,
    settings: Mapping[str, object],
) -> None:
    """Train both policies, compare them with the other editors, and show one edit."""
    say(_INTRODUCTION)
    with runs.alone_at(folder, None):
        trained = _train(folder, setup, opened, method, settings)
        say("\nEvaluating on edits that were not trained on")
        editors = _editors(setup, trained)
        evaluation = watch_evaluation(folder, setup, opened.model, editors, sample=5)
        say("On another processor DR-IKE-Q's figures may differ by up to .005.")

    case = _case_that_took(setup, evaluation.outcomes["DR-IKE"])
    [dr_ike] = [editor for editor in editors if editor.name == "DR-IKE"]
    gate = trained.per_query.gate if trained.per_query else None
    edited = EditedModel(opened.model, dr_ike, case.edit, gate=gate)
    _show_edit(case, edited)
    _say_what_is_next(folder, case)


def _correct_a_real_model() -> None:
    """Show ten facts before and after a real chat model is corrected, if one is here."""
    if not is_here(SMOLLM2):
        install = NAMED_MODELS[SMOLLM2].installation
        say(f"A real chat model would be corrected here, once it is installed: {install}\n")
        return
    from drike.cli.ten_facts_view import show_ten_facts

    show_ten_facts(SMOLLM2)
    say("")


def _new_folder() -> Path:
    """The first of runs/demo, runs/demo-2, ... that holds no run."""
    for number in count(1):
        folder = Path("runs") / (f"demo-{number}" if number > 1 else "demo")
        if not has_records(folder):
            return folder
    raise AssertionError("numbers do not end")


def _train(
    folder: Path,
    setup: Setup,
    opened: OpenedModel,
    method: Method,
    settings: Mapping[str, object],
) -> checkpoint.Checkpoint:
    """Train both policies, in a run whose record names the editors that will be compared."""
    text_encoder = load_encoder(str(settings["encoder"]))
    editor = new_editor(method, setup, text_encoder)
    retriever = editor.selector.ranker
    assert isinstance(retriever, Retriever)  # noqa: S101 - it has one
    untrained = checkpoint.Checkpoint(
        retriever,
        editor.selector.budget,
        per_query=QueryPolicy.untrained(text_encoder, setup.pool.roles),
    )
    names = [editor.name for editor in _editors(setup, untrained)]
    Run.create(folder, setup, opened.described, {**settings, "editors": names})
    watch_training(folder, setup, opened, editor, method)
    watch_query_policy(folder, setup, opened.model, editor, method)
    return checkpoint.load(folder, encoder=text_encoder)


def _editors(setup: Setup, trained: checkpoint.Checkpoint) -> list[Editor]:
    names = (*UNTRAINED, "rank-50", "dr-ike", SAME_K, PER_QUERY)
    return [make(name, pool=setup.pool, trained=trained) for name in names]


def _case_that_took(setup: Setup, outcomes: Sequence[Outcome]) -> EditCase:
    """The first test edit all of whose own questions were answered rightly; else the first one."""
    failed = {
        outcome.case_id
        for outcome in outcomes
        if outcome.aspect is not Aspect.NEIGHBORHOOD and not outcome.correct
    }
    took = [case for case in setup.split.test if case.case_id not in failed]
    return took[0] if took else setup.split.test[0]


def _show_edit(case: EditCase, edited: EditedModel) -> None:
    edit = case.edit
    say(f"\nAn edit that took: {edit.query} {edit.target_true} -> {edit.target_new}")
    draw(before_after(edited, [probe.query for probe in case.probes[:5]]))


def _say_what_is_next(folder: Path, case: EditCase) -> None:
    drike = this_command()
    fact = f"{case.edit.query} -> {case.edit.target_new}"
    say(
        f"Saved in {folder}. Next:\n"
        f"  {drike} report {folder}\n"
        f'  {drike} edit --run {folder} --explain --fact "{fact}"\n'
        f"  {drike} train --help"
    )
