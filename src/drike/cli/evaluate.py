"""`drike evaluate`: editors side by side on test edits, as the paper's Table 1; and with many edits in force."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Literal

from drike.cli import opening
from drike.cli.console import draw, note, say, this_command
from drike.cli.dry_run import CountingModel, count_only, count_own_answers
from drike.cli.encoding import watched_encoder
from drike.cli.opening import ChosenEdits, OpenedModel
from drike.cli.options import RUN_DECIDES, VALUES, AskModel, DataOptions, ModelOptions, RunOptions, command
from drike.cli.resume import Resumable, options_in, recorded_at
from drike.cli.train import show_prepared
from drike.cli.watching import watch
from drike.datasets.generated import GENERATED, with_generated
from drike.deployment.evaluation import SimulatedStores
from drike.editors import catalog
from drike.editors.budgets import Threshold, TokenLimit
from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor, ranks_retains
from drike.editors.selectors import RankAndCut
from drike.edits import EditCase
from drike.errors import UsageError
from drike.evaluation.baseline_answers import AnsweredCases
from drike.evaluation.evaluate import evaluate as outcomes_of
from drike.evaluation.judge import RULES, Judge, Rule, RuleName
from drike.evaluation.metrics import Outcome, counted
from drike.evaluation.risk_control import CertifiedGuarantee
from drike.gates.by_name import Named
from drike.gates.naming import common_questions
from drike.gates.store_gate import open_gate, usual_gate
from drike.gates.verification import require_uncertainty
from drike.models import ApiOptions, LanguageModel
from drike.report.tables import aspects, compared, costs, deployed_tables, disagreement, hops, paired, table1, work
from drike.runs.checkpoint import Checkpoint
from drike.runs.evaluating import (
    DeployedEvaluation,
    Deployment,
    Evaluation,
    EvaluationEvent,
    run_deployed,
    run_evaluation,
)
from drike.runs.folder import EVALUATIONS, read_usage
from drike.runs.run import Prepared, Setup
from drike.serving.requests import read_questions
from drike.support.files import write_text
from drike.support.table import Table, as_markdown

VALUES_OF_EDITORS = f"NAMES are {', '.join(catalog.NAMES)}; {', '.join(catalog.NEED_TRAINING)} need --run."
TABLES = "table.md"


@dataclass(frozen=True)
class EvaluationOptions:
    """What is compared, and how answers are judged."""

    editors: str | None = None
    sigmas: str | None = None
    judge: RuleName | None = None
    probes: Literal["published", "all"] = "published"
    write: bool = False


@dataclass(frozen=True)
class DeployedOptions:
    """Evaluation with many edits in force."""

    stored: str | None = None
    gate: Literal["named", "calibrated", "careful", "eager"] | None = None
    unrelated: Path | None = None
    ask: AskModel = False


@command(f"{RUN_DECIDES}\n\n{VALUES_OF_EDITORS}\n\n{VALUES}", Resumable)
def evaluate(
    *, run: Path | None = None, data: DataOptions, model: ModelOptions, method: EvaluationOptions,
    encoder: str | None = None, deployed: DeployedOptions, at: RunOptions, api: ApiOptions,
) -> None:  # fmt: skip
    """Measure ESR, PC, RR, S, ESM and GSM of editors on edits that were not trained on."""
    if deployed.stored and not (deployed.gate or at.resume):  # older runs, which name no gate, go on by names
        deployed = replace(deployed, gate="named" if isinstance(usual_gate(), Named) else "calibrated")
    options = options_in(locals())
    chosen = opening.choose_edits(run, data, encoder, at)
    base, earlier = chosen.base, chosen.run_settings
    names = editor_names(method, chosen)
    check_deployed(deployed)
    folder = at.resume or opening.new_run(at.out, "evaluate", run)
    setup, notes = chosen.open(), []
    if method.probes == "all":
        cases = with_generated(setup.split.test, setup.pool.seed)
        setup, notes = replace(setup, split=replace(setup.split, test=cases)), [GENERATED]
    opened = opening.open_model(model, api, earlier, at=at, cache=False)
    rule = Judge(opened.model, RULES.get(method.judge or earlier.judge or "")).rule
    editors = make_editors(names, method, setup, base.trained if base else None, opened)
    deployment = open_deployment(setup, deployed, opened.model) if deployed.stored else None
    asked = [*editors, *(deployment.editors(editors) if deployment else [])]
    test, write = setup.split.test, method.write
    if count_only(opened.model, opened.api, lambda counting: _count(counting, test, asked, rule=rule, write=write)):
        return
    settings = {
        **chosen.settings, **asdict(method), "model": opened.name, "template": opened.template, "judge": rule.name,
        "prompt_tokens": model.prompt_tokens or earlier.prompt_tokens, "replicas": at.replicas,
        "tokenizer": opened.api.tokenizer, "editors": [editor.name for editor in editors], "stored": deployed.stored,
        "gate": deployment.name if deployment else None,
        "unrelated": None if deployed.unrelated is None else str(deployed.unrelated),
    }  # fmt: skip
    with recorded_at(folder, setup, opened, settings, options, command="evaluate", at=at, base=base):
        events = run_evaluation(folder, setup, opened.model, editors, rule=rule, write=write)
        evaluation = watch_evaluation(events, folder, setup, opened.model, notes=notes)
        if deployment is not None:
            watch_deployed(folder, deployment, opened.model, editors, evaluation)
    show_guarantee(base.trained.promise if base else None, evaluation.outcomes.get("DR-IKE-Q", []))
    note_long_prompts(evaluation.outcomes, opened.limit)
    shown = folder.parents[1] if folder.parent.name == EVALUATIONS else folder
    say(f"\nOutcomes and tables are in {folder}. Report them: {this_command()} report {shown}")


def editor_names(method: EvaluationOptions, chosen: ChosenEdits) -> list[str]:
    """The names of --editors, or those by default. Raises UsageError for one that does not exist or needs a run."""
    trained = chosen.base.trained if chosen.base else None
    names = catalog.usual(trained)
    if method.editors:
        names = [name.strip().casefold() for name in method.editors.split(",")]
    for name in [*names, *(["dr-ike"] if method.sigmas else [])]:
        catalog.require_editor(name, trained=trained is not None)
    parse_sigmas(method.sigmas)
    return names


def make_editors(
    names: Sequence[str], method: EvaluationOptions, setup: Setup, trained: Checkpoint | None, opened: OpenedModel
) -> list[Editor]:
    """The editors to compare: those named, and variants for --sigmas."""
    make = partial(catalog.make, pool=setup.pool, trained=trained, limit=opened.limit)
    editors = list(map(make, names))
    if thresholds := parse_sigmas(method.sigmas):
        dr_ike = make("dr-ike")
        editors += swept(dr_ike, thresholds) if ranks_retains(dr_ike) else []
    return editors


def _count(
    counting: CountingModel, cases: Sequence[EditCase], editors: Sequence[Editor], *, rule: Rule, write: bool
) -> None:
    """Count the calls of an evaluation."""
    resolved = count_own_answers(counting, cases, rule)
    for editor in editors:
        list(outcomes_of(editor, counting, resolved.cases, rule=rule, write=write, allow_trained=True))
    if resolved.asked:
        say(f"{resolved.asked} questions are put to the unedited model first")


def watch_evaluation(
    events: Generator[EvaluationEvent], folder: Path, setup: Setup, model: LanguageModel, *,
    notes: Sequence[str] = (),
) -> Evaluation:  # fmt: skip
    """Evaluate every editor on the test edits with a bar; save and print the tables, with a histogram of retains."""

    def show(event: EvaluationEvent) -> None:
        if isinstance(event, AnsweredCases):
            say(baseline_sentence(event))
        elif isinstance(event, Prepared):
            show_prepared(event, "edits")

    evaluation = watch(events, show, model)
    assert isinstance(evaluation, Evaluation)  # noqa: S101 - its last event
    data, judged = f"{setup.split.ids.title}, {len(evaluation.cases)} test edits", f"judged by {evaluation.rule.name}"
    title = f"{data}, model {model.info.name}, {judged}"
    tables = evaluation_tables(evaluation, title, notes)
    write_text(folder / TABLES, "\n".join(map(as_markdown, tables)))
    draw(*tables)
    usages = {name: used for name, used in read_usage(folder).items() if name in evaluation.outcomes}
    if any(used.tokens for used in usages.values()):
        draw(work(usages))
    cached = [name for name, used in usages.items() if model.info.served and used.cached]
    if cached:
        note(f"some answers of {', '.join(cached)} came from the cache, so their seconds do not measure the model")
    return evaluation


def baseline_sentence(resolved: AnsweredCases) -> str:
    """What came of the questions that the unedited model was asked first."""
    return (
        f"{resolved.asked} questions were put to the unedited model first, whose answer is right or shows what it "
        f"knows; left out are {resolved.unusable} without an answer that can be judged, {resolved.unknown} whose facts "
        f"it does not know and {resolved.new} answered with the new object"
    )


def evaluation_tables(evaluation: Evaluation, title: str, notes: Sequence[str]) -> list[Table]:
    """Table 1 of the evaluation, and the further tables."""
    differing = [disagreement(evaluation.both_ways)] if evaluation.both_ways else []
    summaries = evaluation.summaries
    first = table1(summaries, title, evaluation.rule.caption, *differing)
    parts = (first, aspects(summaries, *notes), hops(summaries), costs(summaries))
    tables = [table for table in parts if table]
    tables += paired(evaluation.counts, compared(list(evaluation.counts)), "Paired differences")
    return tables


def watch_deployed(
    folder: Path, deployment: Deployment, model: LanguageModel, editors: Sequence[Editor], paper: Evaluation
) -> None:
    """Evaluate editors behind the gate; draw tables, and add them to those of `paper`, of queries under their edit."""
    events = run_deployed(folder, deployment, model, editors, paper.cases, rule=paper.rule)
    deployed = watch(events, lambda event: None, model)
    assert isinstance(deployed, DeployedEvaluation)  # noqa: S101 - its last event
    counts = {name: (paper.counts[name], counted(outcomes)) for name, outcomes in deployed.outcomes.items()}
    size, cases = f"{deployment.size:,} edits in force", f"{len(paper.cases)} test edits"
    title = f"{size}, {cases}, model {model.info.name}, gate {deployment.name}"
    tables = deployed_tables(counts, deployed.decisions, title, paper.rule.caption)
    text = (folder / TABLES).read_text("utf-8")
    write_text(folder / TABLES, "\n".join([text, *map(as_markdown, tables)]))
    draw(*tables)


def open_deployment(setup: Setup, deployed: DeployedOptions, model: LanguageModel) -> Deployment:
    """Stores of the data's editable rows, those that are tested on among them. Raises UsageError, DataError."""
    gate, file = open_gate(None, deployed.gate or "named"), deployed.unrelated
    editable = {*setup.split.ids.editable, *setup.split.ids.test}
    edits = [edit for case in setup.dataset.cases if case.case_id in editable for edit in case.edits]
    size = None if deployed.stored in (None, "all") else int(deployed.stored)
    stores = SimulatedStores(edits, size, encoder=watched_encoder(gate), seed=setup.pool.seed)
    questions = common_questions() if file is None else [asked.said for asked in read_questions(file)]
    return Deployment(gate, stores, questions, model if deployed.ask else None)


