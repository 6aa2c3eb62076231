"""`drike edit`: edit a model by hand and ask it, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drike.cli.console import NOTHING, console, draw, say
from drike.cli.dry_run import count_only
from drike.cli.edits import parse_fact
from drike.cli.encoding import watched_encoder
from drike.cli.opening import DEFAULTS, open_model, open_setup, open_trained_run
from drike.cli.options import RUN_DECIDES, VALUES, GateOptions, ModelOptions, RunOptions, command
from drike.cli.recording import metered
from drike.datasets import TINYFACTS
from drike.deployment.edited_model import EditedModel
from drike.editors.catalog import NO_RETAINS, make
from drike.edits import Edit, EditCase
from drike.errors import UsageError
from drike.gates.by_name import EveryQuery
from drike.gates.store_gate import open_gate
from drike.models.served.spending import ApiOptions
from drike.support.table import Table
from drike.words import mentions


@command(f"{RUN_DECIDES}\n\n{VALUES}")
def edit(
    *, fact: list[str], ask: list[str] | None = None, subject: list[str] | None = None, run: Path | None = None,
    data: list[str] | None = None, pool: list[str] | None = None, model: ModelOptions, editor: str | None = None,
    encoder: str | None = None, gating: GateOptions, every_query: bool = False, explain: bool = False,
    show_prompt: bool = False, api: ApiOptions, dry_run: bool = False,
) -> None:  # fmt: skip
    """Edit a model in its prompt and show its answers before and after; queries that concern no edit are left alone."""
    base = open_trained_run(run) if run else None
    if subject and len(subject) != len(fact):
        raise UsageError(f"{len(fact)} --fact and {len(subject)} --subject: give every fact its subject, in order")
    if every_query and (gating.gate or gating.gate_threshold is not None):
        raise UsageError("--every-query asks no gate: leave it out, or --gate and --gate-threshold")
    earlier = base.run if base else DEFAULTS
    setup = open_setup(
        data or earlier.data, encoder=encoder or earlier.encoder, seed=earlier.seed,
        split=base.split if base and data is pool is None else None, train=0, test=0, target=earlier.zsre_target,
        paraphrases=earlier.paraphrases, pool=pool or (earlier.pool if data is None else None),
        editable=0 if data and data != [TINYFACTS] else None,  # all rows of other data may demonstrate
    )  # fmt: skip
    opened = open_model(model, api, earlier, at=RunOptions(dry_run=dry_run))
    name = editor.casefold() if editor else "dr-ike" if base else "ike" if every_query else NO_RETAINS
    trained = base.trained if base else None
    chosen = make(name, pool=setup.pool, trained=trained, limit=opened.limit)
    edits = _edits(fact, subject, setup.dataset.cases, need_subjects=not every_query)
    policy = trained.per_query if trained and gating.gate is None and gating.gate_threshold is None else None
    gate = policy.gate if policy else open_gate(None, gating.gate, gating.gate_threshold)
    decider = EveryQuery() if every_query else gate
    edited = EditedModel(opened.model, chosen, edits, gate=decider, encoder=watched_encoder(decider, gating.relations))
    for made in edits:
        about = f", about {made.subject}" if made.subject else ""
        say(f'Edit: "{made.query}" -> "{made.target_new}"{about} (by {chosen.name})')
    queries = ask or [made.query for made in edits]
    if count_only(opened.model, opened.api, lambda counting: before_after(edited, queries)):
        return
    with metered(opened.model):
        draw(before_after(edited, queries))
        for query in queries:
            if explain:
                console.print("", edited.explain(query), sep="\n")
            if show_prompt:
                console.rule("prompt")
                say(edited.prompt(query).text)


def _edits(
    facts: Sequence[str], subjects: Sequence[str] | None, cases: Sequence[EditCase], *, need_subjects: bool
) -> list[Edit]:
    """The edits of --fact and --subject. Raises UsageError for facts that contradict each other or lack a subject."""
    edits = [parse_fact(text, cases) for text in facts]
    for place, subject in enumerate(subjects or ()):
        if not mentions(edits[place].query, subject):
            where = repr(edits[place].query)
            raise UsageError(f"--subject {subject!r} does not occur in {where}: copy the subject from there")
        edits[place] = replace(edits[place], subject=subject)
    [(query, count), *_] = Counter(edit.query for edit in edits).most_common(1)
    if count > 1:
        raise UsageError(f"{query!r} is given two new objects: give one --fact for it")
    if need_subjects and (without := next((edit.fact for edit in edits if edit.subject is None), None)):
        remedy = "give every fact its --subject, or put every query under the edits with --every-query"
        raise UsageError(f"the subject of {without!r} is not known: {remedy}")
    return edits


def before_after(edited: EditedModel, queries: Sequence[str]) -> Table:
    """For each query the model's answers before and after the edits, and why they apply or not."""
    answered = edited.before_after(queries)
    rows = tuple((a.decision.query, a.before or NOTHING, a.after or NOTHING, a.reason) for a in answered)
    return Table("", ("query", "before", "after", "decision"), rows, wide=True)
