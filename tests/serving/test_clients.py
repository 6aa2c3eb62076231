"""Real clients over real sockets, in long conversations: a correction is in every model call from its question on.

The upstream is scripted, speaks all dialects, and records what it is asked (`tests.worlds.speaking`). `make clients`
installs the clients and drives them through conversations of every length; `make test` has two of `openai`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from drike.conversations.rendering import AsBlock
from tests.worlds.clients import OPENAI, OTHERS, Drive
from tests.worlds.gateways import Running, running
from tests.worlds.speaking import Speaker, speaker
from tests.worlds.talking import LONGEST, RECORDS, Result, calls_of, result_of, talk
from tests.worlds.tally import Tally

PACKAGES = {"anthropic": "anthropic", "openai-agents": "agents", "langchain": "langchain_openai", "litellm": "litellm"}


@pytest.fixture(scope="module")
def above() -> Iterator[Speaker]:
    with speaker() as speaking:
        yield speaking


@pytest.fixture(scope="module")
def gateway(above: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(above.url, tmp_path_factory.mktemp("clients"), *RECORDS, chat=AsBlock()) as serving:
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


@pytest.mark.parametrize("name", ["openai chat, async stream", "openai responses, previous_response_id"])
def test_a_correction_is_in_every_model_call_from_its_question_on(name: str, above: Speaker, gateway: Running) -> None:
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
    tally(f"model calls by {client}, from a question on", result.concerned, result.concerned - result.right)
    print(f"\n{name}: {result.calls:,} model calls, {result.concerned:,} from the question on, {result.right:,} right")
    assert result.mistakes == () and result.right == result.concerned
