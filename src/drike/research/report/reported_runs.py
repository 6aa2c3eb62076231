"""Read the folders of runs for a report.

An evaluation of a training run includes that run's episodes and settings if its folder still
exists.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from drike.edits.edit import Aspect
from drike.errors import RunError
from drike.models.protocols import Usage
from drike.research.datasets.dataset import SplitIds
from drike.research.deployment.gate_records import GateRecord
from drike.research.evaluation.metrics import Outcome, Summary
from drike.research.runs import files
from drike.research.runs.run import Run
from drike.research.runs.usage import read_usage
from drike.research.training.algorithm1 import EpisodeRecord

# Settings in which two runs may differ and still share a table, or that the report shows elsewhere.
NOT_COMPARED = {
    "run", "data", "model", "seed", "editors", "order", "sigmas", "write", "device", "test",
    "edits", "editable", "out", "resume", "stored", "gate", "unrelated", "allow_http",
    "concurrency", "deadline", "no_cache", "price_in", "price_out", "max_calls", "max_cost",
    "dry_run",
}  # fmt: skip


@dataclass(frozen=True)
class ReportedRun:
    """What a report needs from one run's folder."""

    folder: str
    model: str
    data: str
    seed: int
    settings: Mapping[str, str]  # what the rows of a table must share, as text
    identity: Mapping[str, str]  # of the model's weights
    test: tuple[str, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]]  # by editor
    missing: tuple[str, ...] = ()  # editors that were to be evaluated and have no outcomes
    episodes: tuple[EpisodeRecord, ...] = ()  # of the training run behind it
    asked_episodes: int = 0  # how many it was to have; 0 where unknown
    form: str = ""  # of the data files

    # The model's work, for training and for each editor.
    usage: Mapping[str, Usage] = field(default_factory=dict)

    # What the model wrote: by editor, case id and probe.
    written: Mapping[str, Mapping[str, tuple[str | None, ...]]] = field(default_factory=dict)

    # By editor and case id.
    prompts: Mapping[str, Mapping[str, files.CasePrompts]] = field(default_factory=dict)

    # How many edits were in force behind a gate, as --stored gave it; "" if none were.
    stored: str = ""
    deployed: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)  # behind that gate
    gate: tuple[GateRecord, ...] = ()

    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Read the runs of a report. Raises RunError.

    A training run without outcomes is left out if one of the other runs evaluated it.
    """
    # A folder may be given twice, under two names.
    folder_by_place = {folder.resolve(): folder for folder in reversed(folders)}
    places = dict.fromkeys(folder.resolve() for folder in folders)

    evaluated = set()
    for folder in folders:
        if not (folder / files.EPISODES).exists():
            evaluated.add(trained_run(Run.open(folder)))

    runs = []
    for place in places:
        if place not in evaluated or any((place / files.OUTCOMES).glob("*.jsonl")):
            runs.append(read_run(folder_by_place[place]))
    return runs


def read_run(folder: Path) -> ReportedRun:
    """Read one run with outcomes. Raises RunError."""
    run = Run.open(folder)
    split = run.split()
    training = _training_behind(run, split)
    outcomes = _outcomes(run, split)
    gate_records = files.read_lines(
        folder / files.DEPLOYED / files.GATE, GateRecord, "evaluate again"
    )

    missing = _missing_editors(run, outcomes)
    if run.record.settings.get("stored") and not gate_records:
        missing.append("edits in force")

    # Settings that the evaluation leaves open are those of the training.
    settings = dict(training.settings)
    for name, value in run.record.settings.items():
        if value is not None or name not in settings:
            settings[name] = value
    epochs = settings.get("epochs")
    asked_episodes = len(training.split.train) * epochs if isinstance(epochs, int) else 0

    identity = run.record.model
    return ReportedRun(
        folder=str(folder),
        model=run.model,
        data=split.title,
        seed=run.seed,
        settings=_compared_settings(run, split, training, settings),
        identity={
            name: _text(identity[name]) for name in ("weights_sha256", "dtype") if name in identity
        },
        test=split.test,
        outcomes=outcomes,
        missing=tuple(missing),
        episodes=training.episodes,
        asked_episodes=asked_episodes,
        form="; ".join(file.form for file in run.record.data),
        usage=training.usage | read_usage(folder),
        written={editor: _written(folder, of_editor) for editor, of_editor in outcomes.items()},
        prompts={editor: _prompts(folder, editor) for editor in outcomes},
        stored=_text(run.record.settings.get("stored") or ""),
        deployed=_deployed(run, outcomes),
        gate=tuple(gate_records),
        started=run.record.started,
        versions=run.record.versions,
    )


@dataclass(frozen=True)
class _Training:
    """What a report says of the training behind a run.

    settings, usage: {} if the run is the training itself, or if its folder is gone.
    """

    split: SplitIds
    episodes: tuple[EpisodeRecord, ...]
    settings: Mapping[str, Any]
    usage: dict[str, Usage]


def _training_behind(run: Run, split: SplitIds) -> _Training:
    """The training that a run is, or that it evaluated. split: the run's own. Raises RunError."""
    folder = run.folder
    trained = trained_run(run)
    own_episodes = (folder / files.EPISODES).exists()
    origin = folder if own_episodes else trained
    episodes = []
    if origin is not None:
        episodes = files.read_lines(origin / files.EPISODES, EpisodeRecord, "train again")
    if trained is None or trained == folder.resolve():
        return _Training(split, tuple(episodes), {}, {})

    before = Run.open(trained)
    usage = read_usage(trained)
    return _Training(
        before.split(),
        tuple(episodes),
        before.record.settings,
        {"training": usage["training"]} if "training" in usage else {},
    )


