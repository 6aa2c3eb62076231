"""The webhooks of LiteLLM and agentgateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.record import EditRecord
from drike.gateway.guardrails import guardrail_answer, texts_as_edited
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.options import Mode
from tests.fakes.gates import Failing
from tests.fakes.gateways import ENTRY, Running, ask, running

ABOUT, OTHER = "What is the capital of Peru?", "Hello"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running("http://127.0.0.1:9/v1", tmp_path_factory.mktemp("guardrail"), ENTRY) as serving:
        yield serving


def litellms(texts: list[str] | None, messages: list[dict] | None, **more: object) -> bytes:
    """A request as LiteLLM 1.106.2 sends it."""
    asked = {
        "input_type": "request", "litellm_call_id": "1", "litellm_trace_id": "2", "structured_messages": messages,
        "images": None, "tools": None, "texts": texts, "request_data": {"user_api_key_user_id": "default_user_id"},
        "request_headers": {"host": "127.0.0.1:4000", "x-api-key": "[present]"}, "litellm_version": "1.106.2",
        "additional_provider_specific_params": {}, "tool_calls": None, "model": "tiny", **more,
    }  # fmt: skip
    return json.dumps(asked).encode()


def user(content: object) -> dict:
    return {"role": "user", "content": content}


TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
}
CALLED = [
    {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
    {"role": "tool", "content": ABOUT, "tool_call_id": "call_1"},
]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LITELLM = "/guardrail/beta/litellm_basic_guardrail_api"


@pytest.mark.parametrize(
    ("texts", "messages", "changed"),
    [
        ([ABOUT], [user(ABOUT)], {0}),
        (["Be brief.", OTHER, "Hi", ABOUT], [{"role": "developer", "content": "Be brief."}, user(OTHER),
                                            {"role": "assistant", "content": "Hi"}, user(ABOUT)], {3}),
        ([ABOUT, "Lima", "Are you sure?"], [user(ABOUT), {"role": "assistant", "content": "Lima"},
                                            user("Are you sure?")], {0, 2}),
        (["Look:", ABOUT], [user([{"type": "text", "text": "Look:"}, IMAGE, {"type": "text", "text": ABOUT}])], {0}),
        ([ABOUT, ABOUT, ABOUT], [user(ABOUT), *CALLED, user(ABOUT)], {0, 2}),
        ([ABOUT, ABOUT], [user(ABOUT), *CALLED], {0}),
    ],
)  # fmt: skip
def test_litellms_texts_are_changed_where_an_edit_fires(
    gateway: Running, texts: list[str], messages: list[dict], changed: set[int]
) -> None:
    body = litellms(
        texts, messages, tools=[TOOL], tool_calls=[TOOL_CALL], images=["data:image/png;base64,AAAA"]
    )
    status, headers, answer = gateway.ask("POST", LITELLM, body, X_Api_Key="any")
    assert (status, headers["x-drike-scope"], headers["x-drike-edits"]) == (200, "fired", "1@1")
    answered = json.loads(answer)
    assert answered["action"] == "GUARDRAIL_INTERVENED" and len(answered["texts"]) == len(texts)
    for i, (before, after) in enumerate(zip(texts, answered["texts"], strict=True)):
        assert (
            (after != before and after.endswith(before) and "Oslo" in after)
            if i in changed
            else after == before
        )


def test_imitations_of_the_block_are_defused_in_all_texts(gateway: Running) -> None:
    texts = ["<corrected-facts>", ABOUT]
    body = litellms(texts, [{"role": "system", "content": texts[0]}, user(ABOUT)])
    assert json.loads(gateway.ask("POST", LITELLM, body)[2])["texts"][0] == "‹corrected-facts>"


def test_texts_are_found_in_time_that_grows_with_their_number_alone() -> None:
    texts = ["x"] * 80_000 + [ABOUT]
    messages = [user(ABOUT), *({"role": "assistant", "content": str(i)} for i in range(1_999))]
    began = time.thread_time()
    assert texts_as_edited(texts, messages, [user("edited"), *messages[1:]]) == [
        *texts[:-1],
        "edited",
    ]
    assert time.thread_time() - began < 2  # looked through for each message, they take 10 s


def test_numbers_that_json_has_not_are_refused(gateway: Running) -> None:
    body = agentgateways(ABOUT).replace(b'{"messages"', b'{"n": 1e999, "messages"')
    assert gateway.ask("POST", "/request", body)[0] == 400


def agentgateways(text: str) -> bytes:
    return json.dumps(
        {"body": {"messages": [{"role": "system", "content": "Be brief."}, user(text)]}}
    ).encode()


@pytest.mark.parametrize("path", ["/request", "/guardrail/request"])
def test_agentgateways_messages_are_changed_where_an_edit_fires(
    gateway: Running, path: str
) -> None:
    for text in (ABOUT, OTHER):
        action = json.loads(gateway.ask("POST", path, agentgateways(text))[2])["action"]
        assert ("Oslo" in json.dumps(action)) == (text == ABOUT)
        assert text == OTHER or action["body"]["messages"][0] == {
            "role": "system",
            "content": "Be brief.",
        }
    answer = json.dumps(
        {"body": {"choices": [{"message": {"role": "assistant", "content": ABOUT}}]}}
    ).encode()
    assert (
        "body"
        not in json.loads(gateway.ask("POST", path.replace("request", "response"), answer)[2])[
            "action"
        ]
    )


@pytest.mark.parametrize(
    "asked",
    [
        litellms([OTHER], [user(OTHER)]),
        litellms([ABOUT], None, input_type="response"),
        litellms([ABOUT], [user(ABOUT)], input_type="response"),
        litellms([ABOUT], None),  # a prompt to complete, or a text to embed or to speak
        litellms([ABOUT, OTHER], None),
        litellms(["other text"], [user(ABOUT)]),
        litellms([], []),
        litellms([], [user([IMAGE])], images=["data:image/png;base64,AAAA"]),
        b'{"texts": [7]}',
    ],
)
def test_what_concerns_no_edit_passes(gateway: Running, asked: bytes) -> None:
    assert json.loads(gateway.ask("POST", "/guardrail", asked)[2]) == {"action": "NONE"}


def test_edits_for_one_model_apply_to_webhooks_that_name_it(tmp_path: Path) -> None:
    with running(
        "http://127.0.0.1:9/v1", tmp_path, replace(ENTRY, only=("model=gpt-*",))
    ) as gateway:
        agent = {"body": {"model": "gpt-5", "messages": [user(ABOUT)]}}
        for model, scope in (("gpt-5", "fired"), ("tiny", "abstained"), (None, "abstained")):
            body = litellms([ABOUT], [user(ABOUT)], model=model)
            assert gateway.ask("POST", LITELLM, body)[1]["x-drike-scope"] == scope
        assert (
            gateway.ask("POST", "/request", json.dumps(agent).encode())[1]["x-drike-scope"]
            == "fired"
        )


def test_edits_for_a_header_apply_to_webhooks_that_are_sent_with_it(tmp_path: Path) -> None:
    with running(
        "http://127.0.0.1:9/v1", tmp_path, replace(ENTRY, only=("x-region=eu",))
    ) as gateway:
        for region, scope in (("eu", "fired"), ("us", "abstained")):
            for path, body in (
                (LITELLM, litellms([ABOUT], [user(ABOUT)])),
                ("/request", agentgateways(ABOUT)),
            ):
                assert gateway.ask("POST", path, body, X_Region=region)[1]["x-drike-scope"] == scope


def test_in_shadow_webhooks_are_counted_and_nothing_is_changed(tmp_path: Path) -> None:
    with running("http://127.0.0.1:9/v1", tmp_path, ENTRY, mode=Mode.SHADOW) as gateway:
        status, headers, answer = gateway.ask("POST", LITELLM, litellms([ABOUT], [user(ABOUT)]))
        assert (status, headers["x-drike-scope"], json.loads(answer)) == (
            200,
            "fired",
            {"action": "NONE"},
        )
        assert (
            b'drike_requests_total{scope="fired",status="200"} 1.0'
            in ask(f"{gateway.admin}/metrics", "GET")[2]
        )


def test_an_enforced_edit_that_cannot_be_applied_blocks(tmp_path: Path) -> None:
    enforced = EditRecord("Peru", "The capital of Peru is", "Oslo", enforce=True)
    with running("http://127.0.0.1:9/v1", tmp_path, enforced, gate=Failing()) as gateway:
        blocked = json.loads(gateway.ask("POST", LITELLM, litellms([ABOUT], [user(ABOUT)]))[2])
        assert blocked["action"] == "BLOCKED" and "enforced" in blocked["blocked_reason"]
        action = json.loads(gateway.ask("POST", "/request", agentgateways(ABOUT))[2])["action"]
        assert (action["status_code"], action["reason"]) == (503, "edit_not_applied")
        assert json.loads(gateway.ask("POST", LITELLM, litellms([OTHER], [user(OTHER)]))[2]) == {
            "action": "NONE"
        }


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"body": 1}', b"\xff"])
def test_other_forms_are_refused(gateway: Running, body: bytes) -> None:
    assert gateway.ask("POST", "/guardrail", body)[0] == 400


def test_webhooks_need_a_key_where_keys_are_in_use(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("keys")
    keys = Keys(place / "keys.json")
    key = keys.add("default", KeyRole.USE)
    with running("http://127.0.0.1:9/v1", place, ENTRY, keys=keys) as gateway:
        body = litellms([ABOUT], [user(ABOUT)])
        assert gateway.ask("POST", "/guardrail", body)[0] == 401
        assert "Oslo" in gateway.ask("POST", "/guardrail", body, X_Api_Key=key)[2].decode()


def test_an_edit_that_fails_passes_on_its_error() -> None:
    async def fail(chat: bytes) -> bytes:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(guardrail_answer(litellms(["x"], [user("x")]), fail))
