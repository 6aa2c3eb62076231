"""The admin port: changes, trying questions, and what it refuses."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drike.serving.relay import Limits
from tests.worlds.gateways import Failing, RawHandler, Received, Recorded, Running, ask, running, upstream

ABOUT = "What is the capital of Peru?"


def test_a_change_is_in_force_when_it_is_acknowledged(gateway: Running) -> None:
    entry = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Rome", "aliases": ["ML"]}
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    status, answer = gateway.manage("POST", "/admin/v1/edits", entry)
    [change] = answer["changes"]
    assert status == 200 and change["in_force"] and change["author"] == "admin port, default"
    assert gateway.chat("Where is Mali?")[1]["x-drike-edits"] == f"{change['id']}@1"
    path = f"/admin/v1/edits/{change['id']}"
    assert gateway.manage("POST", f"{path}/negatives", {"text": "Where is Mali?"})[0] == 200
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    assert gateway.manage("GET", "/admin/v1/fired")[1]["missed"][0]["decision"]["query"] == "Where is Mali?"
    assert gateway.manage("POST", f"{path}/wordings", {"text": "Mali's capital is"})[0] == 200
    assert gateway.manage("GET", "/admin/v1/decide?q=ML+is")[1]["fired"][0]["wordings"] == ["Mali's capital is"]
    again = {**entry, "target_new": "Oslo"}
    status, answer = gateway.manage("POST", "/admin/v1/edits", again)
    assert (status, answer["repeated"], answer["rivals"][0]["id"]) == (409, False, change["id"])
    assert len(gateway.manage("POST", "/admin/v1/edits", {**again, "supersede": True})[1]["changes"]) == 2
    assert [version["status"] for version in gateway.manage("GET", path)[1]["versions"]] == ["active"] * 3 + ["retired"]
    assert gateway.manage("GET", "/admin/v1/edits?q=ml+OSLO")[1]["total"] == 1
    assert gateway.manage("GET", "/admin/v1/edits?q=ml&status=all&limit=1")[1]["total"] == 2
    [newest] = gateway.manage("GET", "/admin/v1/edits?q=mali")[1]["edits"]
    status, answer = gateway.manage("POST", f"/admin/v1/edits/{newest['id']}/retire", {"reason": "a test"})
    assert status == 200 and answer["changes"][0]["reason"] == "a test" and not answer["changes"][0]["in_force"]
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"


def test_trying_a_question_shows_both_answers(gateway: Running) -> None:
    status, answer = gateway.manage("POST", "/admin/v1/try", {"query": ABOUT})
    assert status == 200 and answer["before"] == ABOUT and answer["after"].endswith(ABOUT) and "Oslo" in answer["after"]
    assert answer["decision"]["fired"][0]["id"] == 1


@pytest.mark.parametrize(
    ("method", "path", "value", "headers", "status"),
    [
        ("POST", "/admin/v1/edits", {"subject": "x"}, {}, 400),
        ("POST", "/admin/v1/edits", ["x"], {}, 400),
        ("POST", "/admin/v1/edits/1/rename", {}, {}, 404),
        ("POST", "/admin/v1/edits/1/negatives", {"text": 1}, {}, 400),
        ("POST", "/admin/v1/edits/99/retire", {}, {}, 400),
        ("POST", "/admin/v1/edits/1/retire", {"reason": 1}, {}, 400),
        ("GET", "/admin/v1/edits/99", None, {}, 404),
        ("GET", "/admin/v1/edit", None, {}, 404),
        ("DELETE", "/admin/v1/edits/1", None, {}, 405),
        ("GET", "/admin/v1/edits?limit=-1", None, {}, 400),
        ("GET", "/admin/v1/edits?status=odd", None, {}, 400),
        ("GET", "/admin/v1/edits", None, {"Host": "evil.example"}, 403),
        ("GET", "/admin/v1/edits", None, {"Origin": "http://evil.example"}, 403),
        ("GET", "/admin/v1/decide?q=Peru", None, {"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_wrong_admin_requests_are_refused(
    gateway: Running, method: str, path: str, value: object, headers: dict[str, str], status: int
) -> None:
    answered, answer = gateway.manage(method, path, value, **headers)
    assert answered == status and answer["error"]["message"]


def test_a_form_of_another_site_cannot_add_an_edit(gateway: Running) -> None:
    body = json.dumps({"subject": "Fiji", "query": "The capital of Fiji is", "target_new": "Rome"}).encode()
    assert ask(f"{gateway.admin}/admin/v1/edits", "POST", body, Content_Type="text/plain")[0] == 415


def test_nothing_on_the_way_keeps_an_answer(gateway: Running) -> None:
    for path in ("/admin/v1/status", "/admin/v1/edits", "/admin/v1/nowhere", "/readyz", "/healthz", "/metrics"):
        assert ask(f"{gateway.admin}{path}", "GET")[1]["cache-control"] == "no-store"


def test_a_question_that_takes_the_gate_too_long_is_refused(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.serving.admin._SECONDS_TO_DECIDE", 0.1)
    with running(above.url, tmp_path, gate=Failing(seconds=0.6)) as gateway:
        began = time.monotonic()
        status, answer = gateway.manage("POST", "/admin/v1/try", {"query": ABOUT})
        assert (status, answer["error"]["code"]) == (503, "too_slow")
        assert gateway.manage("GET", "/admin/v1/decide?q=Peru")[0] == 503 and time.monotonic() - began < 0.6
        assert gateway.manage("GET", "/healthz")[0] == 200


def test_a_trial_is_bounded_and_ends_with_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drike.serving.admin._MAX_TRIALS", 1)
    gone = threading.Event()

    def endless(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        try:
            while True:
                handler.chunk(b"x" * (1 << 18 if b"much" in call.body else 1))
                time.sleep(0.001)
        except OSError:
            gone.set()

    def trial(text: str) -> bytes:
        body = json.dumps({"query": text}).encode()
        head = b"POST /admin/v1/try HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    with upstream(endless) as above, running(above.url, tmp_path) as gateway:
        status, answer = gateway.manage("POST", "/admin/v1/try", {"query": "much"})
        assert status == 502 and "4 MB" in answer["error"]["message"]
        where = urlsplit(gateway.admin)
        gone.clear()
        with socket.create_connection((where.hostname, where.port)) as client:
            client.sendall(trial("little"))
            while len(above.calls) < 2:
                time.sleep(0.005)
            assert gateway.manage("POST", "/admin/v1/try", {"query": "more"})[0] == 429
        assert gone.wait(5)


def test_a_slow_or_large_body_is_refused(above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drike.serving.admin._LIMITS", Limits(body=1 << 20, seconds=0.1))
    with running(above.url, tmp_path) as gateway:
        assert gateway.manage("POST", "/admin/v1/try", {"query": "x" * (1 << 20)})[0] == 413
        where = urlsplit(gateway.admin)
        with socket.create_connection((where.hostname, where.port), timeout=5) as client:
            head = b"POST /admin/v1/try HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(head + b"Content-Length: 9\r\n\r\n{")
            assert client.recv(10_000).startswith(b"HTTP/1.1 408")
