"""`drike edit`: edit a model by hand and ask it; and `drike demo`: train, evaluate and edit offline."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from drike.cli import running
from drike.cli.console import NOTHING, console, draw, say, this_command
from drike.cli.dry_run import count_only
from drike.cli.edits import parse_fact
from drike.cli.experiments import watch_evaluation, watch_query_policy, watch_training
from drike.cli.options import (
    RUN_DECIDES,
    VALUES,
    DataOptions,
    GateOptions,
    ModelOptions,
    RunOptions,
    command,
)
from drike.edits.edit import Aspect, Edit, EditCase
from drike.encoders import MINILM, load_encoder
from drike.errors import UsageError
from drike.gates.by_name import EveryQuery
from drike.live.store_gate import encoder_of, open_gate
from drike.models import EMBEDDED, ApiOptions
from drike.research.datasets import TINYFACTS
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.catalog import NO_RETAINS, PER_QUERY, SAME_K, UNTRAINED, make
from drike.research.editors.editor import Editor
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.retriever import Retriever
from drike.research.evaluation.judge import Judge
from drike.research.runs import checkpoint
from drike.research.runs.run import Run, Setup, has_records
from drike.research.runs.training import Method, new_editor
from drike.support.table import Table
from drike.text.words import mentions


@command(f"{RUN_DECIDES}\n\n{VALUES}")
def edit(
    *, fact: list[str], ask: list[str] | None = None, subject: list[str] | None = None, run: Path | None = None,
    data: list[str] | None = None, pool: list[str] | None = None, model: ModelOptions, editor: str | None = None,
    encoder: str | None = None, gating: GateOptions, every_query: bool = False, explain: bool = False,
    show_prompt: bool = False, api: ApiOptions, dry_run: bool = False,
) -> None:  # fmt: skip
    """Edit a model in its prompt and show its answers before and after; queries that concern no edit are left alone."""
    base = running.open_trained_run(run) if run else None
    trained, earlier = (base.trained, base.run) if base else (None, running.DEFAULTS)
    if subject and len(subject) != len(fact):
        raise UsageError(
            f"{len(fact)} --fact and {len(subject)} --subject: give every fact its subject, in order"
        )
    if every_query and (gating.gate or gating.relations or gating.gate_threshold is not None):
        raise UsageError(
            "--every-query asks no gate: leave it out, or --gate, --gate-threshold and --relations"
        )
    setup = running.open_setup(
        running.data_settings(earlier, DataOptions(data, pool), encoder), train=0, test=0,
        split=base.split if base and data is pool is None else None,
        editable=0 if data and data != [TINYFACTS] else None,  # all rows of other data may demonstrate
    )  # fmt: skip
    opened = running.open_model(model, api, earlier, at=RunOptions(dry_run=dry_run))
    name = (
        editor.casefold() if editor else "dr-ike" if base else "ike" if every_query else NO_RETAINS
    )
    chosen = make(name, pool=setup.pool, trained=trained, limit=opened.limit)
    edits = _edits(fact, subject, setup.dataset.cases, need_subjects=not every_query)
    policy = (
        trained.per_query
        if trained and gating.gate is None and gating.gate_threshold is None
        else None
    )
    gate = policy.gate if policy else open_gate(None, gating.gate, gating.gate_threshold)
    decider = EveryQuery() if every_query else gate
    edited = EditedModel(
        opened.model, chosen, edits, gate=decider, encoder=encoder_of(decider, gating.relations)
    )
    for made in edits:
        about = f", about {made.subject}" if made.subject else ""
        say(f'Edit: "{made.query}" -> "{made.target_new}"{about} (by {chosen.name})')
    queries = ask or [made.query for made in edits]
    if count_only(opened.model, opened.api, lambda counting: before_after(edited, queries)):
        return
    with running.metered(opened.model):
        draw(before_after(edited, queries))
        for query in queries:
            if explain:
                console.print("", edited.explain(query), sep="\n")
            if show_prompt:
                console.rule("prompt")
                say(edited.prompt(query).text)


def _edits(
    facts: Sequence[str],
    subjects: Sequence[str] | None,
    cases: Sequence[EditCase],
    *,
    need_subjects: bool,
) -> list[Edit]:
    """The edits of --fact and --subject. Raises UsageError for facts that contradict each other or lack a subject."""
    edits = [parse_fact(text, cases) for text in facts]
    for place, (made, subject) in enumerate(zip(edits, subjects or (), strict=False)):
        if not mentions(made.query, subject):
            raise UsageError(
                f"--subject {subject!r} does not occur in {made.query!r}: copy the subject from there"
            )
        edits[place] = replace(made, subject=subject)
    [(query, count), *_] = Counter(edit.query for edit in edits).most_common(1)
    if count > 1:
        raise UsageError(f"{query!r} is given two new objects: give one --fact for it")
    if need_subjects and (
        without := next((edit.fact for edit in edits if edit.subject is None), None)
    ):
        remedy = (
            "give every fact its --subject, or put every query under the edits with --every-query"
        )
        raise UsageError(f"the subject of {without!r} is not known: {remedy}")
    return edits


def before_after(edited: EditedModel, queries: Sequence[str]) -> Table:
    """For each query the model's answers before and after the edits, and why they apply or not."""
    answered = edited.before_after(queries)
    rows = tuple(
        (a.decision.query, a.before or NOTHING, a.after or NOTHING, a.reason) for a in answered
    )
    return Table("", ("query", "before", "after", "decision"), rows, wide=True)


