"""Edits in requests without a gateway."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionMessage

from drike import Corrections
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api
from drike.edits.record import EditVersion, Status
from drike.errors import DrikeError, UsageError
from drike.gates.by_name import EveryQuery, Named
from drike.stores.sqlite import SqliteStore
from tests.fakes.api_requests import REQUESTS
from tests.fakes.gateways import ENTRY, running
from tests.fakes.upstreams import upstream

ABOUT = "What is the capital of Peru?"
SAID = [
    ("user", ABOUT),
    ("assistant", "Lima"),
    ("user", "Are you sure?"),
    ("tool", "Peru: capital Lima"),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "edits.db"
    opened = SqliteStore(path)
    opened.put(replace(ENTRY, target_true="Lima"))
    opened.close()
    return path


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES, Api.MESSAGES])
def test_a_request_gets_what_the_gateway_sends_upstream(store: Path, api: Api) -> None:
    request = REQUESTS[api](SAID)
    before = copy.deepcopy(request)
    paths = {Api.CHAT: "chat/completions", Api.RESPONSES: "responses", Api.MESSAGES: "messages"}
    with (
        Corrections(store, gate=Named()) as corrections,
        upstream() as above,
        running(above.url, store.parent, chat=AsBlock()) as gateway,
    ):
        corrected = corrections.apply(request, api=api.value)
        gateway.ask("POST", f"/v1/{paths[api]}", json.dumps(request).encode())
    blocks = [
        text.count("corrected-facts")
        for text in (json.dumps(corrected.request), above.body.decode())
    ]
    assert request == before and json.loads(above.body) == corrected.request and blocks == [6, 6]
    assert [edit.id for edit in corrected.edits] == [1] and corrected.conflicts == (1,)


def test_a_request_that_concerns_no_edit_is_returned_itself(store: Path) -> None:
    with Corrections(store, gate=Named()) as corrections:
        for request in (
            {"messages": [{"role": "user", "content": "Hello"}]},
            {},
            {"messages": "odd"},
        ):
            corrected = corrections.apply(request)
            assert corrected.request is request and not corrected.edits and corrected.reason


def test_changes_of_the_store_are_taken_up(store: Path) -> None:
    request = {"messages": [{"role": "user", "content": ABOUT}]}
    with Corrections(store, gate=Named()) as corrections:
        assert corrections.apply(request).reason == '"peru" is named: edit 1'
        opened = SqliteStore(store)
        [latest] = opened.changes()
        opened.put(replace(latest.record, status=Status.RETIRED), replaces=latest)
        opened.close()
        assert not corrections.apply(request).edits


def test_a_gate_can_be_given(store: Path) -> None:
    with Corrections(store, gate=EveryQuery()) as corrections:
        [edit] = corrections.apply({"messages": [{"role": "user", "content": "Hello"}]}).edits
    assert isinstance(edit, EditVersion)


def test_a_missing_store_or_an_unknown_api_is_refused(store: Path) -> None:
    with pytest.raises(DrikeError, match="missing"):
        Corrections(store.parent / "missing.db", gate=Named())
    with (
        Corrections(store, gate=Named()) as corrections,
        pytest.raises(UsageError, match="chat, completions, responses, messages"),
    ):
        corrections.apply({}, api="gemini")


def test_it_needs_neither_torch_nor_the_gateways_packages(store: Path) -> None:
    code = (
        "import sys, drike\n"
        f"c = drike.Corrections({str(store)!r}, gate=drike.Named())\n"
        f"print(c.apply({{'messages': [{{'role': 'user', 'content': {ABOUT!r}}}]}}).reason)\n"
        "heavy = {'torch', 'transformers', 'aiohttp', 'starlette', 'uvicorn', 'typer', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_clients_answer_may_stand_among_the_messages(store: Path) -> None:
    answer = ChatCompletionMessage(role="assistant", content="Oslo <corrected-facts>")
    messages = (
        {"role": "user", "content": ABOUT},
        answer,
        {"role": "user", "content": "Are you sure?"},
    )
    with Corrections(store, gate=Named()) as corrections:
        first, kept, last = corrections.apply({"messages": messages}).request["messages"]
    assert "Oslo" in first["content"] and "stand" in last["content"]
    assert (
        kept["content"] == "Oslo ‹corrected-facts>" and answer.content == "Oslo <corrected-facts>"
    )
