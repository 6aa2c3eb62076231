"""Read the folders of runs for a report, and group those that can share a table.

An edit that several seeds of a group test counts as one case. Settings in which runs of a table differ must be named by
`across`. An evaluation of a training run includes that run's episodes and settings if its folder still exists.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

from drike.edits.edit import Aspect
from drike.errors import ReportError, RunError
from drike.models.protocols import Usage
from drike.research.datasets.dataset import SplitIds
from drike.research.edited_model import GateRecord
from drike.research.evaluation.metrics import (
    METRICS,
    Counts,
    Outcome,
    Summary,
    counted,
    paired_differences,
    summary_of,
)
from drike.research.runs import run as files
from drike.research.runs.run import Run
from drike.research.training.algorithm1 import EpisodeRecord
from drike.support.table import Difference

UNEDITED, BASELINE, METHOD, PER_QUERY = "Unedited", "IKE", "DR-IKE", "DR-IKE-Q"
# The order of rows; editors that are not named here follow in the order they were measured.
ORDER = (UNEDITED, "FactPrompt", "EditCoT", "EditCoT-full", "IKE", "Rank-All", "Rank-50%", "DR-IKE")
_EPISODES = "episodes.jsonl"
# Settings in which two runs may differ and still share a table, and those that the report shows elsewhere.
_IGNORED = {
    "run", "data", "model", "seed", "editors", "order", "sigmas", "write", "device", "test", "edits", "editable", "out",
    "resume", "stored", "gate", "unrelated", "allow_http", "concurrency", "deadline", "no_cache", "price_in",
    "price_out", "max_calls", "max_cost", "dry_run",
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
    usage: Mapping[str, Usage] = field(default_factory=dict)  # for training and for each editor
    written: Mapping[str, Mapping[str, tuple[str | None, ...]]] = field(
        default_factory=dict
    )  # by editor, case, probe
    prompts: Mapping[str, Mapping[str, files.CasePrompts]] = field(
        default_factory=dict
    )  # by editor and case id
    stored: str = ""  # how many edits were in force behind a gate, as --stored gave it; "" if that was not evaluated
    deployed: Mapping[str, tuple[Outcome, ...]] = field(
        default_factory=dict
    )  # by editor, behind that gate
    gate: tuple[GateRecord, ...] = ()
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed: one row of a table, or one block of rows."""

    label: str
    model: str
    data: str
    runs: tuple[ReportedRun, ...]

    @cached_property
    def outcomes(self) -> dict[str, list[Outcome]]:
        """Every editor's outcomes of all seeds, in the order of a table's rows."""
        editors = dict.fromkeys((*ORDER, *(editor for run in self.runs for editor in run.outcomes)))
        pooled = {
            editor: [o for run in self.runs for o in run.outcomes.get(editor, ())]
            for editor in editors
        }
        return {editor: outcomes for editor, outcomes in pooled.items() if outcomes}

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """The counts of each editor."""
        return {
            name: counted(own, self.outcomes.get(UNEDITED, []))
            for name, own in self.outcomes.items()
        }

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """A summary for each editor."""
        return {editor: summary_of(counts) for editor, counts in self.counts.items()}

    @property
    def headline(self) -> str:
        """The metric that editors are ranked by: S, or the first of ESR, PC and RR that was measured."""
        main, summaries = METRICS[:4], self.summaries.values()
        return next(
            (name for name in main if any(of.metric(name).value is not None for of in summaries)),
            main[0],
        )

    @property
    def ranked(self) -> list[Summary]:
        """The summaries of the editors that have the headline metric, best first, without the unedited model."""
        metric, editors = (
            self.headline,
            (of for editor, of in self.summaries.items() if editor != UNEDITED),
        )
        measured = [of for of in editors if of.metric(metric).value is not None]
        return sorted(measured, key=lambda of: of.metric(metric).value or 0, reverse=True)

    def difference(self, ours: str, theirs: str, metric: str) -> Difference | None:
        """Our metric minus theirs, paired; None if the two editors were not measured on the same edits."""
        if not self.comparable(ours, theirs):
            return None
        return Difference(paired_differences(self.counts[ours], self.counts[theirs])[metric])

    def seeds(self, editor: str | None = None) -> tuple[int, ...]:
        """The seeds that measured an editor, or any editor."""
        return tuple(
            sorted({run.seed for run in self.runs if editor is None or editor in run.outcomes})
        )

    def comparable(self, ours: str, theirs: str) -> bool:
        """Whether two editors were measured on the same edits under the same seeds."""
        return {ours, theirs} <= self.outcomes.keys() and self.seeds(ours) == self.seeds(theirs)


