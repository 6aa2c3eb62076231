"""`drike train`: Algorithm 1 on a data set and a model, into a run's folder."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from drike.cli.console import draw, note, say, this_command, watch_answers, watch_training
from drike.cli.costs import CountingModel, count_training, live, metered, show_bound
from drike.cli.opening import DEFAULTS, WatchedEncoder, describe_model, new_run, open_model, open_setup
from drike.cli.options import DataOptions, MethodOptions, ModelOptions, RunOptions, takes_options
from drike.cli.resume import alone_at, note_versions, options_in
from drike.datasets import TINYFACTS
from drike.editors.budgets import Budget, Flip, Fraction, Threshold
from drike.editors.in_context import InContextEditor
from drike.editors.learned_budgets import untrained
from drike.editors.query_policy import QueryPolicy
from drike.editors.retriever import Retriever
from drike.editors.role_counts import policy_mixes
from drike.editors.selectors import RankAndCut
from drike.edits import ASPECTS_OF_S, EditCase, Probe, rewrite_probe
from drike.encoders import MINILM, TextEncoder
from drike.errors import GuaranteeError, UsageError
from drike.evaluation.answer_matrix import answers_under
from drike.evaluation.judge import LIKELIHOOD, RULES, Judge, Rule
from drike.evaluation.risk_control import Guarantee
from drike.models.protocols import LanguageModel, Usage
from drike.models.served.options import ApiOptions
from drike.prompts import PromptStyle
from drike.report import work
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import read_usage
from drike.runs.recording import recorded_answers, recorded_training
from drike.runs.resume import check_same, recovered_answers, recovered_episodes
from drike.runs.run import Run, Setup
from drike.training import algorithm1 as reinforce
from drike.training.certify import check_possible, most_probes, promised
from drike.training.rewards import RecordedRollout, every_probe, replayed, rewrite_reward
from drike.training.rollouts import renormalised, sampled, top
from drike.training.s_objective import train_query_policy
from drike.training.schedules import disturbed, in_blocks

CALIBRATE_ON = 100  # edits held out for a promise


@takes_options
def train(
    *, data: DataOptions, edits: int | None = None, model: ModelOptions, method: MethodOptions, at: RunOptions,
    api: ApiOptions,
) -> None:  # fmt: skip
    """Train DR-IKE's retriever and budget on a model's right and wrong answers."""
    options = options_in(locals())
    if method.parallel_edits < at.replicas:
        raise UsageError(
            f"--parallel-edits {method.parallel_edits} leaves some of {at.replicas} replicas idle: "
            f"give --parallel-edits {2 * at.replicas}, which also changes what is learned, or fewer --replicas"
        )
    promise = promise_in(method)
    if method.reward != "rewrite" and method.stop_on_flip:
        raise UsageError("--stop-on-flip is for the paper's reward: leave it out, or --reward")
    sources, encoder, seed = data.data or [TINYFACTS], method.encoder or MINILM, data.seed or 0
    target, style = data.zsre_target or "alt", PromptStyle(method.layout, method.own_copy, method.retain)  # type: ignore[arg-type]
    folder = at.resume or new_run(at.out, "train")
    setup = open_setup(
        sources, train=edits, test=data.test, editable=data.editable, seed=seed, encoder=encoder, subset=data.subset,
        target=target, paraphrases=data.paraphrases, pool=data.pool,
        validation=(method.calibrate_on or CALIBRATE_ON) if promise else 0,
    )  # fmt: skip
    if promise:
        check_possible(promise, setup.split.validation)
    opened = open_model(model, api, DEFAULTS, at=at)
    rule = Judge(opened.model, RULES.get(method.judge or "")).rule
    method = replace(method, judge=rule.name)
    if isinstance(opened.model, CountingModel):
        questions = {case.edits: asked_by(method, case) for case in setup.split.train}
        count_training(opened.model, setup.pool, questions, method.max_shots, style=style, limit=opened.limit)
        opened.model.repeat(method.epochs)
        if method.objective == "balanced":
            mixes = policy_mixes(setup.pool.roles)
            cases = (*setup.split.train, *setup.split.validation)
            for _ in answers_under(mixes, opened.model, setup.pool, cases, style=style, limit=opened.limit, rule=rule):
                pass
        return show_bound(opened.model, api)
    described = describe_model(opened.name, opened.model)
    settings = options | {
        "data": sources, "model": opened.name, "seed": seed, "encoder": encoder, "zsre_target": target,
        "template": opened.template, "judge": rule.name,
    }  # fmt: skip
    refused: GuaranteeError | None = None
    with alone_at(folder, "train"):
        if at.resume:
            note_versions(check_same(Run.open(folder), setup, described))
        else:
            Run.create(folder, setup, described, settings, options=options)
        past = recovered_episodes(folder)
        retriever = Retriever(WatchedEncoder(method.policy_encoder or encoder), form=method.form, seed=seed)  # type: ignore[arg-type]
        learner = new_budget(method.budget, retriever.encoder, max_shots=method.max_shots, flip=method.flip, seed=seed)  # type: ignore[arg-type]
        with metered(opened.model, folder):
            editor = InContextEditor("DR-IKE", setup.pool, RankAndCut(retriever, learner), style, opened.limit)
            run_training(folder, setup, opened.model, editor, method, seed=seed, described=described, past=past)
            if method.objective == "balanced":
                try:
                    run_per_query(
                        folder, setup, opened.model, editor, named=method.named, price=method.shot_price,
                        promise=promise, rule=rule,
                    )  # fmt: skip
                except GuaranteeError as problem:  # the policy is saved as it was trained
                    refused = problem
    say(f"\nSaved in {folder}. Evaluate it: {this_command()} evaluate --run {folder}")
    if refused is not None:
        raise refused


def promise_in(method: MethodOptions) -> Guarantee | None:
    """What --promise asks for. Raises UsageError where it does not go together with the other options."""
    if method.promise is None:
        if method.calibrate_on is not None:
            raise UsageError('--calibrate-on holds edits out for a promise: add --promise, as "rr>=.85"')
        return None
    if method.objective != "balanced":
        raise UsageError("--promise is about the policy that decides for each query: add --objective balanced")
    return Guarantee.parse(method.promise)


def asked_by(method: MethodOptions, case: EditCase) -> tuple[Probe, ...]:
    """The questions that the reward asks about a case under each prefix, with the distractors that are scored, too."""
    probes = (rewrite_probe(case.edit),) if method.reward == "rewrite" else case.probes
    compares = method.judge == LIKELIHOOD.name
    return (*probes, *(replace(one, target=one.distractor) for one in probes if one.distractor and compares))


def run_training(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: InContextEditor[RankAndCut],
    method: MethodOptions,
    *,
    seed: int,
    described: Mapping[str, object],
    past: Sequence[RecordedRollout] = (),
) -> None:
    """Train the editor's retriever and budget, showing and saving every episode.

    past: episodes that this run recorded before it was stopped.
    """
    retriever, epochs, cases = editor.selector.ranker, method.epochs, setup.split.train
    assert isinstance(retriever, Retriever)  # noqa: S101 - `train` refuses others
    if not cases:
        raise UsageError("there is no edit to train on: ask for fewer --test edits or more --editable rows")
    say(
        f"Training on {len(cases)} edits of {setup.split.ids.title}, {epochs} epochs, model {model.info.name}, "
        f"head {retriever.form} over {retriever.encoder.name} ({retriever.parameters:,} parameters)"
    )
    if past:
        say(f"Recovered {len(past)} of {epochs * len(cases)} episodes")
    for sentence in setup.prepare(cases, [retriever, editor.selector.budget]):
        say(sentence, "dim")
    training = {
        "model": dict(described), "data": setup.dataset.name, "data_fingerprint": setup.dataset.fingerprint,
        "edits": len(cases), "seed": seed, "method": asdict(method),
    }  # fmt: skip
    rule = RULES.get(method.judge or "")
    if method.reward == "rewrite":
        reward = rewrite_reward(model, stop_on_flip=method.stop_on_flip, rule=rule)
    else:
        reward = every_probe(model, rule=rule)
    channel = disturbed(method.delay, method.noise, episodes=epochs * len(cases), seed=seed)
    blocks = method.parallel_edits
    choose = sampled(random.Random(seed), apart=blocks > 1) if method.selection == "sample" else top
    episodes = reinforce.train(
        editor, replayed(past, reward), cases, epochs=epochs, learning_rate=method.learning_rate,
        choose=renormalised(choose) if method.renormalise else choose,
        schedule=in_blocks(blocks, model.info.calls_at_once), channel=channel,
    )  # fmt: skip
    recorded = recorded_training(folder, episodes, editor, model, training, per_epoch=len(cases), past=len(past))
    try:
        with closing(recorded):
            watch_training(recorded, epochs * len(cases), len(cases), live(model))
    finally:
        used = read_usage(folder).get("training", Usage())
        if used.tokens:
            draw(work({"training": used}))


def run_per_query(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: InContextEditor[RankAndCut],
    *,
    named: bool = False,
    price: float = 0.05,
    promise: Guarantee | None = None,
    rule: Rule | None = None,
) -> Checkpoint:
    """Train the policy that decides for each query, and save it beside the trained retriever; return both.

    Answers that are in the folder already are not asked for again. named: let the policy read whether a query names the
    subject. price: what a prompt with all demonstrations costs, in S. Raises GuaranteeError, after the policy is saved,
    if the validation edits do not certify the promise.
    """
    retriever = editor.selector.ranker
    assert isinstance(retriever, Retriever)  # noqa: S101 - it was just trained
    trained, train = checkpoint.load(folder, encoder=retriever.encoder), setup.split.train
    cases = (*train, *setup.split.validation)
    policy = QueryPolicy(trained.retriever.encoder, policy_mixes(setup.pool.roles), named=named)
    answers = recovered_answers(folder, cases, len(policy.mixes))
    say(f"\nAsking every probe of {len(cases)} edits under each of {len(policy.mixes)} mixes, for DR-IKE-Q")
    if answers:
        say(f"Recovered {len(answers)} of {len(cases)} edits")
    left = cases[len(answers) :]
    asked = answers_under(policy.mixes, model, setup.pool, left, style=editor.style, limit=editor.limit, rule=rule)
    watch_answers(recorded_answers(folder, asked, model), answers, len(cases), live(model))
    *_, last = train_query_policy(policy, train, answers[: len(train)], price=price)
    absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in last.means]
    if absent:
        note(f"no training edit has a {' or a '.join(absent)} probe, so the policy does not learn from any")
    expected = ", ".join(f"{aspect.value} {mean:.3f}" for aspect, mean in last.means.items())
    say(f"Expected on these edits: S {last.score:.3f} ({expected}) with {last.shots:.1f} demonstrations per prompt")
    both = replace(trained, per_query=policy)
    checkpoint.save(both, folder)
    if promise is not None:
        most = most_probes(promise, setup.dataset.cases)
        kept = promised(policy, setup.split.validation, answers[len(train) :], promise, most=most, price=price)
        say(f"Promised: {kept.sentence} (measured there: {kept.measured:.3f}, offset {kept.offset:g})")
        policy = policy.with_logit_offset(kept.offset)
        policy.trained_on |= {edit.key for case in setup.split.validation for edit in case.edits}
        both = replace(both, per_query=policy, promise=kept)
        checkpoint.save(both, folder)
    return both


def new_budget(name: str, encoder: TextEncoder, *, max_shots: int, flip: Flip, seed: int) -> Budget:
    """An untrained budget by its name on the command line."""
    match name:
        case "threshold":
            return Threshold(0.0, max_shots, flip)
        case "all":
            return Fraction(1.0, max_shots)
        case "half":
            return Fraction(0.5, max_shots)
    return untrained(name, encoder, max_shots=max_shots, flip=flip, seed=seed)
