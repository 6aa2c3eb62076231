"""A model of this process behind the gateway: which requests it answers, and how it reads them."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from drike.errors import ModelError
from drike.gateway.calls import UpstreamCall
from drike.gateway.errors import UpstreamError
from drike.gateway.local import LocalUpstream, Tell
from drike.models.protocols import Completion
from tests.fakes.models import ScriptedModel


def exchange(upstream: LocalUpstream, path: str, value: object) -> tuple[int, dict]:
    async def answer() -> tuple[int, dict]:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        async with upstream.exchange(UpstreamCall("POST", path, [], body)) as reply:
            return reply.status, json.loads(b"".join([chunk async for chunk in reply.chunks]))

    return asyncio.run(answer())


def test_messages_are_read_as_the_gateway_reads_them() -> None:
    read: list[list[dict[str, str]]] = []

    def reply(messages: list[dict[str, str]], tokens: int, tell: Tell | None) -> Completion:
        read.append(messages)
        return Completion("Lima")

    upstream = LocalUpstream(ScriptedModel(lambda prompt: ""), reply)
    image = {"type": "image_url", "image_url": {"url": "x"}}
    parts = [{"type": "text", "text": "Look:"}, image, {"type": "text", "text": "What is it?"}]
    status, answer = exchange(
        upstream, "/chat/completions", {"messages": [{"role": "user", "content": parts}]}
    )
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Lima")
    assert read == [[{"role": "user", "content": "Look:\nWhat is it?"}]]


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
