"""The real `openai` client against the gateway: over an upstream of our own, and over local models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from drike.conversations.rendering import AsPrompt
from drike.edits.edit import Edit
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.local import LocalUpstream
from drike.gateway.start import EXAMPLE
from drike.models import load
from tests.fakes.gateways import ENTRY, FewShots, Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, completed, events, upstream

ABOUT = "What is the capital of Peru?"
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
    }
]


def answer(handler: RawHandler, call: Received) -> None:
    """Answer as OpenAI's API does."""

    def send(value: dict, status: int = 200, **headers: str) -> None:
        handler.reply(
            status, json.dumps(value).encode(), Content_Type="application/json", **headers
        )

    if call.path.endswith("/models"):
        return send(
            {
                "object": "list",
                "data": [{"id": "tiny", "object": "model", "created": 1, "owned_by": "me"}],
            }
        )
    if call.path.endswith("/embeddings"):
        vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return send({"object": "list", "model": "e", "data": [vector], "usage": usage})
    body = json.loads(call.body)
    if body["model"] == "unknown":
        error = {
            "message": "no such model",
            "type": "invalid",
            "param": "model",
            "code": "model_not_found",
        }
        return send({"error": error}, 404, X_Request_Id="theirs-1")
    if call.path.endswith("/responses"):
        content = [{"type": "output_text", "text": "Lima", "annotations": []}]
        message = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        more = {
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": "completed",
        }
        return send(
            {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": "tiny",
                "output": [message],
                **more,
            }
        )
    if call.path.endswith("/v1/completions"):
        choice = {"index": 0, "text": "Oslo", "finish_reason": "stop", "logprobs": None}
        return send(
            {
                "id": "c",
                "object": "text_completion",
                "created": 1,
                "model": "tiny",
                "choices": [choice],
            }
        )
    if body.get("stream"):
        handler.begin_stream()
        handler.chunk(events(["Os", "lo"]))
        return handler.chunk(b"")
    answer = completed("Oslo")
    if "tools" in body:
        calls = [
            {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        answer["choices"] = [{"index": 0, "finish_reason": "tool_calls", "message": message}]
    return send(answer)


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream(answer) as recorded:
        yield recorded


@pytest.fixture(scope="module")
def gateway(above: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(above.url, tmp_path_factory.mktemp("client"), ENTRY) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(gateway: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=gateway.url, api_key="sk-theirs", max_retries=0) as connected:
        yield connected


def asked(content: object, **more: object) -> dict:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **more}


def test_a_chat(client: openai.OpenAI, above: Recorded) -> None:
    raw = client.chat.completions.with_raw_response.create(**asked(ABOUT, temperature=0.0, seed=1))
    assert (
        raw.headers["x-drike-edits"] == "1@1" and raw.parse().choices[0].message.content == "Oslo"
    )
    assert above.calls[-1].header("authorization") == ["Bearer sk-theirs"]


def test_a_streamed_chat(client: openai.OpenAI) -> None:
    with client.chat.completions.create(**asked(ABOUT, stream=True)) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Oslo"


def test_many_chats_at_once(gateway: Running) -> None:
    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=gateway.url, api_key="k", max_retries=0) as client:
            whole = [client.chat.completions.create(**asked(f"{ABOUT} {i}")) for i in range(8)]
            texts = [answer.choices[0].message.content for answer in await asyncio.gather(*whole)]
            async for chunk in await client.chat.completions.create(**asked("Hello", stream=True)):
                texts.append(chunk.choices[0].delta.content or "")
            return texts

    assert "".join(asyncio.run(ask_all())) == "Oslo" * 9


def test_tools_and_a_tools_answer(client: openai.OpenAI, above: Recorded) -> None:
    made = client.chat.completions.create(**asked(ABOUT, tools=TOOLS, tool_choice="auto")).choices[
        0
    ]
    assert (
        made.finish_reason == "tool_calls" and made.message.tool_calls[0].function.name == "look_up"
    )
    assert json.loads(above.body)["tools"] == TOOLS
    messages = [*asked(ABOUT)["messages"], made.message.model_dump(exclude_none=True)]
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": "Lima"})
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=messages)
    question, *others = json.loads(above.body)["messages"]
    assert raw.headers["x-drike-scope"] == "fired" and others == messages[1:]
    assert "Oslo" in question["content"] and question["content"].endswith(ABOUT)


def test_images_in_content_parts(client: openai.OpenAI, above: Recorded) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": ABOUT},
    ]
    client.chat.completions.create(**asked(parts))
    image, text = json.loads(above.body)["messages"][0]["content"]
    assert image == parts[0] and text["text"].endswith(ABOUT) and "Oslo" in text["text"]


def test_a_response_format(client: openai.OpenAI, above: Recorded) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}}
    client.chat.completions.create(
        **asked(ABOUT, response_format=form, logprobs=True, extra_body={"odd": [1.5]})
    )
    sent = json.loads(above.body)
    assert (sent["response_format"], sent["logprobs"], sent["odd"]) == (form, True, [1.5])


