"""Which runs can share a table: groups of runs that differ in nothing but their seed.

Models are rows and seeds are pooled (an edit that several seeds test counts as one case). Any other setting in which
two runs differ must be named by `across`; otherwise the table is refused, with the name of the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from drike.errors import ReportError
from drike.evaluation.metrics import (
    METRICS,
    Counts,
    Estimate,
    Outcome,
    Summary,
    counted,
    paired_differences,
    summary_of,
)
from drike.models.protocols import Usage
from drike.report.training import Epoch, Step, epochs_of
from drike.runs.folder import CasePrompts

UNEDITED, BASELINE, METHOD, PER_QUERY = "Unedited", "IKE", "DR-IKE", "DR-IKE-Q"
HEADLINES = METRICS[:4]  # S, ESR, PC, RR
# The order of rows; editors that are not named here follow in the order they were measured.
ORDER = (UNEDITED, "FactPrompt", "EditCoT", "EditCoT-full", "IKE", "Rank-All", "Rank-50%", "DR-IKE")


@dataclass(frozen=True)
class ReportedRun:
    """What a report needs of one run's folder.

    settings: what the rows of a table must share, as text. identity: of the model's weights. missing: editors that
    were to be evaluated and have no outcomes. steps, training_edits, asked_episodes: of the training run behind it; 0
    where unknown. own_sigma: whether the budget gives every edit a sigma of its own. parameters: trained for each
    editor, where known. form: of the data files. usage: what the model did for training and for each editor.
    written: by editor and case id, what the model wrote, by probe. prompts: by editor and case id.
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
    steps: tuple[Step, ...] = ()
    training_edits: int = 0
    asked_episodes: int = 0
    own_sigma: bool = False
    parameters: Mapping[str, int] = field(default_factory=dict)
    form: str = ""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    written: Mapping[str, Mapping[str, tuple[str | None, ...]]] = field(default_factory=dict)
    prompts: Mapping[str, Mapping[str, CasePrompts]] = field(default_factory=dict)
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Training, epoch by epoch; the last may be unfinished."""
        return epochs_of(self.steps, own_sigma=self.own_sigma)


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
        measured = (
            name for name in HEADLINES if any(one.metric(name).value is not None for one in self.summaries.values())
        )
        return next(measured, HEADLINES[0])

    @property
    def ranked(self) -> list[Summary]:
        """The editors' summaries by the headline metric, best first, without the unedited model and what lacks it."""
        of_editors = (one for name, one in self.summaries.items() if name != UNEDITED)
        values = [(value, one) for one in of_editors if (value := one.metric(self.headline).value) is not None]
        return [one for _, one in sorted(values, key=lambda pair: -pair[0])]

    def difference(self, one: str, other: str, metric: str) -> Estimate | None:
        """The paired difference of two editors; None if they were not measured on the same edits."""
        if not self.comparable(one, other):
            return None
        return paired_differences(self.counts[one], self.counts[other])[metric]

    def seeds(self, editor: str | None = None) -> tuple[int, ...]:
        """The seeds that measured an editor, or any editor."""
        return tuple(sorted({run.seed for run in self.runs if editor is None or editor in run.outcomes}))

    def parameters(self, editor: str) -> int | None:
        """How many parameters were trained for an editor; None where that is not known of every run."""
        counts = {run.parameters.get(editor) for run in self.runs if editor in run.outcomes}
        return counts.pop() if len(counts) == 1 else None

    def comparable(self, one: str, other: str) -> bool:
        """Whether two editors were measured on the same edits under the same seeds."""
        return {one, other} <= self.outcomes.keys() and self.seeds(one) == self.seeds(other)

    @property
    def scores(self) -> bool:
        """Whether the model gives probabilities."""
        return any(outcome.logit_gap is not None for of in self.outcomes.values() for outcome in of)


def grouped(runs: Sequence[ReportedRun], across: Iterable[str] = ()) -> tuple[Group, ...]:
    """Group runs by model and by the settings named in `across`; runs that differ only in their seed are pooled.

    Raises ReportError, naming the setting, where two runs cannot share a table.
    """
    names = tuple(dict.fromkeys(across))
    known = {name for run in runs for name in run.settings}
    for one in names:
        if one not in known:
            raise ReportError(f"no run has a setting {one!r} to compare across: choose from {', '.join(sorted(known))}")
    for run, other in combinations(runs, 2):
        if conflict := _conflict(run, other, names):
            raise ReportError(f"{run.folder} and {other.folder} {conflict}")
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


def _conflict(one: ReportedRun, other: ReportedRun, across: Sequence[str]) -> str:
    """Why two runs can neither be pooled nor be rows of one table; "" if they can."""
    shared = [name for name in one.settings if name in other.settings]
    differing = [name for name in shared if one.settings[name] != other.settings[name]]
    for name in differing:
        if name not in across:
            return (
                f"differ in {name} ({one.settings[name]}; {other.settings[name]}) and cannot share a table: "
                f"report them separately, or compare them deliberately with --across {name}"
            )
    same_seed = one.seed == other.seed
    if same_seed and set(one.test) != set(other.test) and "data" not in differing:
        return (
            f"have seed {one.seed} but different test edits and cannot share a table: report them separately, "
            "or evaluate one of them again with the other's --run"
        )
    if differing or one.model != other.model:
        return ""
    for name in one.identity.keys() & other.identity.keys():
        if one.identity[name] != other.identity[name]:
            return f"differ in the {name} of model {one.model} and cannot share a table: report them separately"
    twice = [editor for editor in one.outcomes if editor in other.outcomes]
    if same_seed and twice:
        return f"both measured {twice[0]} with seed {one.seed} on {one.model}: report only one of them"
    return ""
