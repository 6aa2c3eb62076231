"""`drike edit`: edit a model by hand and ask it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from drike.cli import models, setups
from drike.cli.commands import DATA, METHOD, OUTPUT, command, flag, option
from drike.cli.console import NOTHING, console, draw, say
from drike.cli.dry_run import count_only
from drike.cli.models import DEFAULTS, OpenedModel
from drike.cli.options import (
    RUN_DECIDES,
    VALUES,
    AnyEncoder,
    ApiFlags,
    Data,
    DataOptions,
    DryRun,
    GateOptions,
    ModelOptions,
    PoolRows,
    RunOptions,
    TrainingRun,
)
from drike.cli.stored_edits import parse_fact
from drike.edits.edit import Edit, EditCase
from drike.errors import UsageError
from drike.gates.by_name import EveryQuery
from drike.gates.decision import Gate
from drike.live.store_gate import encoder_of, open_gate
from drike.research.datasets import TINYFACTS
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.catalog import NO_RETAINS, make
from drike.research.editors.editor import Editor
from drike.research.runs.run import TrainedRun
from drike.research.runs.setup import Setup
from drike.support.table import Table
from drike.text.words import mentions


@dataclass(frozen=True)
class FactOptions:
    """The facts of edits, and their subjects."""

    fact: Annotated[
        list[str],
        option(
            "--fact",
            "FACT",
            DATA,
            'The new fact, as "QUERY -> OBJECT"; repeat it to make several edits',
        ),
    ]
    subject: Annotated[
        list[str] | None,
        option(
            "--subject",
            "NAME",
            DATA,
            "Subject of each --fact, in order (default: found in the data)",
        ),
    ] = None


@dataclass(frozen=True)
class ExplanationOptions:
    """What is shown beside the answers."""

    explain: Annotated[
        bool, flag("--explain", OUTPUT, "Show which demonstrations were chosen, and why")
    ] = False
    show_prompt: Annotated[bool, flag("--show-prompt", OUTPUT, "Print the prompts")] = False


@command(f"{RUN_DECIDES}\n\n{VALUES}")
def edit(
    *,
    facts: FactOptions,
    run: TrainingRun = None,
    data: Data = None,
    pool: PoolRows = None,
    ask: Annotated[
        list[str] | None,
        option(
            "--ask",
            "QUERY",
            DATA,
            "A query to complete before and after (default: the fact's own); repeatable",
        ),
    ] = None,
    model: ModelOptions,
    editor: Annotated[
        str | None,
        option(
            "--editor",
            "NAME",
            METHOD,
            "Editor (default: dr-ike with --run, else no-retains; ike with --every-query)",
        ),
    ] = None,
    gating: GateOptions,
    every_query: Annotated[
        bool, flag("--every-query", METHOD, "Put every query under an edit, as the paper does")
    ] = False,
    encoder: AnyEncoder = None,
    output: ExplanationOptions,
    dry_run: DryRun = False,
    api: ApiFlags,
) -> None:
    """Edit a model in its prompt and show its answers before and after."""
    base = setups.open_trained_run(run) if run else None
    how = EditingOptions(editor, gating, every_query)
    _check(facts, how)
    setup = _setup(base, DataOptions(data, pool), encoder)
    earlier = base.run if base else DEFAULTS
    opened = models.open_model(model, api, earlier, at=RunOptions(dry_run=dry_run))
    chosen = _editor(how, setup, opened, base)
    edits = _edits(facts, setup.dataset.cases, need_subjects=not every_query)
    gate = EveryQuery() if every_query else _gate(base, gating)
    gate_encoder = encoder_of(gate, gating.relations)
    edited = EditedModel(opened.model, chosen, edits, gate=gate, encoder=gate_encoder)
    for made in edits:
        about = f", about {made.subject}" if made.subject else ""
        say(f'Edit: "{made.query}" -> "{made.target_new}"{about} (by {chosen.name})')
    queries = ask or [made.query for made in edits]
    if count_only(opened.model, opened.api, lambda counting: before_after(edited, queries)):
        return
    with models.metered(opened.model):
        draw(before_after(edited, queries))
        for query in queries:
            if output.explain:
                console.print("", edited.explain(query), sep="\n")
            if output.show_prompt:
                console.rule("prompt")
                say(edited.prompt(query).text)


@dataclass(frozen=True)
class EditingOptions:
    """How edits get into prompts: by which editor, and which queries concern them."""

    editor: str | None
    gating: GateOptions
    every_query: bool


def _check(facts: FactOptions, how: EditingOptions) -> None:
    """Raises UsageError for options that do not go together."""
    if facts.subject and len(facts.subject) != len(facts.fact):
        raise UsageError(
            f"{len(facts.fact)} --fact and {len(facts.subject)} --subject: "
            "give every fact its subject, in order"
        )
    gating = how.gating
    asks_a_gate = gating.gate or gating.relations or gating.gate_threshold is not None
    if how.every_query and asks_a_gate:
        raise UsageError(
            "--every-query asks no gate: leave it out, or --gate, --gate-threshold and --relations"
        )


def _setup(base: TrainedRun | None, data: DataOptions, encoder: str | None) -> Setup:
    """The data whose rows demonstrate: all rows of other data, as none is tested on."""
    settings = setups.data_settings(base.run if base else DEFAULTS, data, encoder)
    has_own_data = data.data is not None or data.pool is not None
    is_other_data = data.data and data.data != [TINYFACTS]
    return setups.open_setup(
        settings,
        train=0,
        test=0,
        split=None if base is None or has_own_data else base.split,
        editable=0 if is_other_data else None,
    )


def _edits(facts: FactOptions, cases: Sequence[EditCase], *, need_subjects: bool) -> list[Edit]:
    """The edits of --fact and --subject.

    Raises UsageError for facts that contradict each other or lack a subject.
    """
    edits = [parse_fact(text, cases) for text in facts.fact]
    for place, subject in enumerate(facts.subject or ()):
        query = edits[place].query
        if not mentions(query, subject):
            raise UsageError(
                f"--subject {subject!r} does not occur in {query!r}: copy the subject from there"
            )
        edits[place] = replace(edits[place], subject=subject)
    [(query, times)] = Counter(edit.query for edit in edits).most_common(1)
    if times > 1:
        raise UsageError(f"{query!r} is given two new objects: give one --fact for it")
    without_subject = [edit.fact for edit in edits if edit.subject is None]
    if need_subjects and without_subject:
        remedy = (
            "give every fact its --subject, or put every query under the edits with --every-query"
        )
        raise UsageError(f"the subject of {without_subject[0]!r} is not known: {remedy}")
    return edits


def _editor(
    how: EditingOptions, setup: Setup, opened: OpenedModel, base: TrainedRun | None
) -> Editor:
    name = how.editor.casefold() if how.editor else _usual_editor(base, how)
    trained = base.trained if base else None
    return make(name, pool=setup.pool, trained=trained, limit=opened.limit)


def _usual_editor(base: TrainedRun | None, how: EditingOptions) -> str:
    if base:
        return "dr-ike"
    return "ike" if how.every_query else NO_RETAINS


def _gate(base: TrainedRun | None, gating: GateOptions) -> Gate:
    """That of a run's policy, unless options name one."""
    policy = base.trained.per_query if base else None
    if policy and gating.gate is None and gating.gate_threshold is None:
        return policy.gate
    return open_gate(None, gating.gate, gating.gate_threshold)


def before_after(edited: EditedModel, queries: Sequence[str]) -> Table:
    """The model's answers to each query before and after the edits, and why they apply or not."""
    rows = tuple(
        (
            answered.decision.query,
            answered.before or NOTHING,
            answered.after or NOTHING,
            answered.reason,
        )
        for answered in edited.before_after(queries)
    )
    return Table("", ("query", "before", "after", "decision"), rows, wide=True)
