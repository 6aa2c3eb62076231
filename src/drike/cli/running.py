"""What commands on a model or a run share: opening both, a bar for each phase, what was used, and --resume."""

import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_args

from drike.cli.console import complain, note, progress, say, this_command
from drike.cli.dry_run import CountingModel, token_counter, usage_sentence
from drike.cli.options import Command, DataOptions, ModelOptions, RunOptions, as_flags
from drike.encoders import MINILM, load_encoder
from drike.errors import RunError, UsageError
from drike.models import EMBEDDED, ApiOptions, LanguageModel, Template, load, template_for
from drike.research.datasets import TINYFACTS, SplitIds
from drike.research.datasets.dataset import keys_of
from drike.research.editors.in_context import TokenLimit
from drike.research.editors.pool import Pool
from drike.research.evaluation.evaluate import CaseAnswers
from drike.research.report.reported_runs import trained_run
from drike.research.runs import run as files
from drike.research.runs.evaluating import CaseEvaluated
from drike.research.runs.run import PhaseStarted, Run, Settings, Setup, TrainedRun
from drike.research.training.algorithm1 import Episode
from drike.support.records import read

# The values of options that neither the command line nor a run gives.
DEFAULTS = Settings(
    data=(TINYFACTS,), model=EMBEDDED, template=None, encoder=MINILM, seed=0, zsre_target="alt"
)
Event = TypeVar("Event")
_RECORDS = (Episode, CaseAnswers, CaseEvaluated)  # one step of a phase each
# Options that may change when a run continues, since no result depends on them.
_CHANGEABLE = {
    "allow_http",
    "concurrency",
    "deadline",
    "no_cache",
    "price_in",
    "price_out",
    "max_calls",
    "max_cost",
}
_PLACES = {"out", "resume"}  # where a run is, rather than what it is
# Options of older versions, with their defaults.
_RETIRED: Mapping[str, object] = {
    "credit": "prefix", "soft": False, "reward": "rewrite", "selection": "top", "renormalise": False,
    "stop_on_flip": False, "delay": 0, "noise": 0.0, "order": None,
}  # fmt: skip


def open_setup(
    settings: Settings, *, split: SplitIds | None = None, train: int | None = None, test: int | None = None,
    validation: int = 0, editable: int | None = None, subset: str | None = None,
    leave_out: Collection[tuple[str, str]] = (),
) -> Setup:  # fmt: skip
    """Load, split and embed the data of a run's settings, whose seed draws the split and the roles. Raises DataError.

    A size of None is the paper's, or all available. split: an earlier one to keep. leave_out: facts not to edit.
    """
    dataset, seed = settings.dataset(), settings.seed
    parts = dataset.restore(split) if split is not None else dataset.split(
        seed=seed, train=train, test=test, validation=validation, editable=editable, subset=subset, exclude=leave_out
    )  # fmt: skip
    return Setup(
        dataset, parts, Pool(parts.demonstrations, load_encoder(settings.encoder), seed=seed)
    )


def data_settings(base: Settings, data: DataOptions, encoder: str | None) -> Settings:
    """Settings with the data and the encoder that options give; other data comes without the pool of `base`."""
    values: dict[str, Any] = {"pool": None} if data.data else {}
    for name, value in (*vars(data).items(), ("encoder", encoder)):
        if name in vars(base) and value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return replace(base, **values)


def open_trained_run(folder: Path) -> TrainedRun:
    """Read a training run's folder, with a note if it was stopped. Raises RunError, CheckpointError, DataError."""
    base = TrainedRun.open(folder)
    done, whole = (
        base.trained.training.get("episodes"),
        (base.run.epochs or 0) * len(base.split.train),
    )
    without_policy = (
        base.run.record.settings.get("objective") in ("s", "balanced")
        and not base.trained.per_query
    )
    if (isinstance(done, int) and done < whole) or without_policy:
        note(
            f"{folder} was stopped after {done} of {whole} episodes; drike train --resume {folder} continues it"
        )
    return base


