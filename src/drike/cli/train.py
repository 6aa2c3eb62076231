"""`drike train`: the paper's algorithm 1, and the policy that decides for each query, in a run."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from drike.cli import models, runs, setups
from drike.cli.commands import METHOD, STUDIES, command, flag, option
from drike.cli.console import say, this_command
from drike.cli.dry_run import CountingModel, count_only, count_own_answers, count_unedited
from drike.cli.models import DEFAULTS
from drike.cli.options import (
    VALUES,
    AnyEncoder,
    AnyParaphrases,
    AnySeed,
    AnyTestEdits,
    AnyTrainingEdits,
    AnyZsreTarget,
    ApiFlags,
    Data,
    DataOptions,
    Editable,
    Epochs,
    JudgeName,
    ModelOptions,
    PoolRows,
    RunOptions,
    Subset,
)
from drike.cli.training_view import watch_query_policy, watch_training
from drike.encoders import load_encoder
from drike.errors import GuaranteeError, UsageError
from drike.prompts import Layout, RetainForm, demonstration_block
from drike.research.editors.budgets import Flip
from drike.research.editors.in_context import TokenLimit
from drike.research.editors.retriever import Form
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.judge import Judge
from drike.research.evaluation.risk_control import Guarantee
from drike.research.evaluation.unedited_answers import Retention
from drike.research.runs.method import Method, new_editor, scored_probes
from drike.research.runs.setup import Setup
from drike.research.training.s_objective import actions, check_possible, training_cases

CALIBRATE_ON = 100  # edits held out for a guarantee

_Objective = Literal["paper", "s", "balanced"]
_Budget = Literal["threshold", "all", "half"]
_Reading = Literal["all", "known", "unchanged"]


@dataclass(frozen=True)
class MethodFlags(Method):
    """`Method` as options of the command, in the order of help; their defaults stand there."""

    objective: Annotated[
        _Objective,
        option(
            "--objective",
            "NAME",
            METHOD,
            "paper, or s: also train a policy on S that decides for each query (dr-ike-q)",
            choices=get_args(_Objective),
        ),
    ]
    retention: Annotated[
        _Reading | None,
        option(
            "--retention",
            "NAME",
            METHOD,
            "Neighbours that dr-ike-q is trained on: all, those the model knows (known), or all by "
            "the model's own answers (unchanged; default unless judged by likelihood)",
            choices=get_args(_Reading),
        ),
    ]
    shot_price: Annotated[
        float,
        option(
            "--shot-price",
            "X",
            METHOD,
            "Cost of showing dr-ike-q all demonstrations, in S",
            min=0.0,
            max=10.0,
        ),
    ]
    promise: Annotated[
        str | None,
        option(
            "--guarantee",
            "BOUND",
            METHOD,
            'Level that dr-ike-q keeps on new edits (95 % confidence), as "rr>=.85"; '
            "also of esr, pc",
            also="--promise",
        ),
    ]
    calibrate_on: Annotated[
        int | None,
        option(
            "--calibrate-on",
            "N",
            METHOD,
            "Number of edits held out for --guarantee (default: 100)",
            min=1,
        ),
    ]
    epochs: Epochs
    budget: Annotated[
        _Budget,
        option(
            "--budget",
            "NAME",
            METHOD,
            "Number of retains: threshold (DR-IKE), all, half",
            choices=get_args(_Budget),
        ),
    ]
    judge: JudgeName
    max_shots: Annotated[
        int, option("--max-shots", "N", METHOD, "K: most retains in a prompt", min=1)
    ]
    learning_rate: Annotated[
        float, option("--learning-rate", "X", METHOD, "Adam's step size", min=0.0, max=1000.0)
    ]
    encoder: AnyEncoder
    policy_encoder: Annotated[
        str | None,
        option(
            "--policy-encoder",
            "NAME",
            METHOD,
            "Text encoder under the trained head (default: --encoder)",
        ),
    ]
    parallel_edits: Annotated[
        int,
        option(
            "--parallel-edits", "N", METHOD, "B: edits rolled out at once; 1 is Algorithm 1", min=1
        ),
    ]
    form: Annotated[
        Form,
        option("--form", "NAME", STUDIES, "Scoring head: dot or cross", choices=get_args(Form)),
    ]
    flip: Annotated[
        Flip,
        option(
            "--flip",
            "NAME",
            STUDIES,
            "How sigma is raised when an added retain breaks the answer: offender or algorithm1",
            choices=get_args(Flip),
        ),
    ]
    layout: Annotated[
        Layout,
        option(
            "--layout",
            "NAME",
            STUDIES,
            "Prompt: append (retains last, best first) or ike (shuffled)",
            choices=get_args(Layout),
        ),
    ]
    retain: Annotated[
        RetainForm,
        option(
            "--retain",
            "NAME",
            STUDIES,
            "Retains: headed (with their New Fact line) or bare",
            choices=get_args(RetainForm),
        ),
    ]
    own_copy: Annotated[
        bool, flag(" /--no-own-copy", STUDIES, "Do not repeat the edit as a demonstration")
    ]


@command(VALUES, runs.Resumable)
def train(
    *,
    data: Data = None,
    pool: PoolRows = None,
    edits: AnyTrainingEdits = None,
    test: AnyTestEdits = None,
    seed: AnySeed = None,
    editable: Editable = None,
    subset: Subset = None,
    zsre_target: AnyZsreTarget = None,
    paraphrases: AnyParaphrases = None,
    model: ModelOptions,
    method: MethodFlags,
    at: RunOptions,
    api: ApiFlags,
) -> None:
    """Train DR-IKE's retriever and budget."""
    sources = DataOptions(data, pool, test, seed, editable, subset, zsre_target, paraphrases)
    _train(TrainingPlan(sources, edits, model, method, at, api))