def check_deployed(deployed: DeployedOptions) -> None:
    """Refuse a --stored that is no size, and options that need it or each other. Raises UsageError."""
    stored = deployed.stored
    if stored is not None and stored != "all" and not (stored.isdecimal() and int(stored)):
        raise UsageError(f"--stored takes a number of edits, at least 1, or all, not {stored!r}")
    if not stored:
        if deployed.gate or deployed.unrelated or deployed.ask:
            raise UsageError("--gate, --unrelated and --ask are for --stored: ask for edits in force, as --stored all")
        return
    if deployed.ask:
        require_uncertainty(open_gate(None, deployed.gate or "named"), "give --gate calibrated, or leave --ask out")


def show_guarantee(certified: CertifiedGuarantee | None, outcomes: Sequence[Outcome]) -> None:
    """Print what was guaranteed, if anything was, beside what was measured."""
    aspect = certified and certified.promise.aspect
    correct = [outcome.correct for outcome in outcomes if outcome.aspect is aspect and outcome.correct is not None]
    if certified and correct:
        say(f"\nGuarantee of DR-IKE-Q: {certified.sentence}; measured on these test edits: {fmean(correct):.3f}")


def note_long_prompts(outcomes: Mapping[str, Sequence[Outcome]], limit: TokenLimit | None) -> None:
    """Say how many prompts of each editor are over the limit even without retains."""
    for name, of_editor in outcomes.items():
        if limit and (over := sum((outcome.prompt_tokens or 0) > limit.tokens for outcome in of_editor)):
            longer = f"{over} of {len(of_editor)} prompts of {name} are longer than {limit.tokens} tokens"
            note(f"{longer}, although all retains that can be dropped are")


def parse_sigmas(text: str | None) -> list[float]:
    """Thresholds from a comma-separated option. Raises UsageError for what is no probability."""
    sigmas = []
    for part in filter(None, (text or "").replace(" ", "").split(",")):
        try:
            sigmas.append(Threshold(float(part)).sigma)
        except ValueError:
            raise UsageError(f"--sigmas takes probabilities such as .03,.06, not {part!r}") from None
    return list(dict.fromkeys(sigmas))


def swept(dr_ike: InContextEditor[RankAndCut], sigmas: Sequence[float]) -> list[InContextEditor[RankAndCut]]:
    """DR-IKE with fixed thresholds in place of its own budget, as "DR-IKE (sigma .06)"."""
    selector = dr_ike.selector
    own = selector.budget if isinstance(selector.budget, Threshold) else Threshold()
    named = {f"{dr_ike.name} (sigma {repr(sigma).removeprefix('0')})": replace(own, sigma=sigma) for sigma in sigmas}
    return [replace(dr_ike, name=name, selector=replace(selector, budget=budget)) for name, budget in named.items()]