def open_edits(
    run: Path | None, data: DataOptions, encoder: str | None, at: RunOptions
) -> tuple[TrainedRun | None, Setup, dict[str, Any]]:
    """The edits to test on: those of a training run, or of other data with its settings where no others are given.

    Returns that run, the data without edits to train on, and the settings as run.json has them. Raises DrikeError.
    """
    if data.test == 0:
        raise UsageError("there is no edit to test on: ask for --test 1 or more")
    if at.resume and run:
        run = trained_run(Run.open(at.resume)) or Path(run)  # folders may have moved, together
    base, split = None if run is None else open_trained_run(run), None
    if base is not None and data.data is None:
        if replace(data, test=None) != DataOptions():
            remedy = "give --editable, --subset, --zsre-target, --paraphrases, --pool and --seed only with other --data"
            raise UsageError(f"--run keeps its split: {remedy}")
        split = base.split
        if data.test is not None:  # its own, then others that were not trained on
            cases, own = base.run.dataset().cases, {*split.train, *split.validation, *split.test}
            known = base.trained.trained_on.union(
                *(keys_of(case) for case in cases if case.case_id in own)
            )
            others = {
                *{
                    keys_of(c): c.case_id for c in cases[::-1] if known.isdisjoint(keys_of(c))
                }.values()
            }
            enough = (*split.test, *(case_id for case_id in split.editable if case_id in others))
            if data.test > (most := len(enough)):
                raise UsageError(
                    f"only {most} editable rows were not trained on: ask for --test {most} or fewer"
                )
            split = replace(split, test=enough[: data.test])
    settings = data_settings(base.run if base else DEFAULTS, data, encoder)
    setup = open_setup(
        settings, split=split, train=0, test=data.test, editable=data.editable, subset=data.subset,
        leave_out=base.trained.trained_on if base and split is None else (),
    )  # fmt: skip
    return base, setup, {
        "run": None if run is None else str(run), "data": settings.data, "zsre_target": settings.zsre_target or "alt",
        "test": data.test, "editable": data.editable, "seed": settings.seed, "encoder": settings.encoder,
        "subset": data.subset, "paraphrases": settings.paraphrases, "pool": settings.pool or None,
    }  # fmt: skip


@dataclass(frozen=True)
class OpenedModel:
    """A model with its name and what the options and a run's settings say about its prompts and requests."""

    name: str
    model: LanguageModel
    template: Template
    api: ApiOptions
    limit: TokenLimit | None

    @property
    def described(self) -> dict[str, object]:
        """What a run's folder records of it: the name it was loaded by, and its identity."""
        return {"asked": self.name, "name": self.model.info.name, **self.model.info.identity}


def open_model(
    options: ModelOptions,
    api: ApiOptions,
    base: Settings,
    *,
    at: RunOptions | None = None,
    cache: bool = True,
) -> OpenedModel:
    """Open the model of the options, or else that of `base`; for a dry run a `CountingModel`.

    A resumed run's limits are reduced by what it spent. cache: as in `models.load`. Raises ModelError, UsageError.
    """
    name, at = options.model or base.model, at or RunOptions()
    template = template_for(name, options.template or base.template)
    api = replace(api, tokenizer=api.tokenizer or (base.tokenizer if name == base.model else None))
    left = api.after(files.total_usage(at.resume)) if at.resume else api
    model = CountingModel(name, template, api) if at.dry_run else load(
        name, template=template, device=options.device, replicas=at.replicas, api=left, cache=cache
    )  # fmt: skip
    tokens, count = options.prompt_tokens or base.prompt_tokens, model.count_tokens
    if tokens is not None and count is None:
        if api.tokenizer is None:
            remedy = "give the folder or hub name of its tokenizer as --tokenizer"
            raise UsageError(
                f"{model.info.name} does not count tokens, as --prompt-tokens needs it: {remedy}"
            )
        of_prompt = token_counter(api.tokenizer, template)
        count = lambda prompts: list(map(of_prompt, prompts))  # noqa: E731
    return OpenedModel(
        name, model, template, api, TokenLimit(tokens, count) if tokens and count else None
    )


def new_run(out: Path | None, command: str, run: Path | None = None) -> Path:
    """The folder of a new run: `out`, or <date>-<command>, among the evaluations of `run` if it tests that.

    The first write creates it. Raises RunError if it holds a run; one that recorded nothing is begun again.
    """
    folder = (
        out
        or (run / files.EVALUATIONS if run else Path("runs"))
        / f"{time.strftime('%Y%m%d-%H%M%S')}-{command}"
    )
    files.require_new(folder)
    return folder


