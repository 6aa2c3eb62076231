"""Open the data of a command: the edits to train or to test on, and the pool."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drike.cli.console import note
from drike.cli.models import DEFAULTS
from drike.cli.options import DataOptions, RunOptions
from drike.encoders import load_encoder
from drike.errors import UsageError
from drike.research.datasets import SplitIds
from drike.research.datasets.dataset import keys_of
from drike.research.editors.pool import Pool
from drike.research.report.reported_runs import trained_run
from drike.research.runs.run import Run, RunSettings, TrainedRun
from drike.research.runs.setup import Setup


def open_setup(
    settings: RunSettings,
    *,
    split: SplitIds | None = None,
    train: int | None = None,
    test: int | None = None,
    validation: int = 0,
    editable: int | None = None,
    subset: str | None = None,
    leave_out: Collection[tuple[str, str]] = (),
) -> Setup:
    """Load, split and embed the data of a run's settings, whose seed draws the split and the roles.

    A size of None is the paper's, or all available. split: an earlier one to keep. leave_out: facts
    not to edit. Raises DataError.
    """
    dataset = settings.dataset()
    if split is not None:
        parts = dataset.restore(split)
    else:
        parts = dataset.split(
            seed=settings.seed,
            train=train,
            test=test,
            validation=validation,
            editable=editable,
            subset=subset,
            exclude=leave_out,
        )
    encoder = load_encoder(settings.encoder)
    return Setup(dataset, parts, Pool(parts.demonstrations, encoder, seed=settings.seed))


def data_settings(base: RunSettings, data: DataOptions, encoder: str | None) -> RunSettings:
    """Settings with the data and the encoder that options give.

    Other data comes without the pool of `base`.
    """
    changes: dict[str, Any] = {"pool": None} if data.data else {}
    for name, value in {**vars(data), "encoder": encoder}.items():
        if name in vars(base) and value is not None:
            changes[name] = tuple(value) if isinstance(value, list) else value
    return replace(base, **changes)


def open_trained_run(folder: Path) -> TrainedRun:
    """Read a training run's folder, with a note if it was stopped.

    Raises RunError, CheckpointError, DataError.
    """
    base = TrainedRun.open(folder)
    done = base.trained.training.get("episodes")
    whole = (base.run.epochs or 0) * len(base.split.train)
    is_stopped = isinstance(done, int) and done < whole
    is_per_query = base.run.record.settings.get("objective") in ("s", "balanced")
    if is_stopped or (is_per_query and not base.trained.per_query):
        note(
            f"{folder} was stopped after {done} of {whole} episodes; "
            f"drike train --resume {folder} continues it"
        )
    return base


@dataclass(frozen=True)
class EditsToTest:
    """The data without edits to train on. base: the training run that it is of, if any.

    settings: as run.json has them.
    """

    base: TrainedRun | None
    setup: Setup
    settings: dict[str, Any]


def open_edits(
    run: Path | None, data: DataOptions, encoder: str | None, at: RunOptions
) -> EditsToTest:
    """The edits to test on: those of a training run, or of other data with the run's settings.

    Raises DrikeError.
    """
    if data.test == 0:
        raise UsageError("there is no edit to test on: ask for --test 1 or more")
    if at.resume and run:
        run = trained_run(Run.open(at.resume)) or Path(run)  # folders may have moved, together
    base = None if run is None else open_trained_run(run)
    split = None if base is None or data.data is not None else _split_of(base, data)
    settings = data_settings(base.run if base else DEFAULTS, data, encoder)
    setup = open_setup(
        settings,
        split=split,
        train=0,
        test=data.test,
        editable=data.editable,
        subset=data.subset,
        leave_out=base.trained.trained_on if base and split is None else (),
    )
    recorded = {
        "run": None if run is None else str(run),
        "data": settings.data,
        "zsre_target": settings.zsre_target or "alt",
        "test": data.test,
        "editable": data.editable,
        "seed": settings.seed,
        "encoder": settings.encoder,
        "subset": data.subset,
        "paraphrases": settings.paraphrases,
        "pool": settings.pool or None,
    }
    return EditsToTest(base, setup, recorded)


def _split_of(base: TrainedRun, data: DataOptions) -> SplitIds:
    """The split of a run: its test edits, or as many as --test says.

    More are taken from its other editable rows that were not trained on. Raises UsageError.
    """
    if replace(data, test=None) != DataOptions():
        remedy = (
            "give --editable, --subset, --zsre-target, --paraphrases, --pool and --seed "
            "only with other --data"
        )
        raise UsageError(f"--run keeps its split: {remedy}")
    split = base.split
    if data.test is None:
        return split
    cases = base.run.dataset().cases
    ids_of_run = {*split.train, *split.validation, *split.test}
    used = base.trained.trained_on.union(
        *(keys_of(case) for case in cases if case.case_id in ids_of_run)
    )
    unused = [case for case in cases if used.isdisjoint(keys_of(case))]
    # Of several cases with the same facts the first one.
    unused_ids = set({keys_of(case): case.case_id for case in reversed(unused)}.values())
    others = [case_id for case_id in split.editable if case_id in unused_ids]
    available = (*split.test, *others)
    if data.test > len(available):
        most = len(available)
        raise UsageError(
            f"only {most} editable rows were not trained on: ask for --test {most} or fewer"
        )
    return replace(split, test=available[: data.test])
