"""Real clients in conversations: each takes an address and what a user says, and calls the tool as it is told to.

The clients and frameworks are imported where they are used; all but `openai` are of the extra
`clients`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import openai

from tests.fakes.conversations import page

Drive = Callable[[str, Sequence[str]], Coroutine[Any, Any, None]]
Asked = tuple[
    list[Any], list[tuple[str, Any]]
]  # what the model says, and its calls of the tool: (id, arguments)
Ask = Callable[[list[Any]], Awaitable[Asked]]
Returned = Callable[[list[tuple[str, str]]], list[Any]]  # of (id, result)

_NUMBERS = count()
MODEL, SYSTEM, KEY = "tiny", "You are a helpful assistant.", "sk-none"
PARAMETERS = {
    "type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"], "additionalProperties": False,
}  # fmt: skip
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": "read", "parameters": PARAMETERS, "strict": True}}
]
RESPONSE_TOOLS: Any = [
    {"type": "function", "strict": True, "name": "read", "parameters": PARAMETERS}
]
MESSAGE_TOOLS: Any = [
    {"name": "read", "description": "Read a page of the notes.", "input_schema": PARAMETERS}
]


async def converse(texts: Sequence[str], items: list[Any], ask: Ask, returned: Returned) -> None:
    """Say one text after the other, and do what the model asks for in between.

    returned: a tool's results as items.
    """
    for text in texts:
        items.append({"role": "user", "content": text})
        while True:
            said, calls = await ask(items)
            items += said
            items += (
                returned([(id, page(arguments["page"])) for id, arguments in calls])
                if calls
                else []
            )
            if not calls:
                break


def _read(message: Any) -> Asked:
    calls = [(call.id, json.loads(call.function.arguments)) for call in message.tool_calls or ()]
    said = {"role": "assistant", "content": message.content}
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": "read", "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    return [said], calls


def _chat_results(results: list[tuple[str, str]]) -> list[Any]:
    return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]


def chat(how: str) -> Drive:
    """The `openai` client's chat completions."""

    async def drive(url: str, texts: Sequence[str]) -> None:
        async with AsyncExitStack() as stack:
            client = stack.enter_context(openai.OpenAI(base_url=url, api_key=KEY, max_retries=0))
            later = await stack.enter_async_context(
                openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
            )

            async def ask(items: list[Any]) -> Asked:
                asked: Any = {"model": MODEL, "messages": items, "tools": CHAT_TOOLS}
                match how:
                    case "sync":
                        return _read(client.chat.completions.create(**asked).choices[0].message)
                    case "async":
                        return _read(
                            (await later.chat.completions.create(**asked)).choices[0].message
                        )
                    case "stream":
                        with client.chat.completions.stream(**asked) as stream:
                            return _read(stream.get_final_completion().choices[0].message)
                async with later.chat.completions.stream(**asked) as streamed:
                    return _read((await streamed.get_final_completion()).choices[0].message)

            await converse(texts, [{"role": "system", "content": SYSTEM}], ask, _chat_results)

    return drive


def responses(how: str, *, stored: str = "") -> Drive:
    """The `openai` client's responses.

    stored: by `previous_response_id` or `conversation`, with new items only.
    """

    async def drive(url: str, texts: Sequence[str]) -> None:
        sent, before = 0, None
        name = f"conv_{next(_NUMBERS)}"
        async with AsyncExitStack() as stack:
            client = stack.enter_context(openai.OpenAI(base_url=url, api_key=KEY, max_retries=0))
            later = await stack.enter_async_context(
                openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
            )

            async def ask(items: list[Any]) -> Asked:
                nonlocal before, sent
                asked: Any = {
                    "model": MODEL,
                    "tools": RESPONSE_TOOLS,
                    "instructions": SYSTEM,
                    "input": items,
                }
                if before:
                    new = items[sent:]
                    only = new[0]["content"] if len(new) == 1 and "content" in new[0] else new
                    asked |= {"input": only, "previous_response_id": before}
                if stored == "conversation":
                    asked = {**asked, "previous_response_id": openai.omit, "conversation": name}
                match how:
                    case "sync":
                        response = client.responses.create(**asked)
                    case "async":
                        response = await later.responses.create(**asked)
                    case "stream":
                        with client.responses.stream(**asked) as stream:
                            response = stream.get_final_response()
                    case _:
                        async with later.responses.stream(**asked) as streamed:
                            response = await streamed.get_final_response()
                said = [
                    item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
                    for item in response.output
                ]
                if stored:
                    before, sent = response.id, len(items) + len(said)
                calls = [item for item in response.output if item.type == "function_call"]
                return said, [(call.call_id, json.loads(call.arguments)) for call in calls]

            def returned(results: list[tuple[str, str]]) -> list[Any]:
                return [
                    {"type": "function_call_output", "call_id": id, "output": text}
                    for id, text in results
                ]

            await converse(texts, [], ask, returned)

    return drive