def watch(
    events: Generator[Event], show: Callable[[Event], str | None], model: LanguageModel
) -> Event:
    """Run work to its end, with a bar for each phase; return its last event. show: prints one, or returns figures."""
    with ExitStack() as phase, closing(events):
        for event in events:
            if not isinstance(event, _RECORDS):
                phase.close()
            figures = show(event)
            if isinstance(event, PhaseStarted):
                bar, task = phase.enter_context(progress(event.name, partial(live_usage, model)))
                bar.update(task, total=event.total, completed=event.done)
            elif isinstance(event, _RECORDS):
                bar.update(task, advance=1, status=figures or "")
    return event


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used, however the block ends. folder: of a run, to record the calls that opened it."""
    opened = model.usage
    if folder is not None and opened.requests:
        files.add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {usage_sentence(model.usage)}")


def live_usage(model: LanguageModel) -> str:
    """The figures that a progress bar shows while a served model works; "" for a model on this machine."""
    used = model.usage
    cost = "" if used.money is None else f" {used.money:.3f}"
    figures = f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"
    return figures if model.info.served else ""


class Resumable(Command):
    """A command with --resume, which takes the options the run began with. Raises UsageError for others, RunError."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        folder, known = ctx.params["resume"], ctx.params.keys() - _PLACES
        if folder is None:
            return super().invoke(ctx)
        flags = {param.name: (*param.opts, *param.secondary_opts)[0] for param in self.params}
        named = {
            name for name in known | {"out"} if ctx.get_parameter_source(name).name == "COMMANDLINE"
        }
        for name in sorted(named - _CHANGEABLE):
            raise UsageError(
                f"--resume keeps the run's options: leave {flags[name]} out, or start a new run"
            )
        if (began := Run.open(folder).record.options) is None:
            raise RunError(
                f"{folder} cannot be resumed, since its run.json holds no options: start a new run"
            )
        if "editors" in known and "epochs" in began:
            again = f"evaluate it with --run {folder}, or continue training with drike train --resume {folder}"
            raise RunError(f"{folder} is a training run: {again}")
        if "epochs" in known and "editors" in began:
            raise RunError(
                f"{folder} is an evaluation: continue it with drike evaluate --resume {folder}"
            )
        if used := [
            name for name, default in _RETIRED.items() if began.get(name, default) != default
        ]:
            gone = " and ".join(f"--{name.replace('_', '-')}" for name in used)
            remedy = "start a new run, or continue it with the version of drike in its run.json"
            raise RunError(
                f"{folder} cannot be resumed, since drike no longer has {gone}: {remedy}"
            )
        if (
            began := {name: value for name, value in began.items() if name not in _RETIRED}
        ).keys() != known:
            raise RunError(
                f"{folder} was written by another command or another version of drike: start a new run"
            )
        parameters = signature(self.callback).parameters  # type: ignore[arg-type]
        for param in self.params:  # the options as the command line would take them
            if param.name not in began or param.name in named:
                continue
            try:
                value = read(get_args(parameters[param.name].annotation)[0], began[param.name])
                if param.callback is not None:
                    param.callback(ctx, param, value)
            except (ValueError, UsageError) as problem:
                what = f"its option {flags[param.name]} cannot be used ({as_flags(str(problem))})"
                raise RunError(
                    f"{folder} cannot be resumed, since {what}: start a new run"
                ) from problem
            ctx.params[param.name] = value
        return super().invoke(ctx)


def options_in(arguments: Mapping[str, Any]) -> dict[str, object]:
    """A command's options from its `locals()`, the fields of groups among them, as run.json keeps them."""
    options: dict[str, object] = {}
    for name, value in arguments.items():
        options |= vars(value) if is_dataclass(value) else {name: value}
    kept = ((name, value) for name, value in options.items() if name not in _PLACES)
    return {name: str(value) if isinstance(value, Path) else value for name, value in kept}


@contextmanager
def recorded_at(
    folder: Path, setup: Setup, opened: OpenedModel, settings: Mapping[str, object], options: Mapping[str, object], *,
    command: str, at: RunOptions, base: TrainedRun | None = None,
) -> Iterator[None]:  # fmt: skip
    """`alone_at` a folder: write run.json, or check a resumed run's; print what the model used. Raises RunError."""
    policy = base.trained_sha256 if base else None
    with alone_at(folder, command):
        if at.resume is None:
            Run.create(
                folder, setup, opened.described, settings, options=options, trained_sha256=policy
            )
        elif changed := Run.open(folder).check_same(setup, opened.described, policy):
            note(f"begun with another version of {', '.join(changed)}")
        with metered(opened.model, folder):
            yield


@contextmanager
def alone_at(folder: Path, command: str | None) -> Iterator[None]:
    """Keep other processes out of a run's folder, and say how to continue if an error, a limit or Ctrl-C stops the run.

    A new folder in which nothing was recorded or paid for is removed. Raises RunError if another process uses it.
    """
    is_new = not folder.exists()
    with files.locked(folder):
        try:
            yield
        except BaseException:
            if files.has_begun(folder):
                complain(f"What was done so far is in {folder}", "yellow")
                if command is not None:
                    complain(
                        f"Continue with: {this_command()} {command} --resume {folder}", "yellow"
                    )
            elif is_new and not files.total_usage(folder).tokens:
                shutil.rmtree(folder, ignore_errors=True)
            raise
