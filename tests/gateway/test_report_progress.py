"""What became of a report, for who has its link or key; a webhook and an e-mail for each change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drike.answers.statements import Stated
from drike.edits.record import EditRecord
from drike.gates.index import EditIndex
from drike.gateway.control.webhooks import Notifier
from drike.gateway.http.keys import KeyRole, Keys
from drike.live import drafts
from drike.live.report_progress import EditEvidence, ReportProgress, Stage, progress_of
from drike.stores import moves
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.traffic import Counted, TrafficCounts
from drike.stores.verifications import (
    QuestionKind,
    Verification,
    Verifications,
    VerifiedQuestion,
)
from tests.fakes.gateways import Running, ask, running
from tests.fakes.upstreams import Recorded

ASKED = "What is the capital of Peru?"
LIMA = Report(ASKED, "It is Lima.", "Oslo, not Lima")


def progress(store: EditStore) -> ReportProgress:
    report = Inbox(store.database).report(1)
    return progress_of(report, store, EditEvidence.of(store, snapshot(store)))


def verified(version: int, *, holds: bool) -> Verification:
    question = VerifiedQuestion(
        1, version, QuestionKind.QUERY, ASKED, Stated.NEW, matched=True, holds=holds
    )
    return Verification("2026-11-28T04:00:00Z", "gpt", "named", None, "block", "0.2", (question,))


def test_a_report_goes_from_received_to_recurred(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    Inbox(store.database).add([LIMA], "Ann")
    assert progress(store).stage is Stage.RECEIVED
    drafts.draft(store, [1], EditIndex.of(()), author="Bo")
    assert progress(store).stage is Stage.DRAFTED
    moves.propose(store, 1, author="Bo")
    assert progress(store).stage is Stage.PROPOSED
    moves.approve(store, 1, author="Cy")
    in_force = progress(store)
    assert in_force.stage is Stage.IN_FORCE and in_force.since
    version = snapshot(store).edits[1].version
    runs = Verifications(store.database)
    runs.save(verified(version, holds=True))
    assert (progress(store).stage, progress(store).models) == (Stage.PROVEN, ("gpt",))
    assert "proven on gpt" in progress(store).sentence
    runs.save(verified(version, holds=False))
    assert progress(store).stage is Stage.IN_FORCE
    old = Counted(datetime.now(UTC).date().isoformat(), 1, version, "gpt", "on", Stated.OLD)
    counts = {old: 2, old._replace(what=Stated.NEW): 40, old._replace(mode="shadow"): 9}
    TrafficCounts(store.database).add(Counter(counts))
    assert progress(store).stage is Stage.RECURRED
    assert "2 of 42 later answers stated the old one again" in progress(store).sentence
    moves.retire(store, 1, author="Cy", reason="Oslo it is not")
    assert progress(store).sentence == "It was closed: Oslo it is not."


def test_what_was_proven_before_its_approval_is_proven_unless_it_changed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    Inbox(store.database).add([LIMA], "Ann")
    drafts.draft(store, [1], EditIndex.of(()), author="Bo")
    moves.propose(store, 1, author="Bo")
    proposed = snapshot(store).proposals[1].version
    Verifications(store.database).save(verified(proposed, holds=True))
    moves.approve(store, 1, author="Cy")
    assert (progress(store).stage, progress(store).models) == (Stage.PROVEN, ("gpt",))
    moves.change(store, 1, {"target_new": "Quito"}, author="Cy")
    assert progress(store).stage is Stage.IN_FORCE


def test_a_proposed_wording_is_of_its_report_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima"))
    Inbox(store.database).add([LIMA], "Ann")
    index = EditIndex.of(snapshot(store).in_force(datetime.now(UTC)))
    drafts.draft(store, [1], index, author="Bo")
    assert progress(store).stage is Stage.PROPOSED
    moves.approve(store, 1, author="Cy")
    assert progress(store).stage is Stage.IN_FORCE
    moves.change(store, 1, {"target_new": "Quito"}, author="Bo", propose=True)
    assert progress(store).stage is Stage.IN_FORCE


def shown(gateway: Running, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    status, _, body = ask(gateway.url.removesuffix("/v1") + path, "GET", **headers)
    return status, json.loads(body)


def test_who_has_the_link_or_the_key_reads_what_became_of_a_report(
    above: Recorded, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "edits.keys.json")
    ann, bo = (
        {"Authorization": f"Bearer {keys.add('default', KeyRole.REPORT, name)}"}
        for name in ("Ann", "Bo")
    )
    user = {"Authorization": f"Bearer {keys.add('default', KeyRole.USE)}"}
    with running(above.url, tmp_path, keys=keys) as gateway:
        address = gateway.url.removesuffix("/v1")
        body = json.dumps({"question": ASKED, "answer": "Lima"}).encode()
        sent = ask(f"{address}/feedback", "POST", body, Content_Type="application/json", **ann)
        link = json.loads(sent[2])["link"]
        status, answer = shown(gateway, link)
        assert (status, answer["state"], answer["report"]) == (200, "received", 1)
        assert shown(gateway, "/feedback/1", **ann) == (200, answer)
        assert shown(gateway, "/feedback/1", **user) == (200, answer)
        assert shown(gateway, "/feedback/1", **bo)[0] == 404
        assert shown(gateway, "/feedback/1")[0] == 401
        assert shown(gateway, "/feedback/2", **user)[0] == 404
        other = link[:-1] + ("0" if link[-1] != "0" else "1")
        other_tenant = link.replace("default", "eve")
        for wrong in (other, link[:-1] + "x", link.replace(".1.", ".2."), other_tenant):
            assert shown(gateway, wrong)[0] == 404
        assert ask(address + link, "POST", b"{}", Content_Type="application/json")[0] == 405


def test_each_change_is_told_once_with_an_email(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    inbox = Inbox(store.database)
    inbox.add([Report("Who was first?", "Al")], "Ann")
    told: list[dict[str, Any]] = []

    def take(body: bytes, headers: Mapping[str, str]) -> None:
        event = json.loads(body)
        if event["event"] == "report":
            told.append(event)

    notifier = Notifier(lambda: {"default": (store, snapshot(store))}, take, "secret")
    notifier.send_new()
    inbox.close(1, reason="it was before the first look")
    inbox.add([LIMA], "Ann")
    drafts.draft(store, [2], EditIndex.of(()), author="Bo")
    notifier.send_new()
    notifier.send_new()
    [event] = told
    assert (event["report"]["number"], event["report"]["state"]) == (2, "drafted")
    assert event["email"]["subject"] == "Your report 2: drafted"
    assert ASKED in event["email"]["text"] and event["report"]["link"] in event["email"]["text"]
    moves.propose(store, 1, author="Bo")
    notifier.send_new()
    moves.approve(store, 1, author="Cy")
    notifier.send_new()
    notifier.send_new()
    assert [each["report"]["state"] for each in told] == ["drafted", "proposed", "in force"]
