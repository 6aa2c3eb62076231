"""Laws of evaluation with many edits in force."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.edit import Aspect, Edit, EditCase, Probe
from drike.errors import UsageError
from drike.gates.by_name import Named
from drike.gates.edit_names import common_questions
from drike.prompts import Prompt
from drike.research.deployment.gate_records import GateRecord, gate_records
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores, with_stores
from drike.research.editors.factprompt import FactPrompt
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import summarise
from drike.research.report.gate_tables import gate_table, near_misses
from drike.research.runs.files import read_outcomes
from tests.fakes.capitals import CAPITALS, follows_the_fact, old_object
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel

SOME = CAPITALS[:12]
SMALL = ("--encoder", "hashing", "--model", "reader", "--test", "2", "--editors", "factprompt")


def stores(size: int | None = None, cases: tuple[EditCase, ...] = CAPITALS) -> SimulatedStores:
    return SimulatedStores([case.edit for case in cases], size)


def deaf(prompt: str) -> str:
    """Follow facts, but none about the lands 3, 13, 23, ..."""
    question = prompt.splitlines()[-1]
    return old_object(question) if "3 " in f"{question} " else follows_the_fact(prompt)


def test_with_one_edit_and_a_perfect_gate_deployed_s_is_s() -> None:
    one = stores(1)
    paper = list(evaluate(FactPrompt(), ScriptedModel(deaf), SOME))
    cases = [with_stores(case, one) for case in SOME]
    deployed = list(evaluate(GatedEditor(FactPrompt(), Named(), one), ScriptedModel(deaf), cases))
    assert cases == list(SOME)
    assert [o.correct for o in deployed] == [o.correct for o in paper]
    assert 0 < summarise(deployed).s.value == summarise(paper).s.value < 1  # type: ignore[operator]


def test_a_neighbour_that_another_edit_changed_is_right_as_changed() -> None:
    every = stores()
    cases = [with_stores(case, every) for case in SOME]
    changed = {probe.query: probe.target for case in cases for probe in case.neighborhood}
    assert changed["The capital of Land8 is"] == CAPITALS[8].edit.target_new
    outcomes = list(
        evaluate(GatedEditor(FactPrompt(), Named(), every), ScriptedModel(follows_the_fact), cases)
    )
    assert all(one.correct for one in outcomes)
    records = list(gate_records(Named(), every, cases))
    assert all(one.asks and one.fires and not one.false for one in records)


def test_questions_that_concern_no_edit_get_the_bare_query() -> None:
    prompts = GatedEditor(FactPrompt(), Named(), stores()).prompts(
        SOME[0].edits, common_questions()
    )
    assert prompts == [Prompt(query) for query in common_questions()]


def test_a_fire_on_another_fact_of_the_subject_is_false_and_counted_by_kind() -> None:
    river = Probe(Aspect.SAME_SUBJECT, "The river through Land1 is", "Elbe")
    case = replace(CAPITALS[1], further=(river,))
    records = list(gate_records(Named(), stores(), [case], ["What is new?"]))
    found = {one.kind: one for one in records}
    assert (
        found[Aspect.SAME_SUBJECT].false == (case.edit.fact,)
        and found[Aspect.SAME_SUBJECT].asks is None
    )
    assert found["unrelated"].false == () and found[Aspect.REWRITE].probability == 1
    shown = str(gate_table(records))
    assert "(1 of 1)" in shown and "same_subject" in shown
    assert [row[2] for row in near_misses(records).rows] == ["matched it falsely"]


def test_a_neighbour_behind_a_distracting_sentence_does_not_ask_the_edit() -> None:
    about, beside = (
        Probe(Aspect.DISTRACTOR, f"Somebody said New1. {p.query}", p.target)
        for p in CAPITALS[1].probes[1:3]
    )
    case = replace(CAPITALS[1], further=(about, beside))
    every = stores(None, CAPITALS[:8])
    found = [
        one
        for one in gate_records(Named(), every, [with_stores(case, every)])
        if one.kind == "distractor"
    ]
    assert [one.asks for one in found] == [case.edit.fact, None] and not any(
        one.false for one in found
    )


def test_a_store_of_a_case_holds_its_edits_and_nothing_that_contradicts_them() -> None:
    rival = Edit(CAPITALS[5].edit.query, "Elsewhere", "Old5", "Land5", "capital")
    edits = [*(case.edit for case in CAPITALS), rival]
    small = SimulatedStores(edits, 10, seed=3)
    whole = SimulatedStores(edits)
    with_rival = small.index_for([rival])
    assert len(with_rival.edits) == 10
    assert small.index_for([rival]) is with_rival

    fourth = CAPITALS[4].edit
    of_another_seed = SimulatedStores(edits, 10, seed=4)
    assert small.index_for([fourth]).edits != of_another_seed.index_for([fourth]).edits

    for of_case, contradicting in ((rival, CAPITALS[5].edit), (CAPITALS[5].edit, rival)):
        in_force = [edit.record.edit for edit in whole.index_for([of_case]).edits.values()]
        assert of_case in in_force
        assert contradicting not in in_force
        assert len(in_force) == len(CAPITALS)
    with pytest.raises(UsageError, match="has no subject"):
        SimulatedStores([Edit("The sky is", "green")])


def test_an_evaluation_with_stored_edits_is_shown_recorded_and_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run("evaluate", *SMALL, "--stored", "10", "--out", str(folder)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Deployed: 10 edits in force, 2 test edits" in shown and "The gate, by kind" in shown
    assert "Deployed: 10 edits" in (folder / "table.md").read_text("utf-8")
    assert json.loads((folder / "run.json").read_text("utf-8"))["settings"]["stored"] == "10"
    path, gate = folder / "deployed" / "factprompt.jsonl", folder / "deployed" / "gate.jsonl"
    whole, decisions = [replace(one, seconds=0) for one in read_outcomes(path)], gate.read_bytes()
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-3]), "utf-8")
    assert run("evaluate", "--resume", str(folder)) == 0
    assert [
        replace(one, seconds=0) for one in read_outcomes(path)
    ] == whole and gate.read_bytes() == decisions
    assert run("report", str(folder)) == 0
    page = (folder / "report.md").read_text("utf-8")
    assert (
        "Many edits in force" in page
        and "Deployed: 10 edits in force" in page
        and "Nearest misses" in page
    )
    assert "Incomplete" not in page
    shutil.rmtree(folder / "deployed")
    assert run("report", str(folder)) == 0
    said = "has no outcomes of edits in force, which this report leaves out; to measure what is missing: drike evaluate"
    assert said in " ".join((folder / "report.md").read_text("utf-8").split())


def test_what_the_gate_decided_wrongly_stands_before_what_it_nearly_did() -> None:
    def record(asks: bool, own: float, other: float) -> GateRecord:
        return GateRecord(
            "1",
            "paraphrase",
            "?",
            "y" if asks else None,
            own >= 0.5,
            ("x",) * (other >= 0.5),
            own,
            "x",
            other,
        )

    records = [record(True, 0.9, 0.1), record(True, 0.4, 0.02), record(False, 0.0, 0.6)]
    assert [row[2] for row in near_misses(records).rows] == [
        "missed it",
        "matched it falsely",
        "nearly matched it",
        "nearly matched it",
    ]


def test_stored_takes_a_number_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("0", "-1", "many"):
        assert run("evaluate", *SMALL, f"--stored={given}") == 2
        assert "--stored takes a number of edits" in capsys.readouterr().err
    for other in ("--unrelated", "--gate"):
        assert run("evaluate", *SMALL, other, "named") == 2