def messages(how: str) -> Drive:
    """The `anthropic` client, which also counts tokens of each request."""

    async def drive(url: str, texts: Sequence[str]) -> None:
        import anthropic

        host = url.removesuffix("/v1")
        async with AsyncExitStack() as stack:
            client = stack.enter_context(
                anthropic.Anthropic(base_url=host, api_key=KEY, max_retries=0)
            )
            later = await stack.enter_async_context(
                anthropic.AsyncAnthropic(base_url=host, api_key=KEY, max_retries=0)
            )

            async def ask(items: list[Any]) -> Asked:
                system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
                asked: Any = {
                    "model": MODEL,
                    "messages": items,
                    "tools": MESSAGE_TOOLS,
                    "system": system,
                }
                limit = {"max_tokens": 64}
                match how:
                    case "sync":
                        message = client.messages.create(**asked, **limit)
                    case "async":
                        message = await later.messages.create(**asked, **limit)
                    case "count":
                        assert client.messages.count_tokens(**asked).input_tokens > 0
                        message = await later.messages.create(**asked, **limit)
                    case "stream":
                        with client.messages.stream(**asked, **limit) as stream:
                            message = stream.get_final_message()
                    case _:
                        async with later.messages.stream(**asked, **limit) as streamed:
                            message = await streamed.get_final_message()
                said = [
                    block.model_dump(include={"type", "text", "id", "name", "input"})
                    for block in message.content
                ]
                calls = [
                    (block.id, block.input) for block in message.content if block.type == "tool_use"
                ]
                return [{"role": "assistant", "content": said}], calls

            def returned(results: list[tuple[str, str]]) -> list[Any]:
                blocks = [
                    {"type": "tool_result", "tool_use_id": id, "content": text}
                    for id, text in results
                ]
                blocks[-1]["content"] = [{"type": "text", "text": results[-1][1]}]  # the other form
                return [{"role": "user", "content": blocks}]

            await converse(texts, [], ask, returned)

    return drive


def lite(how: str, provider: str = "openai") -> Drive:
    """The library of `litellm`."""

    async def drive(url: str, texts: Sequence[str]) -> None:
        import litellm

        litellm.suppress_debug_info = True

        async def ask(items: list[Any]) -> Asked:
            asked: Any = {
                "model": f"{provider}/{MODEL}",
                "messages": items,
                "tools": CHAT_TOOLS,
                "max_retries": 0,
            }
            asked |= {
                "api_base": url if provider == "openai" else url.removesuffix("/v1"),
                "api_key": KEY,
            }
            match how:
                case "sync":
                    answer = litellm.completion(**asked)
                case "stream":
                    answer = litellm.stream_chunk_builder(
                        list(litellm.completion(**asked, stream=True))
                    )
                case _:
                    answer = await litellm.acompletion(**asked)
            return _read(answer.choices[0].message)

        await converse(texts, [{"role": "system", "content": SYSTEM}], ask, _chat_results)

    return drive