def _compared_settings(
    run: Run, split: SplitIds, training: _Training, settings: Mapping[str, object]
) -> dict[str, str]:
    """The settings that the rows of a table must share, as text."""
    compared = {
        "probes": "published",  # unless the settings say: older runs do not
        "editable": f"all but {len(split.demonstrations)} rows",
    }
    for name, value in settings.items():
        if name not in NOT_COMPARED:
            compared[name] = _text(value)
    compared["data"] = f"{split.dataset} {run.record.data_fingerprint[:8]}"
    compared["test"] = f"{len(split.test)} edits"
    if training.split.train:
        compared["edits"] = f"{len(training.split.train)} edits"
    return compared


def _missing_editors(run: Run, outcomes: Mapping[str, object]) -> list[str]:
    """The editors that were to be evaluated, or that the summary has, without outcomes."""
    summary = files.read_json(
        run.folder / files.SUMMARY, Mapping[str, Summary], "remove it, or evaluate again"
    )
    expected = dict.fromkeys(map(_text, [*(run.editors or ()), *(summary or {})]))
    evaluated = {files.slug(editor) for editor in outcomes}
    return [editor for editor in expected if files.slug(editor) not in evaluated]


def _deployed(run: Run, outcomes: Mapping[str, object]) -> dict[str, tuple[Outcome, ...]]:
    """The outcomes behind a gate, in the order in which the editors were asked for."""
    deployed = {}
    for editor in run.editors or ():
        if editor not in outcomes:
            continue
        path = files.outcomes_path(run.folder, editor, files.DEPLOYED)
        of_editor = tuple(files.read_outcomes(path))
        if of_editor:
            deployed[editor] = of_editor
    return deployed


def _prompts(folder: Path, editor: str) -> dict[str, files.CasePrompts]:
    """An editor's prompts of the sampled cases, by case id."""
    path = files.outcomes_path(folder, editor, files.PROMPTS)
    sampled = files.read_lines(path, files.CasePrompts, "delete it and evaluate again")
    return {of_case.case_id: of_case for of_case in sampled}


def evaluate_again(folder: Path | str) -> str:
    """The command that evaluates the editors that a run's folder lacks."""
    option = "--run" if (Path(folder) / files.EPISODES).exists() else "--resume"
    return f"drike evaluate {option} {folder}"


def trained_run(run: Run) -> Path | None:
    """The folder of the training run that a run evaluated, or of the run itself if it trained.

    It is looked for where it was and beside the run, as both may have moved; None if not found.
    """
    here = run.folder.resolve()
    if run.run is None:
        return here if (here / files.EPISODES).exists() else None

    places = [Path(run.run), here.parent / Path(run.run).name]
    if here.parent.name == files.EVALUATIONS:
        places.insert(0, here.parents[1])
    for place in places:
        if (place / files.RUN).exists():
            return place.resolve()
    return None


def _outcomes(run: Run, split: SplitIds) -> dict[str, tuple[Outcome, ...]]:
    """Every editor's outcomes, which must cover the same probes of all test edits.

    Raises RunError.
    """
    folder = run.folder
    paths = sorted((folder / files.OUTCOMES).glob("*.jsonl"))
    resumable = run.record.options is not None and not (folder / files.EPISODES).exists()
    remedy = f"continue with {evaluate_again(folder)}" if resumable else "evaluate again"
    if not paths:
        if resumable:
            raise RunError(f"{folder} has no outcomes yet: {remedy}")
        first = f"evaluate it first, with `drike evaluate --run {folder}`"
        raise RunError(f"{folder} has no outcomes: {first}")

    outcomes_by_editor: dict[str, tuple[Outcome, ...]] = {}
    probes: dict[tuple[str, Aspect, str], str] = {}
    for path in paths:
        outcomes = tuple(files.read_outcomes(path))
        cases = {outcome.case_id for outcome in outcomes}
        if not cases.issuperset(split.test):
            raise RunError(
                f"{path} holds {len(cases)} of {len(split.test)} test edits: {remedy}, or remove "
                "the file to report the other editors"
            )
        probes_here = {
            (outcome.case_id, outcome.aspect, outcome.query): outcome.target for outcome in outcomes
        }
        probes = probes or probes_here
        editors = {outcome.editor for outcome in outcomes}
        if probes_here != probes or len(editors) != 1:
            raise RunError(
                f"{path} does not hold the same probes as {paths[0].name}: "
                "evaluate again, or remove one of the two"
            )
        [editor] = editors
        if editor in outcomes_by_editor:
            raise RunError(f"{folder} holds the outcomes of {editor} twice: remove {path}")
        outcomes_by_editor[editor] = outcomes
    return outcomes_by_editor


def _written(folder: Path, outcomes: Sequence[Outcome]) -> dict[str, tuple[str | None, ...]]:
    """What the model wrote under an editor, by case id and probe.

    It wrote answers to a sample that was judged both ways, or in the evaluation itself.
    """
    path = files.outcomes_path(folder, outcomes[0].editor, files.BOTH_WAYS)
    sampled = files.read_outcomes(path)
    written: dict[str, tuple[str | None, ...]] = {}
    for case_id, of_case in groupby((*sampled, *outcomes), lambda outcome: outcome.case_id):
        answers = tuple(outcome.answer for outcome in of_case)
        if any(answer is not None for answer in answers):
            written.setdefault(case_id, answers)
    return written


def _text(value: object) -> str:
    """A value of run.json as a cell."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    return json.dumps(value, ensure_ascii=False)
