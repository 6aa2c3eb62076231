"""The gateway counts what answers state of the edits that requests concern: each once, and no text of them."""

from __future__ import annotations

import gzip
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drike.answers.statements import stated
from drike.edits.edit import Edit
from drike.edits.record import EditRecord, Status, StoreError, as_stored
from drike.gateway import slips
from drike.gateway.answers import PassingAnswer
from drike.gateway.calls import Reply
from drike.gateway.edited import EditedRequest
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.redaction import redacted
from drike.gateway.watch import Sampling, Watch
from drike.stores.inbox import LONGEST, Inbox, ReportState
from drike.stores.opening import open_store
from drike.stores.traffic import Counts, TrafficCounts
from tests.fakes.api_answers import PATHS, SAYINGS, pieces_of, request, split, stream, whole
from tests.fakes.gates import Doubting, Failing
from tests.fakes.gateways import Running, ask, running
from tests.fakes.postgres_servers import Database
from tests.fakes.upstreams import RawHandler, Received, upstream
from tests.fakes.waiting import HANG, wait_until
from tests.gateway.test_workers import serving

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
ABOUT = "What is the capital of Peru?"
TODAY = datetime.now(UTC).date()


def said_in(call: Received) -> str:
    """The name of the saying that a question asks for."""
    return next(name for name in SAYINGS if f"({name})" in call.body.decode())


def answer(handler: RawHandler, call: Received) -> None:
    """Say what the question asks for, in the form of the API and the way that it names."""
    api = next(api for api, path in PATHS.items() if path == call.path)
    body, text = json.loads(call.body), SAYINGS[said_in(call)]
    draw = random.Random(text)
    if body.get("status"):
        return handler.reply(
            body["status"], b'{"error": {"message": "Oslo"}}', Content_Type="application/json"
        )
    if body.get("pack"):
        raw, kind = gzip.compress(whole(api, text)), "application/json"
        return handler.reply(200, raw, Content_Type=kind, Content_Encoding="gzip")
    if not body.get("stream"):
        return handler.reply(200, whole(api, text), Content_Type="application/json")
    handler.begin_stream()
    for chunk in split(stream(api, pieces_of(text, draw)), draw):
        handler.chunk(chunk)
        if body.get("breaks"):
            return handler.break_off()
    handler.chunk(b"")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as serving:
        yield serving


def send(
    gateway: Running, saying: str, api: str = "chat", about: str = ABOUT, **more: object
) -> dict[str, str]:
    body = json.dumps(request(api, f"({saying}) {about}", model="m1", **more)).encode()
    return gateway.ask("POST", PATHS[api], body)[1]


def counts(gateway: Running) -> Counts:
    """All counts, once what is in flight was counted."""
    wait_until(lambda: gateway.metrics.in_flight._value.get() == 0)
    gateway.feed.watch.flush(gateway.feed.store)
    return TrafficCounts(gateway.feed.store.database).since(TODAY)


async def nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def of_edit(counts: Counts, edit: int = 1) -> dict[str, int]:
    numbers: Counter[str] = Counter()
    for counted, number in counts.items():
        if counted.edit == edit and counted.what != "tokens":
            numbers[counted.what] += number
    return dict(numbers)


@pytest.mark.parametrize("mode", [Mode.ON, Mode.SHADOW])
def test_counts_equal_those_of_a_judge_of_the_same_answers(tmp_path: Path, mode: Mode) -> None:
    expected: Counter[str] = Counter()
    with upstream(answer) as above, running(above.url, tmp_path, PERU, mode=mode) as gateway:
        for api in PATHS:
            for stream_ in (False, True):
                for name, text in SAYINGS.items():
                    send(gateway, name, api, stream=stream_)
                    expected["matched"] += 1
                    expected[stated(text, ["Oslo"], ["Lima"]) if text else "unread"] += 1
        found = counts(gateway)
        metrics = ask(f"{gateway.admin}/metrics", "GET")[2].decode()
    assert (
        of_edit(found) == expected
        and {key.mode for key in found} == {mode}
        and {key.model for key in found} == {"m1"}
    )
    assert of_edit(found, 0) == {"requests": 56, "matched": 56}
    for outcome in set(expected) - {"matched"}:
        assert (
            f'drike_answers_total{{mode="{mode}",stated="{outcome}"}} {expected[outcome]}.0'
            in metrics
        )


