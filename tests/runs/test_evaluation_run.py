"""Evaluation as a generator: what it yields is saved, and what is saved is not asked for again."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

import drike
from drike.errors import UsageError
from drike.gates.by_name import Named
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.judge import GENERATE, GREEDY
from drike.research.runs.deployed_run import DeployedEvaluation, Deployment, run_deployed
from drike.research.runs.evaluation_run import (
    CaseEvaluated,
    Evaluation,
    Judging,
    NeighboursAnswered,
    run_evaluation,
)
from drike.research.runs.events import PhaseStarted, Prepared
from drike.research.runs.files import DEPLOYED, GATE, UNEDITED, outcomes_path, read_outcomes
from tests.fakes.setups import small_setup

EDITORS = (Unedited(), FactPrompt())


def test_every_case_is_saved_before_it_is_yielded(tmp_path: Path) -> None:
    model, saved = drike.load_model("reader"), 0
    events = []
    for event in run_evaluation(tmp_path, small_setup(train=0), model, EDITORS):
        events.append(event)
        if isinstance(event, CaseEvaluated):
            saved += len(event.outcomes)
            files = [outcomes_path(tmp_path, editor.name) for editor in EDITORS]
            assert sum(len(read_outcomes(path)) for path in files) == saved
    neighbours = [PhaseStarted, *[NeighboursAnswered] * 3]
    of_editor = [PhaseStarted, *[CaseEvaluated] * 3]
    assert [type(event) for event in events] == [
        Prepared, *neighbours, *of_editor, *of_editor, Evaluation
    ]  # fmt: skip
    assert set(json.loads((tmp_path / "summary.json").read_text("utf-8"))) == {
        "Unedited",
        "FactPrompt",
    }


def test_an_evaluation_that_is_closed_goes_on_where_it_was(tmp_path: Path) -> None:
    begun = run_evaluation(tmp_path, small_setup(train=0), drike.load_model("reader"), EDITORS)
    neighbours = 1 + 3
    list(islice(begun, 1 + neighbours + 1 + 2))
    begun.close()
    events = list(
        run_evaluation(tmp_path, small_setup(train=0), drike.load_model("reader"), EDITORS)
    )
    assert isinstance(events[0], Prepared) and events[0].recovered == 2
    assert not any(isinstance(event, NeighboursAnswered) for event in events)
    assert sum(isinstance(event, CaseEvaluated) for event in events) == 4
    done = events[-1]
    assert isinstance(done, Evaluation) and all(
        len(done.outcomes[editor.name]) for editor in EDITORS
    )


def test_neighbours_that_were_answered_are_not_asked_again(tmp_path: Path) -> None:
    begun = run_evaluation(tmp_path, small_setup(train=0), drike.load_model("reader"), EDITORS)
    list(islice(begun, 1 + 1 + 2))
    begun.close()
    model = drike.load_model("reader")
    events = list(run_evaluation(tmp_path, small_setup(train=0), model, EDITORS))
    assert sum(isinstance(event, NeighboursAnswered) for event in events) == 1
    done = events[-1]
    assert isinstance(done, Evaluation)
    assert done.summaries[0].rr_unchanged.value == 1
    assert done.summaries[0].rr_known.value == 1


def test_a_run_begun_before_answers_were_compared_goes_on_without(tmp_path: Path) -> None:
    begun = run_evaluation(tmp_path, small_setup(train=0), drike.load_model("reader"), EDITORS)
    list(islice(begun, 1 + 1 + 3 + 1 + 2))
    begun.close()
    (tmp_path / UNEDITED).unlink()
    events = list(
        run_evaluation(tmp_path, small_setup(train=0), drike.load_model("reader"), EDITORS)
    )
    assert not any(isinstance(event, NeighboursAnswered) for event in events)
    assert not (tmp_path / UNEDITED).exists()


def test_right_answers_longer_than_what_is_written_are_noted_where_answers_are_written(
    tmp_path: Path,
) -> None:
    setup, long = small_setup(train=0), " ".join(["word"] * 17)
    first, *others = setup.split.test
    [probe, *further] = first.probes
    changed = (replace(first, probes=(replace(probe, target=long), *further)), *others)
    setup = replace(setup, split=replace(setup.split, test=changed))
    model = drike.load_model("reader")
    for rule, noted in ((GENERATE, True), (GREEDY, False)):
        prepared = next(run_evaluation(tmp_path, setup, model, EDITORS, rule=rule))
        assert isinstance(prepared, Prepared)
        assert (
            any(
                note.startswith("1 probes have right answers of more than 16 words")
                for note in prepared.notes
            )
            is noted
        )


def test_an_evaluation_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no edit to test on"):
        list(
            run_evaluation(
                tmp_path, small_setup(train=0, test=0), drike.load_model("reader"), EDITORS
            )
        )


def test_a_deployed_evaluation_saves_outcomes_and_the_decisions_of_the_gate(tmp_path: Path) -> None:
    stores = SimulatedStores(
        [edit for case in small_setup(train=0).split.test for edit in case.edits]
    )
    deployment, model = (
        Deployment(Named(), stores, ["Who wrote Hamlet?"]),
        drike.load_model("reader"),
    )
    assert (deployment.size, deployment.name) == (3, "Named")
    cases = small_setup(train=0).split.test
    *_, done = run_deployed(tmp_path, deployment, model, EDITORS, cases, judging=Judging(GREEDY))
    assert isinstance(done, DeployedEvaluation)
    for editor in EDITORS:
        assert (
            read_outcomes(outcomes_path(tmp_path, editor.name, DEPLOYED))
            == done.outcomes[editor.name]
        )
    assert len((tmp_path / DEPLOYED / GATE).read_text("utf-8").splitlines()) == len(done.decisions)
    again = list(run_deployed(tmp_path, deployment, model, EDITORS, cases, judging=Judging(GREEDY)))
    assert not any(isinstance(event, CaseEvaluated) for event in again)
