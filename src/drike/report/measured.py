"""What a report is made of: runs as they were measured, and which of them may stand in one table.

Rows of a table share their settings. Models are rows and seeds are pooled (an edit that several seeds test stays one
case); everything else in which two runs differ must be named (`across`), or the table is refused with the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import fmean

from drike.errors import ReportError
from drike.metrics import Outcome, Summary, summarise
from drike.models.protocols import Usage

UNEDITED, BASELINE, METHOD = "Unedited", "IKE", "DR-IKE"
# The order of rows; editors that are not named here follow in the order they were measured.
ORDER = (UNEDITED, "FactPrompt", "EditCoT", "EditCoT-full", "IKE", "Rank-All", "Rank-50%", "DR-IKE")


@dataclass(frozen=True)
class Step:
    """A training episode, as far as curves need it.

    tried: prefixes the model was asked about. kept: of these, what the budget keeps. right: under the prompt that the
    budget would have given. sigma: what the budget it left asks of a retain's p; None where it asks none.
    """

    epoch: int
    tried: int
    kept: int
    right: bool
    reward: float
    sigma: float | None
    prompt_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """An epoch of training.

    esr: share of edits right under the prompt the budget gives. reward: mean over all prefixes tried. k: mean retains
    kept. sigma: at its end, or the mean where every edit has its own. calls: prompts asked. prompt_tokens: as if
    nothing were shared.
    """

    number: int
    edits: int
    esr: float
    reward: float
    k: float
    sigma: float | None
    calls: int
    prompt_tokens: int | None
    seconds: float


@dataclass(frozen=True)
class Run:
    """One run's folder.

    own_sigma: whether its budget gives every edit a sigma of its own. form: of the data's files. settings: what rows of
    a table must share, as shown. identity: of the model's weights. usage: what the model did for training and for each
    editor. asked_episodes: of the whole training, 0 where that is not known. missing: editors that were asked for and
    not evaluated. parameters: trained for each editor, where known.
    """

    folder: str
    model: str
    data: str
    seed: int
    settings: Mapping[str, str]
    identity: Mapping[str, str]
    test: tuple[str, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]]
    steps: tuple[Step, ...] = ()
    training_edits: int = 0
    asked_episodes: int = 0
    missing: tuple[str, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=dict)
    own_sigma: bool = False
    form: str = ""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """Training, epoch by epoch; the last may be unfinished."""
        numbers = sorted({step.epoch for step in self.steps})
        steps = ([step for step in self.steps if step.epoch == number] for number in numbers)
        return tuple(_epoch(of_epoch, self.own_sigma) for of_epoch in steps)


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed: one row of a table, or one block of rows."""

    label: str
    model: str
    data: str
    variant: str
    runs: tuple[Run, ...]

    @cached_property
    def outcomes(self) -> dict[str, list[Outcome]]:
        """All seeds' outcomes of each editor, in the order of a table's rows."""
        pooled: dict[str, list[Outcome]] = {}
        for run in self.runs:
            for editor, of_editor in run.outcomes.items():
                pooled.setdefault(editor, []).extend(of_editor)
        known = [editor for editor in ORDER if editor in pooled]
        return {editor: pooled[editor] for editor in (*known, *(e for e in pooled if e not in ORDER))}

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """A row an editor."""
        unedited = self.outcomes.get(UNEDITED, [])
        return {editor: summarise(of_editor, unedited) for editor, of_editor in self.outcomes.items()}

    def seeds(self, editor: str | None = None) -> tuple[int, ...]:
        """The seeds that measured an editor, or any."""
        return tuple(sorted({run.seed for run in self.runs if editor is None or editor in run.outcomes}))

    def seconds_per_query(self, editor: str) -> float:
        """Mean wall time of a probe."""
        return fmean(outcome.seconds for outcome in self.outcomes[editor])

    def parameters(self, editor: str) -> int | None:
        """How many numbers were trained for an editor; None where that is not known of every run."""
        told = {run.parameters.get(editor) for run in self.runs if editor in run.outcomes}
        return told.pop() if len(told) == 1 else None

    def comparable(self, one: str, other: str) -> bool:
        """Whether two editors were measured on the same edits under the same seeds."""
        return {one, other} <= self.outcomes.keys() and self.seeds(one) == self.seeds(other)

    @property
    def scores(self) -> bool:
        """Whether the model gives probabilities."""
        return any(outcome.logit_gap is not None for of in self.outcomes.values() for outcome in of)