def grouped(runs: Sequence[ReportedRun], across: Iterable[str] = ()) -> tuple[Group, ...]:
    """Group runs by model and the settings in `across`, pooling seeds. Raises ReportError with what bars it."""
    names = tuple(dict.fromkeys(across))
    known = sorted({name for run in runs for name in run.settings})
    if unknown := next((name for name in names if name not in known), None):
        raise ReportError(
            f"no run has a setting {unknown!r} to compare across: choose from {', '.join(known)}"
        )
    for run, other in combinations(runs, 2):
        if problem := conflict(run, other, names):
            raise ReportError(f"{run.folder} and {other.folder} {problem}")
    by_key: dict[tuple[str, ...], list[ReportedRun]] = {}
    for run in runs:
        by_key.setdefault((run.model, *(run.settings.get(name, "") for name in names)), []).append(
            run
        )
    groups = []
    for first, *others in by_key.values():
        variant = ", ".join(
            f"{name} {first.settings.get(name, 'not set')}" for name in names if name != "data"
        )
        label = ", ".join(filter(None, (first.model, first.data, variant)))
        groups.append(
            Group(
                label,
                first.model,
                first.data,
                tuple(sorted((first, *others), key=lambda run: run.seed)),
            )
        )
    return tuple(groups)


def conflict(run: ReportedRun, other: ReportedRun, across: Sequence[str]) -> str:
    """Why two runs can neither be pooled nor be rows of one table; "" if they can."""
    differing = [
        name for name, value in run.settings.items() if other.settings.get(name, value) != value
    ]
    across = (
        [*across, "editable"] if "data" in differing else across
    )  # other data has other demonstrations
    if name := next((name for name in differing if name not in across), ""):
        what = f"differ in {name} ({run.settings[name]}; {other.settings[name]}) and cannot share a table"
        return f"{what}: report them separately, or compare them deliberately with --across {name}"
    same_seed = run.seed == other.seed
    if same_seed and {*run.test} != {*other.test} and "data" not in differing:
        remedy = "report them separately, or evaluate one of them again with the other's --run"
        return f"have seed {run.seed} but different test edits and cannot share a table: {remedy}"
    if differing or run.model != other.model:
        return ""
    if name := next(
        (name for name, value in run.identity.items() if other.identity.get(name, value) != value),
        "",
    ):
        return f"differ in the {name} of model {run.model} and cannot share a table: report them separately"
    if same_seed and (
        twice := next((editor for editor in run.outcomes if editor in other.outcomes), "")
    ):
        return f"both measured {twice} with seed {run.seed} on {run.model}: report only one of them"
    return ""