@dataclass(frozen=True)
class TrainingPlan:
    """The options of a training."""

    data: DataOptions
    edits: int | None
    model: ModelOptions
    method: Method
    at: RunOptions
    api: ApiFlags


def _train(plan: TrainingPlan) -> None:
    at = plan.at
    method = plan.method
    guarantee = _guarantee(method, at.replicas)
    data = setups.data_settings(DEFAULTS, plan.data, method.encoder)
    folder = at.resume or runs.new_run(at.out, "train")
    setup = setups.open_setup(
        data,
        train=plan.edits,
        test=plan.data.test,
        editable=plan.data.editable,
        subset=plan.data.subset,
        validation=(method.calibrate_on or CALIBRATE_ON) if guarantee else 0,
    )
    if guarantee:
        check_possible(guarantee, setup.split.validation)
    opened = models.open_model(plan.model, plan.api, DEFAULTS, at=at)
    method = replace(method, judge=Judge(opened.model, method.rule).rule.name)
    if count_only(
        opened.model,
        plan.api,
        lambda counting: _count_training(counting, setup, method, opened.limit),
    ):
        return

    options = runs.options_in(vars(plan))
    settings = options | {
        "data": data.data,
        "model": opened.name,
        "seed": data.seed,
        "encoder": data.encoder,
        "zsre_target": data.zsre_target,
        "template": opened.template,
        "judge": method.judge,
    }
    refused: GuaranteeError | None = None
    with runs.recorded_at(folder, setup, opened, settings, options, command="train", at=at):
        head_encoder = load_encoder(method.policy_encoder or data.encoder)
        editor = new_editor(method, setup, head_encoder, limit=opened.limit)
        try:
            watch_training(folder, setup, opened, editor, method)
            if method.is_per_query:
                watch_query_policy(folder, setup, opened.model, editor, method, guarantee=guarantee)
        except GuaranteeError as problem:  # the policy is saved as it was trained
            refused = problem
    say(f"\nSaved in {folder}. Evaluate it: {this_command()} evaluate --run {folder}")
    if refused is not None:
        raise refused


def _guarantee(method: Method, replicas: int) -> Guarantee | None:
    """What --guarantee asks for. Raises UsageError for options that do not go together."""
    if method.parallel_edits < replicas:
        remedy = (
            f"give --parallel-edits {2 * replicas}, which also changes what is learned, "
            "or fewer --replicas"
        )
        raise UsageError(
            f"--parallel-edits {method.parallel_edits} leaves some of {replicas} replicas idle: "
            f"{remedy}"
        )
    if method.promise is None:
        if method.calibrate_on is not None:
            raise UsageError(
                '--calibrate-on holds edits out for a guarantee: add --guarantee, as "rr>=.85"'
            )
        return None
    if not method.is_per_query:
        raise UsageError(
            "--guarantee is for the policy that decides for each query: add --objective s"
        )
    return Guarantee.parse(method.promise)


def _count_training(
    counting: CountingModel, setup: Setup, method: Method, limit: TokenLimit | None
) -> None:
    """Count the most calls that all epochs can take, and those for the answers under each mix."""
    _count_epoch(counting, setup, method, limit)
    counting.calls *= method.epochs
    counting.read *= method.epochs
    counting.written *= method.epochs
    if method.is_per_query:
        rule = Judge(counting, method.rule).rule
        cases = training_cases(setup.split.train, setup.pool.seed)
        resolved = count_own_answers(counting, cases, rule)
        if method.reading is not Retention.ALL:
            count_unedited(counting, (*cases, *setup.split.validation), rule)
        answers = answers_under(
            actions(setup.pool.roles),
            counting,
            setup.pool,
            (*resolved.cases, *setup.split.validation),
            style=method.style,
            limit=limit,
            rule=method.rule,
        )
        for _ in answers:
            pass


def _count_epoch(
    counting: CountingModel, setup: Setup, method: Method, limit: TokenLimit | None
) -> None:
    """Count the most calls of one epoch.

    It tries every prefix of every edit's retains, the longest retains first, or with a limit as
    many prefixes as fit with the shortest retains.
    """
    style = method.style
    probes_by_edits = {case.edits: scored_probes(method, case) for case in setup.split.train}
    for candidates in setup.pool.for_groups(list(probes_by_edits)):
        probes = probes_by_edits[candidates.edits]
        queries = [probe.query for probe in probes]
        lengths = {}
        for retain in candidates.retains:
            block = demonstration_block(retain, style.retain)
            lengths[retain] = (counting.count(block), len(block))
        longest = sorted(candidates.retains, key=lengths.__getitem__, reverse=True)
        count = min(method.max_shots, len(longest))
        if limit is not None:
            count = limit.fitting(count, lambda j: style.show(candidates, longest[-j:], queries))  # noqa: B023 - called at once
        for j in range(1, count + 1):
            prompts = style.show(candidates, longest[:j], queries)
            for prompt, probe in zip(prompts, probes, strict=True):
                counting.add(f"{prompt.text} {probe.target}")