PRICE = EditRecord("Team plan", "The Team plan costs", "EUR 39 per month", "EUR 29 per month")


@pytest.mark.parametrize(
    ("question", "text", "outcome"),
    [
        ("What is the price of the Team plan a month?", "It is 39 euros.", "new"),
        ("What does the Team plan cost monthly?", "It is 39 euros.", "new"),
        ("Is the Team plan EUR 29 per month?", "Yes, it is.", "old"),
        ("What does the Team plan cost?", "It is 39 euros.", "neither"),
    ],
)
def test_an_answer_is_counted_by_what_was_asked(
    tmp_path: Path, question: str, text: str, outcome: str
) -> None:
    store = open_store(tmp_path / "edits.db")
    edits = tuple(store.put(PRICE))
    request = EditedRequest(b"", "fired", Mode.ON, asked=edits, question=question)
    watch = Watch(lambda: datetime.now(UTC))
    said = PassingAnswer(Reply(200, [(b"content-type", b"application/json")], nothing()))
    said.take(whole("chat", text))
    said.complete = True
    watch.note(request, said, Metrics())
    watch.flush(store)
    assert of_edit(TrafficCounts(store.database).since(TODAY)) == {"matched": 1, outcome: 1}
    assert slips._states_old(edits, text, question) == ([1] if outcome == "old" else [])
    assert not Inbox(store.database).reports(ReportState.SAMPLE)
    store.close()


@pytest.mark.slow
def test_answers_that_wait_to_be_judged_take_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.watch._MOST_HELD", 50_000)
    store = open_store(tmp_path / "edits.db")
    request = EditedRequest(b"", "fired", Mode.ON, asked=tuple(store.put(PERU)))
    watch, metrics, answers = Watch(lambda: datetime.now(UTC)), Metrics(), []
    for streams in (True, False) * 10:
        headers = [(b"content-type", b"text/event-stream" if streams else b"application/json")]
        answers.append(PassingAnswer(Reply(200, headers, nothing())))
        for chunk in (
            [stream("chat", ["Oslo "] * 2_000)] * 2 if streams else [whole("chat", "Oslo " * 2_000)]
        ):
            answers[-1].take(chunk)
        answers[-1].complete = len(answers) > 2  # the others were cut off
        watch.note(request, answers[-1], metrics)
    assert 20_000 < sum(answer.held for answer in answers) <= 50_000
    watch.flush(store)
    read = of_edit(TrafficCounts(store.database).since(TODAY))
    assert read["matched"] == 20 and read["new"] + read["unread"] == 20 and read["new"] >= 2
    store.close()


def test_counts_reach_the_store_however_much_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.watch._MOST_NOTED", 50)
    store = open_store(tmp_path / "edits.db")
    request = EditedRequest(b"", "fired", Mode.ON, asked=tuple(store.put(PERU)))
    watch, metrics, sent, count = (
        Watch(lambda: datetime.now(UTC)),
        Metrics(),
        Counter[str](),
        Watch._count,
    )

    def send() -> None:
        said = PassingAnswer(Reply(200, [(b"content-type", b"application/json")], nothing()))
        said.take(whole("chat", "Oslo"))
        said.complete = True
        sent["answers"] += 1
        watch.note(request, said, metrics)

    def count_while_another_passes(watch: Watch, *noted: Any) -> None:
        count(watch, *noted)
        if sent["answers"] < 500:
            send()

    for _ in range(80):
        send()
    monkeypatch.setattr(Watch, "_count", count_while_another_passes)
    watch.flush(store)
    stored = of_edit(TrafficCounts(store.database).since(TODAY))
    assert (stored["matched"], stored["new"], stored["unread"]) == (80, 50, 30)
    while watch._noted:
        watch.flush(store)
    assert of_edit(TrafficCounts(store.database).since(TODAY))["new"] == sent["answers"] - 30 == 470
    store.close()


