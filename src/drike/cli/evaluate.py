"""`drike evaluate`: the paper's table, and deployed S, in a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal, get_args

from drike.cli import models, runs, setups
from drike.cli.commands import DATA, METHOD, OUTPUT, STUDIES, command, flag, option
from drike.cli.console import say, this_command
from drike.cli.dry_run import CountingModel, count_only, count_own_answers, count_unedited
from drike.cli.evaluation_view import note_long_prompts, watch_deployed, watch_evaluation
from drike.cli.models import DEFAULTS, OpenedModel
from drike.cli.options import (
    RUN_DECIDES,
    VALUES,
    AnyEncoder,
    ApiFlags,
    DataOptions,
    JudgeName,
    ModelOptions,
    RunOptions,
    TrainingRun,
)
from drike.edits.edit import EditCase
from drike.errors import UsageError
from drike.gates.by_name import Named
from drike.gates.edit_names import common_questions
from drike.gateway.logs import read_questions
from drike.live.store_gate import encoder_of, open_gate, usual_gate
from drike.models import LanguageModel
from drike.research.datasets.generated import GENERATED, with_generated
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors import catalog
from drike.research.editors.budgets import Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor, ranks_retains
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate as outcomes_of
from drike.research.evaluation.judge import RULES, Judge, Rule, RuleName
from drike.research.runs.deployed_run import Deployment
from drike.research.runs.evaluation_run import Evaluation
from drike.research.runs.files import EVALUATIONS
from drike.research.runs.run import TrainedRun
from drike.research.runs.setup import Setup

VALUES_OF_EDITORS = (
    f"NAMES are {', '.join(catalog.NAMES)}; {', '.join(catalog.NEED_TRAINING)} need --run."
)
_Probes = Literal["published", "all"]
_NamedGate = Literal["named", "calibrated", "careful", "eager"]


@dataclass(frozen=True)
class DeploymentOptions:
    """Edits in force at once, behind a gate: how many, and what else is asked."""

    stored: Annotated[
        str | None,
        option(
            "--stored",
            "N",
            METHOD,
            "Also with N edits (or all editable ones) in force at once, behind the gate",
        ),
    ] = None
    gate: Annotated[
        _NamedGate | None,
        option(
            "--gate",
            "NAME",
            METHOD,
            "With --stored: named, calibrated (default), careful or eager",
            choices=get_args(_NamedGate),
        ),
    ] = None
    unrelated: Annotated[
        Path | None,
        option(
            "--unrelated",
            "FILE",
            DATA,
            "Questions that concern no edit, for --stored (default: common ones)",
        ),
    ] = None

    @property
    def size(self) -> int | None:
        """How many edits are in force at once; None for all."""
        return None if self.stored in (None, "all") else int(self.stored)

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        stored = self.stored
        if stored and stored != "all" and not (stored.isdecimal() and int(stored)):
            raise UsageError(
                f"--stored takes a number of edits, at least 1, or all, not {stored!r}"
            )
        if not stored and (self.gate or self.unrelated):
            raise UsageError(
                "--gate and --unrelated are for --stored: ask for edits in force, as --stored all"
            )


@command(f"{RUN_DECIDES}\n\n{VALUES_OF_EDITORS}\n\n{VALUES}", runs.Resumable)
def evaluate(
    *,
    run: TrainingRun = None,
    data: DataOptions,
    model: ModelOptions,
    editors: Annotated[
        str | None,
        option("--editors", "NAMES", METHOD, "Editors to compare, separated by commas"),
    ] = None,
    deployment: DeploymentOptions,
    judge: JudgeName = None,
    probes: Annotated[
        _Probes,
        option(
            "--probes",
            "NAME",
            METHOD,
            "What is asked of each edit: published (the data set's own), or all "
            "(also what drike generates)",
            choices=get_args(_Probes),
        ),
    ] = "published",
    encoder: AnyEncoder = None,
    at: RunOptions,
    write: Annotated[
        bool, flag("--write", OUTPUT, "Also record the text that the model generates")
    ] = False,
    api: ApiFlags,
    sigmas: Annotated[
        str | None,
        option(
            "--sigmas",
            "LIST",
            STUDIES,
            "Also use these thresholds instead of the learned one, as .03,.06",
        ),
    ] = None,
) -> None:
    """Measure editors on edits that were not trained on."""
    if deployment.stored and not (deployment.gate or at.resume):
        # Older runs, which name no gate, go on by names.
        gate: _NamedGate = "named" if isinstance(usual_gate(), Named) else "calibrated"
        deployment = replace(deployment, gate=gate)
    plan = EvaluationPlan(
        run, data, model, editors, sigmas, judge, probes, write, encoder, deployment, at, api
    )
    _check(plan)
    _evaluate(plan)


@dataclass(frozen=True)
class EvaluationPlan:
    """The options of an evaluation, in the order in which run.json has them."""

    run: Path | None
    data: DataOptions
    model: ModelOptions
    editors: str | None
    sigmas: str | None
    judge: RuleName | None
    probes: _Probes
    write: bool
    encoder: str | None
    deployment: DeploymentOptions
    at: RunOptions
    api: ApiFlags

    @property
    def names(self) -> list[str]:
        """The names of editors, without repeats; none for the usual ones."""
        if not self.editors:
            return []
        names = [name.strip().casefold() for name in self.editors.split(",")]
        return list(dict.fromkeys(names))


def _check(plan: EvaluationPlan) -> None:
    """Raises UsageError for options that do not go together, before anything is opened."""
    for name in [*plan.names, *(["dr-ike"] if plan.sigmas else [])]:
        catalog.require_editor(name, trained=plan.run is not None)
    parse_sigmas(plan.sigmas)
    plan.deployment.check()


def _evaluate(plan: EvaluationPlan) -> None:
    at = plan.at
    folder = at.resume or runs.new_run(at.out, "evaluate", plan.run)
    edits = setups.open_edits(plan.run, plan.data, plan.encoder, at)
    earlier = edits.base.run if edits.base else DEFAULTS
    setup, notes = _with_probes(edits.setup, plan.probes)
    opened = models.open_model(plan.model, plan.api, earlier, at=at, cache=False)
    rule = Judge(opened.model, RULES.get(plan.judge or earlier.judge or "")).rule
    editors = _editors(plan, setup, edits.base, opened)
    deployment = None
    if plan.deployment.stored:
        deployment = open_deployment(setup, plan.deployment, opened.model)
    behind_gate = deployment.editors(editors) if deployment else []
    if count_only(
        opened.model,
        opened.api,
        lambda counting: _count_questions(
            counting, setup.split.test, [*editors, *behind_gate], rule, write=plan.write
        ),
    ):
        return

    unrelated = plan.deployment.unrelated
    settings = edits.settings | {
        "sigmas": plan.sigmas,
        "probes": plan.probes,
        "write": plan.write,
        "model": opened.name,
        "template": opened.template,
        "judge": rule.name,
        "prompt_tokens": plan.model.prompt_tokens or earlier.prompt_tokens,
        "replicas": at.replicas,
        "tokenizer": opened.api.tokenizer,
        "editors": [editor.name for editor in editors],
        "stored": plan.deployment.stored,
        "gate": deployment.name if deployment else None,
        "unrelated": None if unrelated is None else str(unrelated),
    }
    options = runs.options_in(vars(plan))
    with runs.recorded_at(
        folder, setup, opened, settings, options, command="evaluate", at=at, base=edits.base
    ):
        evaluation = watch_evaluation(
            folder, setup, opened.model, editors, rule=rule, write=plan.write, notes=notes
        )
        if deployment is not None:
            watch_deployed(folder, deployment, opened.model, editors, evaluation)
    is_the_runs_own = plan.data.data is None and opened.name == earlier.model
    if edits.base and is_the_runs_own and rule.name == (earlier.judge or rule.name):
        _say_guarantee(edits.base, evaluation)
    note_long_prompts(evaluation.outcomes, opened.limit)
    reported = folder.parents[1] if folder.parent.name == EVALUATIONS else folder
    report = f"{this_command()} report {reported}"
    say(f"\nOutcomes and tables are in {folder}. Report them: {report}")


def _with_probes(setup: Setup, probes: _Probes) -> tuple[Setup, list[str]]:
    """The data with the probes that are asked for, and notes on them."""
    if probes == "published":
        return setup, []
    cases = with_generated(setup.split.test, setup.pool.seed)
    return replace(setup, split=replace(setup.split, test=cases)), [GENERATED]


def _editors(
    plan: EvaluationPlan, setup: Setup, base: TrainedRun | None, opened: OpenedModel
) -> list[Editor]:
    """The editors to compare: those that are named, or the usual ones, and DR-IKE with sigmas."""
    trained = base.trained if base else None
    make = partial(catalog.make, pool=setup.pool, trained=trained, limit=opened.limit)
    editors = [make(name) for name in plan.names or catalog.usual(trained)]
    sigmas = parse_sigmas(plan.sigmas)
    if sigmas:
        editors += swept(make("dr-ike"), sigmas)
    return editors


def _count_questions(
    counting: CountingModel,
    cases: Sequence[EditCase],
    editors: Sequence[Editor],
    rule: Rule,
    *,
    write: bool,
) -> None:
    """Count the calls of an evaluation."""
    resolved = count_own_answers(counting, cases, rule)
    unedited = count_unedited(counting, resolved.cases, rule)
    for editor in editors:
        outcomes = outcomes_of(
            editor,
            counting,
            resolved.cases,
            rule=rule,
            write=write,
            allow_trained=True,
            unedited=unedited,
        )
        for _ in outcomes:
            pass
    if resolved.asked:
        say(f"{resolved.asked} questions are put to the unedited model first")


def _say_guarantee(base: TrainedRun, evaluation: Evaluation) -> None:
    """Say what was guaranteed of DR-IKE-Q, and what these test edits show."""
    certified = base.trained.promise
    if not certified:
        return
    correct = [
        outcome.correct
        for outcome in evaluation.outcomes.get("DR-IKE-Q", [])
        if outcome.aspect is certified.promise.aspect and outcome.correct is not None
    ]
    if correct:
        measured = f"measured on these test edits: {fmean(correct):.3f}"
        say(f"\nGuarantee of DR-IKE-Q: {certified.sentence}; {measured}")


def open_deployment(setup: Setup, options: DeploymentOptions, model: LanguageModel) -> Deployment:
    """Stores of the data's editable rows, those that are tested on among them.

    Raises UsageError, DataError.
    """
    gate = open_gate(None, options.gate or "named")
    editable = {*setup.split.ids.editable, *setup.split.ids.test}
    cases = [case for case in setup.dataset.cases if case.case_id in editable]
    edits = [edit for case in cases for edit in case.edits]
    encoder = encoder_of(gate)
    stores = SimulatedStores(edits, options.size, encoder=encoder, seed=setup.pool.seed)
    questions: Sequence[str]
    if options.unrelated is None:
        questions = common_questions()
    else:
        questions = [question.said for question in read_questions(options.unrelated)]
    return Deployment(gate, stores, questions)


def parse_sigmas(text: str | None) -> list[float]:
    """Thresholds from a comma-separated option. Raises UsageError for what is no probability."""
    sigmas = []
    for part in (text or "").replace(" ", "").split(","):
        if not part:
            continue
        try:
            sigmas.append(Threshold(float(part)).sigma)
        except ValueError:
            raise UsageError(
                f"--sigmas takes probabilities such as .03,.06, not {part!r}"
            ) from None
    return list(dict.fromkeys(sigmas))


def swept(dr_ike: Editor, sigmas: Sequence[float]) -> list[InContextEditor[RankAndCut]]:
    """DR-IKE with fixed thresholds in place of its own budget, as "DR-IKE (sigma .06)"."""
    assert ranks_retains(dr_ike)  # noqa: S101 - DR-IKE does
    selector = dr_ike.selector
    threshold = selector.budget if isinstance(selector.budget, Threshold) else Threshold()
    editors = []
    for sigma in sigmas:
        name = f"{dr_ike.name} (sigma {repr(sigma).removeprefix('0')})"
        with_sigma = replace(selector, budget=replace(threshold, sigma=sigma))
        editors.append(replace(dr_ike, name=name, selector=with_sigma))
    return editors
