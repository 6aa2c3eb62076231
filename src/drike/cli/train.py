"""`drike train`: Algorithm 1 on a data set and a model, into a run's folder."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from drike.cli.api_options import live, metered, used_in
from drike.cli.console import draw, say, this_command, watch_training
from drike.cli.dry_run import CountingModel, count_training, show_bound
from drike.cli.options import DataOptions, MethodOptions, ModelOptions, takes_options
from drike.cli.resume import alone_at, note_versions, options_in, resumable
from drike.cli.setup import WatchedEncoder, describe_model, limit_to, new_run, open_setup
from drike.datasets import TINYFACTS
from drike.editors.ike import IKE
from drike.encoders import MINILM, TextEncoder
from drike.errors import UsageError
from drike.models import EMBEDDED, load, template_for
from drike.models.protocols import LanguageModel, Usage
from drike.models.served.options import ApiOptions
from drike.prompts import PromptStyle
from drike.report import work
from drike.retrieval.budget import Budget, Flip, Fraction, Threshold
from drike.retrieval.learned_budget import untrained
from drike.retrieval.retriever import Retriever
from drike.runs.folder import read_usage
from drike.runs.recording import recorded_training
from drike.runs.resume import check_same, recovered_episodes
from drike.runs.run import Run, Setup
from drike.training import reinforce
from drike.training.choices import renormalised, sampled, top
from drike.training.rewards import RecordedRollout, edit_takes, replayed
from drike.training.schedules import disturbed, in_blocks


@resumable
@takes_options
def train(
    *,
    data: DataOptions,
    edits: int | None = None,
    model: ModelOptions,
    replicas: int = 1,
    method: MethodOptions,
    out: Path | None = None,
    resume: Path | None = None,
    api: ApiOptions,
    dry_run: bool = False,
) -> None:
    """Train DR-IKE's retriever and budget on a model's right and wrong answers."""
    options = options_in(locals())
    if method.parallel_edits < replicas:
        raise UsageError(
            f"--parallel-edits {method.parallel_edits} leaves some of {replicas} replicas idle: "
            f"give --parallel-edits {2 * replicas}, which also changes what is learned, or fewer --replicas"
        )
    settings = options | {
        "data": data.data or [TINYFACTS], "model": model.model or EMBEDDED, "seed": data.seed or 0,
        "encoder": method.encoder or MINILM, "zsre_target": data.zsre_target or "alt",
    }  # fmt: skip
    name, encoder, seed = str(settings["model"]), str(settings["encoder"]), data.seed or 0
    template = settings["template"] = template_for(name, model.template)
    style = PromptStyle(method.layout, method.own_copy, method.retain)  # type: ignore[arg-type]
    folder = resume or new_run(out, "train")
    setup = open_setup(
        data.data or [TINYFACTS], train=edits, test=data.test, editable=data.editable, seed=seed, encoder=encoder,
        subset=data.subset, target=data.zsre_target or "alt",
    )  # fmt: skip
    if dry_run:
        counted = CountingModel(name, template, api)
        limit = limit_to(model.prompt_tokens, counted, api.tokenizer, template)
        candidates = setup.pool.candidates([case.edit for case in setup.split.train])
        count_training(counted, candidates, method.max_shots, style, limit)
        return show_bound(counted, api, method.epochs)
    left = api.after(used_in(folder)) if resume else api
    opened = load(name, template=template, device=model.device, replicas=replicas, api=left)
    limit = limit_to(model.prompt_tokens, opened, api.tokenizer, template)
    described = describe_model(name, opened)
    with alone_at(folder, "train"):
        if resume:
            note_versions(check_same(Run.open(folder), setup, described))
        else:
            Run.create(folder, setup, described, settings, options=options)
        past = recovered_episodes(folder)
        retriever = Retriever(WatchedEncoder(method.policy_encoder or encoder), form=method.form, seed=seed)  # type: ignore[arg-type]
        learner = new_budget(method.budget, retriever.encoder, max_shots=method.max_shots, flip=method.flip, seed=seed)  # type: ignore[arg-type]
        with metered(opened, folder):
            editor = IKE("DR-IKE", setup.pool, retriever, learner, style, limit)
            run_training(folder, setup, opened, editor, method, seed=seed, described=described, past=past)
    say(f"\nSaved in {folder}. Evaluate it: {this_command()} evaluate --run {folder}")


def run_training(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: IKE,
    method: MethodOptions,
    *,
    seed: int,
    described: Mapping[str, object],
    past: Sequence[RecordedRollout] = (),
) -> None:
    """Train the editor's retriever and budget, showing and saving every episode.

    past: episodes that this run recorded before it was stopped.
    """
    retriever, epochs, cases = editor.ranker, method.epochs, setup.split.train
    assert isinstance(retriever, Retriever)  # noqa: S101 - `train` refuses others
    if not cases:
        raise UsageError("there is no edit to train on: ask for fewer --test edits or more --editable rows")
    say(
        f"Training on {len(cases)} edits of {setup.split.ids.title}, {epochs} epochs, model {model.info.name}, "
        f"head {retriever.form} over {retriever.encoder.name} ({retriever.parameters:,} parameters)"
    )
    if past:
        say(f"Recovered {len(past)} of {epochs * len(cases)} episodes")
    for sentence in setup.prepare(cases, [retriever, editor.budget]):
        say(sentence, "dim")
    training = {
        "model": dict(described), "data": setup.dataset.name, "data_fingerprint": setup.dataset.fingerprint,
        "edits": len(cases), "seed": seed, "method": asdict(method),
    }  # fmt: skip
    reward = edit_takes(model, editor.style, editor.limit, stop_on_flip=method.stop_on_flip)
    blocks = method.parallel_edits
    choose = sampled(random.Random(seed), apart=blocks > 1) if method.selection == "sample" else top
    episodes = reinforce.train(
        editor, replayed(past, reward), cases, epochs=epochs, learning_rate=method.learning_rate,
        choose=renormalised(choose) if method.renormalise else choose, pace=in_blocks(blocks, model.info.calls_at_once),
        channel=disturbed(method.delay, method.noise, episodes=epochs * len(cases), seed=seed),
    )  # fmt: skip
    recorded = recorded_training(folder, episodes, editor, model, training, per_epoch=len(cases), past=len(past))
    try:
        with closing(recorded):
            watch_training(recorded, epochs * len(cases), len(cases), live(model))
    finally:
        used = read_usage(folder).get("training", Usage())
        if used.tokens:
            draw(work({"training": used}))


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
