"""Tenants: each sees its own edits, and none waits for another."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drike.cli.gateway_parts import gateway_parts
from drike.edits.record import MissingStoreError, StoreError
from drike.gates.by_name import Named
from drike.gateway.feed import EditFeed
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.options import GatewayOptions
from drike.gateway.start import start
from drike.gateway.tenants import Tenants, _due, make_store
from drike.gateway.watch import Watch
from drike.stores.opening import open_store
from tests.fakes.commands import run
from tests.fakes.gateways import ENTRY, running
from tests.fakes.upstreams import Recorded
from tests.fakes.waiting import HANG, wait_until

CHAT = "/v1/chat/completions"
ABOUT = "What is the capital of Peru?"


def test_a_tenant_whose_edits_are_being_indexed_holds_up_no_other(
    above: Recorded, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other = (
        {"Authorization": f"Bearer {keys.add(tenant, KeyRole.USE)}"}
        for tenant in ("default", "other")
    )
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
            threading.Thread(
                target=lambda: statuses.append(gateway.ask("POST", CHAT, b"{}", **other)[0])
            )
            for _ in range(2)
        ]
        for thread in waiting:
            thread.start()
        assert (
            opening.wait(5) and gateway.ask("POST", CHAT, b"{}", **mine)[0] == 200 and not statuses
        )
        opened.set()
        for thread in waiting:
            thread.join(5)
        assert statuses == [200, 200] and len(gateway.tenants.feeds) == 2


def test_tenants_see_their_own_edits_only(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other, user = (
        keys.add("default", KeyRole.APPROVE),
        keys.add("other", KeyRole.ADMIN),
        keys.add("default", KeyRole.USE),
    )
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        body = json.dumps({"messages": [{"role": "user", "content": ABOUT}]}).encode()
        for wrong in (
            "",
            "Bearer",
            f"Bearer {mine}x",
            f"Basic {mine}",
            f"Bearer {mine[:-1]}",
            "Bearer é",
        ):
            status, _, answer = gateway.ask("POST", CHAT, body, Authorization=wrong)
            assert (status, json.loads(answer)["error"]["code"]) == (401, "invalid_api_key")
        gates = [
            gateway.ask("POST", CHAT, body, Authorization=f"Bearer {key}")[1]["x-drike-scope"]
            for key in (mine, other, user)
        ]
        assert gates == ["fired", "abstained", "fired"] and not above.calls[-1].header(
            "authorization"
        )
        for path, nothing in (
            ("edits", {"edits": [], "total": 0}),
            ("fired", {"fired": [], "missed": []}),
        ):
            assert (
                gateway.manage("GET", f"/admin/v1/{path}", Authorization=f"Bearer {other}")[1]
                == nothing
            )
        assert (
            gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {mine}")[1]["total"]
            == 1
        )
        assert gateway.manage("GET", "/admin/v1/edits", Authorization=f"Bearer {user}")[0] == 403
        assert gateway.manage("GET", "/metrics", Authorization=f"Bearer {mine}")[0] == 403
        entry = {
            "subject": "Mali",
            "query": "The capital of Mali is",
            "target_new": "Rome",
            "author": "ann",
        }
        _, made = gateway.manage("POST", "/admin/v1/edits", entry, Authorization=f"Bearer {mine}")
        assert made["changes"][0]["author"] == f"ann (key {mine.split('-')[1]})"
        Keys(keys.path).revoke(mine.split("-")[1])
        wait_until(
            lambda: gateway.ask("GET", "/v1/models", Authorization=f"Bearer {mine}")[0] == 401
        )
        assert mine.split("-", 2)[2] not in keys.path.read_text()


class Watched:
    """Edits whose store is a file, and which only count how often they are read."""

    def __init__(self, path: Path) -> None:
        path.touch()
        os.utime(path, (1, 1))  # nobody has written to it for long
        self.store = SimpleNamespace(name=str(path), close=lambda: None)
        self.problem = self.gate_problem = None
        self.must_refresh = False
        self.watch = Watch(lambda: datetime.now(UTC))
        self.read, self.reading = 0, threading.Event()
        self.reading.set()

    def refresh(self) -> None:
        self.read += 1
        self.reading.wait(2 * HANG)

    def follow_gate(self) -> None:
        pass

    def close(self) -> None:
        self.store.close()


def test_many_tenants_are_watched_together_and_none_holds_up_another(tmp_path: Path) -> None:
    async def follow() -> None:
        tenants = Tenants(lambda tenant: Watched(tmp_path / tenant))  # type: ignore[arg-type, return-value]
        feeds: list[Any] = [await tenants.feed(f"t{i}") for i in range(100)]
        before = threading.active_count()
        following = asyncio.create_task(tenants.follow())
        locked, changed = feeds[0], feeds[1]
        locked.reading.clear()
        await asyncio.sleep(1.3)
        assert all(feed.read <= 4 for feed in feeds) and threading.active_count() <= before + 40
        async with asyncio.timeout(HANG):
            while not all(feed.read for feed in feeds):
                await asyncio.sleep(0.01)
        assert locked.read == 1
        seen = changed.read
        for changes in range(1, 4):
            Path(changed.store.name).write_text("changed")
            async with asyncio.timeout(HANG):
                while changed.read < seen + changes:
                    await asyncio.sleep(0.01)
        locked.reading.set()
        following.cancel()
        tenants.close()

    asyncio.run(follow())


def test_another_tenants_problem_is_its_own(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    mine, other, admin = (
        {"Authorization": f"Bearer {keys.add(tenant, role)}"}
        for tenant, role in (
            ("default", KeyRole.APPROVE),
            ("shop", KeyRole.APPROVE),
            ("third", KeyRole.ADMIN),
        )
    )
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:

        def problems(key: dict[str, str]) -> list[str]:
            return gateway.manage("GET", "/admin/v1/status", **key)[1]["problems"]

        def damage(name: str) -> None:
            (tmp_path / name).write_bytes(b"damaged!" * 4096)
            feed = gateway.tenants.feeds["shop" if "shop" in name else "default"]
            wait_until(lambda: feed.problem)

        assert problems(mine) == problems(other) == problems(admin) == []
        damage("edits.shop.db")
        assert gateway.manage("GET", "/readyz") == (200, {"ready": True}) and problems(mine) == []
        assert "edits.shop.db" in problems(other)[0]
        assert problems(admin) == [
            "the edits or the gate of tenant shop cannot be read: a key of its own shows why"
        ]
        damage("edits.db")
        status, answer = gateway.manage("GET", "/readyz")
        assert status == 503 and "edits.db" not in str(answer) and str(tmp_path) not in str(answer)
        assert "edits.db" in problems(mine)[0] and str(tmp_path / "edits.db") not in str(
            problems(other)
        )


ENFORCED = replace(ENTRY, enforce=True)


def with_shop(place: Path) -> GatewayOptions:
    """The options of a gateway over a store and that of a tenant, which has an enforced edit."""
    store = str(place / "edits.db")
    open_store(store).close()
    keys = Keys(place / "edits.keys.json")
    make_store(store, "shop", keys)
    keys.add("shop", KeyRole.USE)
    with closing(open_store(store, tenant="shop", create=False)) as shop:
        shop.put(ENFORCED)
    return GatewayOptions(
        upstream="http://127.0.0.1:9/v1", store=store, gate="named", port=0, admin_port=0
    )


@contextmanager
def started_with(options: GatewayOptions) -> Iterator[Tenants]:
    started = start(options, gateway_parts())
    try:
        yield started.tenants
    finally:
        started.tenants.close()
        for opened in started.sockets:
            opened.close()


def test_a_tenants_store_that_is_gone_refuses_the_start_and_is_never_made_anew(
    tmp_path: Path,
) -> None:
    options = with_shop(tmp_path)
    with started_with(options) as tenants:
        assert asyncio.run(tenants.feed("shop")).enforces
    (tmp_path / "edits.shop.db").unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"tenant shop has keys.*edits.shop.db: restore it"):
            start(options, gateway_parts())
        assert not (tmp_path / "edits.shop.db").exists()
    with started_with(replace(options, create=True)) as tenants:
        assert not asyncio.run(tenants.feed("shop")).enforces


def test_a_tenants_store_that_goes_while_a_gateway_runs_is_a_problem_and_not_made_anew(
    tmp_path: Path,
) -> None:
    admin = Principal("default", KeyRole.ADMIN, "1")
    with started_with(with_shop(tmp_path)) as tenants:
        (tmp_path / "edits.shop.db").rename(tmp_path / "away.db")
        for _ in range(2):
            with pytest.raises(StoreError, match="no store of edits"):
                asyncio.run(tenants.feed("shop"))
        assert "tenant shop" in str(tenants.problems_shown_to(admin))
        (tmp_path / "away.db").rename(tmp_path / "edits.shop.db")
        assert asyncio.run(tenants.feed("shop")).enforces
        assert not tenants.problems_shown_to(admin)


def test_a_client_whose_tenant_has_no_store_is_refused(above: Recorded, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    key = keys.add("shop", KeyRole.USE)
    with running(above.url, tmp_path, ENTRY, keys=keys) as gateway:
        open_feed = gateway.tenants._open
        missing = MissingStoreError(tmp_path / "edits.shop.db")

        def refuse(tenant: str) -> EditFeed:
            raise missing

        gateway.tenants._open = refuse
        asked = {"Authorization": f"Bearer {key}"}
        calls = len(above.calls)
        status, _, answer = gateway.ask("POST", CHAT, b"{}", **asked)
        assert status == 503 and b"tenant cannot be opened" in answer and b"/" not in answer
        assert len(above.calls) == calls
        gateway.tenants._open = open_feed
        assert gateway.ask("POST", CHAT, b"{}", **asked)[0] == 200


def test_a_tenants_first_key_makes_its_store_and_no_further_key_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("keys", "add", "--tenant", "shop") == 0 and Path("edits.shop.db").is_file()
    assert run("keys", "add", "--tenant", "shop") == 0
    Path("edits.shop.db").unlink()
    capsys.readouterr()
    assert run("keys", "add", "--tenant", "shop") == 1 and not Path("edits.shop.db").exists()
    assert "tenant shop has keys" in " ".join(capsys.readouterr().err.split())
    assert run("keys", "add") == run("keys", "add", "--tenant", "other") == 0
    assert run("keys", "add", "--tenant", "../x") == 1 and not Path("../x").exists()


def test_a_store_whose_file_stays_is_read_again_each_five_seconds_only(tmp_path: Path) -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    now = [noon]
    store = open_store(str(tmp_path / "edits.db"), create=True)
    store.put(replace(ENTRY, valid_from="2026-11-22T13:00:00Z"))
    feed = EditFeed(store, Named(), clock=lambda: now[0])

    def reads_in_five_seconds() -> int:
        return sum(len(_due({store.name: feed}, look)) for look in range(100))

    assert reads_in_five_seconds() == 1
    feed.problem = "the store is locked"
    assert reads_in_five_seconds() == 5
    feed.problem = None
    now[0] = noon.replace(hour=13)  # the edit begins
    assert reads_in_five_seconds() == 5
    feed.refresh()
    assert reads_in_five_seconds() == 1
    now[0] = noon  # the clock was set back
    assert reads_in_five_seconds() == 5
    feed.close()
