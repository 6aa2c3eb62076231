"""The admin port's JSON for the life of edits: proposals, reports, samples, modes, reviews, proofs, and the page."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import drike
from tests.fakes.commands import run
from tests.fakes.gateways import AsBlock, GatewayOptions, Keys, Mode, Running, ask, running
from tests.fakes.upstreams import Recorded, upstream
from tests.golden.asking import shown
from tests.golden.compare import matches_golden

ABOUT = "What is the capital of Peru?"
PERU = drike.EditRecord(
    "Peru", "The capital of Peru is", "Oslo", "Lima", owner="Legal", review_by="2020-01-02"
)
CHAD = drike.EditRecord(
    "Chad",
    "The capital of Chad is",
    "Rome",
    status=drike.Status.SHADOW,
    review_days=30,
    source="a list",
)
MALI = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Kyiv"}
EDITS, INBOX = "/admin/v1/edits", "/admin/v1/inbox"
PAGE = ("", "page.css", "page.js", "edit.js", "inbox.js")
DAY = re.compile(r"^\d{4}-\d\d-\d\d$")
Asked = tuple[str, str, object]


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream() as found:
        yield found


def told(value: object) -> object:
    """A JSON value without what is empty, missing or false, and without the days that are keys."""
    if isinstance(value, Mapping):
        kept = {
            key: one
            for key, one in value.items()
            if one not in (None, [], {}, "") and one is not False
        }
        return {DAY.sub("DAY", key): told(one) for key, one in kept.items()}
    return [told(one) for one in value] if isinstance(value, list) else value


def answers(gateway: Running, asked: list[Asked], key: str = "") -> list[object]:
    """What the admin port answers to each request, one after the other."""
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    found = [
        [method, path, value, *gateway.manage(method, path, value, **bearer)]
        for method, path, value in asked
    ]
    return [told(shown(one)) for one in found]


def report(gateway: Running, **fields: str) -> object:
    """What a gateway answers to a report of a wrong answer."""
    url = gateway.url.removesuffix("/v1") + "/feedback"
    status, _, answer = ask(
        url, "POST", json.dumps(fields).encode(), Content_Type="application/json"
    )
    taken = json.loads(answer)
    if "link" in taken:
        taken["link"] = re.sub(r"[0-9a-f]{32}$", "TOKEN", taken["link"])
    return [status, taken]


def test_proposals_and_other_changes_of_edits(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, PERU, CHAD, chat=AsBlock()) as gateway:
        asked: list[Asked] = [
            ("GET", f"{EDITS}?owner=legal", None),
            ("GET", f"{EDITS}?subject=chad&status=shadow", None),
            ("GET", f"{EDITS}?due=0", None),
            ("GET", f"{EDITS}?due=x", None),
            ("POST", EDITS, {**MALI, "status": "draft", "author": "ann"}),
            ("POST", f"{EDITS}/3/verify", {"model": "m"}),
            ("POST", f"{EDITS}/1/verify", {}),
            ("POST", f"{EDITS}/3/status", {"status": "shadow", "reason": "to watch it"}),
            ("POST", f"{EDITS}/3/status", {"status": "retired"}),
            ("POST", f"{EDITS}/3/status", {}),
            ("POST", f"{EDITS}/3/propose", {"into": "active", "reason": "seen"}),
            ("POST", f"{EDITS}/3/propose", {"into": "odd"}),
            ("GET", f"{EDITS}/3", None),
            ("GET", f"{EDITS}?status=proposed", None),
            ("POST", f"{EDITS}/3/approve", {"version": 1}),
            ("POST", f"{EDITS}/3/approve", {"version": 3, "reason": "right"}),
            ("POST", f"{EDITS}/3/approve", {}),
            ("POST", f"{EDITS}/3/approve", {"version": 4}),
            ("POST", f"{EDITS}/1/change", {"changes": {"target_new": "Bern", "priority": 2}, "propose": True}),
            ("GET", f"{EDITS}?q=peru", None),
            ("POST", f"{EDITS}/1/reject", {"reason": "wrong"}),
            ("POST", f"{EDITS}/1/change", {"changes": {"aliases": ["Perú"], "wordings": ["Peru is governed from"]}}),
            ("POST", f"{EDITS}/1/change", {"changes": {"status": "draft"}}),
            ("POST", f"{EDITS}/1/change", {"changes": {"odd": 1}}),
            ("POST", f"{EDITS}/1/change", {}),
            ("POST", f"{EDITS}/1/change", {"changes": {"target_new": "Rome"}, "version": 1}),
            ("POST", f"{EDITS}/1/review", {"reason": "still so"}),
            ("POST", f"{EDITS}/1/review", {"until": "2099-01-02"}),
            ("POST", f"{EDITS}/2/review", {"until": "soon"}),
            ("POST", f"{EDITS}/2/rollback", {"version": 9}),
            ("POST", f"{EDITS}/2/retire", {"reason": 1}),
            ("POST", f"{EDITS}/2/negatives", {}),
            ("GET", f"{EDITS}/x", None),
            ("GET", "/admin/v1/approvals", None),
            ("POST", "/admin/v1/approvals", {"needed": 1}),
            ("POST", "/admin/v1/approvals", {"needed": 99}),
            ("POST", EDITS, {**MALI, "subject": "Niger", "query": "The capital of Niger is", "author": "bob"}),
            ("POST", f"{EDITS}/4/approve", {"version": 1}),
            ("GET", f"{EDITS}/4", None),
            ("GET", "/admin/v1/status", None),
            ("DELETE", f"{EDITS}/4", None),
        ]  # fmt: skip
        matches_golden("admin_changes", answers(gateway, asked))


def test_reports_and_their_inbox(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, PERU, chat=AsBlock()) as gateway:
        sent = [
            report(
                gateway,
                question="What is the capital of Mali?",
                answer="Bamako.",
                correction="it's Kyiv",
            ),
            report(
                gateway,
                question="what is the capital city of Mali?",
                answer="Bamako",
                comment="no",
                model="m",
            ),
            report(gateway, question=ABOUT, answer="Lima", conversation="c"),
            report(gateway, question="Who?"),
            report(gateway, odd="x"),
        ]
        asked: list[Asked] = [
            ("GET", INBOX, None),
            ("GET", f"{INBOX}/2", None),
            ("GET", f"{INBOX}/9", None),
            ("GET", f"{INBOX}?state=odd", None),
            ("POST", f"{INBOX}/draft", {"reports": [1, 2]}),
            ("POST", f"{INBOX}/draft", {"reports": [3]}),
            ("POST", f"{INBOX}/draft", {"reports": []}),
            ("POST", f"{INBOX}/close", {"reports": [3]}),
            ("POST", f"{INBOX}/close", {"reports": [3], "reason": "an old answer"}),
            ("POST", f"{INBOX}/close", {"reports": [3], "reason": "again"}),
            ("POST", f"{INBOX}/wrong", {"reports": [3]}),
            ("GET", f"{INBOX}?state=closed", None),
            ("GET", INBOX, None),
            ("GET", f"{EDITS}?status=draft", None),
        ]
        matches_golden("admin_inbox", {"sent": sent, "answers": answers(gateway, asked)})


def counted(gateway: Running, requests: int) -> None:
    """Wait until so many requests are counted: answers are judged beside the requests."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        sentences = gateway.manage("GET", "/admin/v1/health")[1]["sentences"]
        if sentences and sentences[0].startswith(f"Of {requests} requests"):
            return
        time.sleep(0.05)


