"""The admin port: changes, trying questions, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.worlds.gateways import (
    Running,
    ask,
)

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
