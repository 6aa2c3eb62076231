"""Reading runs' folders for a report (see `runs`): settings, test edits, outcomes, episodes.

An evaluation of a training run (`drike evaluate --run`) brings that run's episodes and settings along where its folder
is still there. What is damaged or half done is refused in one sentence with the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from safetensors import SafetensorError, safe_open

from drike.datasets.splits import SplitIds
from drike.errors import RunError
from drike.metrics import Outcome
from drike.report.measured import METHOD, Run, Step
from drike.runs.checkpoint import FILE
from drike.runs.folder import read_outcomes, read_usage, recorded, runs_in, slug, whole_lines

# What two runs may differ in without their numbers meaning something else, or what is told better elsewhere.
_OURS = {
    "run", "data", "model", "seed", "editors", "order", "sigmas", "write", "device", "test", "edits", "editable", "out",
    "resume",
}  # fmt: skip


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs of a report. A training run without outcomes is left out where one of the others evaluated it.

    A folder of several models stands for the runs in it. Raises RunError, one sentence with folder and remedy.
    """
    folders = [run for folder in folders for run in runs_in(folder)]
    evaluated = {
        _trained_by(folder, recorded(folder)) for folder in folders if not (folder / "episodes.jsonl").exists()
    }
    runs = []
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        if not any((folder / "outcomes").glob("*.jsonl")) and folder in evaluated:
            continue
        runs.append(read_run(next(given for given in folders if given.resolve() == folder)))
    return runs


def read_run(folder: Path) -> Run:
    """One run with outcomes. Raises RunError."""
    record = recorded(folder)
    split = SplitIds.load(folder / "split.json")
    settings = record["settings"]
    trained = _trained_by(folder, record)
    origin = folder if (folder / "episodes.jsonl").exists() else trained
    methods: dict[str, Any] = {}
    training, usage = split, read_usage(folder)
    if trained is not None and trained != folder.resolve():
        methods = dict(recorded(trained)["settings"])
        training = SplitIds.load(trained / "split.json")
        usage = {name: used for name, used in read_usage(trained).items() if name == "training"} | usage
    told = methods | {name: value for name, value in settings.items() if value is not None or name not in methods}
    run = Run(
        folder=str(folder),
        model=_shown(settings["model"]),
        data=split.title,
        seed=settings["seed"],
        settings=_comparable(told, split, training, record),
        identity={
            name: _shown(record["model"][name]) for name in ("weights_sha256", "dtype") if name in record["model"]
        },
        test=split.test,
        outcomes={},
        steps=() if origin is None else _steps(origin / "episodes.jsonl"),
        training_edits=len(training.train),
        asked_episodes=len(training.train) * epochs if isinstance(epochs := told.get("epochs"), int) else 0,
        own_sigma=told.get("budget", "threshold") != "threshold",
        form="; ".join(_shown(source.get("form", "")) for source in record.get("data", [])),
        usage=usage,
        started=_shown(record.get("started", "")),
        versions={name: _shown(value) for name, value in record.get("versions", {}).items()},
    )
    outcomes = _outcomes(folder, split, record)
    done = {slug(editor) for editor in outcomes}
    asked = settings.get("editors") or ()
    missing = tuple(_shown(name) for name in asked if slug(name) not in done)
    return replace(run, outcomes=outcomes, missing=missing, parameters=_parameters(outcomes, origin))


def trained_run(folder: Path) -> Path | None:
    """The training run behind a run: itself, the one it evaluated, or None where that is not to be found."""
    return folder if (folder / FILE).exists() else _trained_by(folder, recorded(folder))


def _trained_by(folder: Path, record: Mapping[str, Any]) -> Path | None:
    """The folder of the training run that a run evaluated, as given or beside it; itself for a training run."""
    given = record["settings"].get("run")
    if given is None:
        return folder.resolve() if (folder / "episodes.jsonl").exists() else None
    for place in (Path(given), folder.resolve().parent / Path(given).name):
        if (place / "run.json").exists():
            return place.resolve()
    return None


