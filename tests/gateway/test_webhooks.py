"""Webhooks about edits, sent to a real server on this machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from unittest.mock import MagicMock
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import pytest

from drike.edits.record import EditRecord, StoreError
from drike.errors import UsageError
from drike.gateway.control.webhooks import SECRET, Notifier, webhook
from drike.stores import moves
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.traffic import Counted, Counts, TrafficCounts
from tests.fakes.stores import NOON, PERU
from tests.fakes.upstreams import RawHandler, Received, upstream
from tests.fakes.waiting import wait_until

PROPOSED = moves.proposed(replace(PERU, author="Anna (propose)", owner="Anna"))
Told = list[tuple[str, dict]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EditStore]:
    opened = open_store(tmp_path / "edits.db")
    yield opened
    opened.close()


def notifier(store: EditStore, told: Told, fail: list[bool] | None = None) -> Notifier:
    def send(body: bytes, headers: Mapping[str, str]) -> None:
        if fail and fail[0]:
            raise ConnectionRefusedError("nobody listens")
        told.append((headers["x-drike-event"], json.loads(body)))

    return Notifier(lambda: {"default": (store, snapshot(store))}, send, "secret", lambda: NOON)


def names(told: Told) -> list[str]:
    return [body["event"] for _, body in told]


def test_moves_are_told_once_in_order_and_not_those_before_the_first_start(
    store: EditStore,
) -> None:
    told: Told = []
    store.put(EditRecord("Chile", "The capital of Chile is", "Oslo"))
    first = notifier(store, told)
    first.send_new()
    assert told == []
    [edit] = store.put(PROPOSED)
    require_approvals(store, 2)
    moves.approve(store, edit.id, author="Bob (approve)")
    first.send_new()
    assert names(told) == ["proposed"]  # one of two approvals changes nothing yet
    moves.approve(store, edit.id, author="Cid (approve)")
    notifier(store, told).send_new()  # another gateway, whose turn it is not
    assert names(told) == ["proposed"]
    first.send_new()
    first.send_new()
    [(_, proposal), (id, approval)] = told
    assert (proposal["edit"]["author"], proposal["edit"]["owner"]) == ("Anna (propose)", "Anna")
    assert (approval["event"], approval["edit"]["status"], id) == (
        "approved",
        "active",
        "default-change-4",
    )


def test_what_could_not_be_sent_is_sent_later(store: EditStore) -> None:
    told: Told = []
    fail = [False]
    sender = notifier(store, told, fail)
    sender.send_new()
    store.put(PROPOSED)
    fail[0] = True
    with pytest.raises(OSError, match="nobody listens"):
        sender.send_new()
    fail[0] = False
    sender.send_new()
    assert names(told) == ["proposed"]


def test_a_store_that_fails_holds_up_no_other_tenant(store: EditStore) -> None:
    told: Told = []
    sender, known = notifier(store, told), (store, snapshot(store))
    gone = MagicMock()
    gone.settings.get.side_effect = StoreError("a.db is gone")
    sender._stores = lambda: {"a": (gone, known[1]), "default": known}
    with pytest.raises(StoreError, match=r"a\.db is gone"):
        sender.send_new()
    store.put(PROPOSED)
    with pytest.raises(StoreError, match=r"a\.db is gone"):
        sender.send_new()
    assert names(told) == ["proposed"]


def test_a_clock_that_was_ahead_does_not_silence_the_next_gateway(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Told = []
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 4_000_000_000.0)
        notifier(store, told).send_new()
    store.put(PROPOSED)
    notifier(store, told).send_new()
    assert names(told) == ["proposed"]


def test_a_slow_receiver_is_sent_to_by_one_gateway(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, now = Told(), [1_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    first = notifier(store, told)
    first.send_new()
    send = first._send

    def slowly(body: bytes, headers: Mapping[str, str]) -> None:
        now[0] += 9
        send(body, headers)
        notifier(store, told).send_new()  # another gateway, meanwhile

    first._send = slowly
    for i in range(6):
        store.put(replace(PROPOSED, query=f"Fact {i} of Peru is"))
    first.send_new()
    assert [id for id, _ in told] == [f"default-change-{i}" for i in range(1, 7)]


def test_reviews_that_are_due_and_edits_that_slip_are_told_once(store: EditStore) -> None:
    told: Told = []
    yesterday = (NOON - timedelta(days=1)).isoformat()
    [edit] = store.put(replace(PERU, review_by=yesterday, review_days=90))
    kept = Counted(NOON.date().isoformat(), edit.id, edit.version, "m", "on", "old")
    TrafficCounts(store.database).add(Counts({kept: 99, kept._replace(what="new"): 1}))
    sender = notifier(store, told)
    sender.send_new()
    sender._next_look.clear()
    sender.send_new()
    assert names(told) == ["due", "slipping"]
    assert told[1][1]["answers"] == 100 and told[1][1]["took"]["value"] == 0.01
    moves.review(
        store, edit.id, until=(NOON - timedelta(hours=1)).isoformat()
    )  # due again, as another review
    sender._next_look.clear()
    sender.send_new()
    assert names(told) == ["due", "slipping", "due"]


def test_a_receiver_can_check_who_sent_an_event(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(handler: RawHandler, call: Received) -> None:
        moved = call.path == "/moved"
        handler.reply(302 if moved else 200, b"", **({"Location": "/hook"} if moved else {}))

    monkeypatch.setenv(SECRET, "hunter2")
    with upstream(respond) as recorded:
        at = recorded.url.removesuffix("/v1")
        sender = Notifier(
            lambda: {"default": (store, snapshot(store))}, *webhook(f"{at}/hook?key=1")
        )
        sender.send_new()
        store.put(PROPOSED)
        sender.send_new()
        [call] = recorded.calls
        headers = {name.lower(): value for name, value in call.headers}
        signed = headers["x-drike-timestamp"].encode() + b"." + call.body
        assert call.path == "/hook?key=1" and headers["x-drike-event"] == "default-change-1"
        assert (
            headers["x-drike-signature"]
            == "sha256=" + hmac.new(b"hunter2", signed, hashlib.sha256).hexdigest()
        )
        moved, _ = webhook(f"{at}/moved")
        with pytest.raises(OSError, match="302"):
            moved(b"{}", {})


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ftp://host/x", "is not an address"),
        ("https://", "is not an address"),
        ("http://example.org/x", "is not encrypted"),
        ("https://example.org/x", f"set \\${SECRET}"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    with pytest.raises(UsageError, match=why):
        webhook(address)


def test_no_answer_of_a_receiver_ends_the_events(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Told = []
    failures = [HTTPException("garbage"), RuntimeError("anything")]
    sender = notifier(store, told)
    sender.send_new()
    send = sender._send

    def moody(body: bytes, headers: Mapping[str, str]) -> None:
        if failures:
            raise failures.pop()
        send(body, headers)

    monkeypatch.setattr(sender, "_send", moody)
    monkeypatch.setattr("drike.gateway.control.webhooks._INTERVAL", 0.01)
    store.put(PROPOSED)
    sender.start()
    wait_until(lambda: told)
    sender.close()
    assert names(told) == ["proposed"] and not failures


@pytest.mark.parametrize(
    "address", ["http://[", "https://host:abc/x", "https://host:0/x", "ftp://host/x"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        webhook(address)


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_an_event_for_this_machine_passes_no_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, host: str
) -> None:
    def take(handler: RawHandler, call: Received) -> None:
        handler.reply(200, b"")

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SECRET, "secret")
    with upstream(take) as proxy, upstream(take) as receiver:
        monkeypatch.setenv(variable, proxy.url)
        port = urlsplit(receiver.url).port
        send, _ = webhook(f"http://{host}:{port}/hook/token")
        try:
            send(b"{}", {})
        except URLError:
            assert host == "127.0.0.2"  # where the receiver does not listen
        else:
            assert len(receiver.calls) == 1
        assert not proxy.calls


def refusal(code: int) -> HTTPError:
    return HTTPError("http://localhost/", code, "refused", Message(), None)


@pytest.mark.parametrize("code", [301, 400, 404, 410, 413, 422])
def test_an_event_that_is_refused_for_good_holds_up_nothing(
    store: EditStore, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    told: Told = []
    sender = notifier(store, told)
    sender.send_new()
    send = sender._send
    tries = []

    def refuse_the_first(body: bytes, headers: Mapping[str, str]) -> None:
        if headers["x-drike-event"].endswith("-1"):
            tries.append(body)
            raise refusal(code)
        send(body, headers)

    sender._send = refuse_the_first
    store.put(PROPOSED)
    store.put(moves.proposed(EditRecord("Chile", "The capital of Chile is", "Rome")))
    for _ in range(7):
        with pytest.raises(HTTPError):
            sender.send_new()
    for _ in range(2):
        sender.send_new()
    assert [event for event, _ in told] == ["default-change-2"] and len(tries) == 8
    assert "the event change-1 of default is dropped" in caplog.text


@pytest.mark.parametrize("code", [408, 425, 429, 500, 503])
def test_an_event_that_may_pass_later_is_never_dropped(store: EditStore, code: int) -> None:
    told: Told = []
    sender = notifier(store, told)
    sender.send_new()
    send = sender._send

    def refuse(body: bytes, headers: Mapping[str, str]) -> None:
        raise refusal(code)

    sender._send = refuse
    store.put(PROPOSED)
    for _ in range(20):
        with pytest.raises(HTTPError):
            sender.send_new()
    sender._send = send
    sender.send_new()
    assert names(told) == ["proposed"]


@pytest.mark.parametrize("problem", [OSError("disk"), refusal(413), RuntimeError("anything")])
def test_no_failure_of_a_tenant_ends_the_round_of_others(
    store: EditStore, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    told: Told = []
    sender, known = notifier(store, told), (store, snapshot(store))
    sender.send_new()
    gone = MagicMock()
    gone.settings.get.side_effect = problem
    sender._stores = lambda: {"a": (gone, known[1]), "default": known}
    store.put(PROPOSED)
    sender._send_due()
    asked = gone.settings.get.call_count
    sender._send_due()
    assert names(told) == ["proposed"] and gone.settings.get.call_count == asked, "it waits"


def test_a_text_that_may_be_read_in_another_order_is_also_sent_as_it_can_be_shown(
    store: EditStore,
) -> None:
    told: Told = []
    sender = notifier(store, told)
    sender.send_new()
    store.put(replace(PROPOSED, target_new="Oslo \u202eamiL\u202c", reason="\u05d0 1, \u05d1 2"))
    sender.send_new()
    [(_, event)] = told
    assert event["edit"]["target_new"] == "Oslo \u202eamiL\u202c"
    assert event["shown"] == {
        "target_new": "\u2068Oslo \\u202eamiL\\u202c\u2069",
        "reason": "\u2068\u05d0 1, \u05d1 2\u2069",
    }
