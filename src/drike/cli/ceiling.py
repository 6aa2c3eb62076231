"""`drike ceiling`: the best choices of demonstrations in hindsight, and the share of the gap that an editor closes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from drike.cli.console import draw, say, this_command, watch_answers
from drike.cli.costs import CountingModel, live, metered, show_bound
from drike.cli.opening import choose_edits, describe_model, new_run, open_model
from drike.cli.options import DataOptions, ModelOptions, RunOptions, takes_options
from drike.cli.resume import alone_at, note_versions, options_in
from drike.editors.role_counts import mixes_of
from drike.editors.selectors import RankAndCut, RetainSubset, Selector
from drike.evaluation import ceilings
from drike.evaluation.answer_matrix import answers_under
from drike.evaluation.ceilings import METHOD, ROUNDS, AnswerMatrix, hindsight_answers, measured
from drike.models.served.options import ApiOptions
from drike.prompts import PromptStyle
from drike.report import as_markdown
from drike.report.ceilings import FILE, read_ceilings
from drike.runs.folder import write_record
from drike.runs.recording import recorded_answers
from drike.runs.resume import check_same, recovered_answers
from drike.runs.run import Run
from drike.support.files import write_text


@takes_options
def ceiling(
    *,
    run: Path | None = None,
    data: DataOptions,
    model: ModelOptions,
    encoder: str | None = None,
    random_subsets: int = 16,
    at: RunOptions,
    api: ApiOptions,
) -> None:
    """Measure the best choices of demonstrations in hindsight: what an editor could still win."""
    options = options_in(locals())
    chosen = choose_edits(run, data, encoder, at)
    folder = at.resume or new_run(at.out, "ceiling")
    setup, base = chosen.open(), chosen.base
    opened = open_model(model, api, chosen.given, at=at)
    limit, retains, cases = opened.limit, ceilings.retains_of(setup.pool), setup.split.test
    style = PromptStyle() if base is None else base.trained.style
    mixes = mixes_of(setup.pool.roles)
    choices: list[Selector] = [*mixes, *ceilings.random_subsets(retains, random_subsets, setup.pool.seed)]
    if base is not None:
        choices.append(RankAndCut(base.trained.retriever, base.trained.budget))
    if isinstance(opened.model, CountingModel):
        every = frozenset(range(retains))
        greedy = [RetainSubset(every - {place}) for place in range(retains)]
        for asked in (greedy, choices):
            opened.model.repeat(ROUNDS)  # the greedy search's rounds
            for _ in answers_under(asked, opened.model, setup.pool, cases, style=style, limit=limit):
                pass
        return show_bound(opened.model, opened.api)
    described, policy = describe_model(opened.name, opened.model), None if base is None else base.trained_sha256
    settings = {
        **chosen.settings, "model": opened.name, "template": opened.template, "replicas": at.replicas,
        "prompt_tokens": model.prompt_tokens or chosen.given.prompt_tokens, "tokenizer": opened.api.tokenizer,
        "random_subsets": random_subsets,
    }  # fmt: skip
    with alone_at(folder, "ceiling"):
        if at.resume:
            note_versions(check_same(Run.open(folder), setup, described, policy))
        else:
            Run.create(folder, setup, described, settings, options=options, trained_sha256=policy)
        answers = recovered_answers(folder, cases, len(choices) + 1)
        if answers:
            say(f"Recovered {len(answers)} of {len(cases)} edits")
        asking = hindsight_answers(choices, opened.model, setup.pool, cases[len(answers) :], style=style, limit=limit)
        with metered(opened.model, folder):
            watch_answers(recorded_answers(folder, asking, opened.model), answers, len(cases), live(opened.model))
    answered = AnswerMatrix.of(cases, answers)
    found = ceilings.ceilings(answered, choices, setup.pool)
    if base is not None:
        found = {METHOD: answered.always(len(choices) - 1)} | found
        if base.trained.per_query is not None:
            found = {"DR-IKE-Q": answered.chosen_by(base.trained.per_query, cases, mixes)} | found
    write_record(folder, FILE, {name: asdict(measured([(answered, one)])) for name, one in found.items()})
    table = read_ceilings(folder)
    assert table is not None  # noqa: S101 - it was just written
    write_text(folder / "table.md", as_markdown(table))
    draw(table)
    say(f"\nSaved in {folder}. Show it in the report of a run: {this_command()} report {run or 'RUN'} {folder}")