def _comparable(
    settings: Mapping[str, Any], split: SplitIds, training: SplitIds, record: Mapping[str, Any]
) -> dict[str, str]:
    """What rows of a table must share, by the name --across knows it by."""
    told = {name: _shown(value) for name, value in settings.items() if name not in _OURS}
    told["data"] = f"{split.dataset} {record['data_fingerprint'][:8]}"
    told["test"] = f"{len(split.test)} edits"
    if training.train:
        told["edits"] = f"{len(training.train)} edits"
    return told


def _parameters(editors: Iterable[str], trained: Path | None) -> dict[str, int]:
    """How many numbers were trained for each editor, left out where the checkpoint is not to be had."""
    head = None if trained is None else _numbers(trained / FILE, "head.")
    budget = None if trained is None else _numbers(trained / FILE, "budget.weights")
    known: dict[str, int | None] = {}
    for editor in editors:
        ranked = editor.startswith(("Rank-", METHOD))
        own = editor.startswith(METHOD) and " (sigma " not in editor
        known[editor] = 0 if not ranked else None if head is None or budget is None else head + own * budget
    return {editor: count for editor, count in known.items() if count is not None}


def _numbers(path: Path, prefix: str) -> int | None:
    """How many numbers the tensors of a checkpoint hold whose names begin so; None where it cannot be read."""
    try:
        with safe_open(path, "np") as tensors:
            named = [name for name in tensors.keys() if name.startswith(prefix)]  # noqa: SIM118 - no mapping
            return sum(int(prod(tensors.get_slice(name).get_shape())) for name in named)
    except (OSError, SafetensorError):
        return None


def _outcomes(folder: Path, split: SplitIds, record: Mapping[str, Any]) -> dict[str, tuple[Outcome, ...]]:
    """Every editor's outcomes, all on the same probes of all test edits. Raises RunError."""
    by_editor: dict[str, tuple[Outcome, ...]] = {}
    resumable = record.get("options") is not None and not (folder / "episodes.jsonl").exists()
    remedy = f"go on with drike evaluate --resume {folder}" if resumable else "evaluate again"
    paths = sorted((folder / "outcomes").glob("*.jsonl"))
    if not paths and resumable:
        raise RunError(f"{folder} has no outcomes yet: {remedy}")
    if not paths:
        raise RunError(
            f"{folder} has no outcomes: evaluate it with `drike evaluate --run {folder}` and report the folder it names"
        )
    probes: dict[tuple[str, str, str], str] = {}
    for path in paths:
        outcomes = tuple(read_outcomes(path))
        done = {outcome.case_id for outcome in outcomes}
        if not set(split.test) <= done:
            raise RunError(
                f"{path} holds {len(done)} of {len(split.test)} test edits: {remedy}, or remove the file to report "
                "the other editors"
            )
        asked = {(o.case_id, o.aspect.value, o.query): o.target for o in outcomes}
        probes = probes or asked
        if asked != probes or len({outcome.editor for outcome in outcomes}) != 1:
            raise RunError(
                f"{path} is not about the same probes as {paths[0].name}: evaluate again, or remove one of the two"
            )
        if outcomes[0].editor in by_editor:
            raise RunError(f"{folder} holds the outcomes of {outcomes[0].editor} twice: remove {path}")
        by_editor[outcomes[0].editor] = outcomes
    return by_editor


def _steps(path: Path) -> tuple[Step, ...]:
    """The episodes of a training run; a last line that a crash cut off is left out. Raises RunError."""
    steps = []
    for number, told in whole_lines(path):
        try:
            steps.append(_step(told))
        except (ValueError, KeyError, TypeError, IndexError) as problem:
            raise RunError(f"{path}, line {number} is not an episode of this version: train again") from problem
    return tuple(steps)


def _step(told: Mapping[str, Any]) -> Step:
    rewards = told["rewards"]
    kept = min(int(told["kept"]), len(rewards))
    sigma, tokens = told.get("sigma"), told.get("prompt_tokens")
    return Step(
        epoch=int(told["epoch"]),
        tried=len(rewards),
        kept=kept,
        right=rewards[kept - 1] > 0,
        reward=fmean(rewards),
        sigma=None if sigma is None else float(sigma),
        prompt_tokens=None if tokens is None else int(tokens),
        seconds=float(told["seconds"]),
    )


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