def test_how_edits_fare_and_samples(above: Recorded, tmp_path: Path) -> None:
    options = GatewayOptions(mode=Mode.SHADOW, deadline_ms=5000, keep_samples=2)
    with running(above.url, tmp_path, PERU, CHAD, chat=AsBlock(), options=options) as gateway:
        for text in (ABOUT, ABOUT, f"{ABOUT} Oslo?", "The capital of Chad is", "Hello"):
            gateway.chat(text, model="m")
        counted(gateway, 5)
        asked: list[Asked] = [
            ("GET", "/admin/v1/health", None),
            ("GET", "/admin/v1/health?days=1", None),
            ("GET", "/admin/v1/health?days=x", None),
            ("GET", f"{INBOX}?state=sample", None),
            ("POST", f"{INBOX}/wrong", {"reports": [1]}),
            ("GET", INBOX, None),
            ("GET", "/admin/v1/fired?limit=2", None),
        ]
        matches_golden("admin_health", answers(gateway, asked))


def test_switching_modes(above: Recorded, tmp_path: Path) -> None:
    path = "/admin/v1/mode"
    with running(above.url, tmp_path, PERU, mode=Mode.SHADOW, chat=AsBlock()) as gateway:
        found = []
        for value in (
            None, {"mode": "on", "reason": "seen"}, {"mode": "on", "share": 0.5}, {"mode": "off"}, {"mode": None},
            {"mode": "odd"}, {"mode": "on", "share": 2}, {"share": 1}, {"mode": "on", "who": "ann"},
        ):  # fmt: skip
            scopes = [gateway.chat(f"{ABOUT} {i}")[1].get("x-drike-mode") for i in range(6)]
            found.append([scopes, *answers(gateway, [("POST" if value else "GET", path, value)])])
        matches_golden("admin_mode", found)


def test_what_each_role_may_do(
    above: Recorded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {}
    for role in ("report", "use", "propose", "approve", "admin"):
        assert run("keys", "add", "--role", role, "--name", role.title()) == 0
        keys[role] = capsys.readouterr().out.strip()
    found = {}
    with running(
        above.url, tmp_path, PERU, keys=Keys(tmp_path / "edits.keys.json"), chat=AsBlock()
    ) as gateway:
        for i, (role, key) in enumerate(keys.items()):
            record = {**MALI, "subject": f"Land {i}", "query": f"The capital of Land {i} is"}
            found[role] = answers(gateway, [
                ("GET", "/admin/v1/status", None),
                ("POST", EDITS, record),
                ("POST", f"{EDITS}/1/change", {"changes": {"priority": i}}),
                ("POST", f"{EDITS}/1/reject", {"reason": "no"}),
                ("POST", f"{EDITS}/1/status", {"status": "shadow"}),
                ("POST", "/admin/v1/mode", {"mode": "on"}),
                ("POST", "/admin/v1/approvals", {"needed": 0}),
            ], key)  # fmt: skip
    matches_golden("admin_roles", found)


def test_the_page_and_its_headers(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, PERU, chat=AsBlock()) as gateway:
        found = {}
        for name in PAGE:
            status, headers, _ = ask(f"{gateway.admin}/{name}", "GET")
            kept = {
                k: v for k, v in headers.items() if k not in ("date", "server", "content-length")
            }
            found[f"/{name}"] = [status, kept]
        found["/nothing"] = ask(f"{gateway.admin}/nothing", "GET")[0]  # type: ignore[assignment]
    matches_golden("admin_page", found)
