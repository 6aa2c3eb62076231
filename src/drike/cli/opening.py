"""Open what every command needs: data and its split, an encoder, a trained run, a new run's folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from drike.cli.console import note
from drike.cli.dry_run import CountingModel, token_counter
from drike.cli.encoding import WatchedEncoder
from drike.cli.options import DataOptions, ModelOptions, RunOptions
from drike.datasets import TINYFACTS, Paraphrases, SplitIds, Target, load
from drike.editors.budgets import TokenLimit
from drike.editors.pool import Pool
from drike.encoders import MINILM
from drike.errors import RunError, UsageError
from drike.models import EMBEDDED, ApiOptions, LanguageModel, Template, template_for
from drike.models import load as load_model
from drike.report.reading import trained_run
from drike.runs.folder import EVALUATIONS, has_begun, has_records, total_usage
from drike.runs.run import Settings, Setup, TrainedRun

# The values of options that neither the command line nor a run gives.
DEFAULTS = Settings(data=(TINYFACTS,), model=EMBEDDED, template=None, encoder=MINILM, seed=0, zsre_target="alt")


def open_setup(
    sources: Sequence[str], *, encoder: str, seed: int, split: SplitIds | None = None, train: int | None = None,
    test: int | None = None, validation: int = 0, editable: int | None = None, subset: str | None = None,
    target: Target | None = None, paraphrases: Paraphrases | None = None, pool: Sequence[str] | None = None,
    leave_out: Collection[tuple[str, str]] = (),
) -> Setup:  # fmt: skip
    """Load, split and embed the data; `seed` draws the split and assigns the roles. Raises DataError.

    A size of None is the paper's, or all available. split: an earlier one to keep. leave_out: facts not to edit.
    """
    dataset = load(*sources, target=target or "alt", paraphrases=paraphrases, pool=pool or ())
    sizes = {"train": train, "test": test, "editable": editable}
    parts = dataset.restore(split) if split is not None else dataset.split(
        seed=seed, validation=validation, subset=subset, exclude=leave_out, **sizes
    )  # fmt: skip
    return Setup(dataset, parts, Pool(parts.demonstrations, WatchedEncoder(encoder), seed=seed))


def open_trained_run(folder: Path) -> TrainedRun:
    """Read a training run's folder, with a note if it was stopped. Raises RunError, CheckpointError, DataError."""
    base = TrainedRun.open(folder)
    done, whole = base.trained.training.get("episodes"), (base.run.epochs or 0) * len(base.split.train)
    if isinstance(done, int) and done < whole:
        note(f"{folder} was stopped after {done} of {whole} episodes; drike train --resume {folder} continues it")
    return base


def open_edits(
    run: Path | None, data: DataOptions, encoder: str | None, at: RunOptions
) -> tuple[TrainedRun | None, Setup, dict[str, Any]]:
    """The edits to test on: those of a training run, or of other data with its settings where no others are given.

    Returns that run, the data without edits to train on, and the settings as run.json has them. Raises UsageError,
    RunError, CheckpointError, DataError.
    """
    if data.test == 0:
        raise UsageError("there is no edit to test on: ask for --test 1 or more")
    if at.resume and run:
        run = trained_run(at.resume) or Path(run)  # folders may have moved, together
    base, split = None if run is None else open_trained_run(run), None
    if base is not None and data.data is None:
        if replace(data, test=None) != DataOptions():
            remedy = "give --editable, --subset, --zsre-target, --paraphrases, --pool and --seed only with other --data"
            raise UsageError(f"--run keeps its split: {remedy}")
        split = base.split
        if data.test is not None:  # its own, then others that were not trained on
            used = {*split.train, *split.validation, *split.test}
            enough = (*split.test, *(case_id for case_id in split.editable if case_id not in used))
            if data.test > (most := len(enough)):
                raise UsageError(f"only {most} editable rows were not trained on: ask for --test {most} or fewer")
            split = replace(split, test=enough[: data.test])
    earlier = base.run if base else DEFAULTS
    shared: dict[str, Any] = {
        "test": data.test, "editable": data.editable, "seed": earlier.seed if data.seed is None else data.seed,
        "encoder": encoder or earlier.encoder, "subset": data.subset,
        "paraphrases": data.paraphrases or earlier.paraphrases,
        "pool": data.pool or (list(earlier.pool) if earlier.pool and data.data is None else None),
    }  # fmt: skip
    sources, target = data.data or list(earlier.data), data.zsre_target or earlier.zsre_target or "alt"
    leave_out = base.trained.trained_on if base and split is None else ()
    setup = open_setup(sources, **shared, target=target, split=split, train=0, leave_out=leave_out)
    return base, setup, {"run": None if run is None else str(run), "data": sources, "zsre_target": target, **shared}


@dataclass(frozen=True)
class OpenedModel:
    """A model with its name and what the options and a run's settings say about its prompts and requests."""

    name: str
    model: LanguageModel
    template: Template
    api: ApiOptions
    limit: TokenLimit | None


def open_model(
    options: ModelOptions, api: ApiOptions, base: Settings, *, at: RunOptions | None = None, cache: bool = True
) -> OpenedModel:
    """Open the model of the options, or else that of `base`; for a dry run a `CountingModel`.

    A resumed run's limits are reduced by what it spent. cache: as in `models.load`. Raises ModelError, UsageError.
    """
    name, at = options.model or base.model, at or RunOptions()
    template = template_for(name, options.template or base.template)
    api = replace(api, tokenizer=api.tokenizer or (base.tokenizer if name == base.model else None))
    left = api.after(total_usage(at.resume)) if at.resume else api
    model = CountingModel(name, template, api) if at.dry_run else load_model(
        name, template=template, device=options.device, replicas=at.replicas, api=left, cache=cache
    )  # fmt: skip
    tokens, limit = options.prompt_tokens or base.prompt_tokens, None
    if tokens is not None:
        if model.count_tokens is None and api.tokenizer is None:
            remedy = "give the folder or hub name of its tokenizer as --tokenizer"
            raise UsageError(f"{model.info.name} does not count tokens, as --prompt-tokens needs it: {remedy}")
        limit = TokenLimit(tokens, model.count_tokens or partial(_counted, token_counter(api.tokenizer, template)))
    return OpenedModel(name, model, template, api, limit)


def _counted(count: Callable[[str], int], prompts: Sequence[str]) -> list[int]:
    return list(map(count, prompts))


def describe_model(name: str, model: LanguageModel) -> dict[str, object]:
    """What a run's folder records of a model: the name it was loaded by, and its identity."""
    return {"asked": name, "name": model.info.name, **model.info.identity}


def new_run(out: Path | None, command: str, run: Path | None = None) -> Path:
    """The folder of a new run: `out`, or <date>-<command>, among the evaluations of `run` if it tests that.

    The first write creates it. Raises RunError if it holds a run; one that recorded nothing is begun again.
    """
    folder = out or (run / EVALUATIONS if run else Path("runs")) / f"{time.strftime('%Y%m%d-%H%M%S')}-{command}"
    if has_begun(folder):
        raise RunError(f"{folder} already holds a run: choose another --out, continue it with --resume, or remove it")
    if has_records(folder):
        raise RunError(f"{folder} holds results of a run whose run.json is gone: choose another --out, or remove them")
    return folder