@command()
def demo(
    *, seed: int = 0, edits: int = 300, test: int = 100, epochs: int = 5, model: str = EMBEDDED, encoder: str = MINILM,
    out: Path | None = None,
) -> None:  # fmt: skip
    """Train DR-IKE on TinyFacts with the embedded model, print the paper's table, and edit one fact."""
    if test < 1:
        raise UsageError("--test must be at least 1, not 0")
    folders = (Path("runs") / (f"demo-{number}" if number > 1 else "demo") for number in count(1))
    folder = running.new_run(
        out or next(folder for folder in folders if not has_records(folder)), "demo"
    )
    of_data = replace(running.DEFAULTS, seed=seed, encoder=encoder)
    setup = running.open_setup(of_data, train=edits, test=test)
    opened = running.open_model(ModelOptions(model), ApiOptions(), of_data)
    settings = {
        "data": [TINYFACTS], "model": model, "edits": edits, "test": test, "epochs": epochs, "seed": seed,
        "encoder": encoder, "template": "plain", "judge": Judge(opened.model).rule.name,
    }  # fmt: skip
    say(
        "TinyFacts: real facts, and a small model whose in-context behaviour was trained in from a stated document\n"
        "model. These numbers show the machinery at work; they are no evidence for claims about large models.\n"
    )
    method, text_encoder = Method(epochs=epochs), load_encoder(encoder)
    with running.alone_at(folder, None):
        editor = new_editor(method, setup, text_encoder)
        retriever, budget = editor.selector.ranker, editor.selector.budget
        assert isinstance(retriever, Retriever)  # noqa: S101 - it has one
        untrained = QueryPolicy.untrained(text_encoder, setup.pool.roles)
        planned = _editors(setup, checkpoint.Checkpoint(retriever, budget, per_query=untrained))
        Run.create(
            folder,
            setup,
            opened.described,
            settings | {"editors": [editor.name for editor in planned]},
        )
        watch_training(folder, setup, opened, editor, method)
        watch_query_policy(folder, setup, opened.model, editor, method)
        trained = checkpoint.load(folder, encoder=text_encoder)
        say("\nEvaluating on edits that were not trained on")
        editors = _editors(setup, trained)
        outcomes = watch_evaluation(folder, setup, opened.model, editors, sample=5).outcomes
        say("On another processor DR-IKE-Q's figures may differ by up to .005.")
    failed = {
        o.case_id
        for o in outcomes["DR-IKE"]
        if o.aspect is not Aspect.NEIGHBORHOOD and not o.correct
    }
    case = next(
        (case for case in setup.split.test if case.case_id not in failed), setup.split.test[0]
    )
    dr_ike = next(editor for editor in editors if editor.name == "DR-IKE")
    gate = trained.per_query.gate if trained.per_query else None
    drike, edited = this_command(), EditedModel(opened.model, dr_ike, case.edit, gate=gate)
    say(f"\nAn edit that took: {case.edit.query} {case.edit.target_true} -> {case.edit.target_new}")
    draw(before_after(edited, [probe.query for probe in case.probes[:5]]))
    say(
        f"Saved in {folder}. Next:\n  {drike} report {folder}\n  {drike} edit --run {folder} --explain "
        f'--fact "{case.edit.query} -> {case.edit.target_new}"\n  {drike} train --help'
    )


def _editors(setup: Setup, trained: checkpoint.Checkpoint) -> list[Editor]:
    names = (*UNTRAINED, "rank-50", "dr-ike", SAME_K, PER_QUERY)
    return [make(name, pool=setup.pool, trained=trained) for name in names]
