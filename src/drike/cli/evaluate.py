"""`drike evaluate`: editors side by side on test edits, as the paper's Table 1."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

from drike.cli.console import draw, note, progress, say
from drike.cli.costs import CountingModel, count_own_answers, live, metered, show_bound
from drike.cli.opening import choose_edits, describe_model, new_run, open_model
from drike.cli.options import METHOD, DataOptions, ModelOptions, RunOptions, flag, takes_options
from drike.cli.resume import alone_at, note_versions, options_in
from drike.cli.stored import Deployment, check_stored, deployment, run_deployed
from drike.datasets.generated import GENERATED, with_generated
from drike.editors.budgets import Threshold
from drike.editors.catalog import (
    BY_NAME,
    NAMES,
    PER_QUERY,
    SAME_K,
    SAME_SIZE,
    TRAINED,
    UNTRAINED,
    make,
    require_editor,
)
from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor, ranks_retains
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.editors.unedited import Unedited
from drike.edits import EditCase
from drike.errors import UsageError
from drike.evaluation.baseline_answers import baseline_answers, with_baseline_answers
from drike.evaluation.evaluate import evaluate as outcomes_of
from drike.evaluation.judge import GREEDY, RULES, Judge, Rule
from drike.evaluation.metrics import Outcome, counted, summary_of
from drike.evaluation.risk_control import CertifiedGuarantee
from drike.models.protocols import LanguageModel
from drike.models.served.options import ApiOptions
from drike.prompts import ORDERS, OrderName
from drike.report import as_markdown, aspects, compared, costs, disagreement, hops, paired, published, table1, work
from drike.report.variants import distribution_table, variations
from drike.runs.folder import read_json, read_usage, write_record
from drike.runs.recording import judged_both_ways, recorded_evaluation, recorded_prompts
from drike.runs.resume import check_same, recovered_outcomes
from drike.runs.run import Run, Setup
from drike.support.files import write_text

OWN_ANSWERS = "baseline_answers.json"  # of the unedited model, to questions that it is asked first
VALUES_OF_EDITORS = (
    f"NAMES of editors are {', '.join(NAMES)}; {', '.join((*TRAINED, PER_QUERY, SAME_SIZE, SAME_K))} need --run. "
    f"NAMES of orders are {', '.join(ORDERS)}."
)

# Edits of the sample whose prompts are kept and that is judged by greedy and by generate; fewer in the demo.
SAMPLE, SMALL_SAMPLE = 20, 5


@takes_options
def evaluate(
    *,
    run: Path | None = None,
    data: DataOptions,
    model: ModelOptions,
    editors: str | None = None,
    encoder: str | None = None,
    order: str | None = None,
    sigmas: str | None = None,
    judge: str | None = None,
    probes: str = "published",
    write: bool = False,
    stored: str | None = None,
    gate: str | None = None,
    unrelated: Path | None = None,
    ask: Annotated[bool, flag("--ask", "With --gate calibrated: ask the model, yes or no, in doubt", METHOD)] = False,
    at: RunOptions,
    api: ApiOptions,
) -> None:
    """Measure ESR, PC, RR, S, ESM and GSM of editors on edits that were not trained on."""
    options = options_in(locals())
    chosen = choose_edits(run, data, encoder, at)
    base, given = chosen.base, chosen.given
    by_default = [*UNTRAINED, *((*TRAINED, SAME_K) if base else ())]
    by_default += [PER_QUERY, BY_NAME, SAME_SIZE] if base and base.trained.per_query is not None else []
    names = [one.strip().casefold() for one in editors.split(",")] if editors else by_default
    for one in [*names, *(["dr-ike"] if sigmas else [])]:
        require_editor(one, trained=base is not None)
    orders, thresholds = parse_orders(order), parse_sigmas(sigmas)
    check_stored(stored, gate, unrelated, ask)
    folder = at.resume or new_run(at.out, "evaluate")
    setup, notes = chosen.open(), []
    if probes == "all":
        test = with_generated(setup.split.test, setup.pool.seed)
        setup, notes = replace(setup, split=replace(setup.split, test=test)), [GENERATED]
    opened = open_model(model, api, given, at=at, cache=False)
    rule = Judge(opened.model, RULES.get(judge or given.judge or "")).rule
    limit, trained = opened.limit, base.trained if base else None
    made = [make(one, pool=setup.pool, model=opened.model, trained=trained, limit=limit) for one in names]
    made += reordered(made, orders, setup.pool.seed)
    dr_ike = make("dr-ike", pool=setup.pool, trained=trained, limit=limit) if thresholds else None
    made += swept(dr_ike, thresholds) if ranks_retains(dr_ike) else []
    behind = deployment(setup, stored, gate, unrelated, opened.model if ask else None) if stored else None
    if isinstance(opened.model, CountingModel):
        found = count_own_answers(opened.model, setup.split.test, rule)
        for editor in [*made, *(behind.editors(made) if behind else [])]:
            for _ in outcomes_of(editor, opened.model, found.cases, rule=rule, write=write, allow_trained=True):
                pass
        if found.asked:
            say(f"{found.asked} questions are put to the unedited model first")
        return show_bound(opened.model, opened.api)
    described, policy = describe_model(opened.name, opened.model), None if base is None else base.trained_sha256
    settings = {
        **chosen.settings, "model": opened.name, "template": opened.template, "judge": rule.name, "probes": probes,
        "write": write, "prompt_tokens": model.prompt_tokens or given.prompt_tokens, "order": order, "sigmas": sigmas,
        "replicas": at.replicas, "tokenizer": opened.api.tokenizer, "editors": [one.name for one in made],
        "stored": stored, "gate": behind.gate_name if behind else None,
        "unrelated": None if unrelated is None else str(unrelated),
    }  # fmt: skip
    with alone_at(folder, "evaluate"):
        if at.resume:
            note_versions(check_same(Run.open(folder), setup, described, policy))
        else:
            Run.create(folder, setup, described, settings, options=options, trained_sha256=policy)
        with metered(opened.model, folder):
            outcomes = run_evaluation(
                folder, setup, opened.model, made, rule=rule, write=write, full=True, notes=notes, behind=behind
            )
    show_promise(trained.promise if trained else None, outcomes.get("DR-IKE-Q", []))
    longest = float("inf") if limit is None else limit.tokens
    for editor_name, of_editor in outcomes.items():
        if over := sum((one.prompt_tokens or 0) > longest for one in of_editor):
            note(
                f"{over} of {len(of_editor)} prompts of {editor_name} are longer than {longest} tokens, with all "
                "retains pruned that can be"
            )
    say(f"\nOutcomes and tables are in {folder}")


def show_promise(kept: CertifiedGuarantee | None, outcomes: Sequence[Outcome]) -> None:
    """Print what was promised, if anything was, beside what was measured."""
    correct = [
        one.correct for one in outcomes if kept and one.aspect is kept.promise.aspect and one.correct is not None
    ]
    if kept is not None and correct:
        say(f"\nPromise of DR-IKE-Q: {kept.sentence}; measured on these test edits: {fmean(correct):.3f}")


def run_evaluation(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editors: Sequence[Editor],
    *,
    rule: Rule | None = None,
    write: bool = False,
    full: bool = False,
    notes: Sequence[str] = (),
    behind: Deployment | None = None,
) -> dict[str, list[Outcome]]:
    """Evaluate every editor on the test edits; show the table and save outcomes, summary and table as they come.

    Edits whose outcomes are in the folder already are skipped. Prompts of a sample are kept, which is judged by greedy
    and by generate if the model scores and runs here or wrote its answers anyway. full: a larger sample, and tables of
    retains, orders and sigmas. notes: on the probes, below the table of aspects. behind: also evaluate them with many
    edits in force.
    """
    rule, both_ways = Judge(model, rule).rule, dict[str, Sequence[Outcome]]()
    cases = answered_cases(folder, model, setup.split.test, rule)
    if not cases:
        raise UsageError("there is no edit to test on: ask for --test edits")
    selectors = [editor.selector for editor in editors if ranks_retains(editor)]
    parts = [part for selector in selectors for part in (selector.ranker, selector.budget)]
    for sentence in setup.prepare(cases, {id(part): part for part in parts}.values()):
        say(sentence, "dim")
    outcomes = {editor.name: recovered_outcomes(folder, editor.name, cases) for editor in editors}
    done = {name: len({one.case_id for one in found}) for name, found in outcomes.items()}
    if any(done.values()):
        say(f"Recovered {sum(done.values())} of {len(editors) * len(cases)} edits")
    sample = random.Random(setup.pool.seed).sample(cases, min(SAMPLE if full else SMALL_SAMPLE, len(cases)))
    for editor in editors:
        left = cases[done[editor.name] :]
        with (
            progress(editor.name, live(model)) as (bar, task),
            closing(recorded_evaluation(folder, editor, model, left, rule=rule, write=write)) as found,
        ):
            bar.update(task, total=len(cases), completed=done[editor.name])
            for case in found:
                outcomes[editor.name].extend(case)
                bar.update(task, advance=1)
            known = [one for one in outcomes[editor.name] if one.case_id in {case.case_id for case in sample}]
            recorded_prompts(folder, editor, sample)
            if rule is GREEDY and all(one.matched is not None for one in known):
                both_ways[editor.name] = known
            elif model.score and not model.info.served:
                both_ways[editor.name] = judged_both_ways(folder, editor, model, sample)
    title = f"{setup.split.ids.title}, {len(cases)} test edits, model {model.info.name}, judged by {rule.name}"
    unedited = outcomes.get(Unedited().name, [])
    counts = {name: counted(of_editor, unedited) for name, of_editor in outcomes.items()}
    summaries = list(map(summary_of, counts.values()))
    differing = [disagreement(both_ways)] if any(both_ways.values()) else []
    first = table1(summaries, title, rule.caption, *differing)
    tables = [one for one in (first, aspects(summaries, *notes), hops(summaries), costs(summaries)) if one]
    tables += paired(counts, compared(list(counts)), "Paired differences")
    if full:
        tables += [distribution_table(outcomes["DR-IKE"])] if "DR-IKE" in outcomes else []
        tables += variations(outcomes, counts)
    tables.append(published())
    write_text(folder / "table.md", "\n".join(as_markdown(table) for table in tables))
    write_record(folder, "summary.json", {summary.editor: asdict(summary) for summary in summaries})
    for table in tables:
        draw(table)
    usages = {name: used for name, used in read_usage(folder).items() if name in outcomes}
    if any(used.tokens for used in usages.values()):
        draw(work(usages))
    cached = [name for name, used in usages.items() if model.info.served and used.cached]
    if cached:
        note(f"some answers of {', '.join(cached)} came from the cache, so their seconds are no model's")
    if behind is not None:
        run_deployed(folder, behind, model, editors, cases, rule=rule, paper=outcomes)
    return outcomes


def answered_cases(
    folder: Path, model: LanguageModel, cases: Sequence[EditCase], rule: Rule | None = None
) -> Sequence[EditCase]:
    """The cases, with the unedited model's own answers where none are published; they are recorded in the folder."""
    answers = read_json(folder / OWN_ANSWERS, Mapping[str, str], "remove it to have the model asked again")
    if answers is None:
        answers = baseline_answers(model, cases, rule)
        if not answers:
            return cases
        write_record(folder, OWN_ANSWERS, answers)
    found = with_baseline_answers(cases, answers)
    say(
        f"{found.asked} questions were put to the unedited model first, whose answer is right or shows what it knows; "
        f"left out are {found.unusable} without an answer that can be judged, {found.unknown} whose facts it does not "
        f"know and {found.new} answered with the new object"
    )
    return found.cases