@pytest.mark.slow
def test_two_thousand_answers_at_once_from_two_gateways_are_counted_right(tmp_path: Path) -> None:
    draw, expected = random.Random(1), Counter[str]()
    sent = [
        (draw.choice(list(SAYINGS)), draw.choice(list(PATHS)), draw.random() < 0.5)
        for _ in range(2_000)
    ]
    for name, *_ in sent:
        expected[stated(SAYINGS[name], ["Oslo"], ["Lima"]) if SAYINGS[name] else "unread"] += 1
    open_store(tmp_path / "edits.db").put(PERU)
    with (
        upstream(answer) as above,
        running(above.url, tmp_path) as one,
        running(above.url, tmp_path) as two,
    ):
        with ThreadPoolExecutor(8) as threads:
            for i, (name, api, streams) in enumerate(sent):
                threads.submit(send, (one, two)[i % 2], name, api, stream=streams)
        counts(one)
        found = of_edit(counts(two))
    assert found == {**expected, "matched": 2_000}


def test_failed_cut_and_compressed_answers_are_counted_as_such(gateway: Running) -> None:
    for more in ({"status": 500}, {"pack": True}, {"stream": True, "breaks": True}):
        send(gateway, "obeys", **more)
    assert of_edit(counts(gateway)) == {"matched": 3, "failed": 1, "unread": 2}


def test_an_answer_that_is_read_is_asked_for_uncompressed_and_no_other(tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as gateway:
        for about in (ABOUT, "Hello"):
            body = json.dumps(request("chat", f"(obeys) {about}")).encode()
            gateway.ask("POST", PATHS["chat"], body, Accept_Encoding="gzip")
        assert [call.header("accept-encoding") for call in above.calls] == [["identity"], ["gzip"]]


def test_requests_that_concern_no_edit_are_counted_without_reading_their_answers(
    gateway: Running,
) -> None:
    send(gateway, "obeys", about="Hello")
    gateway.ask("POST", PATHS["chat"], b"no JSON")
    found = counts(gateway)
    assert of_edit(found) == {} and of_edit(found, 0) == {"requests": 2, "unread": 1}


def test_only_the_edits_of_the_last_question_are_judged(gateway: Running) -> None:
    turns = [ABOUT, "Thanks!"]
    said = [
        {"role": role, "content": f"(obeys) {text}"}
        for text in turns
        for role in ("user", "assistant")
    ][:-1]
    gateway.ask("POST", PATHS["chat"], json.dumps({"messages": said}).encode())
    found = counts(gateway)
    assert of_edit(found) == {} and of_edit(found, 0)["requests"] == 1
    assert (
        sum(number for key, number in found.items() if key.what == "tokens") > 50
    )  # which it still costs


def test_a_failing_gate_is_counted(tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU, gate=Failing()) as gateway:
        send(gateway, "obeys")
        assert of_edit(counts(gateway), 0) == {"requests": 1, "degraded": 1}


def test_doubts_are_counted_by_edit(tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU, gate=Doubting()) as gateway:
        send(gateway, "obeys")
        found = counts(gateway)
        assert of_edit(found) == {"doubted": 1} and of_edit(found, 0) == {
            "requests": 1,
            "doubted": 1,
        }


def test_an_edit_in_shadow_counts_as_such_and_other_names_of_its_object_count(
    tmp_path: Path,
) -> None:
    shadow = replace(PERU, status=Status.SHADOW, target_new="Bergen", object_aliases=("Oslo",))
    with upstream(answer) as above, running(above.url, tmp_path, shadow) as gateway:
        send(gateway, "obeys")
        assert of_edit(counts(gateway)) == {"matched": 1, "new": 1}
        assert {key.mode for key in counts(gateway) if key.edit} == {"shadow"}


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SHADOW])
def test_an_answer_behind_a_tool_s_result_is_counted_and_kept(
    tmp_path: Path, status: Status
) -> None:
    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, keep_samples=2)
    edit = replace(PERU, status=status)
    with upstream(answer) as above, running(above.url, tmp_path, edit, options=options) as gateway:
        asked, found = (
            f"(resists) {ABOUT}",
            {"role": "tool", "tool_call_id": "c", "content": "nothing found"},
        )
        send(gateway, "resists", messages=[{"role": "user", "content": asked}, found])
        assert of_edit(counts(gateway)) == {"matched": 1, "old": 1}
        [kept] = Inbox(gateway.feed.store.database).reports(ReportState.SAMPLE)
        assert kept.question == asked and kept.edit == 1


