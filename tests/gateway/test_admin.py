"""The admin port: changes, trying questions, and what it refuses."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drike.edits.record import EditRecord
from drike.gates.by_name import Named
from drike.gates.decision import Gate
from drike.gateway.control import changes
from drike.gateway.control.trial_limits import TrialLimits
from drike.gateway.errors import RequestError
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.http.relay import Limits
from drike.gateway.http.threads import in_daemon_thread
from drike.stores.imports import import_edits
from drike.stores.opening import open_store
from drike.stores.tables import edits_of, scan
from tests.fakes.gates import Held
from tests.fakes.gateways import ENTRY, Running, ask, running
from tests.fakes.indexes import GATE
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.fakes.waiting import HANG, wait_until

ABOUT = "What is the capital of Peru?"


def test_a_change_is_in_force_when_it_is_acknowledged(gateway: Running) -> None:
    entry = {
        "subject": "Mali",
        "query": "The capital of Mali is",
        "target_new": "Rome",
        "aliases": ["ML"],
    }
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    status, answer = gateway.manage("POST", "/admin/v1/edits", entry)
    [change] = answer["changes"]
    assert status == 200 and change["in_force"] and change["author"] == "admin port, default"
    assert gateway.chat("Where is Mali?")[1]["x-drike-edits"] == f"{change['id']}@1"
    path = f"/admin/v1/edits/{change['id']}"
    assert gateway.manage("POST", f"{path}/negatives", {"text": "Where is Mali?"})[0] == 200
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"
    assert (
        gateway.manage("GET", "/admin/v1/fired")[1]["missed"][0]["decision"]["query"]
        == "Where is Mali?"
    )
    assert gateway.manage("POST", f"{path}/wordings", {"text": "Mali's capital is"})[0] == 200
    assert gateway.manage("GET", "/admin/v1/decide?q=ML+is")[1]["fired"][0]["wordings"] == [
        "Mali's capital is"
    ]
    again = {**entry, "target_new": "Oslo"}
    status, answer = gateway.manage("POST", "/admin/v1/edits", again)
    assert (status, answer["repeated"], answer["rivals"][0]["id"]) == (409, False, change["id"])
    assert (
        len(gateway.manage("POST", "/admin/v1/edits", {**again, "supersede": True})[1]["changes"])
        == 2
    )
    assert [version["status"] for version in gateway.manage("GET", path)[1]["versions"]] == [
        "active"
    ] * 3 + ["retired"]
    assert gateway.manage("GET", "/admin/v1/edits?q=ml+OSLO")[1]["total"] == 1
    assert gateway.manage("GET", "/admin/v1/edits?q=ml&status=all&limit=1")[1]["total"] == 2
    [newest] = gateway.manage("GET", "/admin/v1/edits?q=mali")[1]["edits"]
    status, answer = gateway.manage(
        "POST", f"/admin/v1/edits/{newest['id']}/retire", {"reason": "a test"}
    )
    assert (
        status == 200
        and answer["changes"][0]["reason"] == "a test"
        and not answer["changes"][0]["in_force"]
    )
    assert gateway.chat("Where is Mali?")[1]["x-drike-scope"] == "abstained"


@pytest.mark.parametrize("gate", [Named(), GATE])
def test_feedback_changes_the_very_next_answer(above: Recorded, tmp_path: Path, gate: Gate) -> None:
    missed, needless = "Which city is its seat of government?", "What is the capital of Peru?"
    anthem = EditRecord("Peru", "What is the capital song of Peru", "Ode")
    with running(above.url, tmp_path, ENTRY, anthem, gate=gate) as gateway:
        assert "x-drike-edits" not in gateway.chat(missed)[1]
        assert gateway.manage("POST", "/admin/v1/edits/1/wordings", {"text": missed})[0] == 200
        assert gateway.chat(missed.upper())[1]["x-drike-edits"] == "1@2"
        fired = gateway.chat(needless)[1].get("x-drike-edits", "")
        for edit in {edit.partition("@")[0] for edit in fired.split(",")} - {""}:
            assert (
                gateway.manage("POST", f"/admin/v1/edits/{edit}/negatives", {"text": needless})[0]
                == 200
            )
        assert fired and gateway.chat(needless)[1]["x-drike-scope"] == "abstained"


def test_a_model_that_takes_no_max_tokens_is_asked_in_its_own_way(tmp_path: Path) -> None:
    def newer(handler: RawHandler, call: Received) -> None:
        values = json.loads(call.body)
        if values["model"] == "gone":
            return handler.reply(404, b'{"error": {"message": "no such model"}}')
        if "max_tokens" in values:
            return handler.reply(400, b'{"error": {"message": "use max_completion_tokens"}}')
        said = {"choices": [{"message": {"content": values["messages"][-1]["content"]}}]}
        return handler.reply(200, json.dumps(said).encode())

    with upstream(newer) as above, running(above.url, tmp_path, ENTRY) as gateway:
        status, answer = gateway.manage("POST", "/admin/v1/try", {"query": ABOUT, "model": "new"})
        assert (
            status == 200
            and answer["before"] == ABOUT
            and json.loads(above.body)["max_completion_tokens"]
        )
        status, proof = gateway.manage("POST", "/admin/v1/edits/1/verify", {"model": "new"})
        assert status == 200 and proof["took"] == proof["asked"] > 0
        for path, values in (
            ("try", {"query": ABOUT}),
            ("edits/1/verify", {}),
        ):  # a refusal is no answer of a model
            status, answer = gateway.manage(
                "POST", f"/admin/v1/{path}", {**values, "model": "gone"}
            )
            assert status == 502 and "no such model" in answer["error"]["message"]


def test_trying_a_question_shows_both_answers(gateway: Running) -> None:
    status, answer = gateway.manage("POST", "/admin/v1/try", {"query": ABOUT})
    assert (
        status == 200
        and answer["before"] == ABOUT
        and answer["after"].endswith(ABOUT)
        and "Oslo" in answer["after"]
    )
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
        *(
            (way, f"/admin/v1/edits/{id}{what}", value, {}, status)
            for id in (2**63, 10**40, "9" * 5000, "%C2%B2", -1)
            for way, what, value, status in (("GET", "", None, 404), ("POST", "/retire", {}, 404))
        ),
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
    body = json.dumps(
        {"subject": "Fiji", "query": "The capital of Fiji is", "target_new": "Rome"}
    ).encode()
    assert ask(f"{gateway.admin}/admin/v1/edits", "POST", body, Content_Type="text/plain")[0] == 415


def test_nothing_on_the_way_keeps_an_answer(gateway: Running) -> None:
    for path in (
        "/admin/v1/status",
        "/admin/v1/edits",
        "/admin/v1/nowhere",
        "/readyz",
        "/healthz",
        "/metrics",
    ):
        assert ask(f"{gateway.admin}{path}", "GET")[1]["cache-control"] == "no-store"


def test_a_question_that_takes_the_gate_too_long_is_refused(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.editing._SECONDS_TO_TRY", 0.1)
    gate = Held()
    with running(above.url, tmp_path, gate=gate) as gateway:
        status, answer = gateway.manage("POST", "/admin/v1/try", {"query": "wait"})
        assert (status, answer["error"]["code"]) == (503, "too_slow")
        assert gateway.manage("GET", "/admin/v1/decide?q=wait")[0] == 503
        assert gateway.manage("GET", "/healthz")[0] == 200
        gate.released.set()


def test_a_trial_is_bounded_and_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.control.trial_limits._MOST_OF_TENANT", 1)
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
        head = (
            b"POST /admin/v1/try HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    with upstream(endless) as above, running(above.url, tmp_path) as gateway:
        status, answer = gateway.manage("POST", "/admin/v1/try", {"query": "much"})
        assert status == 502 and "16 MB" in answer["error"]["message"]
        where = urlsplit(gateway.admin)
        gone.clear()
        with socket.create_connection((where.hostname, where.port)) as client:
            client.sendall(trial("little"))
            wait_until(lambda: len(above.calls) >= 2)
            assert gateway.manage("POST", "/admin/v1/try", {"query": "more"})[0] == 429
        assert gone.wait(HANG)


def test_no_key_and_no_tenant_shuts_others_out_of_trials(tmp_path: Path) -> None:
    held = threading.Event()

    def slow(handler: RawHandler, call: Received) -> None:
        if b"Hold" in call.body:
            held.wait(HANG)
        handler.reply(200, json.dumps({"choices": [{"message": {"content": "Oslo"}}]}).encode())

    keys = Keys(tmp_path / "keys.json")
    eve, bob, cid = (
        {"Authorization": f"Bearer {keys.add(*key)}"}
        for key in (
            ("default", KeyRole.PROPOSE, "Eve"),
            ("default", KeyRole.PROPOSE, "Bob"),
            ("shop", KeyRole.PROPOSE, "Cid"),
        )
    )
    hold = replace(ENTRY, query="Hold Peru, whose capital is")
    with (
        upstream(slow) as above,
        running(above.url, tmp_path, hold, keys=keys) as gateway,
        ThreadPoolExecutor(16) as pool,
    ):

        def verify() -> tuple[int, dict[str, str], bytes]:
            url = f"{gateway.admin}/admin/v1/edits/1/verify"
            return ask(url, "POST", b"{}", Content_Type="application/json", **eve)

        verifying = [pool.submit(verify) for _ in range(16)]
        wait_until(lambda: sum(one.done() for one in verifying) == 14)
        refused = [one.result() for one in verifying if one.done()]
        assert {(status, headers["retry-after"]) for status, headers, _ in refused} == {(429, "1")}
        assert b"2 trials of this key are under way" in refused[0][2]
        for other in (bob, cid):
            assert gateway.manage("POST", "/admin/v1/try", {"query": "Oslo?"}, **other)[0] == 200
        held.set()
        assert [one.result()[0] for one in verifying].count(200) == 2


def test_a_key_causes_so_many_requests_to_the_upstream_in_a_minute(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    eve, bob = (
        {"Authorization": f"Bearer {keys.add('default', KeyRole.PROPOSE, name)}"}
        for name in ("Eve", "Bob")
    )
    long = replace(
        ENTRY, subject="Chad", query="The capital of Chad is", aliases=(),
        paraphrases=tuple(f"Wording {number} of Chad is" for number in range(100)),
    )  # fmt: skip
    with upstream() as above, running(above.url, tmp_path, ENTRY, long, keys=keys) as gateway:
        path = f"{gateway.admin}/admin/v1/edits/1/verify"
        for _ in range(61):
            status, headers, answer = ask(
                path, "POST", b"{}", Content_Type="application/json", **eve
            )
            if status == 429:
                break
        assert status == 429 and 0 < int(headers["retry-after"]) <= 60
        assert b"this key has 60 a minute: try again in " in answer
        assert 0 < len(above.calls) <= 60
        asked = len(above.calls)
        status, answer = gateway.manage("POST", "/admin/v1/edits/2/verify", {}, **bob)
        assert (status, answer["error"]["code"]) == (400, "too_many_questions")
        assert "prove it by command (drike edits verify)" in answer["error"]["message"]
        assert len(above.calls) == asked
        assert gateway.manage("POST", "/admin/v1/try", {"query": ABOUT}, **bob)[0] == 200


def test_what_a_key_has_spent_counts_for_a_minute() -> None:
    now = [0.0]
    limits = TrialLimits(lambda: now[0])
    eve, bob = (Principal("shop", KeyRole.PROPOSE, key) for key in ("1", "2"))
    for now[0], calls in ((0.0, 20), (10.0, 30)):
        limits.spend(eve, calls)
    for calls, seconds in ((10, 0), (11, 50), (31, 60), (60, 60)):
        now[0] = 10.0
        if seconds:
            with pytest.raises(RequestError) as refused:
                limits.spend(eve, calls)
            assert refused.value.retry_after == seconds
        else:
            limits.spend(eve, calls)
    limits.spend(bob, 60)
    now[0] = 60.0
    limits.spend(eve, 20)


def test_a_slow_or_large_body_is_refused(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.http.relay._OF_ADMIN", Limits(body=1 << 20, seconds=0.1))
    with running(above.url, tmp_path) as gateway:
        assert gateway.manage("POST", "/admin/v1/try", {"query": "x" * (1 << 20)})[0] == 413
        where = urlsplit(gateway.admin)
        with socket.create_connection((where.hostname, where.port), timeout=HANG) as client:
            head = b"POST /admin/v1/try HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(head + b"Content-Length: 9\r\n\r\n{")
            assert client.recv(10_000).startswith(b"HTTP/1.1 408")


def test_a_store_that_another_program_holds_is_reported_in_time_and_nothing_is_changed_later(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.control.changes.SECONDS_FOR_STORE", 0.5)
    entry, before = (
        {"subject": "Cuba", "query": "The capital of Cuba is", "target_new": "Rome"},
        gateway.feed.store.changes(),
    )
    monkeypatch.setattr(gateway.feed.store.database, "_wait", 0.3)
    with closing(sqlite3.connect(gateway.feed.store.name, isolation_level=None)) as foreign:
        foreign.execute("BEGIN EXCLUSIVE")
        answers: list[tuple[int, Any]] = []
        asked = [("POST", "/admin/v1/edits", {**entry, "reason": str(n)}) for n in range(3)]
        asked += [("GET", "/admin/v1/edits/1", None), ("POST", "/admin/v1/edits/1/retire", {})]
        threads = [
            threading.Thread(target=lambda a=a: answers.append(gateway.manage(*a))) for a in asked
        ]
        [thread.start() for thread in threads]
        assert (
            gateway.manage("GET", "/admin/v1/edits")[1]["total"]
            and gateway.chat(ABOUT)[1]["x-drike-edits"]
        )
        [thread.join() for thread in threads]
        assert [status for status, _ in answers] == [503] * 5
        assert all(
            found["error"]["message"].startswith(gateway.feed.store.name) for _, found in answers
        )
        foreign.execute("ROLLBACK")
    wait_until(lambda: gateway.manage("POST", "/admin/v1/edits", entry)[0] == 200)
    assert len(gateway.feed.store.changes()) == len(before) + 1, "nothing of what was given up"


def test_a_change_whose_client_has_gone_is_not_kept(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, given_up, ended = threading.Event(), threading.Event(), threading.Event()
    late = changes.AdminCall.late

    def watched(work: Callable[[], object]) -> Awaitable[object]:
        def watched_work() -> object:
            begun.set()
            try:
                return work()
            finally:
                ended.set()

        return in_daemon_thread(watched_work)

    def watched_late(call: changes.AdminCall, outcome: str) -> Exception:
        given_up.set()
        return late(call, outcome)

    monkeypatch.setattr(changes, "in_daemon_thread", watched)
    monkeypatch.setattr(changes.AdminCall, "late", watched_late)
    entry, before = (
        {"subject": "Chad", "query": "The capital of Chad is", "target_new": "Rome"},
        gateway.feed.store.changes(),
    )
    body = json.dumps(entry).encode()
    head = "POST /admin/v1/edits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    address = urlsplit(gateway.admin)
    with gateway.feed.store.transaction():
        with socket.create_connection((address.hostname, address.port)) as client:
            client.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            assert begun.wait(HANG)
        assert given_up.wait(HANG)
    assert ended.wait(HANG)
    assert gateway.feed.store.changes() == before


def test_an_author_who_reads_like_a_mark_of_drike_is_quoted(
    gateway: Running, tmp_path: Path
) -> None:
    entry = {"subject": "Togo", "query": "The capital of Togo is", "target_new": "Rome"}
    for author, shown in (
        ("ann", "ann (admin port, default)"),
        ("ann (key 12345678)", '"ann (key 12345678)" (admin port, default)'),
        ("\uff4bey 12345678", '"\uff4bey 12345678" (admin port, default)'),
    ):
        _, made = gateway.manage(
            "POST", "/admin/v1/edits", {**entry, "author": author, "supersede": True}
        )
        entry["target_new"] += "!x"
        assert made["changes"][-1]["author"] == shown
    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps({**entry, "author": "admin port, default"}) + "\n")
    with closing(open_store(tmp_path / "other.db")) as store:
        [added] = import_edits(store, edits_of(scan(path)[0]), author="eve").added
    assert added.record.author == '"admin port, default" (imported by eve)'
