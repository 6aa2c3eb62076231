"""Evaluate a run's editors behind a gate, with many edits in force."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.edits.edit import EditCase
from drike.gates.decision import Gate
from drike.models.protocols import LanguageModel
from drike.research.deployment.gate_records import GateRecord, gate_records
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores, with_stores
from drike.research.editors.editor import Editor
from drike.research.evaluation.metrics import Outcome
from drike.research.runs import files
from drike.research.runs.evaluation_run import (
    CaseEvaluated,
    Judging,
    evaluate_rest,
    recovered_outcomes,
)
from drike.research.runs.events import PhaseStarted
from drike.research.runs.readable import require_readable


@dataclass(frozen=True)
class Deployment:
    """A gate before stores of edits.

    questions: some that concern no edit.
    """

    gate: Gate
    stores: SimulatedStores
    questions: Sequence[str]

    @property
    def name(self) -> str:
        """The gate's name."""
        return type(self.gate).__name__

    @property
    def size(self) -> int:
        """How many edits are in force."""
        most = len(self.stores.whole.edits)
        return min(self.stores.size or most, most)

    def editors(self, editors: Sequence[Editor]) -> list[GatedEditor]:
        """The editors behind the gate."""
        return [GatedEditor(editor, self.gate, self.stores) for editor in editors]


@dataclass(frozen=True)
class DeployedEvaluation:
    """A finished evaluation behind a gate.

    outcomes: by the editor's name. decisions: all of the gate's.
    """

    outcomes: Mapping[str, Sequence[Outcome]]
    decisions: Sequence[GateRecord]


def run_deployed(
    folder: Path,
    deployment: Deployment,
    model: LanguageModel,
    editors: Sequence[Editor],
    cases: Sequence[EditCase],
    *,
    judging: Judging,
) -> Generator[PhaseStarted | CaseEvaluated | DeployedEvaluation]:
    """Evaluate editors behind the gate.

    Yields each case's outcomes after they are saved, then all. Raises RunError, ModelError.
    """
    part = files.DEPLOYED
    cases = [with_stores(case, deployment.stores) for case in cases]
    outcomes: dict[str, list[Outcome]] = {}
    for editor in deployment.editors(editors):
        recorded = recovered_outcomes(folder, editor.name, cases, part)
        outcomes[editor.name] = recorded
        yield from evaluate_rest(folder, editor, model, cases, recorded, judging=judging, part=part)

    if not judging.rule.by_scores:
        written = [outcome.answer for each in outcomes.values() for outcome in each]
        require_readable(model, written, f" (they are kept in {folder})")
    decisions = list(gate_records(deployment.gate, deployment.stores, cases, deployment.questions))
    files.write_lines(folder / part / files.GATE, map(asdict, decisions))
    yield DeployedEvaluation(outcomes, decisions)
