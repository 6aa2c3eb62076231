"""What `drike evaluate` and `drike demo` show of an evaluation, and the tables that they save."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drike.cli import runs
from drike.cli.console import draw, note, say
from drike.cli.training_view import show_prepared
from drike.models import LanguageModel
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import TokenLimit
from drike.research.editors.meanings import meanings
from drike.research.evaluation.baseline_questions import AnsweredCases
from drike.research.evaluation.metrics import Outcome
from drike.research.report import tables
from drike.research.report.gate_tables import deployed_tables
from drike.research.report.sentences import on_retention
from drike.research.runs.deployed_run import DeployedEvaluation, Deployment, run_deployed
from drike.research.runs.evaluation_run import (
    Evaluation,
    EvaluationEvent,
    Judging,
    run_evaluation,
)
from drike.research.runs.events import Prepared
from drike.research.runs.setup import Setup
from drike.research.runs.usage import read_usage
from drike.support.files import write_text
from drike.support.table import Table, as_markdown

TABLES = "table.md"


def watch_evaluation(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editors: Sequence[Editor],
    *,
    notes: Sequence[str] = (),
    **how: Any,
) -> Evaluation:
    """Evaluate editors on the test edits with a bar; save and print the tables.

    how: as `run_evaluation` takes it.
    """
    events = run_evaluation(folder, setup, model, editors, **how)
    evaluation = runs.watch(events, _show, model)
    assert isinstance(evaluation, Evaluation)  # noqa: S101 - its last event
    shown = _tables(evaluation, setup, model, notes)
    write_text(folder / TABLES, "\n".join(map(as_markdown, shown)))
    draw(*shown)

    usages = {
        name: used for name, used in read_usage(folder).items() if name in evaluation.outcomes
    }
    if any(used.tokens for used in usages.values()):
        draw(tables.work(usages))
    cached = [name for name, used in usages.items() if used.cached]
    if cached and model.info.served:
        note(
            f"some answers of {', '.join(cached)} came from the cache, "
            "so their seconds do not measure the model"
        )
    return evaluation


def _show(event: EvaluationEvent) -> None:
    if isinstance(event, AnsweredCases):
        say(
            f"{event.asked} questions were put to the unedited model first, whose answer is right "
            f"or shows what it knows; left out are {event.unusable} without an answer that can be "
            f"judged, {event.unknown} whose facts it does not know and {event.new} answered with "
            "the new object"
        )
    elif isinstance(event, Prepared):
        show_prepared(event, "edits")


def _tables(
    evaluation: Evaluation, setup: Setup, model: LanguageModel, notes: Sequence[str]
) -> list[Table]:
    summaries = evaluation.summaries
    rule = evaluation.rule
    edits = f"{len(evaluation.cases)} test edits"
    title = f"{setup.split.ids.title}, {edits}, model {model.info.name}, judged by {rule.name}"
    by_editor = {summary.editor: summary for summary in summaries}
    captions = [rule.caption, *on_retention(by_editor, model.info.name)]
    if explained := meanings(list(by_editor)):
        captions.append(explained)
    if evaluation.both_ways:
        captions.append(tables.disagreement(evaluation.both_ways))
    optional = (
        tables.table1(summaries, title, *captions),
        tables.aspects(summaries, *notes),
        tables.hops(summaries),
        tables.costs(summaries),
    )
    compared = tables.compared(list(evaluation.counts))
    return [
        *(table for table in optional if table),
        *tables.paired(evaluation.counts, compared, "Paired differences"),
    ]


def watch_deployed(
    folder: Path,
    deployment: Deployment,
    model: LanguageModel,
    editors: Sequence[Editor],
    paper: Evaluation,
) -> None:
    """Evaluate editors behind the gate.

    Draws tables, and adds them to those of `paper`, of queries under their edit.
    """
    events = run_deployed(
        folder,
        deployment,
        model,
        editors,
        paper.cases,
        judging=Judging(paper.rule, unedited=paper.unedited),
    )
    deployed = runs.watch(events, lambda event: None, model)
    assert isinstance(deployed, DeployedEvaluation)  # noqa: S101 - its last event
    title = (
        f"{deployment.size:,} edits in force, {len(paper.cases)} test edits, "
        f"model {model.info.name}, gate {deployment.name}"
    )
    shown = deployed_tables(
        paper.outcomes, deployed.outcomes, deployed.decisions, title, paper.rule.caption
    )
    earlier = (folder / TABLES).read_text("utf-8")
    write_text(folder / TABLES, "\n".join([earlier, *map(as_markdown, shown)]))
    draw(*shown)


def note_long_prompts(outcomes: Mapping[str, Sequence[Outcome]], limit: TokenLimit | None) -> None:
    """Say how many prompts of each editor are over the limit even without retains."""
    if not limit:
        return
    for name, outcomes_of_editor in outcomes.items():
        lengths = [outcome.prompt_tokens or 0 for outcome in outcomes_of_editor]
        over = sum(length > limit.tokens for length in lengths)
        if over:
            longer = f"{over} of {len(lengths)} prompts of {name} are longer"
            note(
                f"{longer} than {limit.tokens} tokens, although all retains that can be dropped are"
            )