def openai_agents(how: str, edits: Any = None) -> Drive:
    """OpenAI's Agents SDK. edits: `Corrections`, by drike's adapter."""

    async def drive(url: str, texts: Sequence[str]) -> None:
        from agents import (
            Agent,
            OpenAIChatCompletionsModel,
            OpenAIResponsesModel,
            RunConfig,
            Runner,
            SQLiteSession,
            function_tool,
        )  # fmt: skip

        from drike.adapters.openai_agents import stating

        @function_tool
        def read(page: int) -> str:
            """Read a page of the notes."""
            return _page(page)

        async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            kind = OpenAIChatCompletionsModel if how == "chat" else OpenAIResponsesModel
            agent = Agent(name="A", instructions=SYSTEM, tools=[read], model=kind(MODEL, client))
            settings = RunConfig(
                tracing_disabled=True, call_model_input_filter=edits and stating(edits)
            )
            more: dict[str, Any] = {"max_turns": 50, "run_config": settings}
            session = SQLiteSession("s") if how == "session" else None
            items: list[Any] = []
            before = None
            for text in texts:
                asked = [*items, {"role": "user", "content": text}]
                match how:
                    case "session":
                        await Runner.run(agent, text, session=session, **more)
                        continue
                    case "stored":
                        run = await Runner.run(
                            agent,
                            text,
                            previous_response_id=before,
                            auto_previous_response_id=True,
                            **more,
                        )
                        before = run.last_response_id
                        continue
                    case "stream":
                        streamed = Runner.run_streamed(agent, asked, **more)
                        async for _ in streamed.stream_events():
                            pass
                        items = streamed.to_input_list()
                    case _:
                        items = (await Runner.run(agent, asked, **more)).to_input_list()

    return drive


_page = page  # as the tool's argument is called the same


def langchain(how: str, *, of_responses: bool = False, edits: Any = None) -> Drive:
    """LangChain's agent over `ChatOpenAI`. edits: `Corrections`, by drike's adapter."""

    async def drive(url: str, texts: Sequence[str]) -> None:
        from langchain.agents import create_agent
        from langchain_openai import ChatOpenAI

        from drike.adapters.langchain import EditsMiddleware

        def read(page: int) -> str:
            """Read a page of the notes."""
            return _page(page)

        model = ChatOpenAI(
            model=MODEL, base_url=url, api_key=KEY, max_retries=0, streaming=how == "stream",
            use_responses_api=of_responses, output_version="v0" if of_responses else None,
        )  # type: ignore[arg-type]  # fmt: skip
        middleware = [EditsMiddleware(edits)] if edits else []
        agent: Any = create_agent(model, [read], system_prompt=SYSTEM, middleware=middleware)
        state: Any = {"messages": []}
        limit: Any = {"recursion_limit": 100}
        for text in texts:
            asked = {"messages": [*state["messages"], {"role": "user", "content": text}]}
            match how:
                case "sync":
                    state = agent.invoke(asked, limit)
                case "async":
                    state = await agent.ainvoke(asked, limit)
                case _:
                    *_, state = agent.stream(asked, limit, stream_mode="values")

    return drive


OPENAI: dict[str, Drive] = {
    "openai chat, sync": chat("sync"),
    "openai chat, async": chat("async"),
    "openai chat, stream": chat("stream"),
    "openai chat, async stream": chat("async stream"),
    "openai responses, sync": responses("sync"),
    "openai responses, async": responses("async"),
    "openai responses, stream": responses("stream"),
    "openai responses, async stream": responses("async stream"),
    "openai responses, previous_response_id": responses("sync", stored="previous_response_id"),
    "openai responses, conversation": responses("sync", stored="conversation"),
    "openai responses, previous_response_id, stream": responses(
        "stream", stored="previous_response_id"
    ),
}
OTHERS: dict[str, Drive] = {
    "anthropic, sync": messages("sync"),
    "anthropic, async": messages("async"),
    "anthropic, stream": messages("stream"),
    "anthropic, async stream": messages("async stream"),
    "anthropic, count_tokens": messages("count"),
    "openai-agents, responses": openai_agents("responses"),
    "openai-agents, stream": openai_agents("stream"),
    "openai-agents, session": openai_agents("session"),
    "openai-agents, previous_response_id": openai_agents("stored"),
    "openai-agents, chat": openai_agents("chat"),
    "langchain, sync": langchain("sync"),
    "langchain, async": langchain("async"),
    "langchain, stream": langchain("stream"),
    "langchain, responses": langchain("sync", of_responses=True),
    "litellm, sync": lite("sync"),
    "litellm, async": lite("async"),
    "litellm, stream": lite("stream"),
    "litellm, to Anthropic's messages": lite("sync", "anthropic"),
}
