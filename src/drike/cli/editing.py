"""`drike edit`: edit a model by hand and ask it, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from drike import checkpoint
from drike.cli.evaluating import make_editor, settings_of
from drike.cli.opening import EMBEDDED, TINYFACTS, UsageError, open_bench, open_model
from drike.cli.showing import console, draw
from drike.cli.training import Device
from drike.edited import EditedModel
from drike.editors.unedited import Unedited
from drike.edits import Edit, EditCase
from drike.encoder import MINILM
from drike.models import LanguageModel
from drike.report import Table

_ARROW = "->"


def edit(
    *,
    fact: Annotated[
        list[str],
        typer.Option(
            "--fact", help='The new fact: "The capital of Peru is -> Oslo". Without ->, its last word is the object'
        ),
    ],
    ask: Annotated[list[str] | None, typer.Option("--ask", help="A query to complete; default the fact's own")] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="A training run: edits by its DR-IKE. Default: IKE, untrained")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Where demonstrations come from; default tinyfacts")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="As for train; default the run's, or embedded")] = None,
    editor: Annotated[
        str | None, typer.Option("--editor", help="An editor as in evaluate; default dr-ike with --run, else ike")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show which demonstrations were chosen, and why")] = False,
    show_prompt: Annotated[bool, typer.Option("--show-prompt", help="Print the prompt of each query")] = False,
    gate: Annotated[bool, typer.Option("--gate", help="Leave queries that name no edited subject alone")] = False,
    device: Device = None,
) -> None:
    """Edit a model in its prompt and show its answers before and after."""
    before = settings_of(run)
    bench = open_bench(
        data or before.get("data") or [TINYFACTS], train=before.get("edits"), test=before.get("test"),
        editable=before.get("editable"), seed=before.get("seed", 0), encoder=before.get("encoder") or MINILM,
    )  # fmt: skip
    name = model or before.get("model") or EMBEDDED
    asked = open_model(name, template=before.get("template") or "plain", device=device)
    trained = checkpoint.load(run / "checkpoint") if run is not None else None
    chosen = make_editor(editor or ("dr-ike" if trained else "ike"), bench.pool, asked, trained)
    edits = [parse_fact(text, bench.dataset.cases) for text in fact]
    try:
        edited = EditedModel(asked, chosen, edits, gate=gate)
    except ValueError as problem:
        raise UsageError(str(problem)) from problem
    for one in edited.edits:
        console.print(f"Edit: {one.query} -> {one.target_new}   (by {chosen.name})", markup=False)
    show_before_after(asked, edited, ask or [one.query for one in edited.edits])
    for query in ask or [one.query for one in edited.edits]:
        if explain:
            console.print(edited.explain(query))
        if show_prompt:
            console.rule("prompt")
            console.print(edited.prompt(query).text, markup=False)


def show_before_after(model: LanguageModel, edited: EditedModel, queries: Sequence[str]) -> None:
    """A row a query: the answer of the model as it is, and under the edits."""
    plain = EditedModel(model, Unedited(), edited.edits)
    rows = tuple((query, plain.ask(query), edited.ask(query)) for query in queries)
    draw(Table("", ("query", "before", "after"), rows, wide=True))


def parse_fact(text: str, cases: Sequence[EditCase]) -> Edit:
    """An edit from a sentence; its subject and relation are taken from the data set where it knows them.

    Raises UsageError if there is no query or no object.
    """
    query, arrow, target = (part.strip() for part in text.partition(_ARROW))
    if not arrow:
        query, _, target = text.strip().rstrip(".").rpartition(" ")
    if not query or not target:
        raise UsageError(f'{text!r} is not a fact: write it as "The capital of Peru is -> Oslo"')
    known = next((case.edit for case in cases if query in {probe.query for probe in case.probes[:3]}), None)
    if known is not None and known.subject is not None and known.subject in query:
        return Edit(query, target, known.target_true, known.subject, known.relation)
    subjects = {case.edit.subject for case in cases if case.edit.subject and case.edit.subject in query}
    return Edit(query, target, subject=max(subjects, key=len, default=None))
