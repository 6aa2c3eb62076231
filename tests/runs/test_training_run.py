"""Training as a generator: what it yields is saved, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

import drike
from drike.errors import ModelError, RunError, UsageError
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.runs import checkpoint
from drike.research.runs.evaluation_run import NeighboursAnswered
from drike.research.runs.events import PhaseStarted, Prepared
from drike.research.runs.files import read_lines
from drike.research.runs.method import Method, new_editor
from drike.research.runs.query_policy_run import run_query_policy
from drike.research.runs.training_run import recovered_episodes, run_training
from drike.research.training.algorithm1 import Episode, EpisodeRecord
from drike.research.training.s_objective import Expected
from tests.fakes.models import ScriptedModel
from tests.fakes.setups import ENCODER, small_setup

METHOD = Method(epochs=2, policy_encoder="hashing")


def editor() -> InContextEditor[RankAndCut]:
    return new_editor(METHOD, small_setup(), ENCODER)


def events(folder: Path, trained: InContextEditor[RankAndCut]) -> Iterator[object]:
    past = recovered_episodes(folder)
    model = drike.load_model("reader")
    return run_training(folder, small_setup(), model, trained, METHOD, described={}, past=past)


def test_every_episode_is_saved_before_it_is_yielded(tmp_path: Path) -> None:
    seen: list[object] = []
    for event in events(tmp_path, editor()):
        seen.append(event)
        episodes = [known for known in seen if isinstance(known, Episode)]
        assert len(read_lines(tmp_path / "episodes.jsonl", EpisodeRecord, "train again")) == len(
            episodes
        )
    assert [type(event) for event in seen[:2]] == [Prepared, PhaseStarted]
    assert [episode.epoch for episode in episodes] == [1] * 4 + [2] * 4
    assert checkpoint.load(tmp_path).training["episodes"] == 8


def test_a_training_that_is_closed_goes_on_as_it_would_have(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    list(events(whole, editor()))
    begun = events(stopped, editor())
    list(islice(begun, 2 + 5))
    begun.close()  # type: ignore[attr-defined]
    assert checkpoint.load(stopped).training["episodes"] == 5
    started = next(event for event in events(stopped, editor()))
    assert isinstance(started, Prepared) and started.recovered == 5
    list(events(stopped, editor()))
    assert (stopped / checkpoint.FILE).read_bytes() == (whole / checkpoint.FILE).read_bytes()


def test_the_policy_per_query_is_trained_from_the_answers_in_the_folder(tmp_path: Path) -> None:
    trained, model = editor(), drike.load_model("reader")
    list(events(tmp_path, trained))
    first = list(run_query_policy(tmp_path, small_setup(), model, trained, METHOD))
    neighbours = [PhaseStarted, *[NeighboursAnswered] * 4]
    asking = [PhaseStarted, *[CaseAnswers] * 4]
    assert [type(event) for event in first] == [*neighbours, *asking, Expected]
    again = list(
        run_query_policy(
            tmp_path, small_setup(), drike.CustomModel("silent", lambda *_: []), trained, METHOD
        )
    )
    assert [type(event) for event in again] == [PhaseStarted, Expected]
    assert again[0] == PhaseStarted("asking", 4, 4)
    assert again[-1].score == first[-1].score  # type: ignore[union-attr]
    assert checkpoint.load(tmp_path).per_query is not None


def test_answers_judged_by_another_reading_of_retention_are_refused(tmp_path: Path) -> None:
    trained, model = editor(), drike.load_model("reader")
    list(events(tmp_path, trained))
    over_all = replace(METHOD, retention="all")
    list(run_query_policy(tmp_path, small_setup(), model, trained, over_all))
    with pytest.raises(RunError, match=r"counts all neighbours, .* `retention` unchanged: remove"):
        list(run_query_policy(tmp_path, small_setup(), model, trained, METHOD))


def test_own_answers_cannot_be_trained_on_by_likelihood() -> None:
    assert replace(METHOD, judge="likelihood").reading == "all"
    with pytest.raises(UsageError, match="judge by greedy or generate, or choose all or known"):
        replace(METHOD, judge="likelihood", retention="unchanged").reading  # noqa: B018


def test_training_on_nothing_is_refused(tmp_path: Path) -> None:
    empty = small_setup(train=0)
    with pytest.raises(UsageError, match="no edit to train on"):
        next(
            run_training(
                tmp_path, empty, drike.load_model("reader"), editor(), METHOD, described={}
            )
        )


def test_a_rule_that_compares_is_refused_without_old_objects(tmp_path: Path) -> None:
    setup = small_setup()
    first, *others = setup.split.train
    without = replace(first, edit=replace(first.edit, target_true=None))
    setup = replace(setup, split=replace(setup.split, train=(without, *others)))
    model = drike.CustomModel("silent", lambda *_: pytest.fail("the model was asked"))
    method = replace(METHOD, judge="likelihood")
    with pytest.raises(
        UsageError, match=r"unknown for 1 of the edits: .* train by greedy or generate"
    ):
        next(run_training(tmp_path, setup, model, editor(), method, described={}))


def test_the_former_name_of_an_objective_means_the_same() -> None:
    assert [Method(objective=name).is_per_query for name in ("paper", "s", "balanced")] == [
        False,
        True,
        True,
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["", " ", "<think></think>\n", "<think>I wonder"])
def test_a_training_of_which_no_answer_can_be_read_ends_with_an_error(
    answer: str, tmp_path: Path
) -> None:
    model = ScriptedModel(lambda prompt: answer, scores=False)

    def trained(past: list[EpisodeRecord]) -> list[object]:
        setup = small_setup()
        return list(run_training(tmp_path, setup, model, editor(), METHOD, described={}, past=past))

    with pytest.raises(ModelError, match=r"could be read: .* --thinking-tokens"):
        trained([])
    past = recovered_episodes(tmp_path)
    with pytest.raises(ModelError, match="could be read"):
        trained(past)  # nor is it a result when it goes on


def test_a_training_goes_on_where_one_answer_can_be_read(tmp_path: Path) -> None:
    answers = iter(["Rome"])
    model = ScriptedModel(lambda prompt: next(answers, ""), scores=False)
    setup = small_setup()
    *_, last = run_training(tmp_path, setup, model, editor(), METHOD, described={})
    assert isinstance(last, Episode) and last.epoch == METHOD.epochs
