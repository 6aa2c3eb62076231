"""`drike train`: Algorithm 1 on a data set and a model, into a run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drike.cli.console import console, draw, note, say, this_command
from drike.cli.dry_run import CountingModel, count_only, count_own_answers, count_training
from drike.cli.encoding import WatchedEncoder
from drike.cli.opening import DEFAULTS, OpenedModel, describe_model, new_run, open_model, open_setup
from drike.cli.options import VALUES, DataOptions, ModelOptions, RunOptions, command
from drike.cli.recording import Resumable, options_in, recorded_at, watch
from drike.datasets import TINYFACTS
from drike.editors.in_context import InContextEditor
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import ASPECTS_OF_S
from drike.encoders import MINILM
from drike.errors import GuaranteeError, UsageError
from drike.evaluation.evaluate import answers_under
from drike.evaluation.judge import Judge
from drike.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.models import ApiOptions, LanguageModel, Usage
from drike.report.tables import by_epoch, work
from drike.runs import training
from drike.runs.folder import read_usage
from drike.runs.run import PhaseStarted, Prepared, Setup
from drike.support.table import as_text
from drike.training.algorithm1 import Episode
from drike.training.s_objective import Expected, actions, check_possible, training_cases

CALIBRATE_ON = 100  # edits held out for a guarantee


@command(VALUES, Resumable)
def train(
    *, data: DataOptions, edits: int | None = None, model: ModelOptions, method: training.Method, at: RunOptions,
    api: ApiOptions,
) -> None:  # fmt: skip
    """Train DR-IKE's retriever and budget on a model's right and wrong answers."""
    options = options_in(locals())
    guarantee = _checked(method, at.replicas)
    encoder, seed = method.encoder or MINILM, data.seed or 0
    folder = at.resume or new_run(at.out, "train")
    setup = open_setup(
        data.data or [TINYFACTS], train=edits, test=data.test, editable=data.editable, seed=seed, encoder=encoder,
        subset=data.subset, target=data.zsre_target, paraphrases=data.paraphrases, pool=data.pool,
        validation=(method.calibrate_on or CALIBRATE_ON) if guarantee else 0,
    )  # fmt: skip
    if guarantee:
        check_possible(guarantee, setup.split.validation)
    opened = open_model(model, api, DEFAULTS, at=at)
    method = replace(method, judge=Judge(opened.model, method.rule).rule.name)
    if count_only(opened.model, api, lambda counting: _count(counting, setup, method, opened)):
        return
    settings = options | {
        "data": data.data or [TINYFACTS], "model": opened.name, "seed": seed, "encoder": encoder,
        "zsre_target": data.zsre_target or "alt", "template": opened.template, "judge": method.judge,
    }  # fmt: skip
    refused: GuaranteeError | None = None
    with recorded_at(folder, setup, opened, settings, options, command="train", at=at):
        head_encoder = WatchedEncoder(method.policy_encoder or encoder)
        editor = training.new_editor(method, setup, head_encoder, seed=seed, limit=opened.limit)
        described = describe_model(opened.name, opened.model)
        try:
            watch_training(folder, setup, opened.model, editor, method, described=described)
            if method.is_per_query:
                watch_query_policy(folder, setup, opened.model, editor, method, guarantee=guarantee)
        except GuaranteeError as problem:  # the policy is saved as it was trained
            refused = problem
    say(f"\nSaved in {folder}. Evaluate it: {this_command()} evaluate --run {folder}")
    if refused is not None:
        raise refused


def _checked(method: training.Method, replicas: int) -> Guarantee | None:
    """What --guarantee asks for. Raises UsageError for options that do not go together."""
    if method.parallel_edits < replicas:
        remedy = f"give --parallel-edits {2 * replicas}, which also changes what is learned, or fewer --replicas"
        raise UsageError(f"--parallel-edits {method.parallel_edits} leaves some of {replicas} replicas idle: {remedy}")
    if method.promise is None:
        if method.calibrate_on is not None:
            raise UsageError('--calibrate-on holds edits out for a guarantee: add --guarantee, as "rr>=.85"')
        return None
    if not method.is_per_query:
        raise UsageError("--guarantee is for the policy that decides for each query: add --objective s")
    return Guarantee.parse(method.promise)


def _count(counting: CountingModel, setup: Setup, method: training.Method, opened: OpenedModel) -> None:
    """Count the calls of all epochs, and those for the answers under each mix."""
    questions = {case.edits: training.scored_probes(method, case) for case in setup.split.train}
    count_training(counting, setup.pool, questions, method.max_shots, style=method.style, limit=opened.limit)
    counting.repeat(method.epochs)
    if method.is_per_query:
        rule = Judge(counting, method.rule).rule
        resolved = count_own_answers(counting, training_cases(setup.split.train, setup.pool.seed), rule)
        cases = (*resolved.cases, *setup.split.validation)
        choices, style = actions(setup.pool.roles), method.style
        list(answers_under(choices, counting, setup.pool, cases, style=style, limit=opened.limit, rule=method.rule))


def watch_training(
    folder: Path, setup: Setup, model: LanguageModel, editor: InContextEditor[RankAndCut], method: training.Method, *,
    described: Mapping[str, object],
) -> None:  # fmt: skip
    """Train to the end; show the running epoch as a bar, every finished one as a line, and the model's work."""
    ranker, cases, epoch = editor.selector.ranker, len(setup.split.train), list[Episode]()
    assert isinstance(ranker, Retriever)  # noqa: S101 - only these are trained

    def show(event: training.TrainingEvent) -> str | None:
        match event:
            case Prepared():
                head = f"{ranker.form} over {ranker.encoder.name} ({ranker.parameters:,} parameters)"
                data = f"{cases} edits of {setup.split.ids.title}, {method.epochs} epochs"
                say(f"Training on {data}, model {model.info.name}, head {head}")
                show_prepared(event, "episodes")
            case PhaseStarted():
                names = f"{'epoch':>5} {'ESR':>6} {'mean k':>7} {'sigma':>7} {'tokens':>10} {'calls':>7} {'seconds':>8}"
                console.print(names, style="bold")
            case Episode():
                epoch.append(event)
                status = _epoch_so_far(epoch, finished=len(epoch) == cases)
                if len(epoch) == cases:
                    epoch.clear()
                return status
        return None

    past, seed = training.recovered_episodes(folder), setup.pool.seed
    events = training.run_training(folder, setup, model, editor, method, seed=seed, described=described, past=past)
    try:
        watch(events, show, model)
    finally:
        used = read_usage(folder).get("training", Usage())
        if used.tokens:
            draw(work({"training": used}))


