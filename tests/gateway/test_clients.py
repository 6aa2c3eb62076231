"""Real clients over real sockets, in long conversations: a correction is in every model call from its question on.

The upstream is scripted, speaks all dialects, and records what it is asked (`tests.fakes.dialect_upstream`). `make clients`
installs the clients and drives them through conversations of every length; `make test` has two of `openai`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, OpenAI

from drike.conversations.rendering import AsBlock
from drike.gateway.http.keys import KeyRole, Keys
from tests.fakes.clients import OPENAI, OTHERS, Drive
from tests.fakes.conversations import LONGEST, RECORDS, Result, calls_of, result_of, talk
from tests.fakes.dialect_upstream import Speaker, speaker
from tests.fakes.gateways import Running, running
from tests.fakes.tally import Tally
from tests.fakes.upstreams import RawHandler, Received, upstream

PACKAGES = {
    "anthropic": "anthropic",
    "openai-agents": "agents",
    "langchain": "langchain_openai",
    "litellm": "litellm",
}


@pytest.fixture(scope="module")
def above() -> Iterator[Speaker]:
    with speaker() as speaking:
        yield speaking


@pytest.fixture(scope="module")
def gateway(above: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        above.url, tmp_path_factory.mktemp("clients"), *RECORDS, chat=AsBlock()
    ) as serving:
        yield serving


def converse(drive: Drive, above: Speaker, gateway: Running, *lengths: int) -> Result:
    """What became of conversations of these lengths, in one loop of events, as clients keep connections."""

    async def all_of_them() -> Result:
        result = Result()
        for turns in map(talk, lengths):
            above.calls.clear()
            await drive(gateway.url, [turn.text for turn in turns])
            asked = [call for call in above.calls if not call.path.endswith("/count_tokens")]
            assert len(asked) == calls_of(turns)
            result += result_of(turns, above.calls)
        return result

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    "name", ["openai chat, async stream", "openai responses, previous_response_id"]
)
def test_a_correction_is_in_every_model_call_from_its_question_on(
    name: str, above: Speaker, gateway: Running
) -> None:
    result = converse(OPENAI[name], above, gateway, 12)
    assert result.mistakes == () and result.right == result.concerned == 26


@pytest.mark.clients
@pytest.mark.parametrize("name", [*OPENAI, *OTHERS])
def test_real_clients_in_conversations_of_every_length(
    name: str, above: Speaker, gateway: Running, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = PACKAGES.get(name.partition(",")[0])
    if package and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make clients")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the network for prices
    result = converse((OPENAI | OTHERS)[name], above, gateway, *range(1, LONGEST + 1))
    client = name.partition(",")[0]
    tally(
        f"model calls by {client}, from a question on",
        result.concerned,
        result.concerned - result.right,
    )
    print(
        f"\n{name}: {result.calls:,} model calls, {result.concerned:,} from the question on, {result.right:,} right"
    )
    assert result.mistakes == () and result.right == result.concerned


def broken(handler: RawHandler, call: Received) -> None:
    """Begin an answer, and break it off."""
    handler.begin_stream()
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "stop_reason": None,
    }
    begun = [
        {
            "type": "message_start",
            "message": message | {"usage": {"input_tokens": 1, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Os"}},
    ]
    for event in (
        begun
        if call.path == "/v1/messages"
        else [{"type": "response.output_text.delta", "delta": "Os"}]
    ):
        handler.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    handler.break_off()


def test_a_broken_stream_ends_in_an_error_that_all_clients_know(tmp_path: Path) -> None:
    asked = {"messages": [{"role": "user", "content": "Hello"}], "stream": True}
    with upstream(broken) as above, running(above.url, tmp_path) as gateway:
        _, _, answer = gateway.ask("POST", "/v1/messages", json.dumps(asked).encode())
        kind, data = answer.decode().rstrip("\n").split("\n\n")[-1].split("\n")
        assert (
            kind == "event: error"
            and json.loads(data.removeprefix("data: "))["error"]["code"] == "upstream_error"
        )
        connected = OpenAI(base_url=gateway.url, api_key="k", max_retries=0)
        with connected as client, pytest.raises(APIError, match="try again"):
            list(client.responses.create(model="tiny", input="Hello", stream=True))


@pytest.mark.clients
def test_the_anthropic_client_raises_where_a_stream_breaks_off_or_its_key_is_wrong(
    tmp_path: Path,
) -> None:
    anthropic = pytest.importorskip("anthropic")
    keys = Keys(tmp_path / "keys.json")
    right = keys.add("default", KeyRole.USE)
    asked: Any = {
        "model": "tiny",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    with upstream(broken) as above, running(above.url, tmp_path, keys=keys) as gateway:
        for key, error in (
            (right, anthropic.APIStatusError),
            ("drike-0-wrong", anthropic.AuthenticationError),
        ):
            client = anthropic.Anthropic(
                base_url=gateway.url.removesuffix("/v1"), api_key=key, max_retries=0
            )
            with (
                client,
                pytest.raises(error, match=r"try again|key"),
                client.messages.stream(**asked) as stream,
            ):
                stream.get_final_message()
