"""`drike evaluate --stored`: the same editors with many edits in force, behind a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from drike.cli.console import draw, progress
from drike.cli.costs import live
from drike.cli.opening import WatchedEncoder
from drike.deployment.evaluation import GatedEditor, SimulatedStores, gate_records, with_stores
from drike.editors.editor import Editor
from drike.edits import EditCase
from drike.errors import UsageError
from drike.evaluation.judge import Rule
from drike.evaluation.metrics import Outcome, counted
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gates.questions import common_questions
from drike.gates.verification import require_uncertainty
from drike.models.protocols import LanguageModel
from drike.report import as_markdown
from drike.report.deployed import GATE, deployed_tables
from drike.runs.folder import DEPLOYED, append
from drike.runs.recording import recorded_evaluation
from drike.runs.resume import recovered_outcomes
from drike.runs.run import Setup
from drike.serving.requests import read_questions
from drike.support.files import write_text


@dataclass(frozen=True)
class Deployment:
    """What --stored asks for: a gate, stores, and questions that concern no edit.

    model: is asked, yes or no, where the gate is in doubt.
    """

    gate: Gate
    stores: SimulatedStores
    questions: Sequence[str]
    model: LanguageModel | None = None

    @property
    def gate_name(self) -> str:
        """The gate's name."""
        return type(self.gate).__name__ + (" and the model's yes or no" if self.model else "")

    def editors(self, editors: Sequence[Editor]) -> list[GatedEditor]:
        """The editors behind the gate."""
        return [GatedEditor(editor, self.gate, self.stores, self.model) for editor in editors]


def deployment(
    setup: Setup, stored: str, gate: str | None, unrelated: Path | None, model: LanguageModel | None = None
) -> Deployment:
    """Stores of the data's editable rows, those that are tested on among them. Raises UsageError, DataError."""
    chosen: Gate = default_gate() if gate == "calibrated" else Named()
    encoder = WatchedEncoder(chosen.encoder) if isinstance(chosen, Calibrated) else None
    editable = {*setup.split.ids.editable, *setup.split.ids.test}
    edits = [edit for case in setup.dataset.cases if case.case_id in editable for edit in case.edits]
    stores = SimulatedStores(edits, None if stored == "all" else int(stored), encoder=encoder, seed=setup.pool.seed)
    questions = common_questions() if unrelated is None else [question for question, *_ in read_questions(unrelated)]
    return Deployment(chosen, stores, questions, model)


def check_stored(stored: str | None, gate: str | None, unrelated: Path | None, ask: bool) -> None:
    """Refuse values of --stored that are no size, and what needs it. Raises UsageError."""
    if stored is not None and stored != "all" and not (stored.isdecimal() and int(stored)):
        raise UsageError(f"--stored takes a number of edits, at least 1, or all, not {stored!r}")
    if (gate or unrelated or ask) and not stored:
        raise UsageError("--gate, --unrelated and --ask are for --stored: ask for edits in force, as --stored all")
    if ask and gate != "calibrated":
        require_uncertainty(Named(), "give --gate calibrated, or leave --ask out")


def run_deployed(
    folder: Path,
    asked: Deployment,
    model: LanguageModel,
    editors: Sequence[Editor],
    cases: Sequence[EditCase],
    *,
    rule: Rule,
    paper: Mapping[str, Sequence[Outcome]],
) -> None:
    """Evaluate the editors behind the gate; show and save tables, outcomes and the gate's decisions.

    cases: with answers to all questions. paper: the outcomes of each editor with every query under the edit.
    """
    cases, counts = [with_stores(case, asked.stores) for case in cases], {}
    for editor in asked.editors(editors):
        found = recovered_outcomes(folder, editor.name, cases, DEPLOYED)
        left = cases[len({one.case_id for one in found}) :]
        with (
            progress(f"{editor.name}, deployed", live(model)) as (bar, task),
            closing(recorded_evaluation(folder, editor, model, left, rule=rule, part=DEPLOYED)) as outcomes,
        ):
            bar.update(task, total=len(cases), completed=len(cases) - len(left))
            for case in outcomes:
                found.extend(case)
                bar.update(task, advance=1)
        counts[editor.name] = counted(paper[editor.name]), counted(found)
    records = list(gate_records(asked.gate, asked.stores, cases, asked.questions, asked.model))
    path = folder / DEPLOYED / GATE
    path.unlink(missing_ok=True)
    append(path, map(asdict, records))
    size = asked.stores.size or len(asked.stores.whole.edits)
    title = f"{size:,} edits in force, {len(cases)} test edits, model {model.info.name}, gate {asked.gate_name}"
    tables = deployed_tables(counts, records, title, rule.caption)
    for table in tables:
        draw(table)
    text = (folder / "table.md").read_text("utf-8")
    write_text(folder / "table.md", "\n".join([text, *map(as_markdown, tables)]))