def read_folders(
    folders: Sequence[Path], across: Sequence[str] = ()
) -> tuple[list[ReportedRun], list[str]]:
    """Runs in folders, and in their `evaluations` if they can share tables; notes on the others. Raises RunError."""
    # The newest first, so that these are kept.
    within = (
        folder
        for run in folders
        for folder in sorted((run / files.EVALUATIONS).glob("*"), reverse=True)
    )
    others = [run for run in within if any((run / files.OUTCOMES).glob("*.jsonl"))]
    kept, left = list[ReportedRun](), dict[Path, str]()
    for run in read_runs([*folders, *others]):
        clash = next(
            ((other, reason) for other in kept if (reason := conflict(other, run, across))), None
        )
        if clash and Path(run.folder) in others:
            left[Path(run.folder)] = (
                f"{run.folder} is left out: it and {clash[0].folder} {clash[1]}"
            )
        else:
            kept.append(run)
    for folder in folders:
        own = [note for place, note in left.items() if place.is_relative_to(folder)]
        if own and not any(Path(run.folder).is_relative_to(folder) for run in kept):
            raise RunError(f"nothing of {folder} can be reported: {own[0]}")
    return kept, list(left.values())


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Read the runs of a report, but no training run without outcomes that another evaluated. Raises RunError."""
    by_place = {folder.resolve(): folder for folder in reversed(folders)}
    evaluated = {
        trained_run(Run.open(folder)) for folder in folders if not (folder / _EPISODES).exists()
    }
    places = dict.fromkeys(folder.resolve() for folder in folders)
    kept = [
        place
        for place in places
        if place not in evaluated or any((place / "outcomes").glob("*.jsonl"))
    ]
    return [read_run(by_place[place]) for place in kept]


def read_run(folder: Path) -> ReportedRun:
    """Read one run with outcomes. Raises RunError."""
    run = Run.open(folder)
    split, trained, model, usage = (
        run.split(),
        trained_run(run),
        run.record.model,
        files.read_usage(folder),
    )
    training, inherited = split, dict[str, Any]()
    if trained is not None and trained != folder.resolve():
        before = Run.open(trained)
        inherited, training = dict(before.record.settings), before.split()
        usage = {
            name: used for name, used in files.read_usage(trained).items() if name == "training"
        } | usage
    own = {
        name: value
        for name, value in run.record.settings.items()
        if value is not None or name not in inherited
    }
    merged = inherited | own
    shared = {
        "probes": "published",
        "editable": f"all but {len(split.demonstrations)} rows",
    }  # older runs lack probes
    shared |= {name: _text(value) for name, value in merged.items() if name not in _IGNORED}
    shared |= {
        "data": f"{split.dataset} {run.record.data_fingerprint[:8]}",
        "test": f"{len(split.test)} edits",
    }
    shared |= {"edits": f"{len(training.train)} edits"} if training.train else {}
    outcomes = _outcomes(run, split)
    summary = files.read_json(
        folder / "summary.json", Mapping[str, Summary], "remove it, or evaluate again"
    )
    expected, evaluated = (
        [*(run.editors or ()), *(summary or {})],
        {files.slug(editor) for editor in outcomes},
    )
    both = (
        editor for editor in run.editors or () if editor in outcomes
    )  # in the order they were asked for
    behind_gate = {
        editor: files.read_outcomes(files.outcomes_path(folder, editor, files.DEPLOYED))
        for editor in both
    }
    in_force = tuple(
        files.read_lines(folder / files.DEPLOYED / files.GATE, GateRecord, "evaluate again")
    )
    origin = folder if (folder / _EPISODES).exists() else trained
    return ReportedRun(
        folder=str(folder), model=run.model, data=split.title, seed=run.seed, settings=shared,
        identity={name: _text(model[name]) for name in ("weights_sha256", "dtype") if name in model},
        test=split.test, outcomes=outcomes,
        missing=tuple(name for name in dict.fromkeys(map(_text, expected)) if files.slug(name) not in evaluated)
        + (("edits in force",) if run.record.settings.get("stored") and not in_force else ()),
        episodes=() if origin is None else tuple(files.read_lines(origin / _EPISODES, EpisodeRecord, "train again")),
        asked_episodes=len(training.train) * epochs if isinstance(epochs := merged.get("epochs"), int) else 0,
        form="; ".join(file.form for file in run.record.data), usage=usage,
        written={editor: _written(folder, of_editor) for editor, of_editor in outcomes.items()},
        prompts={
            editor: {of.case_id: of for of in files.read_lines(path, files.CasePrompts, "delete it and evaluate again")}
            for editor in outcomes for path in [files.outcomes_path(folder, editor, files.PROMPTS)]
        },
        stored=_text(run.record.settings.get("stored") or ""),
        deployed={editor: tuple(deployed) for editor, deployed in behind_gate.items() if deployed},
        gate=in_force,
        started=run.record.started, versions=run.record.versions,
    )  # fmt: skip


def evaluate_again(folder: Path | str) -> str:
    """The command that evaluates the editors that a run's folder lacks."""
    return (
        f"drike evaluate {'--run' if (Path(folder) / _EPISODES).exists() else '--resume'} {folder}"
    )


def trained_run(run: Run) -> Path | None:
    """The training run that a run evaluated, where it was or beside the run, if it is found; of that itself."""
    here = run.folder.resolve()
    if run.run is None:
        return here if (here / _EPISODES).exists() else None
    within = [here.parents[1]] if here.parent.name == files.EVALUATIONS else []
    places = (*within, Path(run.run), here.parent / Path(run.run).name)
    return next((place.resolve() for place in places if (place / "run.json").exists()), None)


def _outcomes(run: Run, split: SplitIds) -> dict[str, tuple[Outcome, ...]]:
    """Read every editor's outcomes, which must cover the same probes of all test edits. Raises RunError."""
    by_editor, folder = dict[str, tuple[Outcome, ...]](), run.folder
    resumable = run.record.options is not None and not (folder / _EPISODES).exists()
    remedy = f"continue with {evaluate_again(folder)}" if resumable else "evaluate again"
    if not (paths := sorted((folder / files.OUTCOMES).glob("*.jsonl"))):
        first = (
            f" yet: {remedy}"
            if resumable
            else f": evaluate it first, with `drike evaluate --run {folder}`"
        )
        raise RunError(f"{folder} has no outcomes{first}")
    probes: dict[tuple[str, Aspect, str], str] = {}
    for path in paths:
        outcomes = tuple(files.read_outcomes(path))
        if not set(split.test) <= (done := {outcome.case_id for outcome in outcomes}):
            remedy = f"{remedy}, or remove the file to report the other editors"
            raise RunError(f"{path} holds {len(done)} of {len(split.test)} test edits: {remedy}")
        asked = {(o.case_id, o.aspect, o.query): o.target for o in outcomes}
        probes = probes or asked
        if asked != probes or len({outcome.editor for outcome in outcomes}) != 1:
            what = f"{path} does not hold the same probes as {paths[0].name}"
            raise RunError(f"{what}: evaluate again, or remove one of the two")
        if outcomes[0].editor in by_editor:
            raise RunError(
                f"{folder} holds the outcomes of {outcomes[0].editor} twice: remove {path}"
            )
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


def _text(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else "none"
        if value is None
        else json.dumps(value, ensure_ascii=False)
    )
