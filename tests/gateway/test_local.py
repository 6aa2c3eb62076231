"""A model of this process behind the gateway: which requests it answers, and how it reads them."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from drike.cli.gateway_parts import gateway_parts
from drike.conversations.turns import Api
from drike.errors import ModelError, UsageError
from drike.gateway import assembly
from drike.gateway.assembly import deployed
from drike.gateway.calls import UpstreamCall
from drike.gateway.errors import UpstreamError
from drike.gateway.local import LocalUpstream, Tell
from drike.gateway.options import GatewayOptions
from drike.gateway.proving.chats import Client
from drike.models.protocols import Completion
from drike.prompts import Against, Contrast
from drike.stores.opening import open_store
from tests.fakes.gateways import ENTRY
from tests.fakes.models import ScriptedModel


def exchange(upstream: LocalUpstream, path: str, value: object) -> tuple[int, dict]:
    async def answer() -> tuple[int, dict]:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        async with upstream.exchange(UpstreamCall("POST", path, [], body)) as reply:
            return reply.status, json.loads(b"".join([chunk async for chunk in reply.chunks]))

    return asyncio.run(answer())


def recording() -> tuple[LocalUpstream, list[list[dict[str, str]]]]:
    """A model that answers Lima, and the messages that it is given."""
    read: list[list[dict[str, str]]] = []

    def reply(messages: list[dict[str, str]], tokens: int, tell: Tell | None) -> Completion:
        read.append(messages)
        return Completion("Lima")

    return LocalUpstream(ScriptedModel(lambda prompt: ""), reply), read


def test_messages_are_read_as_the_gateway_reads_them() -> None:
    upstream, read = recording()
    image = {"type": "image_url", "image_url": {"url": "x"}}
    parts = [{"type": "text", "text": "Look:"}, image, {"type": "text", "text": "What is it?"}]
    status, answer = exchange(
        upstream, "/chat/completions", {"messages": [{"role": "user", "content": parts}]}
    )
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Lima")
    assert read == [[{"role": "user", "content": "Look:\nWhat is it?"}]]


def test_a_model_without_tools_reads_which_ones_were_called() -> None:
    upstream, read = recording()
    called = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"of": 1}'}}
    messages = [
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": None, "tool_calls": [called, called]},
        {"role": "tool", "tool_call_id": "1", "content": "Lima"},
    ]
    assert exchange(upstream, "/chat/completions", {"messages": messages})[0] == 200
    assert [message["content"] for message in read[0]] == [
        "What is it?",
        'find({"of": 1})\nfind({"of": 1})',
        "Lima",
    ]
    messages[1]["tool_calls"] = ["find"]
    assert exchange(upstream, "/chat/completions", {"messages": messages})[0] == 400


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "content of text",
        ),
        (
            "/chat/completions",
            {"messages": [{"role": "assistant", "content": None}]},
            "content of text",
        ),
        ("/chat/completions", {"messages": []}, "at least one message"),
        ("/chat/completions", b'{"messages": [], "temperature": NaN}', "not a JSON object"),
        ("/chat/completions", b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", "levels deep"),
        ("/completions", {"prompt": ["a", "b"]}, "one text"),
        ("/completions", {"prompt": "a", "max_tokens": 0}, "max_tokens must be"),
        ("/completions", {"prompt": "a", "max_completion_tokens": 0}, "max_completion_tokens must"),
        (
            "/completions",
            {"prompt": "a", "max_completion_tokens": 0, "max_tokens": 5},
            "max_completion_tokens must",
        ),
        (
            "/completions",
            {"prompt": "a", "max_completion_tokens": 5, "max_tokens": 0},
            "max_tokens",
        ),
        ("/completions", {"prompt": "a", "max_tokens": False}, "max_tokens must be"),
        ("/completions", {"prompt": "a", "max_completion_tokens": ""}, "max_completion_tokens"),
        ("/completions", {"prompt": "a", "stop": 0}, "stop"),
        ("/completions", {"prompt": "a", "stop": False}, "stop"),
        ("/completions", {"prompt": "a", "stop": [""]}, "stop"),
        ("/completions", {"prompt": "a", "n": 2}, "n must be 1"),
        ("/embeddings", {"input": "a"}, "has no POST"),
    ],
)
def test_requests_that_it_cannot_answer_are_refused_in_a_sentence(
    path: str, value: object, words: str
) -> None:
    status, answer = exchange(LocalUpstream(ScriptedModel(lambda prompt: "b")), path, value)
    assert status in (400, 404) and words in answer["error"]["message"]


def test_a_prompt_to_complete_is_completed_until_it_stops() -> None:
    upstream = LocalUpstream(ScriptedModel(lambda prompt: f" {prompt} of Peru"))
    assert (
        exchange(upstream, "/completions", {"prompt": ["Lima"], "stop": " of"})[1]["choices"][0][
            "text"
        ]
        == " Lima"
    )


CHAT = {"messages": [{"role": "user", "content": "What is it?"}], "stream": True}


def streamed(upstream: LocalUpstream, value: object, pause: threading.Event) -> list[str]:
    """The texts of the events of a stream; once the first has come, the model may write on."""

    async def read() -> list[str]:
        call = UpstreamCall("POST", "/chat/completions", [], json.dumps(value).encode())
        texts = []
        async with upstream.exchange(call) as reply:
            assert reply.status == 200
            async for chunk in reply.chunks:
                pause.set()
                lines = chunk.decode().split("\n\n")
                events = [json.loads(line[6:]) for line in lines if line and "[DONE]" not in line]
                deltas = [event["choices"][0]["delta"] for event in events]
                texts += [delta["content"] for delta in deltas if delta]
        return texts

    return asyncio.run(read())


def test_words_of_a_chat_come_as_they_are_written() -> None:
    pause = threading.Event()

    def reply(messages: list[dict[str, str]], tokens: int, tell: Tell | None) -> Completion:
        if tell:
            tell(" Li")
            tell(" Lima is")
            assert pause.wait(20)  # the first word was sent before the rest is there
            tell(" Lima is in P")
        return Completion(" Lima is in Peru.", 3, 5)

    upstream = LocalUpstream(ScriptedModel(lambda prompt: ""), reply)
    assert streamed(upstream, CHAT, pause) == ["Lima", " is in", " Peru."]
    # A text that stops the answer might stand in a word that was sent already.
    assert streamed(upstream, {**CHAT, "stop": [" in"]}, pause) == ["Lima", " is"]


def test_a_chat_that_fails_says_so_by_its_status_or_ends_too_early() -> None:
    def reply(messages: list[dict[str, str]], tokens: int, tell: Tell | None) -> Completion:
        if tell and messages[0]["content"] == "late":
            tell("Lima is")
        raise ModelError("out of memory: give a smaller model")

    upstream = LocalUpstream(ScriptedModel(lambda prompt: ""), reply)
    status, answer = exchange(upstream, "/chat/completions", CHAT)
    assert status == 400 and "out of memory" in answer["error"]["message"]
    late = {"messages": [{"role": "user", "content": "late"}], "stream": True}
    with pytest.raises(UpstreamError, match="out of memory"):
        streamed(upstream, late, threading.Event())


def test_requests_that_wait_together_are_answered_together() -> None:
    together: list[list[str]] = []
    first, may_go_on = threading.Event(), threading.Event()

    def replies(conversations: Sequence[list[dict[str, str]]], tokens: int) -> list[Completion]:
        said = [messages[-1]["content"] for messages in conversations]
        together.append(said)
        if not first.is_set():
            first.set()
            assert may_go_on.wait(20)
        if "too long" in said:
            raise ModelError("the prompt is too long")
        return [Completion(f"{text} to {tokens} tokens") for text in said]

    def never(messages: list[dict[str, str]], tokens: int, tell: Tell | None) -> Completion:
        raise AssertionError("asked alone")

    upstream = LocalUpstream(ScriptedModel(lambda prompt: ""), never, replies=replies)

    async def ask(said: str, tokens: int = 9) -> tuple[int, str]:
        value = {"messages": [{"role": "user", "content": said}], "max_tokens": tokens}
        call = UpstreamCall("POST", "/chat/completions", [], json.dumps(value).encode())
        async with upstream.exchange(call) as reply:
            answer = json.loads(b"".join([chunk async for chunk in reply.chunks]))
        if reply.status != 200:
            return reply.status, answer["error"]["message"]
        return 200, answer["choices"][0]["message"]["content"]

    async def ask_while_the_first_is_answered() -> list[tuple[int, str]]:
        begun = asyncio.ensure_future(ask("a"))
        await asyncio.to_thread(first.wait, 20)
        others = []
        for number, said in enumerate((("b",), ("c", 5), ("too long",)), 1):
            others.append(asyncio.ensure_future(ask(*said)))
            while len(upstream._queue) < number:  # they are queued in this order
                await asyncio.sleep(0.001)
        may_go_on.set()
        return await asyncio.gather(begun, *others)

    answers = asyncio.run(ask_while_the_first_is_answered())
    assert answers == [
        (200, "a to 9 tokens"),
        (200, "b to 9 tokens"),
        (200, "c to 5 tokens"),
        (400, "the prompt is too long"),
    ]
    # Where one of several fails, each is answered alone.
    assert together == [["a"], ["b", "too long"], ["b"], ["too long"], ["c"]]


class Contrasting(ScriptedModel):
    """A model that chats and contrasts, and records what it was given."""

    chats = True

    def __init__(self) -> None:
        super().__init__(lambda prompt: "Oslo")
        self.info = replace(self.info, contrasts=True)
        self.given: list[tuple[str, str | None, float]] = []

    def reply(
        self,
        messages: list[dict[str, str]],
        tokens: int,
        tell: Tell | None = None,
        *,
        bare: list[dict[str, str]] | None = None,
        contrast: Contrast | None = None,
    ) -> Completion:
        text = messages[-1]["content"]
        without = bare[-1]["content"] if bare else None
        self.given.append((text, without, contrast.alpha if contrast else 0.0))
        return Completion("Oslo", 1, 1)

    def generate_contrasted(
        self, prompts: list[str], against: list[Against], tokens: int, stop: str | None
    ) -> list[Completion]:
        self.given.append((prompts[0], against[0].turns[-1], against[0].contrast.alpha))
        return [Completion("Oslo", 1, 1)]


def through_the_gateway(model: Contrasting, options: GatewayOptions, place: Path) -> None:
    """Ask about an edit and about something else, along the path of `drike serve`."""
    with closing(open_store(place / "edits.db", create=True)) as store:
        store.put(ENTRY)
        gateway = deployed(options, store, gateway_parts())
        edit = partial(gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="test")
        client = Client(gateway.upstream, "m", settings=({"max_tokens": 4},))
        for text in (ABOUT, OTHER):
            asyncio.run(client.ask([{"role": "user", "content": text}], edit=edit))


ABOUT, OTHER = "What is the capital of Peru?", "What is a river?"
SERVED = GatewayOptions(model="m", gate="named", mode="on", deadline_ms=60_000, contrast=0.5)


@pytest.mark.parametrize("chats", [True, False])
def test_an_answer_is_contrasted_where_an_edit_fires_and_only_there(
    chats: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Contrasting()
    model.chats = chats
    monkeypatch.setattr(assembly, "load_model", lambda name, **options: model)
    through_the_gateway(model, SERVED, tmp_path)
    text, bare, alpha = model.given[0]
    assert (bare, alpha) == (ABOUT, 0.5)
    assert "Oslo" in text and text.endswith(ABOUT)
    assert [given[1] for given in model.given[1:]] == ([None] if chats else [])


def test_without_contrast_nothing_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Contrasting()
    monkeypatch.setattr(assembly, "load_model", lambda name, **options: model)
    through_the_gateway(model, replace(SERVED, contrast=0.0), tmp_path)
    assert [bare for _, bare, _ in model.given] == [None, None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (GatewayOptions(upstream="http://127.0.0.1:9/v1", contrast=0.5), "serve a local model"),
        (GatewayOptions(model="embedded", contrast=-1.0), "from 0 to 10"),
        (GatewayOptions(model="embedded", contrast=math.nan), "from 0 to 10"),
    ],
)
def test_a_contrast_that_cannot_be_is_refused(options: GatewayOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        assembly.check_options(options)


def test_a_model_without_all_probabilities_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(lambda prompt: "Oslo")
    monkeypatch.setattr(assembly, "load_model", lambda name, **options: model)
    opened = closing(open_store(tmp_path / "edits.db", create=True))
    with opened as store, pytest.raises(UsageError, match="no probabilities of all tokens"):
        deployed(SERVED, store, gateway_parts())
