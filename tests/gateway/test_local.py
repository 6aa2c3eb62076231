"""A model of this process behind the gateway: which requests it answers, and how it reads them."""

from __future__ import annotations

import asyncio
import json

import pytest

from drike.gateway.calls import UpstreamCall
from drike.gateway.local import LocalUpstream
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

    def reply(messages: list[dict[str, str]], tokens: int) -> Completion:
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
