"""Read the folders of runs for a report: settings, test edits, outcomes, episodes, what a gate decided.

An evaluation of a training run (`drike evaluate --run`) includes that run's episodes and settings if its folder still
exists. Damaged or unfinished runs raise RunError, one sentence with the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from drike.datasets.dataset import SplitIds
from drike.deployment.evaluation import GateRecord
from drike.edits import Aspect
from drike.errors import RunError
from drike.evaluation.metrics import Outcome, Summary
from drike.report.groups import ReportedRun, conflict
from drike.runs import run as files
from drike.runs.checkpoint import FILE
from drike.runs.run import Run

_EPISODES = "episodes.jsonl"
# Settings in which two runs may differ and still share a table, and those that the report shows elsewhere.
_IGNORED = {
    "run", "data", "model", "seed", "editors", "order", "sigmas", "write", "device", "test", "edits", "editable", "out",
    "resume", "stored", "gate", "unrelated",
}  # fmt: skip


def read_folders(folders: Sequence[Path], across: Sequence[str] = ()) -> tuple[list[ReportedRun], list[str]]:
    """The runs of a report, those in the folders themselves and in their `evaluations`, and notes on what is left out.

    Of the latter, newest first, a run that cannot share tables with the others is left out. Raises RunError.
    """
    within = (folder for run in folders for folder in sorted((run / files.EVALUATIONS).glob("*"), reverse=True))
    others = [run for run in within if any((run / files.OUTCOMES).glob("*.jsonl"))]
    kept, notes = list[ReportedRun](), list[str]()
    for run in read_runs([*folders, *others]):
        reason = next((reason for other in kept if (reason := conflict(other, run, across))), "")
        if reason and Path(run.folder) in others:
            notes.append(f"left out: {kept[0].folder} and {run.folder} {reason}")
        else:
            kept.append(run)
    return kept, notes


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Read the runs of a report, but no training run without outcomes that another evaluated. Raises RunError."""
    by_place = {folder.resolve(): folder for folder in reversed(folders)}
    evaluated = {_trained_by(Run.open(folder)) for folder in folders if not (folder / _EPISODES).exists()}
    places = dict.fromkeys(folder.resolve() for folder in folders)
    kept = [place for place in places if place not in evaluated or any((place / "outcomes").glob("*.jsonl"))]
    return [read_run(by_place[place]) for place in kept]


def read_run(folder: Path) -> ReportedRun:
    """Read one run with outcomes. Raises RunError."""
    run = Run.open(folder)
    split, trained, model, usage = run.split(), _trained_by(run), run.record.model, files.read_usage(folder)
    training, inherited = split, dict[str, Any]()
    if trained is not None and trained != folder.resolve():
        before = Run.open(trained)
        inherited, training = dict(before.record.settings), before.split()
        usage = {name: used for name, used in files.read_usage(trained).items() if name == "training"} | usage
    own = {name: value for name, value in run.record.settings.items() if value is not None or name not in inherited}
    merged = inherited | own
    outcomes = _outcomes(run, split)
    both = (editor for editor in run.editors or () if editor in outcomes)  # in the order they were asked for
    behind_gate = {editor: files.outcomes_path(folder, editor, files.DEPLOYED) for editor in both}
    origin = folder if (folder / _EPISODES).exists() else trained
    return ReportedRun(
        folder=str(folder),
        model=run.model,
        data=split.title,
        seed=run.seed,
        settings=_comparable(merged, split, training, run.record.data_fingerprint),
        identity={name: _text(model[name]) for name in ("weights_sha256", "dtype") if name in model},
        test=split.test,
        outcomes=outcomes,
        missing=_missing(run, outcomes),
        episodes=() if origin is None else tuple(files.read_episodes(origin / _EPISODES)),
        asked_episodes=len(training.train) * epochs if isinstance(epochs := merged.get("epochs"), int) else 0,
        form="; ".join(file.form for file in run.record.data),
        usage=usage,
        written={editor: _written(folder, of_editor) for editor, of_editor in outcomes.items()},
        prompts={editor: _prompts(folder, editor) for editor in outcomes},
        stored=_text(run.record.settings.get("stored") or ""),
        deployed={name: tuple(files.read_outcomes(path)) for name, path in behind_gate.items() if path.exists()},
        gate=tuple(files.read_lines(folder / files.DEPLOYED / files.GATE, GateRecord, "evaluate again")),
        started=run.record.started,
        versions=run.record.versions,
    )


def evaluate_again(folder: Path | str) -> str:
    """The command that evaluates the editors that a run's folder lacks."""
    training = (Path(folder) / _EPISODES).exists()
    return f"drike evaluate {'--run' if training else '--resume'} {folder}"


