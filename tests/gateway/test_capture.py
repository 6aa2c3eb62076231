"""From a draft that a person changed to a proposed edit: POST /capture, and nothing in force before its approval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drike.gateway.http.keys import KeyRole, Keys
from tests.fakes.gateways import ENTRY, Running, ask, running
from tests.fakes.upstreams import Recorded

DRAFT = {
    "draft": "Hi Lena, BeanPass costs 19.90 euros a month. You can cancel at any time.",
    "sent": "Hello Lena, BeanPass costs 21.50 euros a month. Cancel whenever you like.",
    "question": "What does BeanPass cost?",
    "reason": "price of May",
}


def post(gateway: Running, value: object, **headers: str) -> tuple[int, dict[str, object]]:
    address = gateway.url.removesuffix("/v1") + "/capture"
    status, _, body = ask(
        address, "POST", json.dumps(value).encode(), Content_Type="application/json", **headers
    )
    return status, json.loads(body)


def test_a_changed_fact_is_proposed_and_in_force_only_once_approved(
    above: Recorded, tmp_path: Path
) -> None:
    with running(above.url, tmp_path) as gateway:
        status, answer = post(gateway, DRAFT)
        [decided] = answer["decided"]
        [edit_id] = answer["edits"]
        assert status == 201 and answer["report"] == 1
        assert (decided["kind"], decided["old"], decided["new"]) == (
            "edit",
            "19.90 euros",
            "21.50 euros",
        )
        [version] = gateway.manage("GET", f"/admin/v1/edits/{edit_id}")[1]["versions"]
        assert (version["status"], version["subject"]) == ("proposed", "BeanPass")
        assert version["query"] == "BeanPass costs" and version["source"] == "report 1"
        assert version["wordings"] == [DRAFT["question"]]
        assert gateway.chat(DRAFT["question"])[1]["x-drike-scope"] == "abstained"
        assert gateway.manage("GET", "/admin/v1/inbox/1")[1]["edit"] == edit_id
        approved = gateway.manage("POST", f"/admin/v1/edits/{edit_id}/approve", {"version": 1})
        assert approved[0] == 200
        assert gateway.chat(DRAFT["question"])[1]["x-drike-edits"] == f"{edit_id}@2"


def test_a_change_of_style_leaves_nothing(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path) as gateway:
        status, answer = post(gateway, {**DRAFT, "sent": "BeanPass is EUR 19.90 each month."})
        assert (status, answer["report"], answer["edits"]) == (200, None, [])
        assert answer["decided"][0]["kind"] == "nothing" and answer["decided"][0]["why"]
        assert gateway.manage("GET", "/admin/v1/inbox")[1]["total"] == 0


def test_what_an_edit_says_already_becomes_a_wording_of_it(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        question = "In which city does the government of Peru sit?"
        texts = {"draft": "Peru's government is in Lima.", "sent": "Peru's government is in Oslo."}
        status, answer = post(gateway, {**texts, "question": question})
        assert status == 201 and answer["edits"] == [1]
        assert answer["decided"][0]["kind"] == "wording"
        versions = gateway.manage("GET", "/admin/v1/edits/1")[1]["versions"]
        assert versions[-1]["status"] == "proposed" and question in versions[-1]["wordings"]
        again = post(gateway, {**texts, "question": question})[1]
        assert again["decided"][0]["kind"] == "nothing" and again["edits"] == []
        assert gateway.manage("GET", "/admin/v1/inbox/2")[1]["state"] == "open"  # for a person


def test_another_object_of_an_edit_is_a_proposed_change(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY) as gateway:
        texts = {"draft": "The capital of Peru is Oslo.", "sent": "The capital of Peru is Quito."}
        answer = post(gateway, texts)[1]
        assert answer["edits"] == [1]
        latest = gateway.manage("GET", "/admin/v1/edits/1")[1]["versions"][-1]
        assert (latest["status"], latest["target_new"], latest["target_true"]) == (
            "proposed",
            "Quito",
            "Oslo",
        )


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ([], 400),
        ({"draft": "x"}, 400),
        ({**DRAFT, "odd": 1}, 400),
        ({**DRAFT, "sent": 7}, 400),
        ({**DRAFT, "draft": "x" * 8_001}, 413),
        ({**DRAFT, "draft": "x" * 70_000}, 413),
    ],
)
def test_unusable_captures_are_refused(gateway: Running, value: object, status: int) -> None:
    assert post(gateway, value)[0] == status


def test_a_key_for_reports_may_send_drafts_and_no_other_method_is_taken(
    above: Recorded, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    key = keys.add("default", KeyRole.REPORT, "Anna")
    with running(above.url, tmp_path, keys=keys) as gateway:
        assert post(gateway, DRAFT)[0] == 401
        status, answer = post(gateway, DRAFT, Authorization=f"Bearer {key}")
        assert status == 201
        path = f"/admin/v1/edits/{answer['edits'][0]}/approve"
        refused = gateway.manage("POST", path, {"version": 1}, Authorization=f"Bearer {key}")
        assert refused[0] == 403
        assert ask(gateway.url.removesuffix("/v1") + "/capture", "GET")[0] in (401, 405)
