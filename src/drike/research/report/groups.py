"""Group runs that can share a table.

An edit that several seeds of a group test counts as one case. Settings in which runs of a table
differ must be named by `across`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

from drike.errors import ReportError, RunError
from drike.research.evaluation.metrics import (
    Counts,
    Outcome,
    Summary,
    counted,
    paired_differences,
    summary_of,
)
from drike.research.report.reported_runs import ReportedRun, read_runs
from drike.research.runs import files
from drike.support.table import Difference

UNEDITED = "Unedited"
BASELINE = "IKE"
METHOD = "DR-IKE"
PER_QUERY = "DR-IKE-Q"
# The order of rows; editors that are not named here follow in the order they were measured.
ORDER = (UNEDITED, "FactPrompt", "EditCoT", "EditCoT-full", "IKE", "Rank-All", "Rank-50%", "DR-IKE")


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
        measured = [editor for run in self.runs for editor in run.outcomes]
        outcomes_by_editor = {}
        for editor in dict.fromkeys([*ORDER, *measured]):
            outcomes: list[Outcome] = []
            for run in self.runs:
                outcomes += run.outcomes.get(editor, ())
            if outcomes:
                outcomes_by_editor[editor] = outcomes
        return outcomes_by_editor

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """The counts of each editor."""
        unedited = self.outcomes.get(UNEDITED, [])
        return {editor: counted(outcomes, unedited) for editor, outcomes in self.outcomes.items()}

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """A summary for each editor."""
        return {editor: summary_of(counts) for editor, counts in self.counts.items()}

    @property
    def headline(self) -> str:
        """The metric by which editors are ranked: the first of S, ESR, PC and RR that was measured.

        S, if none was.
        """
        for name in ("S", "ESR", "PC", "RR"):
            if any(summary.metric(name).value is not None for summary in self.summaries.values()):
                return name
        return "S"

    @property
    def ranked(self) -> list[Summary]:
        """The summaries of the editors that have the headline metric, best first.

        The unedited model is none of them.
        """
        values = []
        for editor, summary in self.summaries.items():
            value = summary.metric(self.headline).value
            if editor != UNEDITED and value is not None:
                values.append((value, summary))
        ranked = sorted(values, key=lambda pair: pair[0], reverse=True)
        return [summary for _, summary in ranked]

    def difference(self, ours: str, theirs: str, metric: str) -> Difference | None:
        """Our metric minus theirs, paired; None for editors not measured on the same edits."""
        if not self.comparable(ours, theirs):
            return None
        return Difference(paired_differences(self.counts[ours], self.counts[theirs])[metric])

    def seeds(self, editor: str | None = None) -> tuple[int, ...]:
        """The seeds that measured an editor, or any editor."""
        seeds = {run.seed for run in self.runs if editor is None or editor in run.outcomes}
        return tuple(sorted(seeds))

    def comparable(self, ours: str, theirs: str) -> bool:
        """Whether two editors were measured on the same edits under the same seeds."""
        return {ours, theirs} <= self.outcomes.keys() and self.seeds(ours) == self.seeds(theirs)


def grouped(runs: Sequence[ReportedRun], across: Iterable[str] = ()) -> tuple[Group, ...]:
    """Group runs by model and the settings in `across`, pooling seeds.

    Raises ReportError for runs that cannot share tables, and for a setting that no run has.
    """
    across = tuple(dict.fromkeys(across))
    _require_settings(runs, across)
    for run, other in combinations(runs, 2):
        problem = conflict(run, other, across)
        if problem:
            raise ReportError(f"{run.folder} and {other.folder} {problem}")

    runs_by_key: dict[tuple[str, ...], list[ReportedRun]] = {}
    for run in runs:
        key = (run.model, *(run.settings.get(name, "") for name in across))
        runs_by_key.setdefault(key, []).append(run)

    groups = []
    for of_group in runs_by_key.values():
        first = of_group[0]
        by_seed = sorted(of_group, key=lambda run: run.seed)
        groups.append(Group(_label(first, across), first.model, first.data, tuple(by_seed)))
    return tuple(groups)


def _require_settings(runs: Sequence[ReportedRun], across: Sequence[str]) -> None:
    """Raise ReportError for a setting that no run has."""
    settings = {name for run in runs for name in run.settings}
    for name in across:
        if name not in settings:
            raise ReportError(
                f"no run has a setting {name!r} to compare across: "
                f"choose from {', '.join(sorted(settings))}"
            )


def _label(run: ReportedRun, across: Sequence[str]) -> str:
    """A group by its model, its data and the settings compared across."""
    settings = [f"{name} {run.settings.get(name, 'not set')}" for name in across if name != "data"]
    parts = (run.model, run.data, ", ".join(settings))
    return ", ".join(part for part in parts if part)


def conflict(run: ReportedRun, other: ReportedRun, across: Sequence[str]) -> str:
    """Why two runs can neither be pooled nor be rows of one table; "" if they can."""
    differing = [
        name for name, value in run.settings.items() if other.settings.get(name, value) != value
    ]
    for name in differing:
        # Other data has another number of demonstrations.
        follows_from_data = name == "editable" and "data" in differing
        if name not in across and not follows_from_data:
            return (
                f"differ in {name} ({run.settings[name]}; {other.settings[name]}) and cannot share "
                "a table: report them separately, or compare them deliberately with "
                f"--across {name}"
            )

    same_seed = run.seed == other.seed
    if same_seed and set(run.test) != set(other.test) and "data" not in differing:
        return (
            f"have seed {run.seed} but different test edits and cannot share a table: report them "
            "separately, or evaluate one of them again with the other's --run"
        )

    pooled = not differing and run.model == other.model
    return _pooling_conflict(run, other) if pooled else ""


def _pooling_conflict(run: ReportedRun, other: ReportedRun) -> str:
    """Why two runs of the same model and settings cannot be pooled; "" if they can."""
    for name, value in run.identity.items():
        if other.identity.get(name, value) != value:
            return (
                f"differ in the {name} of model {run.model} and cannot share a table: "
                "report them separately"
            )
    if run.seed == other.seed:
        for editor in run.outcomes:
            if editor in other.outcomes:
                return (
                    f"both measured {editor} with seed {run.seed} on {run.model}: "
                    "report only one of them"
                )
    return ""


def read_folders(
    folders: Sequence[Path], across: Sequence[str] = ()
) -> tuple[list[ReportedRun], list[str]]:
    """Runs in folders, and in their `evaluations` as far as these can share tables with them.

    Returns the runs, and a note on each evaluation that is left out. Raises RunError, also if
    nothing of a folder is left.
    """
    evaluations = _evaluations_within(folders)
    runs: list[ReportedRun] = []
    notes: dict[Path, str] = {}
    for run in read_runs([*folders, *evaluations]):
        clash = _first_conflict(run, runs, across)
        if clash and Path(run.folder) in evaluations:
            notes[Path(run.folder)] = f"{run.folder} is left out: it and {clash}"
        else:
            runs.append(run)

    for folder in folders:
        notes_within = [note for place, note in notes.items() if place.is_relative_to(folder)]
        is_reported = any(Path(run.folder).is_relative_to(folder) for run in runs)
        if notes_within and not is_reported:
            raise RunError(f"nothing of {folder} can be reported: {notes_within[0]}")
    return runs, list(notes.values())


def _evaluations_within(folders: Sequence[Path]) -> list[Path]:
    """The evaluations with outcomes inside folders of runs, the newest first, which are kept."""
    evaluations = []
    for folder in folders:
        for evaluation in sorted((folder / files.EVALUATIONS).glob("*"), reverse=True):
            if any((evaluation / files.OUTCOMES).glob("*.jsonl")):
                evaluations.append(evaluation)
    return evaluations


def _first_conflict(
    run: ReportedRun, reported: Sequence[ReportedRun], across: Sequence[str]
) -> str:
    """The first of the reported runs that a run cannot share a table with, and why; "" for none."""
    for other in reported:
        problem = conflict(other, run, across)
        if problem:
            return f"{other.folder} {problem}"
    return ""