def _epoch_so_far(episodes: Sequence[Episode], *, finished: bool) -> str:
    """The figures of the running epoch; those of a finished one are also printed as a line."""
    [epoch] = by_epoch(episodes)
    sigma = as_text(epoch.threshold)
    esr, k, calls = f"{epoch.esr:.3f}", f"{epoch.mean_k:.2f}", f"{epoch.calls:,}"
    tokens = "n/a" if epoch.prompt_tokens is None else f"{epoch.prompt_tokens:,}"
    if finished:
        console.print(f"{epoch.epoch:>5} {esr:>6} {k:>7} {sigma:>7} {tokens:>10} {calls:>7} {epoch.seconds:>8.1f}")
    cut = f"sigma {sigma}" if epoch.share is None else f"share {sigma}"
    return f"epoch {epoch.epoch}  ESR {esr}  k {k}  {cut}  tokens {tokens}  calls {calls}"


def watch_query_policy(
    folder: Path, setup: Setup, model: LanguageModel, editor: InContextEditor[RankAndCut], method: training.Method, *,
    guarantee: Guarantee | None = None,
) -> None:  # fmt: skip
    """Train the policy that decides for each query, and show what comes of it. Raises GuaranteeError."""

    def show(event: training.QueryPolicyEvent) -> None:
        match event:
            case PhaseStarted():
                say(f"\nAsking every probe of {event.total} edits alone and under each mix, for DR-IKE-Q")
                if event.done:
                    say(f"Recovered {event.done} of {event.total} edits")
            case Expected():
                absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in event.means]
                if absent:
                    note(f"no training edit has a {' or a '.join(absent)} probe, so the policy learns from none")
                means = ", ".join(f"{aspect.value} {mean:.3f}" for aspect, mean in event.means.items())
                tokens = f"{event.tokens:.0%} of the tokens of all demonstrations"
                say(f"Expected on these edits: S {event.score:.3f} ({means}) with {tokens}")
            case CertifiedGuarantee():
                say(f"Guaranteed: {event.sentence} (measured there: {event.measured:.3f}, shift {event.offset:g})")

    watch(training.run_query_policy(folder, setup, model, editor, method, guarantee=guarantee), show, model)


def show_prepared(event: Prepared, unit: str) -> None:
    """Print how much of a stopped run is recovered, and the notes on the demonstrations."""
    if event.recovered:
        say(f"Recovered {event.recovered} of {event.total} {unit}")
    for sentence in event.notes:
        say(sentence, "dim")
