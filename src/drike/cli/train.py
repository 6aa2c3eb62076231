"""`drike train`: Algorithm 1 on a data set and a model, into a run's folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from drike.cli.api_options import ApiOptions, DryRun, live, metered, spent_in, template_for, with_api_options
from drike.cli.console import console, draw, watch_training
from drike.cli.dry_run import count_training, counting_model, show_bound
from drike.cli.resume import Resume, alone_at, check_same, options_in, resumable
from drike.cli.setup import (
    EMBEDDED,
    TINYFACTS,
    PromptTokens,
    Setup,
    Subset,
    ZsreTarget,
    describe_model,
    limit_to,
    new_run,
    open_encoder,
    open_model,
    open_setup,
    record_run,
)
from drike.datasets.published import PUBLISHED
from drike.demonstrations import DemonstrationSet
from drike.edits import EditCase
from drike.encoders import MINILM, TextEncoder
from drike.errors import UsageError
from drike.models.protocols import LanguageModel, Measured, Usage
from drike.models.served.address import SERVICES
from drike.report import work
from drike.retrieval.budget import Budget, Flip, Fraction, Threshold
from drike.retrieval.learned_budget import KINDS, Controller, untrained
from drike.retrieval.retriever import FORMS, Retriever
from drike.retrieval.token_limit import TokenLimit
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import add_usage, answered, append, episode_record, keep_lines
from drike.training import reinforce
from drike.training.reinforce import RecordedRollout, Switches
from drike.training.schedules import AT_ONCE, Feedback

BUDGETS = ("threshold", "all", "half", *KINDS)

Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        help=f"tinyfacts; {', '.join(PUBLISHED)}; or files and addresses of data sets in their published forms",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="embedded; reader; a Hugging Face causal model by path or name; or SERVICE:MODEL[@ADDRESS] behind an API, "
        f"SERVICE one of {', '.join(SERVICES)}",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the run; default runs/DATE-COMMAND")]
LARGEST_SEED = 2**63 - 1  # torch's
Seed = Annotated[
    int,
    typer.Option("--seed", max=LARGEST_SEED, min=0, help="Seed of the split, the head's first weights and every draw"),
]
Epochs = Annotated[int, typer.Option("--epochs", min=1, help="Times that all training edits are gone through")]
Editable = Annotated[
    int | None, typer.Option("--editable", help="First rows that may be edited; the rest demonstrates")
]
Encoder = Annotated[
    str, typer.Option("--encoder", help="Text encoder that chooses the pool: path, hub name, or hashing")
]
Template = Annotated[
    str | None, typer.Option("--template", help="plain, or chat: the prompt as one user turn (default behind an API)")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, ...; default the best there is")]
Replicas = Annotated[
    int, typer.Option("--replicas", min=1, help="Copies of the model as Ray actors, each with a card or a core")
]


@resumable
@with_api_options
def train(
    *,
    data: Data = [TINYFACTS],  # noqa: B006 - typer copies it
    model: Model = EMBEDDED,
    out: Out = None,
    edits: Annotated[
        int | None, typer.Option("--edits", min=1, help="Training edits; default 300, or what there is")
    ] = None,
    test: Annotated[int | None, typer.Option("--test", min=0, help="Edits kept aside for testing; default 100")] = None,
    editable: Editable = None,
    subset: Subset = None,
    zsre_target: ZsreTarget = "alt",
    epochs: Epochs = 5,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", min=0.0, max=1e3, help="Of Adam, for the head")
    ] = 1e-4,
    seed: Seed = 0,
    form: Annotated[str, typer.Option("--form", help="The head S_theta: dot or cross")] = FORMS[0],
    encoder: Encoder = MINILM,
    policy_encoder: Annotated[
        str | None, typer.Option("--policy-encoder", help="Encoder under the head; default --encoder")
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            help=f"How many retains are kept: threshold (the paper's), all or half, or learned: {', '.join(KINDS)}",
        ),
    ] = "threshold",
    max_shots: Annotated[int, typer.Option("--max-shots", min=1, help="K: most retains in a prompt")] = 16,
    flip: Annotated[str, typer.Option("--flip", help="Where a flip wants sigma: offender or algorithm1")] = "offender",
    selection: Annotated[str, typer.Option("--selection", help="top (Algorithm 1), or sample")] = "top",
    renormalise: Annotated[bool, typer.Option("--renormalise", help="log p_j over what is left of the pool")] = False,
    stop_on_flip: Annotated[
        bool, typer.Option("--stop-on-flip", help="End an episode where a retain breaks the answer")
    ] = False,
    retain: Annotated[str, typer.Option("--retain", help="headed (with its New Fact line), or bare")] = "headed",
    layout: Annotated[str, typer.Option("--layout", help="append (nested prompts), or ike (all shuffled)")] = "append",
    own_copy: Annotated[bool, typer.Option("--own-copy/--no-own-copy", help="The edit as a copy of its own")] = True,
    delay: Annotated[
        int, typer.Option("--delay", min=0, help="Rewards teach up to this many episodes later (a robustness study)")
    ] = 0,
    noise: Annotated[
        float, typer.Option("--noise", min=0.0, max=1.0, help="Share of rewards that are told falsely (likewise)")
    ] = 0.0,
    prompt_tokens: PromptTokens = None,
    template: Template = None,
    device: Device = None,
    replicas: Replicas = 1,
    parallel_edits: Annotated[
        int, typer.Option("--parallel-edits", min=1, help="B: edits rolled out at once; 1 is Algorithm 1")
    ] = 1,
    dry_run: DryRun = False,
    resume: Resume = None,
    terms: ApiOptions,
) -> None:
    """Train DR-IKE's retriever and budget on a model's right and wrong answers."""
    options = options_in(locals())
    _one_of("--form", form, FORMS)
    _one_of("--flip", flip, ("offender", "algorithm1"))
    _one_of("--budget", budget, BUDGETS)
    if math.isnan(learning_rate) or math.isnan(noise):
        raise UsageError("--learning-rate and --noise are numbers, not nan")
    if parallel_edits < replicas:
        raise UsageError(
            f"--parallel-edits {parallel_edits} leaves some of {replicas} replicas idle: "
            f"give --parallel-edits {2 * replicas}, which also changes what is learned, or fewer --replicas"
        )
    template = template_for(model, template)
    settings = options | {"template": template}
    try:
        switches = Switches(selection, renormalise, stop_on_flip, retain, layout, own_copy)  # type: ignore[arg-type]
    except ValueError as problem:
        raise UsageError(f"--{problem}") from problem
    folder = resume or new_run(out, "train")
    setup = open_setup(
        data, train=edits, test=test, editable=editable, seed=seed, encoder=encoder, subset=subset, target=zsre_target
    )
    if dry_run:
        counted = counting_model(model, template, terms)
        limit = limit_to(prompt_tokens, counted, terms.tokenizer, template)
        candidates = setup.pool.candidates([case.edit for case in setup.parts.train])
        count_training(counted.tally, candidates, max_shots, switches.style, limit)
        return show_bound(counted.tally, terms, epochs)
    left = terms.after(spent_in(folder)) if resume else terms
    asked = open_model(model, template=template, device=device, replicas=replicas, terms=left)
    limit = limit_to(prompt_tokens, asked, terms.tokenizer, template)
    described = describe_model(model, asked)
    with alone_at(folder, "train"):
        past = take_up(folder, setup, described) if resume else []
        if not resume:
            record_run(folder, setup, described, settings, options=options)
        retriever = Retriever(open_encoder(policy_encoder or encoder), form=form, seed=seed)  # type: ignore[arg-type]
        learner = new_budget(budget, retriever.encoder, max_shots=max_shots, flip=flip, seed=seed)  # type: ignore[arg-type]
        with metered(asked, "training", folder):
            run_training(
                folder, setup, asked, retriever, learner,
                epochs=epochs, learning_rate=learning_rate, switches=switches, limit=limit, seed=seed,
                described=described, feedback=Feedback(delay, noise), parallel_edits=parallel_edits, past=past,
            )  # fmt: skip
    console.print(f"\nSaved in {folder}. Evaluate it: drike evaluate --run {folder}", markup=False)


def take_up(folder: Path, setup: Setup, described: Mapping[str, object]) -> list[RecordedRollout]:
    """What is recorded of a training that is to go on, its file cut to whole episodes.

    Raises RunError where data or model are not those it began with.
    """
    check_same(folder, setup, described)
    path = folder / "episodes.jsonl"
    past = answered(path)
    keep_lines(path, len(past))
    return past


def run_training(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    retriever: Retriever,
    budget: Budget,
    *,
    epochs: int,
    learning_rate: float,
    switches: Switches,
    seed: int,
    described: Mapping[str, object],
    limit: TokenLimit | None = None,
    feedback: Feedback = AT_ONCE,
    parallel_edits: int = 1,
    past: Sequence[RecordedRollout] = (),
) -> Checkpoint:
    """Train, showing and saving every episode; the checkpoint is rewritten after each epoch and on Ctrl-C.

    past: episodes of this run that are in its folder already.
    """
    cases = setup.parts.train
    if not cases:
        raise UsageError("there is no edit to train on: ask for fewer --test edits or more --editable rows")
    console.print(
        f"Training on {len(cases)} edits of {setup.title}, {epochs} epochs, model {model.name}, "
        f"head {retriever.form} over {retriever.encoder.name} ({retriever.parameters:,} parameters)",
        markup=False,
    )
    if past:
        console.print(f"Recovered {len(past)} of {epochs * len(cases)} episodes", markup=False)
    warm(setup, cases, [retriever, budget])
    training: dict[str, object] = {
        "model": dict(described), "data": setup.dataset.name, "data_fingerprint": setup.dataset.fingerprint,
        "edits": len(cases), "learning_rate": learning_rate, "seed": seed,
        "style": asdict(switches.style), "switches": asdict(switches),
        "feedback": asdict(feedback), "parallel_edits": parallel_edits,
    }  # fmt: skip
    current, done, head, before = budget, 0, _copy(retriever), usage_of(model)
    episodes = reinforce.train(
        model, cases, setup.pool, retriever, budget,
        epochs=epochs, learning_rate=learning_rate, switches=switches, limit=limit, feedback=feedback,
        parallel_edits=parallel_edits, seed=seed, past=past,
    )  # fmt: skip
    try:
        for episode in watch_training(episodes, epochs * len(cases), len(cases), live(model)):
            # Head, budget and count belong together whenever Ctrl-C comes: the next step may be half done by then.
            current, done, head = episode.budget, done + 1, _copy(retriever)
            if done <= len(past):
                continue
            append(folder / "episodes.jsonl", [episode_record(episode)])
            if done % len(cases) == 0:
                checkpoint.save(Checkpoint(retriever, current, switches.style, training | {"episodes": done}), folder)
    finally:
        try:
            retriever.head.load_state_dict(head)
            saved = Checkpoint(retriever, current, switches.style, training | {"episodes": done})
            if done:
                checkpoint.save(saved, folder)
        finally:  # also where the disk is full
            episodes.close()  # it waits for edits that are still being asked about
            if isinstance(model, Measured):
                draw(work({"training": add_usage(folder, "training", usage_of(model) - before)}))
    return saved


def usage_of(model: LanguageModel) -> Usage:
    """What a model has done so far; nothing where it does not count."""
    return model.usage if isinstance(model, Measured) else Usage()


def _copy(retriever: Retriever) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in retriever.head.state_dict().items()}


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


def warm(setup: Setup, cases: Sequence[EditCase], parts: Iterable[object]) -> None:
    """Encode all that retrievers and learned budgets will read in one go; say what stands in, and what was passed over.

    Batches are faster than pool by pool, and seconds per edit are then not the first look-up's.
    """
    for sentence in setup.pool.fallbacks:
        console.print(sentence, style="dim")
    candidates = setup.pool.candidates([case.edit for case in cases])
    _report_excluded(candidates)
    for part in parts:
        if isinstance(part, Retriever | Controller) and part.encoder is not None:
            part.encoder.encode(sorted({text for one in candidates for text in part.texts(one)}))


def _report_excluded(candidates: Sequence[DemonstrationSet]) -> None:
    """Say how many records were kept from demonstrating, since they would contradict or repeat the edit."""
    count = sum(one.excluded for one in candidates)
    edits = sum(one.excluded > 0 for one in candidates)
    if count:
        console.print(f"Kept {count} records from demonstrating their own fact's edit, at {edits} edits", style="dim")


def _one_of(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} must be {' or '.join(allowed)}, not {value}")