def test_models_and_embeddings(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.embeddings.create(model="e", input=ABOUT, encoding_format="float").data[
        0
    ].embedding == [0.5]


def test_a_prompt_to_complete(client: openai.OpenAI, above: Recorded) -> None:
    assert (
        client.completions.create(model="tiny", prompt=ENTRY.query, max_tokens=2).choices[0].text
        == "Oslo"
    )
    sent = json.loads(above.body)
    assert (
        sent["prompt"].endswith(ENTRY.query)
        and "Oslo" in sent["prompt"]
        and sent["max_tokens"] == 2
    )


def test_responses_are_edited(client: openai.OpenAI, above: Recorded) -> None:
    raw = client.responses.with_raw_response.create(model="tiny", input=ABOUT)
    assert raw.parse().output_text == "Lima" and raw.headers["x-drike-scope"] == "fired"
    sent = json.loads(above.body)
    assert (
        sent.keys() == {"model", "input"}
        and "Oslo" in sent["input"]
        and sent["input"].endswith(ABOUT)
    )


def test_a_busy_upstream_is_asked_again(tmp_path: Path) -> None:
    def busy_at_first(handler: RawHandler, call: Received) -> None:
        if len(above.calls) > 1:
            return answer(handler, call)
        error = {
            "error": {
                "message": "slow down",
                "type": "requests",
                "code": "rate_limit_exceeded",
                "param": None,
            }
        }
        handler.reply(
            429, json.dumps(error).encode(), Content_Type="application/json", Retry_After="0.01"
        )

    with upstream(busy_at_first) as above, running(above.url, tmp_path, ENTRY) as gateway:
        with openai.OpenAI(base_url=gateway.url, api_key="k", max_retries=1) as client:
            assert (
                client.chat.completions.create(**asked(ABOUT)).choices[0].message.content == "Oslo"
            )
        first, second = (json.loads(call.body)["messages"][0]["content"] for call in above.calls)
        assert (
            first.endswith(ABOUT)
            and second.endswith(ABOUT)
            and "Oslo" in first
            and "Oslo" in second
        )


def test_errors_have_their_types(client: openai.OpenAI, gateway: Running) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(**{**asked("Hello"), "model": "unknown"})
    assert caught.value.code == "model_not_found" and caught.value.request_id == "theirs-1"
    deep: list = []
    for _ in range(70):
        deep = [deep]
    with pytest.raises(openai.BadRequestError, match="64 levels deep"):
        client.chat.completions.create(**asked("Hello", extra_body={"deep": deep}))


def test_a_stream_that_breaks_off_raises(tmp_path_factory: pytest.TempPathFactory) -> None:
    def die(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        handler.chunk(events(["Os", "lo"]).split(b"\n\n")[0] + b"\n\n")
        handler.break_off()

    with upstream(die) as above, running(above.url, tmp_path_factory.mktemp("dying")) as gateway:
        client = openai.OpenAI(base_url=gateway.url, api_key="k", max_retries=0)
        with client, pytest.raises(openai.APIError, match="try again"):
            list(client.chat.completions.create(**asked("Hello", stream=True)))


def test_a_wrong_key_is_an_authentication_error(
    above: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("keys")
    keys = Keys(place / "keys.json")
    good = keys.add("default", KeyRole.USE)
    with running(above.url, place, keys=keys) as gateway:
        for key in (good, "drike-00000000-wrong"):
            with openai.OpenAI(base_url=gateway.url, api_key=key, max_retries=0) as client:
                if key == good:
                    assert (
                        client.chat.completions.create(**asked("Hello")).choices[0].message.content
                        == "Oslo"
                    )
                else:
                    with pytest.raises(openai.AuthenticationError):
                        client.models.list()


# Models of this process


@pytest.fixture(scope="module", params=["reader", pytest.param("embedded", marks=pytest.mark.slow)])
def local(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    made = LocalUpstream(load(request.param))
    with (
        running(
            made, tmp_path_factory.mktemp("local"), EXAMPLE, chat=AsPrompt(FewShots())
        ) as gateway,
        openai.OpenAI(base_url=gateway.url, api_key="k", max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize("stream", [False, True])
def test_a_local_model_answers_under_an_edit(local: openai.OpenAI, stream: bool) -> None:
    edit: Edit = EXAMPLE.edit
    chat = local.chat.completions.create(**asked(edit.query, stream=stream))
    text = local.completions.create(model="m", prompt=edit.query, max_tokens=2, stream=stream)
    if stream:
        said = "".join(chunk.choices[0].delta.content or "" for chunk in chat)
        written = "".join(chunk.choices[0].text for chunk in text)
    else:
        said, written = chat.choices[0].message.content, text.choices[0].text
        if chat.model == "embedded":  # the reader counts no tokens
            assert chat.usage.total_tokens > 10 and text.choices[0].finish_reason == "length"
    assert (said.strip(), written.strip()) == (edit.target_new, edit.target_new)


def test_a_local_model_knows_its_name_and_refuses_what_it_cannot_do(local: openai.OpenAI) -> None:
    assert next(model.id for model in local.models.list()) in ("embedded", "bayesian-reader")
    for wrong in (
        {"n": 2},
        {"max_tokens": 0},
        {"max_tokens": 5_000},
        {"stop": [1]},
        {"messages": []},
    ):
        with pytest.raises(openai.BadRequestError):
            local.chat.completions.create(**{**asked("The capital of Peru is"), **wrong})
    with pytest.raises(openai.NotFoundError):
        local.embeddings.create(model="m", input="x")


def test_a_local_stream_has_usage_where_it_is_asked_for(local: openai.OpenAI) -> None:
    more = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = local.chat.completions.create(**asked("The capital of Norway is", **more))
    assert not last.choices and (
        last.usage.prompt_tokens > 2 if last.model == "embedded" else last.usage is None
    )
