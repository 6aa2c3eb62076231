"""Which runs can share a table: groups of runs that differ in nothing but their seed.

Models are rows and seeds are pooled (an edit that several seeds test counts as one case). Any other setting in which
two runs differ must be named by `across`; otherwise the table is refused, with the name of the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from drike.deployment.evaluation import GateRecord
from drike.errors import ReportError
from drike.evaluation.metrics import METRICS, Counts, Outcome, Summary, counted, paired_differences, summary_of
from drike.models.protocols import Usage
from drike.report.tables import Epoch, epochs_of
from drike.runs.run import CasePrompts
from drike.support.table import Difference
from drike.training.algorithm1 import EpisodeRecord

UNEDITED, BASELINE, METHOD, PER_QUERY = "Unedited", "IKE", "DR-IKE", "DR-IKE-Q"
HEADLINES = METRICS[:4]  # S, ESR, PC, RR
# The order of rows; editors that are not named here follow in the order they were measured.
ORDER = (UNEDITED, "FactPrompt", "EditCoT", "EditCoT-full", "IKE", "Rank-All", "Rank-50%", "DR-IKE")


@dataclass(frozen=True)
class ReportedRun:
    """What a report needs from one run's folder.

    settings: what the rows of a table must share, as text. identity: of the model's weights. missing: editors that
    were to be evaluated and have no outcomes. episodes, asked_episodes: of the training run behind it, and how many
    it was to have; 0 where unknown. form: of the data files. usage: for training and for each editor. written: by
    editor and case id, what the model wrote, by probe. prompts: by editor and case id. stored: how many edits were in
    force behind a gate, as --stored gave it; "" if that was not evaluated. deployed: by editor, the outcomes behind it.
    """

    folder: str
    model: str
    data: str
    seed: int
    settings: Mapping[str, str]
    identity: Mapping[str, str]
    test: tuple[str, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]]
    missing: tuple[str, ...] = ()
    episodes: tuple[EpisodeRecord, ...] = ()
    asked_episodes: int = 0
    form: str = ""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    written: Mapping[str, Mapping[str, tuple[str | None, ...]]] = field(default_factory=dict)
    prompts: Mapping[str, Mapping[str, CasePrompts]] = field(default_factory=dict)
    stored: str = ""
    deployed: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    gate: tuple[GateRecord, ...] = ()
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Training, epoch by epoch; the last may be unfinished."""
        return epochs_of(self.episodes)


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed: one row of a table, or one block of rows."""

    label: str
    model: str
    data: str
    variant: str
    runs: tuple[ReportedRun, ...]

    @cached_property
    def outcomes(self) -> dict[str, list[Outcome]]:
        """Every editor's outcomes of all seeds, in the order of a table's rows."""
        pooled: dict[str, list[Outcome]] = {}
        for run in self.runs:
            for editor, of_editor in run.outcomes.items():
                pooled.setdefault(editor, []).extend(of_editor)
        return {editor: pooled[editor] for editor in dict.fromkeys((*ORDER, *pooled)) if editor in pooled}

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """The counts of each editor."""
        unedited = self.outcomes.get(UNEDITED, [])
        return {editor: counted(of_editor, unedited) for editor, of_editor in self.outcomes.items()}

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """A summary for each editor."""
        return {editor: summary_of(counts) for editor, counts in self.counts.items()}

    @property
    def headline(self) -> str:
        """The metric that editors are ranked by: S, or the first of ESR, PC and RR that was measured."""
        summaries = self.summaries.values()
        measured = (name for name in HEADLINES if any(summary.metric(name).value is not None for summary in summaries))
        return next(measured, HEADLINES[0])

    @property
    def ranked(self) -> list[Summary]:
        """The summaries of the editors that have the headline metric, best first, without the unedited model."""
        values = {editor: of.metric(self.headline).value for editor, of in self.summaries.items() if editor != UNEDITED}
        measured = {editor: -value for editor, value in values.items() if value is not None}
        return [self.summaries[editor] for editor in sorted(measured, key=measured.__getitem__)]

    def difference(self, ours: str, theirs: str, metric: str) -> Difference | None:
        """Our metric minus theirs, paired; None if the two editors were not measured on the same edits."""
        if not self.comparable(ours, theirs):
            return None
        return Difference(paired_differences(self.counts[ours], self.counts[theirs])[metric])

    def seeds(self, editor: str | None = None) -> tuple[int, ...]:
        """The seeds that measured an editor, or any editor."""
        return tuple(sorted({run.seed for run in self.runs if editor is None or editor in run.outcomes}))

    def comparable(self, ours: str, theirs: str) -> bool:
        """Whether two editors were measured on the same edits under the same seeds."""
        return {ours, theirs} <= self.outcomes.keys() and self.seeds(ours) == self.seeds(theirs)

    @property
    def scores(self) -> bool:
        """Whether the model gives probabilities."""
        return any(outcome.logit_gap is not None for outcomes in self.outcomes.values() for outcome in outcomes)


def grouped(runs: Sequence[ReportedRun], across: Iterable[str] = ()) -> tuple[Group, ...]:
    """Group runs by model and the settings in `across`, pooling seeds. Raises ReportError with what bars it."""
    names = tuple(dict.fromkeys(across))
    known = sorted({name for run in runs for name in run.settings})
    if unknown := next((name for name in names if name not in known), None):
        raise ReportError(f"no run has a setting {unknown!r} to compare across: choose from {', '.join(known)}")
    for run, other in combinations(runs, 2):
        if problem := conflict(run, other, names):
            raise ReportError(f"{run.folder} and {other.folder} {problem}")
    by_key: dict[tuple[str, ...], list[ReportedRun]] = {}
    for run in runs:
        by_key.setdefault((run.model, *(run.settings.get(name, "") for name in names)), []).append(run)
    groups = []
    for first, *others in by_key.values():
        variant = ", ".join(f"{name} {first.settings.get(name, 'not set')}" for name in names if name != "data")
        label = ", ".join(filter(None, (first.model, first.data, variant)))
        pooled = tuple(sorted((first, *others), key=lambda run: run.seed))
        groups.append(Group(label, first.model, first.data, variant, pooled))
    return tuple(groups)


def conflict(run: ReportedRun, other: ReportedRun, across: Sequence[str]) -> str:
    """Why two runs can neither be pooled nor be rows of one table; "" if they can."""
    shared = [name for name in run.settings if name in other.settings]
    differing = [name for name in shared if run.settings[name] != other.settings[name]]
    if barring := [name for name in differing if name not in across]:
        name = barring[0]
        what = f"differ in {name} ({run.settings[name]}; {other.settings[name]}) and cannot share a table"
        return f"{what}: report them separately, or compare them deliberately with --across {name}"
    same_seed = run.seed == other.seed
    if same_seed and {*run.test} != {*other.test} and "data" not in differing:
        remedy = "report them separately, or evaluate one of them again with the other's --run"
        return f"have seed {run.seed} but different test edits and cannot share a table: {remedy}"
    if differing or run.model != other.model:
        return ""
    for name in run.identity.keys() & other.identity.keys():
        if run.identity[name] != other.identity[name]:
            return f"differ in the {name} of model {run.model} and cannot share a table: report them separately"
    twice = [editor for editor in run.outcomes if editor in other.outcomes]
    if same_seed and twice:
        return f"both measured {twice[0]} with seed {run.seed} on {run.model}: report only one of them"
    return ""
