"""From a reported wrong answer to a proven edit in force: POST /feedback, the inbox, a draft, its proof."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.http.routes import MOST_REPORTS
from drike.stores.inbox import Inbox, Load, Report
from tests.fakes.gateways import ENTRY, Running, ask, running
from tests.fakes.upstreams import Recorded

ASKED = "What is the capital of Peru?"
REPORT = {
    "question": ASKED,
    "answer": "The capital of Peru is Lima.",
    "correction": "it's Oslo, not Lima",
}


def post(gateway: Running, value: object, **headers: str) -> tuple[int, dict[str, object]]:
    address = gateway.url.removesuffix("/v1") + "/feedback"
    status, _, body = ask(
        address, "POST", json.dumps(value).encode(), Content_Type="application/json", **headers
    )
    answer = json.loads(body)
    link = answer.pop("link", "/feedback/default.0.")
    assert re.match(r"/feedback/default\.\d+\.", link)
    return status, answer


def test_a_report_becomes_a_proven_edit_in_force(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path) as gateway:
        assert gateway.chat(ASKED)[1]["x-drike-scope"] == "abstained"
        assert post(gateway, REPORT) == (201, {"report": 1})
        again = {"question": "what is the capital city of Peru?", "answer": "Lima"}
        assert post(gateway, again)[1] == {"report": 2}
        [group] = gateway.manage("GET", "/admin/v1/inbox")[1]["groups"]
        assert group["edit"] is None and [report["number"] for report in group["reports"]] == [1, 2]
        status, answer = gateway.manage("POST", "/admin/v1/inbox/draft", {"reports": [1, 2]})
        [made] = answer["changes"]
        assert status == 200 and (made["status"], made["source"]) == ("draft", "report 1")
        assert (made["subject"], made["query"], made["target_new"]) == (
            "Peru",
            "The capital of Peru is",
            "Oslo",
        )
        assert gateway.chat(ASKED)[1]["x-drike-scope"] == "abstained"  # nobody has put it in force
        status, proof = gateway.manage("POST", f"/admin/v1/edits/{made['id']}/verify", {})
        assert status == 200 and proof["asked"] >= 3 and proof["failures"] == []
        assert proof["took"] == proof["asked"] and proof["leaked"] == 0
        assert gateway.chat(ASKED)[1]["x-drike-scope"] == "abstained"  # nor has the proof
        path = f"/admin/v1/edits/{made['id']}/status"
        assert gateway.manage("POST", path, {"status": "active"})[0] == 200
        assert gateway.chat(ASKED)[1]["x-drike-edits"] == f"{made['id']}@2"
        assert gateway.manage("GET", "/admin/v1/inbox")[1] == {"groups": [], "total": 0}
        assert gateway.manage("GET", "/admin/v1/inbox/1")[1]["edit"] == made["id"]


def test_an_edit_is_proven_whatever_requests_it_is_for(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, replace(ENTRY, only=("x-region=eu",))) as gateway:
        status, proof = gateway.manage("POST", "/admin/v1/edits/1/verify", {})
        assert status == 200 and proof["took"] == proof["asked"] >= 2 and proof["failures"] == []


def test_a_report_to_a_store_that_is_gone_is_to_be_sent_again(
    above: Recorded, tmp_path: Path
) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        store = Path(gateway.feed.store.name)
        aside = store.rename(store.with_name("aside"))
        assert post(gateway, REPORT)[0] == 503
        assert gateway.manage("GET", "/admin/v1/edits/1")[0] == 503
        aside.rename(store)
        assert post(gateway, REPORT)[0] == 201


def test_reports_are_closed_with_a_reason(gateway: Running) -> None:
    number = post(gateway, REPORT)[1]["report"]
    assert gateway.manage("POST", "/admin/v1/inbox/close", {"reports": [number]})[0] == 400
    assert (
        gateway.manage(
            "POST", "/admin/v1/inbox/close", {"reports": [number], "reason": "no fault"}
        )[0]
        == 200
    )
    closed = gateway.manage("GET", "/admin/v1/inbox?state=closed")[1]["groups"]
    assert closed[0]["reports"][0]["reason"] == "no fault"
    assert gateway.manage("POST", "/admin/v1/inbox/draft", {"reports": [number]})[0] == 400


def test_a_key_for_reports_is_for_nothing_else(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    key = keys.add("default", KeyRole.REPORT, "Anna")
    with running(above.url, tmp_path, keys=keys) as gateway:
        assert post(gateway, REPORT)[0] == 401
        assert post(gateway, REPORT, Authorization=f"Bearer {key}") == (201, {"report": 1})
        assert (
            gateway.ask("POST", "/v1/chat/completions", b"{}", Authorization=f"Bearer {key}")[0]
            == 403
        )
        assert gateway.manage("GET", "/admin/v1/inbox", Authorization=f"Bearer {key}")[0] == 403
        anna = keys.add("default", KeyRole.PROPOSE, "Tom")
        found = gateway.manage("GET", "/admin/v1/inbox/1", Authorization=f"Bearer {anna}")[1]
        assert found["author"] == "Anna (report)"


@pytest.mark.parametrize(
    "value", [[], {}, {"question": "x"}, {"question": "x", "answer": "y", "odd": 1}]
)
def test_unusable_reports_are_refused(gateway: Running, value: object) -> None:
    assert post(gateway, value)[0] == 400


def test_size_and_rate_are_bounded(gateway: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(gateway, {**REPORT, "comment": "x" * 100_000})[0] == 413
    assert ask(gateway.url.removesuffix("/v1") + "/feedback", "GET")[0] == 405
    taken = gateway.gateway._reports._times["default", ""]
    while len(taken) < MOST_REPORTS:
        assert post(gateway, REPORT)[0] == 201
    status, answer = post(gateway, REPORT)
    assert status == 429 and "minute" in json.dumps(answer)


def test_the_inbox_comes_in_pages(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(above.url, tmp_path) as gateway:
        inbox = Inbox(gateway.feed.store.database)
        inbox.add([Report(f"Who is {i}?", "x" * 1_000) for i in range(7)], None)

        def page(query: str) -> tuple[list[int], int | None]:
            status, answer = gateway.manage("GET", f"/admin/v1/inbox?{query}")
            assert status == 200 and answer["total"] == 7
            listed = [report["number"] for group in answer["groups"] for report in group["reports"]]
            return sorted(listed), answer.get("next")

        assert page("") == ([1, 2, 3, 4, 5, 6, 7], None)
        assert page("limit=3") == ([1, 2, 3], 3)
        assert page("limit=3&after=3") == ([4, 5, 6], 6)
        assert page("limit=3&after=6") == ([7], None)
        assert page("after=7") == ([], None)
        monkeypatch.setattr("drike.stores.inbox._BYTES_OF_PAGE", 3_000)
        assert page("after=1") == ([2, 3], 3)
        assert gateway.manage("GET", "/admin/v1/inbox?after=x")[0] == 400


def test_a_key_that_fills_the_inbox_shuts_no_other_out(
    above: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.stores.inbox.MOST_OF_KEY", Load(3, 1 << 20))
    keys = Keys(tmp_path / "edits.keys.json")
    many, one = (keys.add("default", KeyRole.REPORT, name) for name in ("Many", "One"))
    with running(above.url, tmp_path, keys=keys) as gateway:
        for _ in range(3):
            assert post(gateway, REPORT, Authorization=f"Bearer {many}")[0] == 201
        status, answer = post(gateway, REPORT, Authorization=f"Bearer {many}")
        assert status == 429 and "ask for some to be closed" in json.dumps(answer)
        assert post(gateway, REPORT, Authorization=f"Bearer {one}") == (201, {"report": 4})
        long = dict.fromkeys(("question", "answer", "correction", "comment"), "\u20ac" * 4_000)
        long |= {"conversation": "\u20ac" * 4_000, "model": "\u20ac" * 2_000}
        status, answer = post(gateway, long, Authorization=f"Bearer {one}")
        assert status == 413 and "64 KB" in json.dumps(answer)
