"""The webhooks of LiteLLM and agentgateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from drike.serving.guardrail import answer
from drike.serving.keys import Keys, Role
from gateways import ENTRY, Running, running

ABOUT, OTHER = "What is the capital of Peru?", "Hello"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running("http://127.0.0.1:9/v1", tmp_path_factory.mktemp("guardrail"), ENTRY) as found:
        yield found


def test_litellms_texts_are_changed_where_an_edit_fires(gateway: Running) -> None:
    chat = [{"role": "user", "content": OTHER}, {"role": "user", "content": ABOUT}]
    asked = {"texts": [OTHER, ABOUT], "structured_messages": chat, "input_type": "request", "litellm_call_id": "1"}
    path = "/guardrail/beta/litellm_basic_guardrail_api"
    status, _, found = gateway.ask("POST", path, json.dumps(asked).encode(), X_Api_Key="any")
    first, second = json.loads(found)["texts"]
    assert status == 200 and json.loads(found)["action"] == "GUARDRAIL_INTERVENED"
    assert first == OTHER and second.endswith(ABOUT) and "Oslo" in second


def test_agentgateways_messages_are_changed_where_an_edit_fires(gateway: Running) -> None:
    for text in (ABOUT, OTHER):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        body = json.dumps({"body": {"messages": messages}}).encode()
        action = json.loads(gateway.ask("POST", "/guardrail/request", body)[2])["action"]
        assert ("Oslo" in json.dumps(action)) == (text == ABOUT)
        assert text == OTHER or action["body"]["messages"][0] == messages[0]


@pytest.mark.parametrize(
    "asked",
    [
        {"texts": [OTHER]},
        {"texts": [ABOUT], "input_type": "response"},
        {"texts": [ABOUT, OTHER]},
        {"texts": ["other text"], "structured_messages": [{"role": "user", "content": ABOUT}]},
        {"texts": [ABOUT], "structured_messages": [{"role": "tool", "content": ABOUT}]},
        {"texts": []},
        {"texts": [7]},
    ],
)
def test_what_concerns_no_edit_passes(gateway: Running, asked: dict) -> None:
    assert json.loads(gateway.ask("POST", "/guardrail", json.dumps(asked).encode())[2]) == {"action": "NONE"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"body": 1}', b"\xff"])
def test_other_forms_are_refused(gateway: Running, body: bytes) -> None:
    assert gateway.ask("POST", "/guardrail", body)[0] == 400


def test_webhooks_need_a_key_where_keys_are_in_use(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("keys")
    keys = Keys(place / "keys.json")
    key = keys.add("default", Role.USE)
    with running("http://127.0.0.1:9/v1", place, ENTRY, keys=keys) as gateway:
        body = json.dumps({"texts": [ABOUT]}).encode()
        assert gateway.ask("POST", "/guardrail", body)[0] == 401
        assert "Oslo" in gateway.ask("POST", "/guardrail", body, X_Api_Key=key)[2].decode()


def test_an_edit_that_fails_passes_on_its_error() -> None:
    async def fail(chat: bytes) -> bytes:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(answer(b'{"texts": ["x"]}', fail))
