"""Several edits in flight on a served model: the same results, no prompt paid for twice, and a prompt end."""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lib.editcot import EditCoTFull
from drike.encoders import HashingEncoder
from drike.errors import ModelError, RefusedError, SpendingLimitError
from drike.models.protocols import Completion, CustomModel, LanguageModel
from drike.models.served.cache import AnswerCache, CachedModel
from drike.models.served.openai import ServedModel
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome
from drike.research.runs.files import read_outcomes
from drike.research.training.algorithm1 import Episode, in_blocks, rewrite_reward, train
from drike.support.parallel import GRACE
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel, cached, kept_answers
from tests.fakes.reports import timeless
from tests.fakes.servers import Handler, Respond, Served, connect, serve, serving, status
from tests.fakes.threads import press_ctrl_c, threads_of_drike
from tests.fakes.waiting import HANG, wait_until

CASES = CAPITALS[:10]
ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[10:], ENCODER)
GOOD = serving(ScriptedModel(follows_the_fact, scores=False))


@contextmanager
def connected(served: Served, **options) -> Iterator[ServedModel]:  # type: ignore[no-untyped-def]
    with closing(connect(served.named(), **{"deadline": 20.0, "attempts": 1, **options})) as model:
        yield model


def jittering(respond: Respond) -> Respond:
    """Answer after a short random sleep, so that no two runs finish in the same order."""

    def late(handler: Handler, body: dict) -> None:
        time.sleep(random.random() / 100)
        respond(handler, body)

    return late


# Results


def moody(prompt: str) -> str:
    """Answer right or wrong by the prompt's hash, for rewards of both signs and flips."""
    return follows_the_fact(prompt) if zlib.crc32(prompt.encode()) % 3 else "nothing"


def learned(model: LanguageModel, edits_at_once: int) -> tuple[list[torch.Tensor], list[Episode]]:
    retriever = Retriever(ENCODER, seed=1)
    editor, schedule = (
        InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold(0.05, 4))),
        in_blocks(edits_at_once, model.info.calls_at_once),
    )
    episodes = train(
        editor, rewrite_reward(model), CASES[:5], epochs=2, learning_rate=0.01, schedule=schedule
    )
    return [*retriever.head.parameters()], [replace(episode, seconds=0.0) for episode in episodes]


@pytest.mark.parametrize("edits_at_once", [1, 3])
def test_served_training_depends_on_seed_and_block_but_not_on_concurrency(
    edits_at_once: int, tmp_path: Path
) -> None:
    expected: tuple[list[torch.Tensor], list[Episode]] | None = None
    for concurrency in (1, 4, 16):
        respond = jittering(serving(ScriptedModel(moody, scores=False)))
        with serve(respond) as served, connected(served, concurrency=concurrency) as inner:
            model = CachedModel(inner, "m", AnswerCache(tmp_path / f"{concurrency}.sqlite"))
            assert model.info.calls_at_once == concurrency
            head, episodes = learned(model, edits_at_once)
            assert len({*map(json.dumps, served.bodies)}) == served.requests, (
                "a prompt was paid for twice"
            )
        expected = expected or (head, episodes)
        assert episodes == expected[1] and {
            reward for episode in episodes for reward in episode.rewards
        } == {1, -1}
        assert all(torch.equal(one, other) for one, other in zip(head, expected[0], strict=True))


@pytest.mark.parametrize("scores", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_served_outcomes_do_not_depend_on_concurrency(scores: bool, tmp_path: Path) -> None:
    respond = jittering(serving(ScriptedModel(follows_the_fact), scores=scores))

    def with_(concurrency: int) -> list[Outcome]:
        with (
            serve(respond) as served,
            connected(served, template="plain", concurrency=concurrency) as inner,
        ):
            model = CachedModel(inner, "m", AnswerCache(tmp_path / f"{concurrency}.sqlite"))
            assert (model.score is not None) == scores
            editors = (
                InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0))),
                FactPrompt(),
                EditCoTFull(model),
            )
            return [
                outcome
                for editor in editors
                for outcome in timeless(evaluate(editor, model, CASES[:4]))
            ]

    assert with_(16) == with_(1)


# Answers that several threads need at once


def slow(asked: list[str]) -> CustomModel:
    """A slow model that records its prompts."""

    def generate(prompts: Sequence[str], max_tokens: int, stop: str | None) -> list[str]:
        asked.extend(prompts)
        time.sleep(0.002)
        return [f" {prompt.upper()}" for prompt in prompts]

    return CustomModel("slow", generate, calls_at_once=8)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=2, max_size=12))
