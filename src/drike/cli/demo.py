"""`drike demo`: the whole job on the embedded model, offline: train, evaluate, edit."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from drike.cli.console import draw, say, this_command
from drike.cli.edit import before_after
from drike.cli.encoding import WatchedEncoder
from drike.cli.evaluate import watch_evaluation
from drike.cli.opening import describe_model, new_run, open_setup
from drike.cli.options import command
from drike.cli.recording import alone_at
from drike.cli.train import watch_query_policy, watch_training
from drike.datasets import TINYFACTS
from drike.deployment.edited_model import EditedModel
from drike.editors.catalog import PER_QUERY, SAME_K, UNTRAINED, make
from drike.editors.editor import Editor
from drike.editors.retriever import Retriever
from drike.edits import Aspect
from drike.encoders import MINILM
from drike.errors import UsageError
from drike.evaluation.judge import Judge
from drike.gates.policy import QueryPolicy
from drike.models import EMBEDDED, load
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import has_records
from drike.runs.run import Run, Setup
from drike.runs.training import Method, new_editor


@command()
def demo(
    *, seed: int = 0, edits: int = 300, test: int = 100, epochs: int = 5, model: str = EMBEDDED, encoder: str = MINILM,
    out: Path | None = None,
) -> None:  # fmt: skip
    """Train DR-IKE on TinyFacts with the embedded model, print the paper's table, and edit one fact."""
    if test < 1:
        raise UsageError("--test must be at least 1, not 0")
    folders = (Path("runs") / (f"demo-{number}" if number > 1 else "demo") for number in count(1))
    folder = new_run(out or next(folder for folder in folders if not has_records(folder)), "demo")
    setup = open_setup([TINYFACTS], train=edits, test=test, seed=seed, encoder=encoder)
    opened = load(model)
    settings = {
        "data": [TINYFACTS], "model": model, "edits": edits, "test": test, "epochs": epochs, "seed": seed,
        "encoder": encoder, "template": "plain", "judge": Judge(opened).rule.name,
    }  # fmt: skip
    described = describe_model(model, opened)
    say(
        "TinyFacts: real facts, and a small model whose in-context behaviour was trained in from a stated document\n"
        "model. These numbers show the machinery at work; they are no evidence for claims about large models.\n"
    )
    method, watched = Method(epochs=epochs), WatchedEncoder(encoder)
    with alone_at(folder, None):
        editor = new_editor(method, setup, watched, seed=seed)
        retriever, budget = editor.selector.ranker, editor.selector.budget
        assert isinstance(retriever, Retriever)  # noqa: S101 - it has one
        untrained = QueryPolicy.untrained(watched, setup.pool.roles)
        planned = _editors(setup, Checkpoint(retriever, budget, per_query=untrained))
        Run.create(folder, setup, described, settings | {"editors": [editor.name for editor in planned]})
        watch_training(folder, setup, opened, editor, method, described=described)
        watch_query_policy(folder, setup, opened, editor, method)
        trained = checkpoint.load(folder, encoder=watched)
        say("\nEvaluating on edits that were not trained on")
        editors = _editors(setup, trained)
        outcomes = watch_evaluation(folder, setup, opened, editors, sample=5).outcomes
        say("On another processor DR-IKE-Q's figures may differ by up to .005.")
    failed = {o.case_id for o in outcomes["DR-IKE"] if o.aspect is not Aspect.NEIGHBORHOOD and not o.correct}
    case = next((case for case in setup.split.test if case.case_id not in failed), setup.split.test[0])
    dr_ike = next(editor for editor in editors if editor.name == "DR-IKE")
    gate = trained.per_query.gate if trained.per_query else None
    drike, edited = this_command(), EditedModel(opened, dr_ike, case.edit, gate=gate)
    say(f"\nAn edit that took: {case.edit.query} {case.edit.target_true} -> {case.edit.target_new}")
    draw(before_after(edited, [probe.query for probe in case.probes[:5]]))
    say(
        f"Saved in {folder}. Next:\n  {drike} report {folder}\n  {drike} edit --run {folder} --explain "
        f'--fact "{case.edit.query} -> {case.edit.target_new}"\n  {drike} train --help'
    )


def _editors(setup: Setup, trained: Checkpoint) -> list[Editor]:
    names = (*UNTRAINED, "rank-50", "dr-ike", SAME_K, PER_QUERY)
    return [make(name, pool=setup.pool, trained=trained) for name in names]
