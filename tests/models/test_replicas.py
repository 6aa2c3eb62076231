"""Replicas: every call goes whole to one of them, to its home unless that would cost time."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike import tinyfacts
from drike.cli import main
from drike.encoders import HashingEncoder
from drike.errors import ModelError
from drike.models import ray
from drike.models.local.huggingface import load
from drike.models.protocols import Completion, LanguageModel, ModelInfo, Request, Score, Usage
from drike.models.replicas import Replicas, route
from drike.research.editors.budgets import Fraction
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.runs import checkpoint
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.models import ScriptedModel
from tests.fakes.reports import timeless

CASES = CAPITALS[:12]


class Copy:
    """A scripted replica that counts usage, and how many threads call it at once."""

    def __init__(self, room: int | None = None, seconds: float = 0.0) -> None:
        self.model = ScriptedModel(follows_the_fact)
        self.info = ModelInfo("scripted", room or 1, "by rule", {"weights_sha256": "ab"})
        self.usage = Usage()
        self.forgot = 0
        self.inside = self.most = 0
        self.seconds = seconds

    def forget(self) -> None:
        self.forgot += 1

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        return [len(prompt.split()) for prompt in prompts]

    def generate(
        self, prompts: Sequence[str], max_tokens: int = 16, stop: str | None = "\n"
    ) -> list[Completion]:
        return self.model.generate(prompts, max_tokens, stop)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(self.seconds)
        self.usage += Usage(calls=1, prompts=len(requests))
        try:
            return self.model.score(requests)
        finally:
            self.inside -= 1


@given(st.data())
def test_calls_go_to_their_home_replica_unless_another_is_free_sooner(data: st.DataObject) -> None:
    room = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    busy = [data.draw(st.integers(0, most)) for most in room]
    home = data.draw(st.integers(0, len(room) - 1))
    if busy == room:
        return
    chosen = route(home, busy, room)
    assert busy[chosen] < room[chosen]
    if min(busy) == 0:
        assert busy[chosen] == 0, "an idle replica must be chosen"
    if busy[home] == 0 or (min(busy) > 0 and busy[home] < room[home]):
        assert chosen == home


def test_replicas_keep_the_models_info_and_add_up_calls_at_once() -> None:
    model: LanguageModel = Replicas([Copy(), Copy(2)])
    assert model.info == ModelInfo("scripted", 3, "by rule", {"weights_sha256": "ab"})
    assert load(str(tinyfacts.MODEL)).info.calls_at_once == 1
    with pytest.raises(ValueError, match="at least one"):
        Replicas([])


@pytest.mark.parametrize("rooms", [(None,), (None, None), (2, 2), (None, 3, 2)])
def test_replicas_give_one_models_outcomes_within_their_call_limits(
    rooms: tuple[int | None, ...],
) -> None:
    copies = [Copy(room, seconds=0.001) for room in rooms]
    outcomes = evaluate(FactPrompt(), Replicas(copies), CASES)
    expected = evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES)
    assert timeless(outcomes) == timeless(expected)
    for copy, room in zip(copies, rooms, strict=True):
        assert copy.most <= (room or 1)
    calls = [copy.model.calls for copy in copies]
    assert all(calls), "every replica has work"
    assert sum(calls) == len(CASES), "no call is split"


def test_excess_callers_wait_for_a_free_replica() -> None:
    copies = [Copy(seconds=0.002), Copy(seconds=0.002)]
    model = Replicas(copies)
    request = [Request("The capital of Land1 is", " Old1")]
    threads = [threading.Thread(target=model.score, args=(request,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.usage.calls == 12
    assert [copy.most for copy in copies] == [1, 1]


def test_repeated_calls_about_an_edit_go_to_the_same_replica() -> None:
    copies = [Copy() for _ in range(4)]
    model = Replicas(copies)
    editor = InContextEditor(
        "IKE", Pool(CAPITALS[12:], HashingEncoder()), RankAndCut(Similarity(), Fraction(1.0))
    )
    for _ in range(3):
        list(evaluate(editor, model, CASES, parallel=1))
    asked = [set(copy.model.prompts) for copy in copies]
    assert sum(map(len, asked)) == len(set().union(*asked)), "two replicas saw the same prompt"
    assert sum(bool(prompts) for prompts in asked) > 1


def test_replicas_take_the_arguments_that_every_model_takes_by_name() -> None:
    model = Replicas([Copy()])
    assert [
        c.text for c in model.generate(prompts=["The capital of Land1 is"], max_tokens=4, stop=None)
    ] == [" Old1"]
    assert model.score(requests=[]) == []
    assert model.count_tokens(prompts=["one two"]) == [2]


def test_replicas_sum_usage_forget_together_and_free_their_slot_on_error() -> None:
    copies = [Copy(), Copy(), Copy()]
    model = Replicas(copies)
    for i in range(20):
        model.score([Request(f"The capital of Land{i} is", " Old1")] * 2)
    assert model.usage == Usage(calls=20, prompts=40)
    model.forget()
    assert [copy.forgot for copy in copies] == [1, 1, 1]
    for _ in range(5):
        with pytest.raises(ModelError, match="empty"):
            model.score([Request("x", "")])
    assert [c.text for c in model.generate(["The capital of Land1 is"])] == [" Old1"]
    assert model.count_tokens(["one two", "three"]) == [2, 1]
    assert model.score([]) == [] and model.generate([]) == []


@pytest.mark.slow
def test_local_replicas_give_the_outcomes_of_one_model() -> None:
    from drike.research import datasets
    from drike.research.editors.unedited import Unedited

    where = str(tinyfacts.MODEL)
    cases = datasets.load(tinyfacts.ROWS).cases[:8]
    both = list(evaluate(Unedited(), Replicas([load(where), load(where)]), cases))
    for mine, theirs in zip(both, evaluate(Unedited(), load(where), cases), strict=True):
        assert mine.logprob_margin == pytest.approx(theirs.logprob_margin, abs=1e-3)
        assert (mine.query, mine.correct, mine.exact) == (
            theirs.query,
            theirs.correct,
            theirs.exact,
        )


def test_idle_replicas_are_refused_and_training_blocks_are_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [
        "--model",
        "reader",
        "--encoder",
        "hashing",
        "--edits",
        "5",
        "--test",
        "3",
        "--epochs",
        "1",
    ]
    for refused in (["--replicas", "2"], ["--replicas", "2", "--parallel-edits", "2"]):
        with pytest.raises(SystemExit, match="2"):
            main(["train", *small, *refused, "--out", str(tmp_path / "refused")])
        assert "replicas" in capsys.readouterr().err
    folder = tmp_path / "run"
    with pytest.raises(SystemExit, match="0"):
        main(["train", *small, "--parallel-edits", "4", "--out", str(folder)])
    record = json.loads((folder / "run.json").read_text("utf-8"))["settings"]
    assert (record["parallel_edits"], record["replicas"]) == (4, 1)
    trained = checkpoint.load(folder, encoder=HashingEncoder()).training
    assert (trained["method"]["parallel_edits"], trained["episodes"]) == (4, 5)


def test_a_ray_that_would_be_open_to_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(__version__="2.50.1", is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", old)
    private = {
        "RAY_ADDRESS": "local",
        "RAY_AUTH_MODE": "token",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    with (
        mock.patch.dict(os.environ, private),
        pytest.raises(ModelError, match=r"Ray 2\.50\.1 lets anyone join"),
    ):
        ray.load(str(tinyfacts.MODEL), replicas=2)
    with (
        mock.patch.dict(os.environ, private | {"RAY_AUTH_MODE": ""}),
        pytest.raises(ModelError, match="imported before"),
    ):
        ray.load(str(tinyfacts.MODEL), replicas=2)


def test_a_replica_has_the_hub_token_only_if_it_is_handed_over() -> None:
    with mock.patch.dict(os.environ):
        os.environ.pop("HF_TOKEN", None)
        for token in (None, "hf_1234567890"):
            answer, _ = ray._Worker("no/such/folder/at all", {"device": "cpu"}, token).ask("info")
            assert "no model folder" in str(answer) and os.environ.get("HF_TOKEN") == token


def test_dropped_replicas_are_freed_at_once_so_that_their_actors_end() -> None:
    remote = ray.RemoteModel(object(), ModelInfo("remote"), "replica 1 of 1")
    replicas = Replicas([remote])
    dropped = [weakref.ref(remote), weakref.ref(replicas)]
    gc.disable()
    try:
        del remote, replicas
        assert [one() for one in dropped] == [None, None]
    finally:
        gc.enable()