def test_concurrent_threads_send_each_prompt_once_without_deadlock(calls: list[list[str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked: list[str] = []
        path = Path(folder) / "a.sqlite"
        model = cached(slow(asked), path)
        with ThreadPoolExecutor(len(calls)) as threads:
            answers = list(threads.map(model.generate, calls, timeout=20))
        assert [[a.text for a in answer] for answer in answers] == [
            [f" {p.upper()}" for p in call] for call in calls
        ]
        assert not [prompt for prompt, times in Counter(asked).items() if times > 1]
        assert kept_answers(path) == len(asked)
        assert model.usage.cached == sum(map(len, calls)) - len(asked)
        model.store.close()


def test_a_thread_waiting_for_a_failed_request_sends_its_own(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    asked: list[str] = []

    def fails_once(prompts: Sequence[str], max_tokens: int, stop: str | None) -> list[str]:
        asked.extend(prompts)
        if len(asked) > 1:
            return [" yes" for _ in prompts]
        begun.set()
        go_on.wait(10)
        raise ModelError("not now: ask again")

    model = cached(CustomModel("slow", fails_once, calls_at_once=8), tmp_path / "a.sqlite")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(model.generate, ["a"])
        assert begun.wait(10)
        second = threads.submit(model.generate, ["a"])
        time.sleep(0.05)
        assert asked == ["a"] and not second.done()
        go_on.set()
        assert second.result(10)[0].text == " yes"
        assert isinstance(first.exception(10), ModelError)


# Limits and failures


@pytest.mark.parametrize("most", [1, 17, 40])
def test_the_request_limit_holds_under_concurrency(most: int, tmp_path: Path) -> None:
    with (
        serve(jittering(GOOD)) as served,
        connected(served, concurrency=8, max_calls=most) as inner,
    ):
        model = CachedModel(inner, "m", AnswerCache(tmp_path / "a.sqlite"))
        with pytest.raises(SpendingLimitError):
            list(evaluate(FactPrompt(), model, CASES))
        assert served.requests == most == kept_answers(tmp_path / "a.sqlite")


def test_the_spending_limit_holds_under_concurrency() -> None:
    # This server counts words as tokens, so that the cautious estimate holds.
    limits = {"price_in": 1e3, "price_out": 1e3, "max_cost": 1.0}
    with serve(jittering(GOOD)) as served, connected(served, concurrency=8, **limits) as model:
        with pytest.raises(SpendingLimitError):
            list(evaluate(FactPrompt(), model, CASES))
        spent = model.usage
        assert served.requests == spent.calls > 8
        assert spent.money is not None and spent.money <= 1.0


AT_ONCE = 16


@pytest.mark.parametrize(
    ("make", "refused", "late"),
    [
        (lambda model: FactPrompt(), "Land0 ", GRACE + 0.5),
        (lambda model: FactPrompt(), "Land5 ", 0.5),
    ]
    + [(EditCoTFull, refused, 0.5) for refused in ("Land0 ", "Land5 ")],
)
@pytest.mark.sampled(3)
def test_after_a_failure_no_request_is_sent_and_answers_in_flight_are_kept(
    make: Callable[[LanguageModel], FactPrompt], refused: str, late: float, tmp_path: Path
) -> None:
    failed: list[str] = []
    answered_before: list[str] = []
    is_asked, has_failed = threading.Event(), threading.Event()

    def respond(handler: Handler, body: dict) -> None:
        if refused in str(body):
            is_asked.set()
            wait_until(lambda: served.requests == len(answered_before) + AT_ONCE)
            failed.append(str(body))
            has_failed.set()
            return status(404)(handler, body)
        if is_asked.wait(0.1):  # sent before the failure, answered after it
            assert has_failed.wait(HANG)
            time.sleep(late)
        else:  # the refused request comes only once others are answered
            answered_before.append(str(body))
        return GOOD(handler, body)

    path = tmp_path / "a.sqlite"
    with serve(respond) as served, connected(served, concurrency=AT_ONCE) as inner:
        model = CachedModel(inner, "m", AnswerCache(path))
        with pytest.raises(RefusedError, match="404"):
            list(evaluate(make(model), model, CASES))
        assert served.requests == len(answered_before) + AT_ONCE, "no request after the failure"
        assert kept_answers(path) == served.requests - len(failed) > 0
        assert isinstance(model.generate(["Something else"])[0], Completion), (
            "the model must remain usable"
        )


def test_the_first_error_is_the_one_raised() -> None:
    has_failed = threading.Event()

    def respond(handler: Handler, body: dict) -> None:
        if "Land1 " in str(body):
            has_failed.set()
            return status(404)(handler, body)
        assert has_failed.wait(HANG)
        time.sleep(0.3)
        return status(401)(handler, body)

    with (
        serve(respond) as served,
        connected(served, concurrency=30) as model,
        pytest.raises(RefusedError, match="404"),
    ):
        list(evaluate(FactPrompt(), model, CASES))


# Ctrl-C


class Stops:
    """Answer the first `count` requests as another server does and leave the later ones unanswered.

    Press Ctrl-C once `at_once` of them are waiting. wait: how many seconds they are left unanswered.
    """

    def __init__(self, count: int, at_once: int, wait: float = HANG) -> None:
        self.count, self.at_once, self.wait = count, at_once, wait
        self.pressed = 0.0
        self._lock = threading.Lock()

    def __call__(self, handler: Handler, body: dict) -> None:
        with self._lock:
            self.count -= 1
            if hangs := self.count < 0:
                self.at_once -= 1
                if self.at_once == 0:
                    self.pressed = time.monotonic()
                    press_ctrl_c()
        if hangs:
            time.sleep(self.wait)
        serving(ScriptedModel(lambda prompt: "French", scores=False))(handler, body)


# The number of answered requests: most of about 120, and those of the first block.
COMMANDS = {
    "evaluate": (185, ("evaluate", "--test", "12", "--editors", "factprompt")),
    "train": (
        32,
        (
            "train",
            "--edits",
            "16",
            "--test",
            "2",
            "--parallel-edits",
            "8",
            "--max-shots",
            "4",
            "--epochs",
            "2",
        ),
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.sampled(2)
def test_ctrl_c_ends_a_run_long_before_a_hanging_server_answers(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    answered, asked_for = COMMANDS[command]
    stops = Stops(answered, 8)
    with serve(stops) as served:
        options = (
            "--model",
            served.named(),
            "--concurrency",
            "8",
            "--encoder",
            "hashing",
            "--out",
            str(tmp_path / "r"),
        )
        assert run(*asked_for, *options) == 130
        assert time.monotonic() - stops.pressed < stops.wait / 2
        assert served.requests == answered + 8, "no request may follow it"
        assert not threads_of_drike()
        said = " ".join(capsys.readouterr().err.split())
        assert "Stopped" in said and "Traceback" not in said
        assert kept_answers(tmp_path / "cache" / "drike" / "answers.sqlite") == answered
        if command == "evaluate":
            cases = {
                outcome.case_id
                for outcome in read_outcomes(tmp_path / "r" / "outcomes" / "factprompt.jsonl")
            }
            assert 1 <= len(cases) < 12
        else:
            assert len((tmp_path / "r" / "episodes.jsonl").read_text("utf-8").splitlines()) == 8
            assert (tmp_path / "r" / "checkpoint.safetensors").is_file()
        stops.count = 10**6
        assert run(command, "--resume", str(tmp_path / "r")) == 0
        paid = Counter(map(json.dumps, served.bodies))
        assert sum(paid.values()) == len(paid) + 8, "only unanswered requests are repeated"


def test_ctrl_c_keeps_answers_that_arrive_just_afterwards(tmp_path: Path) -> None:
    stops = Stops(0, 8, wait=GRACE / 4)
    with serve(stops) as served, connected(served, concurrency=8) as inner:
        model = CachedModel(inner, "m", AnswerCache(tmp_path / "a.sqlite"))
        with pytest.raises(KeyboardInterrupt):
            list(evaluate(FactPrompt(), model, CASES))
        assert kept_answers(tmp_path / "a.sqlite") == served.requests == 8


def test_closing_an_evaluation_does_not_wait_for_a_hanging_server() -> None:
    def respond(handler: Handler, body: dict) -> None:
        if "Imagine that The capital of Land0 " not in str(body):
            time.sleep(HANG)
        GOOD(handler, body)

    with serve(respond) as served, connected(served, concurrency=40) as model:
        outcomes = evaluate(FactPrompt(), model, CASES)
        next(outcomes)
        began = time.monotonic()
        outcomes.close()
        assert time.monotonic() - began < HANG / 2 and not threads_of_drike()