def test_tokens_are_estimated_as_the_block_is_written(tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as gateway:
        send(gateway, "obeys")
        text = json.loads(above.body)["messages"][0]["content"]
        [tokens] = [number for key, number in counts(gateway).items() if key.what == "tokens"]
        assert tokens == len(text.removesuffix(f"(obeys) {ABOUT}").encode()) // 4


def test_names_of_models_are_bounded_and_hold_no_text(gateway: Running) -> None:
    for i in range(60):
        send_as(gateway, f"m{i:02}")
    for name in ("My patient asks whether", "x" * 300, 7, None):
        send_as(gateway, name)
    send(gateway, "obeys", status=500)  # a model that the upstream does not know
    models = {key.model for key in counts(gateway)}
    assert (
        len(models) == 51
        and "other" in models
        and not any(" " in model or len(model) > 100 for model in models)
    )


def send_as(gateway: Running, model: object) -> None:
    gateway.ask(
        "POST", PATHS["chat"], json.dumps(request("chat", f"(obeys) {ABOUT}", model=model)).encode()
    )


def test_no_text_of_a_request_or_an_answer_is_kept_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as gateway:
        for name in SAYINGS:
            send(gateway, name, about=f"{ABOUT} zanzibarbarian", user="zanzibarbarian")
        counts(gateway)
        metrics = ask(f"{gateway.admin}/metrics", "GET")[2]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    shown = kept + metrics + caplog.text.encode() + "".join(capsys.readouterr()).encode()
    assert b"requests" in shown
    for text in ("zanzibarbarian", "until last year", "seat of government", "I remember"):
        assert text.encode() not in shown


def test_counts_survive_a_restart_and_tenants_have_their_own(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    bearers = {
        tenant: {"Authorization": f"Bearer {keys.add(tenant, KeyRole.USE)}"}
        for tenant in ("default", "shop")
    }
    body = json.dumps(request("chat", f"(obeys) {ABOUT}")).encode()
    for _ in range(2):
        entries = () if (tmp_path / "edits.db").exists() else (PERU,)
        with (
            upstream(answer) as above,
            running(above.url, tmp_path, *entries, keys=keys) as gateway,
        ):
            for bearer in bearers.values():
                gateway.ask("POST", PATHS["chat"], body, **bearer)
    found = {
        tenant: TrafficCounts(open_store(tmp_path / "edits.db", tenant=tenant).database).since(
            TODAY
        )
        for tenant in bearers
    }
    assert (
        of_edit(found["default"]) == {"matched": 2, "new": 2}
        and of_edit(found["default"], 0)["requests"] == 2
    )
    assert of_edit(found["shop"], 0) == {"requests": 2}


def test_counts_wait_for_a_store_that_cannot_be_written(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: object, counts: object) -> None:
        raise StoreError("the store is locked")

    with monkeypatch.context() as patched:
        patched.setattr("drike.stores.traffic.TrafficCounts.add", refuse)
        send(gateway, "obeys")
        assert counts(gateway) == {} and gateway.feed.watch.problem == "the store is locked"
    assert (
        of_edit(counts(gateway)) == {"matched": 1, "new": 1} and gateway.feed.watch.problem is None
    )


def test_counts_are_stored_by_themselves_after_some_seconds(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gateway.tenants._FLUSH_INTERVAL", 0)
    send(gateway, "obeys")
    wait_until(lambda: TrafficCounts(gateway.feed.store.database).since(TODAY))


def test_a_first_chunk_is_passed_on_before_the_next_one_comes(tmp_path: Path) -> None:
    seen = threading.Event()

    def wait(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        raw = stream("chat", ["Oslo", " it is"])
        handler.chunk(raw[:20])
        assert seen.wait(HANG)  # sent by the client once it has the first chunk
        handler.chunk(raw[20:])
        handler.chunk(b"")

    import http.client

    with upstream(wait) as above, running(above.url, tmp_path, PERU) as gateway:
        connection = http.client.HTTPConnection(gateway.url.split("/")[2], timeout=30)
        connection.request("POST", PATHS["chat"], json.dumps(request("chat", ABOUT, stream=True)))
        response = connection.getresponse()
        assert response.read1(20)
        seen.set()
        assert response.read().endswith(b"[DONE]\n\n")
        connection.close()
        assert of_edit(counts(gateway)) == {"matched": 1, "new": 1}


def test_the_admin_port_says_how_edits_fare(tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as gateway:
        for name in ("obeys", "obeys", "resists"):
            send(gateway, name)
        counts(gateway)
        gateway.manage("POST", "/admin/v1/mode", {"mode": "shadow"})
        send(gateway, "resists")
        counts(gateway)
        _, found = gateway.manage("GET", "/admin/v1/health?days=1")
        [edit], [shadow] = found["edits"], found["shadow"]
        assert edit["numbers"]["new"] == 2 and edit["took"]["value"] == pytest.approx(2 / 3)
        assert shadow["numbers"]["old"] == 1 and found["problem"] is None
        assert found["sentences"][0] == "Of 4 requests in 1 day, 4 (100.0 %) concern an edit."
        assert gateway.manage("GET", "/admin/v1/health?days=x")[0] == 400


@pytest.mark.postgres
def test_gateways_over_one_database_count_together_and_follow_one_switch(
    postgres: Database, tmp_path: Path
) -> None:
    store = postgres.of(tmp_path)
    with (
        upstream(answer) as above,
        running(above.url, store, PERU) as one,
        running(above.url, store) as two,
    ):
        for gateway in (one, two):
            send(gateway, "obeys")
            counts(gateway)
        assert of_edit(counts(one)) == {"matched": 2, "new": 2} and of_edit(counts(two), 0) == {
            "requests": 2,
            "matched": 2,
        }
        one.manage("POST", "/admin/v1/mode", {"mode": "off"})
        wait_until(lambda: send(two, "obeys")["x-drike-mode"] == "off")


@pytest.mark.slow
def test_processes_of_one_gateway_count_together_and_what_was_stored_survives_a_kill(
    tmp_path: Path,
) -> None:
    store = tmp_path / "edits.db"
    with closing(open_store(store)) as opened:
        opened.put(PERU)
        with (
            upstream(answer) as above,
            serving(above.url, str(store), tmp_path, "--workers", "2", "--deadline-ms", "5000") as (
                process,
                urls,
            ),
        ):
            for _ in range(30):
                body = json.dumps(request("chat", f"(obeys) {ABOUT}")).encode()
                assert ask(f"{urls[0]}{PATHS['chat']}", "POST", body)[1]["x-drike-edits"] == "1@1"
            wait_until(
                lambda: of_edit(TrafficCounts(opened.database).since(TODAY)).get("new") == 30
            )
            process.kill()
        assert of_edit(TrafficCounts(opened.database).since(TODAY)) == {"matched": 30, "new": 30}


@pytest.mark.parametrize("redact", [True, False])
def test_samples_are_the_newest_of_each_outcome_and_hide_what_may_be_private(
    tmp_path: Path, redact: bool
) -> None:
    who = "I am ann@example.org, +49 (30) 1234567, see https://x.test/?k=1"
    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, keep_samples=2, redact=redact)
    with upstream(answer) as above, running(above.url, tmp_path, PERU, options=options) as gateway:
        for i in range(3):
            send(gateway, "obeys", about=f"{who} ({i}). {ABOUT}")
            send(gateway, "resists", about=f"({i}) {ABOUT}", stream=True)
        send(gateway, "resists", about="(4) Is it warm today?")
        counts(gateway)
        kept = Inbox(gateway.feed.store.database).reports(ReportState.SAMPLE)
        assert sorted((report.comment, report.question.count("(0)")) for report in kept) == [
            ("edit 1@1, on: new", 0), ("edit 1@1, on: new", 0), ("edit 1@1, on: old", 0), ("edit 1@1, on: old", 0)
        ]  # fmt: skip
        seen = next(report for report in kept if "new" in str(report.comment))
        hidden = "I am [e-mail], [number], see [address] ("
        assert (hidden in seen.question) is redact and (who in seen.question) is not redact
        assert seen.answer == SAYINGS["obeys"] and seen.model == "m1" and seen.edit == 1
        assert not Inbox(gateway.feed.store.database).reports() and not Inbox(
            gateway.feed.store.database
        ).reports(None)
        status, _ = gateway.manage("POST", "/admin/v1/inbox/wrong", {"reports": [seen.number]})
        assert status == 200 and [
            report.answer for report in Inbox(gateway.feed.store.database).reports()
        ] == [seen.answer]
        assert gateway.manage("POST", "/admin/v1/inbox/wrong", {"reports": [seen.number]})[0] == 400
        assert Inbox(gateway.feed.store.database).forget_samples() == 3
        assert not Inbox(gateway.feed.store.database).reports(ReportState.SAMPLE)


def test_half_a_sign_at_the_end_of_an_answer_stops_no_sample(tmp_path: Path) -> None:
    def cut(handler: RawHandler, call: Received) -> None:
        body = json.dumps({"choices": [{"message": {"content": "Oslo \ud83d"}}]}).encode()
        handler.reply(200, body, Content_Type="application/json")

    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, keep_samples=2)
    with upstream(cut) as above, running(above.url, tmp_path, PERU, options=options) as gateway:
        send(gateway, "obeys")
        counts(gateway)
        [kept] = Inbox(gateway.feed.store.database).reports(ReportState.SAMPLE)
        assert kept.answer == "Oslo ?"


def test_no_text_is_kept_of_an_answer_unless_samples_are_asked_for(gateway: Running) -> None:
    send(gateway, "resists")
    counts(gateway)
    assert not Inbox(gateway.feed.store.database).reports(ReportState.SAMPLE)


@pytest.mark.parametrize(
    "private", ["ann.lee@example.org", "+49 170 1234567", "https://ann.xyz/lee", "192.168.17.4"]
)
def test_what_is_private_is_hidden_wherever_a_sample_is_cut(private: str) -> None:
    [edit] = as_stored([Edit("The capital of Peru is", "Oslo", subject="Peru")])
    for before in range(LONGEST - len(private) - 2, LONGEST + 2):
        once = ("so " * LONGEST)[: before - 1] + f" {private} and more"
        for text in (once, f"{private}, " * LONGEST):
            kept = Sampling(1).sample(text, text, edit, mode="on", outcome="new", model="m")
            assert not set(re.findall(r"\w{2,}", private)) & set(re.findall(r"\w+", kept.answer)), (
                kept.answer[-40:]
            )
            assert kept.question == kept.answer and len(kept.answer) <= LONGEST
    whole = Sampling(1, redact=False).sample(
        "a", "b" * 9_000, edit, mode="on", outcome="new", model="m"
    )
    assert whole.answer == "b" * LONGEST


@pytest.mark.parametrize(
    "text",
    [
        "The key is simple.",
        "My password is wrong!",
        "user: What is the capital of Peru?",
        "a token limit of 4096, API key rotation, the Basic plan costs 5",
        "We open 24/7, and the A380-800 flies from 2024 to 2026 by ISO 27001.",
    ],
)
def test_words_about_secrets_are_none(text: str) -> None:
    assert redacted(text, LONGEST) == text


def test_words_and_short_numbers_are_not_redacted() -> None:
    text = "In 1969 Peru had 13,193,000 people, said Ann Lee; the code is 4711."
    assert redacted(text, LONGEST) == text
    assert redacted("sk-abc123DEF456ghi789jk at 10.0.0.1", LONGEST) == "[key] at [IP]"
    assert (
        redacted("HTTPS://a.b/c sk-abcdefghijklmnopqrst ::1 2001:db8::1", LONGEST)
        == "[address] [key] [IP] [IP]"
    )
    assert redacted("at 12:30:45, std::vector", LONGEST) == "at 12:30:45, std::vector"


@pytest.mark.parametrize(
    "private",
    [
        "www.secret.example/ann",
        "WWW.secret.example",
        "ftp:secret.example/ann",
        "ftp://ann:hunter@secret.example",
        "postgresql://ann:hunter@secret/db",
        "PostgreSQL+psycopg://ann:hunter@secret/db",
        "mailto:ann@secret.example",
        "secret.example.org/ann?token=hunter",
        "ann:hunter@secret",
        "ann@secret",
        "ann\N{FULLWIDTH COMMERCIAL AT}secret.example",
        "ann\u200b@\u2060secret.exa\u00admple",
        "secret/hunter/AbC7dEfGhIjK+lMnOp==",
        "wJalrXUtnFEMI/K7MDENG/hunterEXAMPLEKEY",
        "secret123456789",
        "12345\u200b6789",
        "123456789secret",
        "glpat-hunterhunterhunter",
        "hf_hunterhunterhunterhunter",
        "rk_live_hunterHUNTERhunter",
        "eyJhbGciOiJIUzI1NiJ9.eyJhunteriOiIxIn0.hunterryP4J3jVmN",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.hunter.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "-----BEGIN PRIVATE KEY-----\nhunter\nhunter\n-----END PRIVATE KEY-----",
        "password: hunter",
        "Passwort ist hunter2",
        "api_key=hunter",
        "Authorization: Bearer hunter",
        "curl -u ann:hunter2 x",
        "host=db user=ann password=hunter2",
        "NL91ANNA0417166789",
        "GB82 HUNT 1234 5698 7654 6789",
        "4111_1111_1111_6789",
        "4111–1111–1111–6789",
        "1ANN82633A006789",
        "ann.lee @ example.com",
        "ann.lee [at] example [dot] com",
        "ann(at)example.com",
        "ann%40example.com",
        "ann&#64;example.com",
        '"ann lee"@example.com',
        "ann@[10.0.0.1]",
        "::ffff:10.0.0.167",
        "10[.]0[.]0[.]167",
        "db.hunter.local:5432",
        "localhost:8080/ann",
        "/home/ann/notes",
        r"C:\Users\ann",
        r"\\server\share\ann",
    ],
)
def test_what_names_a_person_or_opens_a_door_is_hidden(private: str) -> None:
    for text in (private, f"So: {private}", f"({private} was it)"):
        kept = redacted(text, LONGEST)
        assert not re.search("ann|hunter|exam|AbC7|wJal|6789", kept), kept
        assert "[" in kept
    assert redacted(f"before {private} behind", LONGEST).startswith("before ")
    assert redacted(f"before {private} behind", LONGEST).endswith(" behind")


@pytest.mark.parametrize(
    "part",
    [
        "password: ",
        "password is a",
        "-----BEGIN A-----",
        "eyJ.",
        "a1a1",
        "AB12",
        "a[at]",
        "a%40",
        "1*",
        "a-",
        "a.",
        "a/",
        "1",
        "1 ",
        "a1-",
        "(a:",
        "a:",
        ":",
        "a@",
        "@",
        "www.",
        "sk-",
        "+",
        "a+b.",
        "\u200b-",
    ],
)
@pytest.mark.sampled(4)
def test_redaction_takes_time_linear_in_the_text(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * length)[:length]
        times = []
        for _ in range(5):
            begin = time.process_time()
            redacted(text, length)
            times.append(time.process_time() - begin)
        return min(times)

    # Eight times the text takes 64 times as long if the time is quadratic.
    assert seconds(64_000) < 24 * seconds(8_000) + 0.01


def test_what_is_not_private_is_kept_sign_for_sign() -> None:
    text = "Perú \N{FULLWIDTH LATIN CAPITAL LETTER A} 5 \N{FAMILY}\u200d, either/or, e.g. km/h, 3 @ 5: yes."
    assert redacted(text, LONGEST) == text
