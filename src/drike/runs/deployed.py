"""Evaluate editors with many edits in force, behind a gate: `drike evaluate --stored`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.deployment.evaluation import GatedEditor, GateRecord, SimulatedStores, gate_records, with_stores
from drike.editors.editor import Editor
from drike.edits import EditCase
from drike.evaluation.judge import Rule
from drike.evaluation.metrics import Outcome
from drike.gates.decision import Gate
from drike.models.protocols import LanguageModel
from drike.runs.evaluating import CaseEvaluated, evaluate_rest
from drike.runs.folder import DEPLOYED, GATE, append
from drike.runs.recording import PhaseStarted
from drike.runs.resume import recovered_outcomes


@dataclass(frozen=True)
class Deployment:
    """A gate before stores of edits, questions that concern no edit, and a model to ask where the gate is uncertain."""

    gate: Gate
    stores: SimulatedStores
    questions: Sequence[str]
    model: LanguageModel | None = None

    @property
    def name(self) -> str:
        """The gate's name."""
        return type(self.gate).__name__ + (" and the model's yes or no" if self.model else "")

    @property
    def size(self) -> int:
        """How many edits are in force."""
        return self.stores.size or len(self.stores.whole.edits)

    def editors(self, editors: Sequence[Editor]) -> list[GatedEditor]:
        """The editors behind the gate."""
        return [GatedEditor(editor, self.gate, self.stores, self.model) for editor in editors]


@dataclass(frozen=True)
class DeployedEvaluation:
    """A finished evaluation behind a gate: outcomes by the editor's name, and all decisions of the gate."""

    outcomes: Mapping[str, Sequence[Outcome]]
    decisions: Sequence[GateRecord]


def run_deployed(
    folder: Path,
    deployment: Deployment,
    model: LanguageModel,
    editors: Sequence[Editor],
    cases: Sequence[EditCase],
    *,
    rule: Rule,
) -> Generator[PhaseStarted | CaseEvaluated | DeployedEvaluation]:
    """Evaluate editors behind the gate; yield each case's outcomes after they are saved, then all. Raises RunError."""
    cases, outcomes = [with_stores(case, deployment.stores) for case in cases], dict[str, list[Outcome]]()
    for editor in deployment.editors(editors):
        outcomes[editor.name] = recovered_outcomes(folder, editor.name, cases, DEPLOYED)
        yield from evaluate_rest(folder, editor, model, cases, outcomes[editor.name], rule=rule, part=DEPLOYED)
    decisions = list(gate_records(deployment.gate, deployment.stores, cases, deployment.questions, deployment.model))
    path = folder / DEPLOYED / GATE
    path.unlink(missing_ok=True)
    append(path, map(asdict, decisions))
    yield DeployedEvaluation(outcomes, decisions)