def grouped(runs: Sequence[Run], across: Iterable[str] = ()) -> tuple[Group, ...]:
    """Runs as groups of rows, models and the settings named by `across` apart, seeds together.

    Raises ReportError, naming the setting, where two runs must not stand in one table.
    """
    named = tuple(dict.fromkeys(across))
    known = {name for run in runs for name in run.settings}
    for name in named:
        if name not in known:
            raise ReportError(f"no run has a setting {name!r} to compare across: choose of {', '.join(sorted(known))}")
    for one, other in combinations(runs, 2):
        _check(one, other, named)
    by_key: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        by_key.setdefault((run.model, *(run.settings.get(name, "") for name in named)), []).append(run)
    return tuple(_group(of_key, named) for of_key in by_key.values())


def _group(runs: list[Run], named: Sequence[str]) -> Group:
    first = runs[0]
    values = {name: first.settings.get(name, "not set") for name in named if name != "data"}
    variant = ", ".join(f"{name} {value}" for name, value in values.items())
    ordered = tuple(sorted(runs, key=lambda run: run.seed))
    return Group(", ".join(filter(None, (first.model, first.data, variant))), first.model, first.data, variant, ordered)


def _check(one: Run, other: Run, named: Sequence[str]) -> None:
    """Refuse two runs that neither share a row nor differ in what rows may differ in. Raises ReportError."""
    shared = [name for name in one.settings if name in other.settings]
    differing = [name for name in shared if one.settings[name] != other.settings[name]]
    for name in differing:
        if name not in named:
            raise ReportError(
                f"{one.folder} and {other.folder} differ in {name} ({one.settings[name]}; {other.settings[name]}) and "
                f"do not belong in one table: report them apart, or compare them on purpose with --across {name}"
            )
    if "data" in differing:
        return
    if one.seed == other.seed and set(one.test) != set(other.test):
        raise ReportError(
            f"{one.folder} and {other.folder} share seed {one.seed} but not their test edits and do not belong in one "
            "table: report them apart, or evaluate one of them again with the other's --run"
        )
    if differing or one.model != other.model:
        return
    for name in one.identity.keys() & other.identity.keys():
        if one.identity[name] != other.identity[name]:
            raise ReportError(
                f"{one.folder} and {other.folder} differ in the {name} of model {one.model} and do not belong in one "
                "table: report them apart"
            )
    twice = [editor for editor in one.outcomes if editor in other.outcomes]
    if one.seed == other.seed and twice:
        raise ReportError(
            f"{one.folder} and {other.folder} both measured {twice[0]} with seed {one.seed} on {one.model}: "
            "report only one of them"
        )


def _epoch(steps: Sequence[Step], own_sigma: bool) -> Epoch:
    sigmas = [step.sigma for step in (steps if own_sigma else steps[-1:]) if step.sigma is not None]
    tokens = [step.prompt_tokens for step in steps if step.prompt_tokens is not None]
    return Epoch(
        number=steps[0].epoch,
        edits=len(steps),
        esr=fmean(step.right for step in steps),
        reward=fmean(step.reward for step in steps),
        k=fmean(step.kept for step in steps),
        sigma=fmean(sigmas) if sigmas else None,
        calls=sum(step.tried for step in steps),
        prompt_tokens=sum(tokens) if len(tokens) == len(steps) else None,
        seconds=sum(step.seconds for step in steps),
    )