def _missing(run: Run, outcomes: Mapping[str, object]) -> tuple[str, ...]:
    """The editors that were to be evaluated, or that the run's own summary lists, and that have no outcomes."""
    summary = files.read_json(run.folder / "summary.json", Mapping[str, Summary], "remove it, or evaluate again")
    expected = [*(run.editors or ()), *(summary or {})]
    evaluated = {files.slug(editor) for editor in outcomes}
    return tuple(dict.fromkeys(_text(name) for name in expected if files.slug(name) not in evaluated))


def trained_run(folder: Path) -> Path | None:
    """The training run behind a run: itself, or the one it evaluated; None if that cannot be found."""
    return folder if (folder / FILE).exists() else _trained_by(Run.open(folder))


def _trained_by(run: Run) -> Path | None:
    """Find the training run that a run evaluated, where it was or beside the run; a training run is its own."""
    here = run.folder.resolve()
    if run.run is None:
        return here if (here / _EPISODES).exists() else None
    within = [here.parents[1]] if here.parent.name == files.EVALUATIONS else []
    places = (*within, Path(run.run), here.parent / Path(run.run).name)
    return next((place.resolve() for place in places if (place / "run.json").exists()), None)


def _comparable(settings: Mapping[str, Any], split: SplitIds, training: SplitIds, fingerprint: str) -> dict[str, str]:
    """The settings that rows of a table must share, by the names that --across accepts."""
    shared = {"probes": "published"}  # the default of runs that do not record it
    shared |= {name: _text(value) for name, value in settings.items() if name not in _IGNORED}
    shared |= {"data": f"{split.dataset} {fingerprint[:8]}", "test": f"{len(split.test)} edits"}
    return shared | ({"edits": f"{len(training.train)} edits"} if training.train else {})


def _outcomes(run: Run, split: SplitIds) -> dict[str, tuple[Outcome, ...]]:
    """Read every editor's outcomes, which must cover the same probes of all test edits. Raises RunError."""
    by_editor: dict[str, tuple[Outcome, ...]] = {}
    folder = run.folder
    resumable = run.record.options is not None and not (folder / _EPISODES).exists()
    remedy = f"continue with {evaluate_again(folder)}" if resumable else "evaluate again"
    paths = sorted((folder / files.OUTCOMES).glob("*.jsonl"))
    if not paths:
        first = f" yet: {remedy}" if resumable else f": evaluate it first, with `drike evaluate --run {folder}`"
        raise RunError(f"{folder} has no outcomes{first}")
    probes: dict[tuple[str, Aspect, str], str] = {}
    for path in paths:
        outcomes = tuple(files.read_outcomes(path))
        done = {outcome.case_id for outcome in outcomes}
        if not set(split.test) <= done:
            remedy = f"{remedy}, or remove the file to report the other editors"
            raise RunError(f"{path} holds {len(done)} of {len(split.test)} test edits: {remedy}")
        asked = {(o.case_id, o.aspect, o.query): o.target for o in outcomes}
        probes = probes or asked
        if asked != probes or len({outcome.editor for outcome in outcomes}) != 1:
            what = f"{path} does not hold the same probes as {paths[0].name}"
            raise RunError(f"{what}: evaluate again, or remove one of the two")
        if outcomes[0].editor in by_editor:
            raise RunError(f"{folder} holds the outcomes of {outcomes[0].editor} twice: remove {path}")
        by_editor[outcomes[0].editor] = outcomes
    return by_editor


def _written(folder: Path, outcomes: Sequence[Outcome]) -> dict[str, tuple[str | None, ...]]:
    """What the model wrote under an editor, by case id and probe: in a sample, or in the evaluation."""
    sampled = files.read_outcomes(files.outcomes_path(folder, outcomes[0].editor, files.BOTH_WAYS))
    written: dict[str, tuple[str | None, ...]] = {}
    for case_id, of_case in groupby((*sampled, *outcomes), lambda outcome: outcome.case_id):
        answers = tuple(outcome.answer for outcome in of_case)
        if any(answer is not None for answer in answers):
            written.setdefault(case_id, answers)
    return written


def _prompts(folder: Path, editor: str) -> dict[str, files.CasePrompts]:
    path = files.outcomes_path(folder, editor, files.PROMPTS)
    cases = files.read_lines(path, files.CasePrompts, "delete the file and evaluate again")
    return {case.case_id: case for case in cases}


def _text(value: object) -> str:
    shown = "none" if value is None else value
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
