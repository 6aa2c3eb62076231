"""While an edit is enforced, a request in which a question may hide is refused; all others pass as before."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.conversations.memory import Standing
from drike.conversations.turns import Api
from drike.edits.record import EditRecord
from drike.gateway.requests import read_request
from drike.gateway.unseen import unseen
from tests.fakes.api_requests import REQUESTS, SAID
from tests.fakes.gates import Failing
from tests.fakes.gateways import ENTRY, Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream

ABOUT = "What is the capital of Peru?"
CHAT, COMPLETIONS, RESPONSES, MESSAGES = Api
PATHS = {
    CHAT: "/v1/chat/completions",
    COMPLETIONS: "/v1/completions",
    RESPONSES: "/v1/responses",
    MESSAGES: "/v1/messages",
}


def user(content: object = "Hello", **more: object) -> dict[str, object]:
    return {"role": "user", "content": content, **more}


def chat(*messages: object, **more: object) -> dict[str, object]:
    return {"model": "m", "messages": list(messages), **more}


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
HIDDEN: list[tuple[Api, dict[str, object], str]] = [
    (CHAT, chat({"content": ABOUT}), "has no role"),
    (CHAT, chat(user(), {"role": None, "content": ABOUT}), "role null"),
    (CHAT, chat({"role": 5, "content": ABOUT}), "role 5"),
    (CHAT, chat({"role": ["user"], "content": ABOUT}), 'role ["user"]'),
    (CHAT, chat({"role": " user", "content": ABOUT}), 'role " user"'),
    (CHAT, chat({"role": "USER\u200b", "content": ABOUT}), "role"),
    (CHAT, chat(user(), {"role": "customer", "content": ABOUT}), 'role "customer"'),
    (CHAT, chat({"role": "system", "content": ABOUT}), "no message of the user has a text"),
    (CHAT, chat({"role": "developer", "content": ABOUT}, user("")), "no message of the user"),
    (CHAT, chat({"role": "system", "content": ABOUT}, user(" \n")), "no message of the user"),
    (CHAT, chat({"role": "assistant", "content": "The capital of Peru is"}), "no message of the user"),
    (CHAT, chat(user(), {"role": "system", "content": ABOUT}), "the last message"),
    (CHAT, chat(user(), {"role": "assistant", "content": "The capital of Peru is"}), "the last message"),
    (CHAT, chat(), "no message of the user"),
    (CHAT, chat(user([IMAGE])), "no text beside"),
    (CHAT, chat(user(), user([IMAGE, {"type": "text", "text": ""}])), "no text beside"),
    (CHAT, chat(user([{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}])), "no text beside"),
    (CHAT, chat(user(), user(None)), "no content"),
    (CHAT, chat(user(), user([])), "no content"),
    (CHAT, chat(user(), {"role": "user"}), "no content"),
    (CHAT, chat(user(["Hello", {"type": "question", "question": ABOUT}])), 'type "question"'),
    (CHAT, chat(user(["Hello", {"type": ["text"], "data": ABOUT}])), "part of type"),
    (CHAT, chat(user(Content=ABOUT)), 'repeats the key "content"'),
    (CHAT, chat(user(question=ABOUT)), 'field "question"'),
    (CHAT, chat(user(), prompt=ABOUT), 'field "prompt"'),
    (CHAT, chat(user(), Messages=[user(ABOUT)]), "repeats the key"),
    (CHAT, chat(user(), chat_template=ABOUT), 'field "chat_template"'),
    (CHAT, chat(user(), chat_template_kwargs={"question": ABOUT}), "chat_template_kwargs"),
    (CHAT, chat(user(), chat_template_kwargs={"messages": [user(ABOUT)]}), "chat_template_kwargs"),
    (CHAT, chat(user(), documents=[{"text": ABOUT}]), 'field "documents"'),
    (CHAT, chat(user(), prompt_token_ids=[1, 2]), 'field "prompt_token_ids"'),
    (CHAT, chat(user(), extra_body={"prompt": ABOUT}), 'field "extra_body"'),
    (COMPLETIONS, {"prompt_embeds": "AAAA"}, 'field "prompt_embeds"'),
    (COMPLETIONS, {"prompt": "Hello", "prompt_embeds": ["AAAA"]}, 'field "prompt_embeds"'),
    (COMPLETIONS, {"prompt": "The capital of", "suffix": " Peru"}, 'field "suffix"'),
    (COMPLETIONS, {"prompt": "{{a}}", "variables": {"a": ABOUT}}, 'field "variables"'),
    (COMPLETIONS, {"prompt": {"template": "{a}", "a": ABOUT}}, "several prompts"),
    (COMPLETIONS, {"prompt": ""}, "no message of the user"),
    (COMPLETIONS, {"model": "m"}, "no message of the user"),
    (COMPLETIONS, {"prompt": "Hello", "messages": [user(ABOUT)]}, 'field "messages"'),
    (RESPONSES, {"input": "Hello", "prompt": {"id": "pmpt_1", "variables": {"country": "Peru"}}}, 'field "prompt"'),
    (RESPONSES, {"prompt": {"id": "pmpt_1"}}, "stored at the upstream"),
    (RESPONSES, {"instructions": ABOUT}, "no message of the user"),
    (RESPONSES, {"previous_response_id": "resp_1", "input": "and its capital?"}, 'that "resp_1" stands for'),
    (RESPONSES, {"previous_response_id": {"id": "resp_1"}, "input": "and its capital?"}, "previous_response_id"),
    (RESPONSES, {"conversation": "conv_1", "input": "and its capital?"}, 'that "conv_1" stands for'),
    (RESPONSES, {"conversation": {"id": "conv_1"}, "input": "and its capital?"}, 'that "conv_1" stands for'),
    (RESPONSES, {"input": [user(), {"type": "item_reference", "id": "msg_1"}]}, 'type "item_reference"'),
    (RESPONSES, {"input": [user(), {"type": "compaction", "encrypted_content": "x"}]}, 'type "compaction"'),
    (RESPONSES, {"input": [user(), {"type": "user_message", "text": ABOUT}]}, 'type "user_message"'),
    (RESPONSES, {"input": [user([{"type": "input_image", "image_url": "x"}])]}, "no text beside"),
    (RESPONSES, {"input": [{"type": "message", "content": ABOUT}]}, "has no role"),
    (MESSAGES, {"system": ABOUT, "messages": []}, "no message of the user"),
    (MESSAGES, {"messages": [user([{"type": "input_text", "text": ABOUT}, {"type": "text", "text": "Hi"}])]},
     'type "input_text"'),
    (MESSAGES, {"messages": [user([{"text": ABOUT}, {"type": "text", "text": "Hi"}])]}, 'type ""'),
    (MESSAGES, {"messages": [user([{"type": "document", "source": {"type": "base64", "data": ""}}])]},
     "no text beside"),
]  # fmt: skip
READ: list[tuple[Api, dict[str, object]]] = [
    (CHAT, chat({"role": "system", "content": "Be brief."}, user(), temperature=1.0, seed=3, odd=None, stop=["x"],
                tools=[{"type": "function", "function": {"name": "f"}}], response_format={"type": "json_object"},
                chat_template_kwargs={"enable_thinking": False, "mode": "low"}, metadata={"a": "b"}, own_number=1)),
    (CHAT, chat(user([IMAGE, {"type": "text", "text": "What is this?"}], name="ann"))),
    (CHAT, chat(user(), {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
                {"role": "tool", "tool_call_id": "1", "content": ""})),
    (CHAT, chat(user(), {"role": "assistant", "content": "Hi"})),
    (CHAT, chat(user("Hello"), {"role": "system", "content": "Chile is long."})),
    (COMPLETIONS, {"prompt": ["Hello"], "max_tokens": 3, "echo": True}),
    (RESPONSES, {"input": [user(), {"type": "reasoning", "summary": []},
                           {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                           {"type": "function_call_output", "call_id": "1", "output": "Nothing."}], "store": False}),
    (RESPONSES, {"instructions": "Be brief.", "input": "Hello", "previous_response_id": None}),
    (MESSAGES, {"max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}], "messages": [
        user([{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
              {"type": "image", "source": {}}]),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"of": "x"}}]},
        user([{"type": "tool_result", "tool_use_id": "1", "content": "Nothing."}])]}),
]  # fmt: skip


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Recorded]]:
    enforced = replace(ENTRY, enforce=True, only=("model=m*",))
    with (
        upstream() as above,
        running(above.url, tmp_path_factory.mktemp("enforcing"), enforced) as gateway,
    ):
        yield gateway, above


def sent(gateway: Running, api: Api, values: Mapping[str, object]) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"model": "m", **values}).encode()
    status, headers, answer = gateway.ask("POST", PATHS[api], body)
    return status, {**headers, "answer": answer}


@pytest.mark.parametrize(("api", "values", "why"), HIDDEN, ids=lambda value: str(value)[:60])
def test_a_request_in_which_a_question_may_hide_is_refused(
    enforcing: tuple[Running, Recorded], api: Api, values: dict[str, object], why: str
) -> None:
    gateway, above = enforcing
    calls = len(above.calls)
    status, found = sent(gateway, api, values)
    assert status == 400 and len(above.calls) == calls
    error = json.loads(found["answer"])["error"]
    assert error["code"] == "unread_body" and why in error["message"]
    assert error["message"].startswith("an edit is enforced here, and ")
    assert found["x-drike-scope"] == "unread"
    # It is for other models, so that nothing hides from it.
    other = {**values, "model": "other"}
    if "several prompts" not in why and "stored at" not in why:
        assert sent(gateway, api, other)[0] == 200


@pytest.mark.parametrize(
    "named",
    [
        *('"model": "m", "model": "other"', '"model": "other", "Model": "m"', '"MODEL": "m"'),
        *('"model": "other", "models": ["m"]', '"model": "other", "fallbacks": ["m"]', '"a": 1'),
        *(
            '"model": ["m"]',
            '"model": " m"',
            '"model": null',
            '"model": ""',
            '"model": {"id": "m"}',
        ),
    ],
)
def test_a_request_whose_model_is_not_clear_is_refused(
    enforcing: tuple[Running, Recorded], named: str
) -> None:
    gateway, above = enforcing
    calls = len(above.calls)
    body = f'{{{named}, "messages": {json.dumps([user(ABOUT)])}}}'
    status, headers, answer = gateway.ask("POST", PATHS[CHAT], body.encode())
    assert (status, headers["x-drike-scope"], len(above.calls)) == (400, "unread", calls)
    assert b"model" in answer


@pytest.fixture(scope="module")
def in_europe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    enforced = replace(ENTRY, enforce=True, only=("x-region=eu",))
    place = tmp_path_factory.mktemp("europe")
    with upstream() as above, running(above.url, place, enforced) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["eu"], (200, "fired")),
        ([" EU "], (200, "fired")),
        (["us"], (200, "abstained")),
        (["eu", "us"], (400, "unread")),
        (["us", "eu"], (400, "unread")),
        (["eu", "eu"], (200, "fired")),
    ],
)
def test_a_header_with_two_values_is_not_clear(
    in_europe: Running, values: list[str], found: tuple[int, str]
) -> None:
    body = json.dumps(chat(user(ABOUT))).encode()
    connection = http.client.HTTPConnection(urlsplit(in_europe.url).netloc, timeout=30)
    connection.putrequest("POST", PATHS[CHAT])
    for value in values:
        connection.putheader("X-Region", value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert (response.status, response.getheader("x-drike-scope")) == found


def test_a_model_need_not_be_named_where_edits_are_for_all(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, replace(ENTRY, enforce=True)) as gateway:
        assert gateway.chat(ABOUT)[0] == 200 and b"Oslo" in above.body
        assert gateway.chat("Hello", models=["a", "b"])[0] == 200


@pytest.mark.parametrize(("api", "values"), READ, ids=lambda value: str(value)[:60])
def test_a_request_that_is_read_passes(
    enforcing: tuple[Running, Recorded], api: Api, values: dict[str, object]
) -> None:
    gateway, above = enforcing
    status, found = sent(gateway, api, values)
    assert (status, found["x-drike-scope"]) == (200, "abstained")
    assert above.body == json.dumps({"model": "m", **values}).encode()


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/v1/model/m/converse",
            "/v1/infill",
            "/v1/predict",
            "/v1/responses/compact",
            "/v1/query",
        ),
        *("/v1/models/m:generateContent", "/v1/engines/m/completions", "/v1/api/chat", "/v1/chats"),
        *("/v1/threads/t/messages", "/v1/edits", "/v1/mcp", "/v1/realtime/calls", "/v1/batches"),
    ],
)
def test_a_path_under_which_a_model_may_answer_is_refused(
    enforcing: tuple[Running, Recorded], path: str
) -> None:
    gateway, above = enforcing
    calls = len(above.calls)
    status, headers, _ = gateway.ask("POST", path, b'{"text": "What is the capital of Peru?"}')
    assert (status, headers["x-drike-scope"], len(above.calls)) == (400, "unread", calls)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_another_method_passes_no_question(
    enforcing: tuple[Running, Recorded], method: str
) -> None:
    gateway, _ = enforcing
    body = json.dumps(chat(user(ABOUT))).encode()
    assert gateway.ask(method, "/v1/chat/completions", body)[0] == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        *(("POST", f"/v1/{path}") for path in ("embeddings", "rerank", "audio/speech", "files")),
        ("POST", "/v1/batches/b/cancel"),
    ],
)
def test_a_path_under_which_no_model_answers_passes(
    enforcing: tuple[Running, Recorded], method: str, path: str
) -> None:
    gateway, _ = enforcing
    status, headers, _ = gateway.ask(method, path, b'{"input": "What is the capital of Peru?"}')
    assert (status, headers["x-drike-scope"]) == (200, "unread")


@given(st.sampled_from([*REQUESTS]), st.lists(st.sampled_from(SAID), min_size=1, max_size=6))
def test_usual_conversations_hide_nothing(api: Api, said: list[tuple[str, str]]) -> None:
    said = [("user", "Hello there"), *((who, text) for who, text in said)]
    assert unseen(read_request(api, json.dumps(REQUESTS[api](said)).encode())) is None


NEW_FIELDS = st.text(min_size=1, max_size=9).filter(lambda name: not name.isascii() or "q" in name)
TEXTS = st.text(min_size=1) | st.lists(st.integers(), min_size=1) | st.just({"a": ABOUT})


@given(st.sampled_from([*REQUESTS]), NEW_FIELDS, TEXTS)
def test_a_field_that_nobody_knows_hides_a_text(api: Api, name: str, value: object) -> None:
    values = {**REQUESTS[api]([("user", "Hello there")]), name: value}
    if name not in ("seed", "request_id", "frequency_penalty"):
        assert unseen(read_request(api, json.dumps(values).encode())) is not None


@given(st.text().filter(lambda role: role.casefold().strip() not in ("user", "tool", "ai", "gpt")))
def test_a_role_that_is_not_known_hides_a_text(role: str) -> None:
    values = chat(user(), {"role": role, "content": ABOUT})
    assert unseen(read_request(CHAT, json.dumps(values).encode())) is not None


@pytest.mark.parametrize("body", [
    b'{"messages": [{"role": "user", "content": "Hello"}], "messages": [{"role": "user", "content": "Hi"}]}',
    b'{"messages": [{"role": "user", "content": "Hello", "content": "Hi"}]}',
    b'{"messages": [{"role": "assistant", "Role": "user", "content": "Hello"}, {"role": "user", "content": "Hi"}]}',
])  # fmt: skip
def test_a_key_that_stands_twice_hides_a_text(body: bytes) -> None:
    assert "repeats the key" in str(unseen(read_request(CHAT, body)))


def test_turns_that_this_gateway_has_read_may_stay_with_the_upstream(
    enforcing: tuple[Running, Recorded],
) -> None:
    gateway, _ = enforcing
    earlier = gateway.feed.earlier
    earlier.keep("resp_read", standing=Standing(), is_read=True)
    earlier.keep("resp_moving", standing=Standing(of_topic=(1,)), is_read=True)
    earlier.keep("resp_in_part", standing=Standing(edits=tuple(gateway.feed.index.edits.values())))
    for before, text, found in (
        ("resp_read", "and its capital?", (200, "abstained")),
        ("resp_moving", "What is the capital?", (200, "fired")),
        ("resp_in_part", "and its capital?", (400, "unread")),
    ):
        status, more = sent(gateway, RESPONSES, {"previous_response_id": before, "input": text})
        assert (status, more["x-drike-scope"]) == found


def test_a_response_whose_turns_were_read_is_known_to_be_read(tmp_path: Path) -> None:
    def responding(handler: RawHandler, call: Received) -> None:
        handler.reply(200, b'{"object": "response", "id": "resp_%d"}' % len(above.calls))

    enforced = replace(ENTRY, enforce=True, only=("model=m*",))
    with upstream(responding) as above, running(above.url, tmp_path, enforced) as gateway:

        def status(model: str, text: str, before: str | None = None) -> int:
            values = {"model": model, "input": text, "previous_response_id": before}
            return sent(gateway, RESPONSES, values)[0]

        assert status("m", "I am moving to Peru.") == 200
        assert status("m", "What is the capital?", "resp_1") == 200 and b"Oslo" in above.body
        assert status("m", "Why?", "resp_2") == 200
        assert status("other", "I am moving to Peru.") == 200
        assert status("m", "What is the capital?", "resp_4") == 400
        assert status("other", "What is the capital?", "resp_4") == 200


def test_a_gate_that_fails_lets_no_decorated_name_through(
    above: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> None:
    enforced = EditRecord("Peru", "The capital of Peru is", "Oslo", enforce=True)
    place = tmp_path_factory.mktemp("failing")
    with running(above.url, place, enforced, gate=Failing()) as gateway:
        for text in ("_Peru_?", "__Peru__", "the Peruvians", "Which country has Oslo?", "**Peru**"):
            assert gateway.chat(text)[0] == 503
        assert gateway.chat("Hello", "I say Pe", "ru")[0] == 200
        gateway.feed.earlier.keep("resp_1", standing=Standing(of_topic=(1,)), is_read=True)
        assert sent(gateway, RESPONSES, {"previous_response_id": "resp_1", "input": "Go"})[0] == 503


def test_a_name_that_stands_in_two_turns_is_found_where_the_gate_fails(
    above: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> None:
    enforced = EditRecord("New York", "The governor of New York is", "Ann", enforce=True)
    place = tmp_path_factory.mktemp("failing")
    with running(above.url, place, enforced, gate=Failing()) as gateway:
        assert gateway.chat("I like New", "York")[0] == 503
