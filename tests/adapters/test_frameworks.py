"""Edits by adapters for frameworks, without a gateway, against the real packages: `make clients` installs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drike.gates.by_name import Named
from drike.live.corrections import Corrections
from drike.stores.opening import open_store
from tests.fakes import clients
from tests.fakes.conversations import BLOCK, LONGEST, RECORDS, Result, result_of, talk
from tests.fakes.dialect_upstream import speaker
from tests.fakes.tally import Tally

pytestmark = pytest.mark.clients
QUESTION = "What is the capital of Peru?"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adapters") / "edits.db"
    with closing(open_store(path)) as opened:
        for record in RECORDS:
            opened.put(record)
    return path


@pytest.fixture
def edits(store: Path) -> Iterator[Corrections]:
    with closing(Corrections(store, gate=Named())) as corrections:
        yield corrections


@pytest.mark.parametrize(
    "how", ["langchain sync", "langchain async", "langchain stream", "agents", "agents stream"]
)
def test_edits_are_in_every_model_call_of_conversations_with_tools(
    how: str, edits: Corrections, tally: Tally
) -> None:
    pytest.importorskip("langchain_openai" if how.startswith("langchain") else "agents")
    framework, _, kind = how.partition(" ")
    adapted = clients.langchain if framework == "langchain" else clients.openai_agents
    drive = adapted(kind or "responses", edits=edits)

    async def converse() -> Result:
        result = Result()
        with speaker() as above:  # a gateway is nowhere between
            for turns in map(talk, range(1, LONGEST + 1)):
                above.calls.clear()
                await drive(above.url, [turn.text for turn in turns])
                result += result_of(turns, above.calls)
        return result

    result = asyncio.run(converse())
    tally(
        f"model calls through the adapter for {framework}, from a question on",
        result.concerned,
        result.concerned - result.right,
    )
    assert result.mistakes == () and result.right == result.concerned > 400


class Watched:
    """Corrections that note in which threads they are asked."""

    def __init__(self, corrections: Corrections) -> None:
        self.corrections, self.threads = corrections, set[threading.Thread]()

    def apply(self, request: dict[str, Any], api: str) -> Any:
        self.threads.add(threading.current_thread())
        return self.corrections.apply(request, api=api)


def langchain_messages() -> Sequence[Any]:
    messages = pytest.importorskip("langchain_core.messages")
    call = {"name": "read", "args": {"page": 1}, "id": "c", "type": "tool_call"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    return [
        messages.SystemMessage("Be brief.", id="s"),
        messages.HumanMessage(
            [image, {"type": "text", "text": QUESTION}, "please"], id="h", name="Ada"
        ),
        messages.AIMessage("", tool_calls=[call], id="a", response_metadata={"model": "m"}),
        messages.ToolMessage(
            "The capital of Peru is Lima.", tool_call_id="c", artifact=[1], status="error", id="t"
        ),
    ]


@pytest.mark.parametrize("later", [False, True])
def test_langchain_messages_keep_all_but_their_contents(later: bool, edits: Corrections) -> None:
    middleware = pytest.importorskip("langchain.agents.middleware")
    from drike.adapters.langchain import EditsMiddleware

    system, *rest = langchain_messages()
    request = middleware.ModelRequest(model=None, messages=rest, system_message=system)
    given: list[Any] = []
    watched = Watched(edits)
    adapter = EditsMiddleware(watched)  # type: ignore[arg-type]

    async def handle(asked: Any) -> None:
        given.append(asked)

    if later:
        asyncio.run(adapter.awrap_model_call(request, handle))
        assert (
            threading.main_thread() not in watched.threads
        )  # other runs of the loop go on meanwhile
    else:
        adapter.wrap_model_call(request, given.append)
    [asked] = given
    assert request.messages == list(langchain_messages()[1:])  # an agent's state stays as it is
    assert asked.system_message == system
    human, model, tool = asked.messages
    assert BLOCK.search(human.content[1]["text"]) and human.content[0] == rest[0].content[0]
    assert (
        BLOCK.search(tool.content) and tool.content.startswith(rest[2].content) and model is rest[1]
    )
    for old, new in zip(rest, asked.messages, strict=True):
        assert type(new) is type(old)
        assert new.model_dump(exclude={"content"}) == old.model_dump(exclude={"content"})


def test_the_agents_sdk_reads_edits_in_a_thread_and_keeps_items_as_they_were(
    edits: Corrections,
) -> None:
    agents, testing = pytest.importorskip("agents"), pytest.importorskip("agents.testing")
    from drike.adapters.openai_agents import stating

    watched = Watched(edits)
    settings = agents.RunConfig(call_model_input_filter=stating(watched), tracing_disabled=True)  # type: ignore[arg-type]
    model = testing.ScriptedModel(
        [[testing.assistant_message("Oslo.")], [testing.assistant_message("Yes.")]]
    )
    agent, session = (
        agents.Agent(name="A", instructions="Be brief.", model=model),
        agents.SQLiteSession("s"),
    )
    content = [
        {"type": "input_text", "text": QUESTION},
        {"type": "input_image", "image_url": "data:,", "detail": "low"},
    ]
    asked = [{"role": "user", "content": content}]

    async def run() -> None:
        first = await agents.Runner.run(agent, asked, session=session, run_config=settings)
        again = await agents.Runner.run(
            agent, "Are you sure?", session=session, run_config=settings
        )
        for kept in (
            first.to_input_list(),
            again.to_input_list(),
            await session.get_items(),
            asked,
        ):
            assert "corrected-facts" not in str(kept)

    asyncio.run(run())
    assert threading.main_thread() not in watched.threads
    first, again = (call.input for call in model.calls)
    assert BLOCK.search(first[0]["content"][0]["text"]) and first[0]["content"][1] == content[1]
    assert (
        again[0] == first[0]
        and BLOCK.search(again[-1]["content"])
        and model.calls[0].system_instructions == "Be brief."
    )


@pytest.mark.parametrize(("named", "facts"), [(None, 0), ("gpt-5", 1)])
def test_edits_for_a_model_are_stated_where_it_is_named(
    tmp_path: Path, named: str | None, facts: int
) -> None:
    agents, testing = pytest.importorskip("agents"), pytest.importorskip("agents.testing")
    from drike.adapters.openai_agents import stating

    with closing(open_store(tmp_path / "edits.db")) as opened:
        opened.put(replace(RECORDS[0], only=("model=gpt-5",)))
    model = testing.ScriptedModel(
        [[testing.assistant_message("Oslo.")]]
    )  # given for the run, not known to the filter
    with closing(Corrections(tmp_path / "edits.db", gate=Named())) as corrections:
        filtered = stating(corrections, named)
        settings = agents.RunConfig(
            model=model, call_model_input_filter=filtered, tracing_disabled=True
        )
        asyncio.run(
            agents.Runner.run(agents.Agent(name="A", model="other"), QUESTION, run_config=settings)
        )
    assert len(BLOCK.findall(model.calls[0].input[0]["content"])) == facts


def test_a_question_that_has_facts_is_sent_once_where_the_server_keeps_the_conversation(
    edits: Corrections,
) -> None:
    pytest.importorskip("agents")
    drive = clients.openai_agents("stored", edits=edits)
    with speaker() as above:
        asyncio.run(
            drive(
                above.url, [f"{QUESTION} Read the notes 3 times.", "What is the capital of Chad?"]
            )
        )
        first, *more, last = above.calls
    assert [item.get("type", "message") for call in more for item in call.body["input"]] == [
        "function_call_output"
    ] * 3
    for call, city in ((first, "Oslo"), (last, "Rome")):
        [item] = call.body["input"]
        assert city in item["content"] and len(BLOCK.findall(item["content"])) == 1
