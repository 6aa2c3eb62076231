"""Edits are switched on and off while gateways run: for all requests, for one edit, for a share of conversations."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drike.conversations.turns import Api, Conversation, read
from drike.edits.record import StoreError
from drike.gateway.editing import RequestEditor
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.logs import single_question
from drike.gateway.options import Mode, Switch, switch, switches
from drike.gateway.requests import one_message
from drike.stores.opening import open_store
from drike.stores.sqlite import SqliteStore
from tests.fakes.gateways import ENTRY, Running, running
from tests.fakes.upstreams import Recorded
from tests.fakes.waiting import wait_until

ABOUT = "What is the capital of Peru?"


def mode_of(gateway: Running, text: str = ABOUT) -> tuple[str, bool]:
    """What the header says, and whether the upstream got the edit, by its echo."""
    _, headers, body = gateway.chat(text)
    return headers["x-drike-mode"], b"Oslo" in body


def test_a_switch_is_in_force_here_at_once_and_in_other_gateways_soon(
    above: Recorded, tmp_path: Path
) -> None:
    with (
        running(above.url, tmp_path, ENTRY, mode=Mode.SHADOW) as one,
        running(above.url, tmp_path) as two,
    ):
        assert mode_of(one) == ("shadow", False) and mode_of(two) == (
            "on",
            True,
        )  # as each was started
        for given, expected in (
            ("on", ("on", True)),
            ("off", ("off", False)),
            ("shadow", ("shadow", False)),
        ):
            status, answer = one.manage(
                "POST", "/admin/v1/mode", {"mode": given, "reason": f"to {given}"}
            )
            assert status == 200 and answer["mode"] == given and mode_of(one) == expected
            wait_until(lambda expected=expected: mode_of(two) == expected)  # type: ignore[misc]
        assert one.manage("GET", "/admin/v1/status")[1]["mode"] == "shadow"
        one.manage("POST", "/admin/v1/mode", {"mode": None})
        wait_until(lambda: mode_of(two) == ("on", True))
        _, answer = two.manage("GET", "/admin/v1/mode")
        assert [(made["mode"], made["reason"]) for made in answer["switched"]] == [
            (None, None), ("shadow", "to shadow"), ("off", "to off"), ("on", "to on")
        ]  # fmt: skip
        assert all(
            made["author"] == "admin port, default" and made["at"] for made in answer["switched"]
        )


def test_half_a_sign_in_a_reason_does_no_harm(gateway: Running) -> None:
    status, answer = gateway.manage(
        "POST", "/admin/v1/mode", {"mode": "off", "reason": "moved \ud83d"}
    )
    assert (
        status == 200
        and answer["mode"] == "off"
        and gateway.manage("GET", "/admin/v1/mode")[0] == 200
    )
    gateway.manage(
        "POST", "/admin/v1/mode", {"mode": "on"}
    )  # the gateway is that of other tests, too


def test_a_request_that_is_read_while_edits_are_switched_off_is_not_edited(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def switched_off_meanwhile(
        editor: RequestEditor, feed: object, conversation: Conversation | None = None
    ) -> Mode:
        return Mode.ON if conversation is None else Mode.OFF

    monkeypatch.setattr(RequestEditor, "mode_for", switched_off_meanwhile)
    assert mode_of(gateway) == ("off", False)


def test_a_switch_outlives_the_gateway_and_is_one_tenants(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    made = {tenant: keys.add(tenant, KeyRole.APPROVE) for tenant in ("default", "shop")}
    bearers = {tenant: {"Authorization": f"Bearer {key}"} for tenant, key in made.items()}
    with running(above.url, tmp_path, keys=keys) as gateway:
        for bearer in bearers.values():
            assert gateway.manage("GET", "/admin/v1/mode", **bearer)[1]["mode"] == "on"
        assert (
            gateway.manage("POST", "/admin/v1/mode", {"mode": "off"}, **bearers["shop"])[0] == 200
        )
    with running(above.url, tmp_path, keys=keys) as gateway:
        found = [
            gateway.manage("GET", "/admin/v1/mode", **bearer)[1] for bearer in bearers.values()
        ]
        assert [one["mode"] for one in found] == ["on", "off"]
        assert found[1]["switched"][0]["author"].startswith("key ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "maybe"}, "'maybe'"),
        ({"mode": "on", "share": 2}, "share must be between 0 and 1"),
        ({"mode": "on", "share": "half"}, "'half'"),
        ({"mode": "on", "reason": 3}, "3"),
        ({"reason": "noted"}, "give mode"),
        ({"mode": "off", "until": "noon"}, "nothing else"),
        ({"mode": "off", "author": "Ann"}, "nothing else"),
    ],
)
def test_a_switch_that_means_nothing_is_refused(
    gateway: Running, given: object, message: str
) -> None:
    status, answer = gateway.manage("POST", "/admin/v1/mode", given)
    assert status == 400 and message in answer["error"]["message"] and mode_of(gateway)[0] == "on"


def test_one_edit_is_switched_by_its_status_in_its_history(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        path = "/admin/v1/edits/1/status"
        for status, there in (("shadow", False), ("active", True), ("draft", False)):
            code, answer = gateway.manage("POST", path, {"status": status, "reason": "too early"})
            assert code == 200 and answer["changes"][0]["status"] == status
            assert answer["changes"][0]["reason"] == "too early" and mode_of(gateway)[1] == there
        for wrong in ({"status": "maybe"}, {}):
            assert gateway.manage("POST", path, wrong)[0] == 400
        assert len(gateway.manage("GET", "/admin/v1/edits/1")[1]["versions"]) == 4


def test_a_share_of_conversations_is_on_and_each_stays_on_its_side(
    above: Recorded, tmp_path: Path
) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        gateway.manage("POST", "/admin/v1/mode", {"mode": "on", "share": 0.4})
        assert gateway.manage("GET", "/admin/v1/status")[1]["share"] == 0.4
        sides = []
        for i in range(60):
            turns = [{"role": "user", "content": f"{ABOUT} ({i})"}]
            for _ in range(3):
                body = json.dumps({"messages": turns}).encode()
                _, headers, _ = gateway.ask("POST", "/v1/chat/completions", body)
                sides.append((i, headers["x-drike-mode"], b"Oslo" in above.body))
                turns += [
                    {"role": "assistant", "content": "Hm."},
                    {"role": "user", "content": "And why?"},
                ]
        assert len(set(sides)) == 60 and {side[1:] for side in sides} == {
            ("on", True),
            ("shadow", False),
        }


def test_the_share_holds_on_many_conversations_and_grows_without_moving_any_back() -> None:
    conversations = [single_question(f"Question {i}") for i in range(5_000)]

    def on(share: float) -> set[Conversation]:
        part = Switch(Mode.ON, share)
        return {each for each in conversations if part.mode_of(each, Mode.OFF) is Mode.ON}

    assert on(0.0) == set() and on(1.0) == set(conversations)
    assert abs(len(on(0.1)) - 500) < 65 and on(0.1) < on(0.3)  # three standard deviations
    assert (
        Switch(Mode.ON, 0.0).mode_of(None, Mode.OFF) is Mode.ON
    )  # a request that is not read may need an edit
    assert (
        Switch(None, 0.0).mode_of(one_message("m", "Hi").conversation, Mode.SHADOW) is Mode.SHADOW
    )


def test_a_text_beside_a_tools_result_tells_conversations_apart() -> None:
    def beside(text: str) -> Conversation:
        content = [{"type": "tool_result", "content": "-"}, {"type": "text", "text": text}]
        return read(Api.MESSAGES, {"messages": [{"role": "user", "content": content}]})

    sides = Counter(
        Switch(Mode.ON, 0.5).mode_of(beside(f"Question {i}"), Mode.OFF) for i in range(1_000)
    )
    assert min(sides[Mode.ON], sides[Mode.SHADOW]) > 450


def test_a_conversation_that_the_upstream_keeps_stays_on_the_side_of_its_id(
    above: Recorded, tmp_path: Path
) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        gateway.manage("POST", "/admin/v1/mode", {"mode": "on", "share": 0.5})
        sides = set()
        for i in range(20):
            for text in (ABOUT, "Is Peru's capital large?", "And why?"):
                body = json.dumps({"input": text, "conversation": {"id": f"conv_{i}"}}).encode()
                sides.add((i, gateway.ask("POST", "/v1/responses", body)[1]["x-drike-mode"]))
        assert len(sides) == 20 and {side for _, side in sides} == {"on", "shadow"}


def test_the_last_switches_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(SqliteStore(path)) as store:
        assert switches(store) == []
        with store.transaction():
            for i in range(103):
                switch(store, Switch(Mode.ON, reason=str(i)))
    with closing(SqliteStore(path)) as store:
        assert [made.reason for made in switches(store)] == [str(i) for i in range(3, 103)]
        assert switches(store)[-1].at.startswith(str(datetime.now(UTC).year))


def test_damaged_modes_are_reported_and_the_last_known_one_holds(
    above: Recorded, tmp_path: Path
) -> None:
    with (
        running(above.url, tmp_path, ENTRY) as gateway,
        closing(open_store(tmp_path / "edits.db")) as store,
    ):
        gateway.manage("POST", "/admin/v1/mode", {"mode": "shadow"})
        for damaged in ("[{}]", "{"):
            store.settings.save("modes", damaged)
            with pytest.raises(StoreError, match=r"is damaged .*its modes.*restore it"):
                switches(store)
            wait_until(lambda: bool(gateway.feed.problem))
            assert mode_of(gateway)[0] == "shadow"
