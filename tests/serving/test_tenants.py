"""Tenants: each sees its own edits, and none waits for another."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from drike.serving.feed import EditFeed
from drike.serving.keys import KeyRole, Keys
from tests.worlds.gateways import (
    ENTRY,
    Recorded,
    running,
)

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


def test_a_tenant_whose_edits_are_being_indexed_holds_up_no_other(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other = ({"Authorization": f"Bearer {keys.add(tenant, KeyRole.USE)}"} for tenant in ("default", "other"))
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        opening, opened = threading.Event(), threading.Event()
        open_feed = gateway.tenants._open

        def slow(tenant: str) -> EditFeed:
            opening.set()
            assert opened.wait(2)
            return open_feed(tenant)

        gateway.tenants._open = slow
        statuses: list[int] = []
        waiting = [
            threading.Thread(target=lambda: statuses.append(gateway.ask("POST", CHAT, b"{}", **other)[0]))
            for _ in range(2)
        ]
        for thread in waiting:
            thread.start()
        assert opening.wait(5) and gateway.ask("POST", CHAT, b"{}", **mine)[0] == 200 and not statuses
        opened.set()
        for thread in waiting:
            thread.join(5)
        assert statuses == [200, 200] and len(gateway.tenants.feeds) == 2


def test_tenants_see_their_own_edits_only(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other, user = (
        keys.add("default", KeyRole.EDIT),
        keys.add("other", KeyRole.ADMIN),
        keys.add("default", KeyRole.USE),
    )
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        body = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).encode()
        for wrong in ("", "Bearer", f"Bearer {mine}x", f"Basic {mine}", f"Bearer {mine[:-1]}-", "Bearer é"):
            status, _, answer = gateway.ask("POST", CHAT, body, Authorization=wrong)
            assert (status, json.loads(answer)["error"]["code"]) == (401, "invalid_api_key")
        gates = [
            gateway.ask("POST", CHAT, body, Authorization=f"Bearer {key}")[1]["x-drike-scope"]
            for key in (mine, other, user)
        ]
        assert gates == ["fired", "abstained", "fired"] and not above.calls[-1].header("authorization")
        for path, nothing in (("edits", {"edits": [], "total": 0}), ("fired", {"fired": [], "missed": []})):
            assert gateway.manage("GET", f"/admin/v1/{path}", Authorization=f"Bearer {other}")[1] == nothing
        assert gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {mine}")[1]["total"] == 1
        assert gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {user}")[0] == 403
        assert gateway.manage("GET", "/metrics", Authorization=f"Bearer {mine}")[0] == 403
        entry = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Rome", "author": "ann"}
        _, made = gateway.manage("POST", "/admin/v1/edits", entry, Authorization=f"Bearer {mine}")
        assert made["changes"][0]["author"] == f"ann (key {mine.split('-')[1]})"
        Keys(keys.path).revoke(mine.split("-")[1])
        until = time.monotonic() + 5
        while gateway.ask("GET", "/v1/models", Authorization=f"Bearer {mine}")[0] != 401 and time.monotonic() < until:
            time.sleep(0.01)
        assert gateway.ask("GET", "/v1/models", Authorization=f"Bearer {mine}")[0] == 401
        assert mine.split("-", 2)[2] not in keys.path.read_text()
