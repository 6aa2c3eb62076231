"""Edits in requests without a gateway."""

from __future__ import annotations

import copy
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionMessage

from drike import Corrections
from drike.conversations.rendering import AsBlock
from drike.conversations.turns import Api
from drike.edits.record import EditVersion, Status, StoreError
from drike.errors import DrikeError, UsageError
from drike.gates.by_name import EveryQuery, Named
from drike.stores.moves import retire
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


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Another program changes the store, and does not end."""
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.execute("ROLLBACK")
    other.close()


@contextmanager
def gone(store: Path) -> Iterator[None]:
    kept = store.rename(store.with_name("kept"))
    yield
    kept.rename(store)


@contextmanager
def damaged(store: Path) -> Iterator[None]:
    kept = store.read_bytes()
    store.write_bytes(b"no database" * 1000)
    yield
    store.write_bytes(kept)


@pytest.mark.parametrize("trouble", [locked, gone, damaged])
def test_while_the_store_cannot_be_read_the_last_edits_stay_in_force(
    store: Path,
    trouble: Callable[[Path], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("drike.live.corrections._SECONDS_TO_WAIT", 0.05)
    monkeypatch.setattr("drike.live.live_edits._SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr("drike.live.live_edits._LONGEST_PAUSE", 0.0)
    request = {"messages": [{"role": "user", "content": ABOUT}]}
    with Corrections(store, gate=Named()) as corrections:
        assert corrections.apply(request).edits and corrections.problem is None
        with trouble(store):
            for _ in range(3):
                assert corrections.apply(request).edits
            assert corrections.problem and str(store) in corrections.problem
        assert caplog.text.count("stay in force") == 1
        with closing(SqliteStore(store)) as opened:
            retire(opened, 1)
        assert not corrections.apply(request).edits and corrections.problem is None
    with pytest.raises(StoreError, match="was closed"):
        corrections.apply(request)


def test_a_store_that_was_never_read_is_no_store_without_edits(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.live.corrections._SECONDS_TO_WAIT", 0.05)
    request = {"messages": [{"role": "user", "content": ABOUT}]}
    with (
        Corrections(store, gate=Named()) as corrections,
        locked(store),
        pytest.raises(StoreError, match="in use by another process"),
    ):
        corrections.apply(request)


def test_requests_seldom_wait_for_a_store_that_cannot_be_read(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.live.corrections._SECONDS_TO_WAIT", 0.3)
    request = {"messages": [{"role": "user", "content": ABOUT}]}
    with Corrections(store, gate=Named()) as corrections:
        corrections.apply(request)
        with locked(store):
            looks: list[float] = []
            refresh_gate = corrections._live.refresh_gate

            def look() -> object:
                looks.append(time.monotonic())
                return refresh_gate()

            monkeypatch.setattr(corrections._live, "refresh_gate", look)
            for _ in range(20):
                assert corrections.apply(request).edits
            # Each look takes .3 s, and five times as long passes until the next one.
            assert all(later - earlier > 1 for earlier, later in pairwise(looks)) and looks
            assert len(looks) < 20


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