def parse_orders(given: str | None) -> list[OrderName]:
    """Names of orders from a comma-separated option. Raises UsageError for one that does not exist."""
    names = dict.fromkeys(_parts(given))
    for name in names:
        if name not in ORDERS:
            raise UsageError(f"--order knows {', '.join(ORDERS)}, not {name!r}")
    return list(names)  # type: ignore[arg-type]


def parse_sigmas(given: str | None) -> list[float]:
    """Thresholds from a comma-separated option. Raises UsageError for what is no probability."""
    sigmas = []
    for part in _parts(given):
        try:
            sigmas.append(Threshold(float(part)).sigma)
        except ValueError:
            raise UsageError(f"--sigmas takes probabilities such as .03,.06, not {part!r}") from None
    return list(dict.fromkeys(sigmas))


def _parts(given: str | None) -> list[str]:
    return [part.strip().casefold() for part in (given or "").split(",") if part.strip()]


def reordered(editors: Sequence[Editor], orders: Sequence[OrderName], seed: int) -> list[InContextEditor[RankAndCut]]:
    """Every editor with a learned ranking once more in each order, as "DR-IKE (reversed)"; the same retains are kept.

    Raises UsageError where orders are wanted and no editor has a learned ranking.
    """
    learned = [one for one in editors if ranks_retains(one) and isinstance(one.selector.ranker, Retriever)]
    if orders and not learned:
        raise UsageError("--order is for trained editors: name one in --editors, such as dr-ike, and give its --run")
    return [
        replace(one, name=f"{one.name} ({order})", style=replace(one.style, order=order, order_seed=seed))
        for one in learned
        for order in orders
    ]


def swept(dr_ike: InContextEditor[RankAndCut], sigmas: Sequence[float]) -> list[InContextEditor[RankAndCut]]:
    """DR-IKE with fixed thresholds in place of its own budget, as "DR-IKE (sigma .06)"."""
    selector = dr_ike.selector
    own = selector.budget if isinstance(selector.budget, Threshold) else Threshold()
    return [
        replace(
            dr_ike,
            name=f"{dr_ike.name} (sigma {repr(sigma).removeprefix('0')})",
            selector=replace(selector, budget=replace(own, sigma=sigma)),
        )
        for sigma in sigmas
    ]
