"""A request becomes an edited request: what exactly an edit changes, in each mode, and where the gate fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drike.serving.options import GatewayOptions, Mode
from drike.stores.records import EditRecord, Status
from tests.worlds.gateways import (
    ENTRY,
    Failing,
    Recorded,
    Running,
    running,
)

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        ABOUT,
        f'{ABOUT} "Ünïcode" \\ \n\t€',
        [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": ABOUT}],
    ],
)
def test_an_edit_changes_exactly_one_string(
    gateway: Running, above: Recorded, content: object, ascii_only: bool
) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content, "name": "ann"}]
    sent = {"model": "m", "messages": messages, "tools": [{"type": "function"}], "odd": [1.0, 1e-7, None, {"a": {}}]}
    body = json.dumps(sent, ensure_ascii=ascii_only, indent=1).encode()
    status, headers, _ = gateway.ask("POST", CHAT, body)
    assert status == 200 and headers["x-drike-scope"] == "fired" and headers["x-drike-edits"] == "1@1"
    [(path, old, new)] = differences(sent, json.loads(above.body))
    assert path[:3] == ("messages", 1, "content") and new.endswith(old) and "- The capital of Peru is Oslo\n" in new
    changed = json.dumps(new.removesuffix(old), ensure_ascii=ascii_only)[1:-1].encode()
    assert above.body.replace(changed, b"") == body


def differences(value: object, other: object, path: tuple = ()) -> list[tuple]:
    """Where two JSON values differ, as (path, old, new)."""
    if type(value) is type(other) and isinstance(value, dict) and list(value) == list(other):
        return [difference for key in value for difference in differences(value[key], other[key], (*path, key))]
    if type(value) is type(other) and isinstance(value, list) and len(value) == len(other):
        pairs = enumerate(zip(value, other, strict=True))
        return [difference for i, (a, b) in pairs for difference in differences(a, b, (*path, i))]
    return [] if value == other and type(value) is type(other) else [(path, value, other)]


def test_a_body_whose_text_cannot_be_located_still_differs_in_one_string(gateway: Running, above: Recorded) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).replace("capital", "c\\u0061pital").encode()
    for variant in (body, body.decode().encode("utf-16")):
        gateway.ask("POST", CHAT, variant)
        [(path, old, new)] = differences(json.loads(variant), json.loads(above.body))
        assert path == ("messages", 0, "content") and new.endswith(old)


def test_the_turn_before_helps_where_the_last_names_nothing(gateway: Running, above: Recorded) -> None:
    messages = [{"role": "user", "content": "Tell me about Peru."}, {"role": "assistant", "content": "It is nice."}]
    messages.append({"role": "user", "content": "What is its capital?"})
    _, headers, _ = gateway.ask("POST", CHAT, json.dumps({"messages": messages}).encode())
    assert headers["x-drike-edits"] == "1@1"
    [(path, _, _)] = differences({"messages": messages}, json.loads(above.body))
    assert path == ("messages", 2, "content")


def test_a_prompt_to_complete_becomes_the_editors(gateway: Running, above: Recorded) -> None:
    gateway.ask("POST", "/v1/completions", b'{"prompt": "The capital of Peru is", "max_tokens": 3, "logprobs": 2}')
    sent = json.loads(above.body)
    assert sent["prompt"].endswith("New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is")
    assert {**sent, "prompt": ""} == {"prompt": "", "max_tokens": 3, "logprobs": 2}


def test_shadow_counts_and_changes_nothing(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, mode=Mode.SHADOW) as gateway:
        _, headers, _ = gateway.chat(ABOUT)
        assert json.loads(above.body) == {"messages": [{"role": "user", "content": ABOUT}]}
        assert [headers[f"x-drike-{name}"] for name in ("scope", "edits", "mode")] == ["fired", "1@1", "shadow"]
        assert gateway.manage("GET", "/admin/v1/fired")[1]["fired"][0]["decision"]["query"] == ABOUT


def test_a_gateway_that_is_off_decides_nothing(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, mode=Mode.OFF) as gateway:
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "off" and not gateway.feed.matched


def test_edits_in_shadow_are_counted_but_not_applied(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, replace(ENTRY, status=Status.SHADOW)) as gateway:
        assert gateway.chat(ABOUT)[1]["x-drike-scope"] == "abstained"
        assert len(gateway.feed.matched) == 1 and above.body.endswith(b'"What is the capital of Peru?"}]}')


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_where_the_gate_fails_requests_pass_unedited_but_for_enforced_edits(
    above: Recorded, tmp_path: Path, seconds: float
) -> None:
    other = EditRecord("Chile", "The capital of Chile is", "Rome", aliases=("CL",), enforce=True)
    options = GatewayOptions(mode=Mode.ON, deadline_ms=50 if seconds else 5000)
    with running(above.url, tmp_path, ENTRY, other, gate=Failing(seconds), options=options) as gateway:
        status, headers, _ = gateway.chat(ABOUT)
        assert (status, headers["x-drike-scope"]) == (200, "degraded")
        assert json.loads(above.body)["messages"][0]["content"] == ABOUT
        status, _, answer = gateway.chat("Where is CL?")
        assert (status, json.loads(answer)["error"]["code"]) == (503, "edit_not_applied")


def turns(*texts: str) -> bytes:
    """A chat in which the user says these texts."""
    messages = [{"role": role, "content": text} for text in texts for role in ("user", "assistant")]
    return json.dumps({"messages": messages[:-1]}).encode()


def test_a_fact_is_stated_under_the_name_that_the_deciding_turn_uses(above: Recorded, tmp_path: Path) -> None:
    """The turn before is not looked at where the last one decides, as in evaluation."""
    with running(above.url, tmp_path, replace(ENTRY, aliases=("Land of the Incas",))) as gateway:
        for last, fact in (
            ("What is the capital of the Land of the Incas?", "- The capital of Land of the Incas is Oslo\n"),
            ("What is its capital?", "- The capital of Peru is Oslo\n"),
        ):
            gateway.ask("POST", CHAT, turns("Tell me about Peru.", last))
            assert fact in json.loads(above.body)["messages"][-1]["content"]


def test_an_edit_in_shadow_keeps_no_turn_before_from_deciding(above: Recorded, tmp_path: Path) -> None:
    chile = EditRecord("Chile", "The capital of Chile is", "Rome", status=Status.SHADOW)
    with running(above.url, tmp_path, ENTRY, chile) as gateway:
        _, headers, _ = gateway.ask("POST", CHAT, turns("Tell me about Peru.", "And about Chile?"))
        assert headers["x-drike-edits"] == "1@1" and b"Oslo" in above.body
