"""Answers that are made to be judged slowly hold up neither health, other tenants nor the end of a gateway."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drike.answers.statements import stated
from drike.answers.time_limit import OverTimeError, TimeLimit
from drike.edits.record import EditRecord
from drike.gateway.answers import LONGEST_TEXT, PassingAnswer
from drike.gateway.calls import Reply
from drike.gateway.edited import EditedRequest
from drike.gateway.metrics import Metrics
from drike.gateway.options import Mode
from drike.gateway.watch import Watch
from drike.stores.edit_store import EditStore
from drike.stores.opening import open_store
from drike.stores.traffic import TrafficCounts
from tests.fakes.api_answers import whole
from tests.fakes.gateways import running
from tests.fakes.upstreams import completed, upstream
from tests.fakes.waiting import HANG
from tests.gateway.test_watching import of_edit

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
HOSTILE = "it is not Lima or Oslo, nor 1 " * 2_184  # 64 kB in which all is denied


async def nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def said(text: str) -> PassingAnswer:
    answer = PassingAnswer(Reply(200, [(b"content-type", b"application/json")], nothing()))
    answer.take(whole("chat", text))
    answer.complete = True
    return answer


def watch_of(store: EditStore) -> tuple[Watch, EditedRequest]:
    request = EditedRequest(b"", "fired", Mode.ON, asked=tuple(store.put(PERU)))
    return Watch(lambda: datetime.now(UTC)), request


def counted(store: EditStore) -> dict[str, int]:
    return of_edit(TrafficCounts(store.database).since(datetime.now(UTC).date()))


def slow(seconds: float) -> object:
    """A reader that takes so long for each answer, and looks at its limit meanwhile."""

    def states(record: EditRecord, answer: str, question: str = "", limit: object = None) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.001)
            if isinstance(limit, TimeLimit):
                limit.check()
        return "new"

    return states


def test_an_answer_that_takes_longer_than_its_budget_is_not_judged() -> None:
    with pytest.raises(OverTimeError):
        stated("not Lima " * 9, ["Oslo"], ["Lima"], limit=TimeLimit(-1))
    with pytest.raises(OverTimeError):
        stated("not Lima " * 9, ["Oslo"], ["Lima"], limit=TimeLimit(99, lambda: True))
    assert stated("not Lima " * 9, ["Oslo"], ["Lima"], limit=TimeLimit(99)) == "neither"


def test_it_counts_as_unread_and_the_next_one_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "edits.db")
    watch, request = watch_of(store)
    monkeypatch.setattr("drike.gateway.watch._SECONDS_OF_ANSWER", -1)
    watch.note(request, said("It is Oslo."), Metrics())
    watch.judge()
    monkeypatch.setattr("drike.gateway.watch._SECONDS_OF_ANSWER", 99)
    watch.note(request, said("It is Oslo."), Metrics())
    watch.flush(store)
    assert counted(store) == {"matched": 2, "unread": 1, "new": 1}
    store.close()


def test_judging_goes_on_later_and_at_the_end_the_rest_is_counted_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "edits.db")
    watch, request = watch_of(store)
    monkeypatch.setattr(EditRecord, "states", slow(0.02))
    for _ in range(40):
        watch.note(request, said("It is Oslo."), Metrics())
    watch.flush(store, 0.05)
    judged = counted(store)["new"]
    assert 1 <= judged < 10 and watch.waiting == 40 - judged
    watch.end(0.05)
    watch.flush(store)
    now = counted(store)
    assert now["matched"] == 40 == now["new"] + now["unread"] and judged < now["new"] < 20
    store.close()


def test_an_answer_that_is_judged_as_the_process_ends_holds_it_up_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "edits.db")
    watch, request = watch_of(store)
    monkeypatch.setattr(EditRecord, "states", slow(60))
    watch.note(request, said("It is Oslo."), Metrics())
    judging = threading.Thread(target=watch.judge)
    judging.start()
    while watch.waiting:
        time.sleep(0.001)
    watch.end(0)
    watch.flush(store)
    judging.join(5)
    assert not judging.is_alive() and counted(store) == {"matched": 1, "unread": 1}
    store.close()


def test_an_answer_to_a_trial_is_bounded(tmp_path: Path) -> None:
    long = json.dumps(completed("Oslo " * LONGEST_TEXT)).encode()
    said = lambda handler, call: handler.reply(200, long, Content_Type="application/json")  # noqa: E731
    with upstream(said) as above, running(above.url, tmp_path, PERU) as gateway:
        status, answer = gateway.manage("POST", "/admin/v1/edits/1/verify", {})
        assert status == 502 and "which is not judged" in json.dumps(answer)


@pytest.mark.slow
def test_a_hundred_hostile_answers_hold_up_neither_health_nor_the_end(tmp_path: Path) -> None:
    with running("http://127.0.0.1:9/v1", tmp_path, PERU) as gateway:
        feed = gateway.feed
        [edit] = feed.index.edits.values()
        request = EditedRequest(b"", "fired", Mode.ON, asked=(edit,))
        for _ in range(120):
            feed.watch.note(request, said(HOSTILE), Metrics())
        began = time.monotonic()
        status, health = gateway.manage("GET", "/admin/v1/health")
        seconds = time.monotonic() - began
        assert status == 200 and seconds < HANG / 2 and "not judged yet" in health["problem"]
        began = time.monotonic()
    assert time.monotonic() - began < HANG / 2  # all of them take a minute
    store = open_store(tmp_path / "edits.db")
    assert counted(store)["matched"] == 120
    store.close()
