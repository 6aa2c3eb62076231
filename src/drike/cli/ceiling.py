"""`drike ceiling`: the best choices of demonstrations in hindsight, and the share of the gap that an editor closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from drike.cli.console import draw, say, this_command
from drike.cli.dry_run import CountingModel, count_only
from drike.cli.opening import OpenedModel, choose_edits, new_run, open_model
from drike.cli.options import RUN_DECIDES, VALUES, DataOptions, ModelOptions, RunOptions, command
from drike.cli.resume import Resumable, options_in, recorded_at
from drike.cli.watching import watch
from drike.editors.role_counts import mixes_of
from drike.editors.selectors import RankAndCut, RetainSubset, Selector
from drike.evaluation import ceilings
from drike.evaluation.answer_matrix import CaseAnswers, answers_under
from drike.evaluation.ceilings import METHOD, ROUNDS, AnswerMatrix, Chosen, hindsight_answers
from drike.models.served.spending import ApiOptions
from drike.prompts import PromptStyle
from drike.report.ceilings import FILE, read_ceilings
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import write_record
from drike.runs.recording import recorded_answers
from drike.runs.resume import recovered_answers
from drike.runs.run import Setup
from drike.support.files import write_text
from drike.support.table import as_markdown


@command(f"{RUN_DECIDES}\n\n{VALUES}", Resumable)
def ceiling(
    *, run: Path | None = None, data: DataOptions, model: ModelOptions, encoder: str | None = None,
    random_subsets: int = 16, at: RunOptions, api: ApiOptions,
) -> None:  # fmt: skip
    """Measure the best choices of demonstrations in hindsight: what an editor could still win."""
    options = options_in(locals())
    chosen = choose_edits(run, data, encoder, at)
    folder = at.resume or new_run(at.out, "ceiling", run)
    setup, base = chosen.open(), chosen.base
    opened = open_model(model, api, chosen.run_settings, at=at)
    trained = base.trained if base else None
    choices = _choices(setup, random_subsets, trained)
    style = trained.style if trained else PromptStyle()
    if count_only(opened.model, opened.api, lambda counting: _count(counting, setup, choices, style, opened)):
        return
    settings = {
        **chosen.settings, "model": opened.name, "template": opened.template, "replicas": at.replicas,
        "prompt_tokens": model.prompt_tokens or chosen.run_settings.prompt_tokens, "tokenizer": opened.api.tokenizer,
        "random_subsets": random_subsets,
    }  # fmt: skip
    with recorded_at(folder, setup, opened, settings, options, command="ceiling", at=at, base=base):
        answers = _asked(folder, setup, choices, style, opened)
    write_record(folder, FILE, _ceilings(setup, choices, answers, trained))
    table = read_ceilings(folder)
    assert table is not None  # noqa: S101 - it was just written
    write_text(folder / "table.md", as_markdown(table))
    draw(table)
    say(f"\nSaved in {folder}. Show it in the report of a run: {this_command()} report {run or 'RUN'} {folder}")


def _choices(setup: Setup, random_subsets: int, trained: Checkpoint | None) -> list[Selector]:
    """All mixes, random subsets of the retains and, of a training run, what its policies select, which are the last."""
    subsets = ceilings.random_subsets(ceilings.retains_of(setup.pool), random_subsets, setup.pool.seed)
    choices: list[Selector] = [*mixes_of(setup.pool.roles), *subsets]
    if trained is not None:
        choices += [RankAndCut(trained.retriever, trained.budget), *filter(None, [trained.per_query])]
    return choices


def _count(
    counting: CountingModel, setup: Setup, choices: Sequence[Selector], style: PromptStyle, opened: OpenedModel
) -> None:
    """Count the most calls that the answers and all rounds of the greedy search can take."""
    every = frozenset(range(ceilings.retains_of(setup.pool)))
    greedy = [RetainSubset(every - {place}) for place in every]
    for tried, rounds in ((greedy, ROUNDS), (choices, 1)):
        list(answers_under(tried, counting, setup.pool, setup.split.test, style=style, limit=opened.limit))
        counting.repeat(rounds)


def _asked(
    folder: Path, setup: Setup, choices: Sequence[Selector], style: PromptStyle, opened: OpenedModel
) -> list[CaseAnswers]:
    """The answers about all test edits, those that are not in the folder asked for with a bar."""
    cases, model = setup.split.test, opened.model
    answers = recovered_answers(folder, cases, len(choices) + 1)
    if answers:
        say(f"Recovered {len(answers)} of {len(cases)} edits")
    left = cases[len(answers) :]
    asked = hindsight_answers(choices, model, setup.pool, left, style=style, limit=opened.limit)
    watch(recorded_answers(folder, asked, model, answers, len(cases)), lambda event: None, model)
    return answers


def _ceilings(
    setup: Setup, choices: Sequence[Selector], answers: Sequence[CaseAnswers], trained: Checkpoint | None
) -> Mapping[str, object]:
    """What each choice in hindsight reaches; that of the paper's method and of the policy per query come first."""
    cases = setup.split.test
    matrix = AnswerMatrix.of(cases, answers)
    chosen: dict[str, Chosen] = ceilings.ceilings(matrix, choices, setup.pool)
    if trained is not None:
        names = [METHOD, *(["DR-IKE-Q"] if trained.per_query is not None else [])]
        own = {name: matrix.always(len(choices) - len(names) + place) for place, name in enumerate(names)}
        chosen = dict(reversed(own.items())) | chosen
    return {name: asdict(matrix.measured(columns)) for name, columns in chosen.items()}
