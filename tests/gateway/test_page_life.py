"""The life of an edit on the admin page, in a browser and under node, on a real gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.record import EditRecord, Status
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.options import GatewayOptions, Mode
from drike.stores import moves
from drike.stores.edit_store import require_approvals, required_approvals, versions_of
from tests.fakes.browsers import (
    CHROMIUM,
    DRIVER,
    NODE,
    ROWS,
    SAID,
    Browser,
    browser,
    click,
    enter,
    stub,
    text,
)
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, completed, upstream

PERU = EditRecord(
    "Peru", "The capital of Peru is", "Oslo", owner="Anna", review_by="2026-01-31", review_days=90
)
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome", author="Anna (propose)")
EDIT_SCRIPT = Path(moves.__file__).parents[1] / "gateway" / "control" / "page" / "edit.js"
needs_node = pytest.mark.skipif(not NODE, reason="node is not installed")
in_browser = (
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"
    ),
)


@contextmanager
def in_chromium(admin: str, place: Path) -> Iterator[Browser]:
    with browser(place / "profile", 390) as window:
        window.call("POST", "/url", url=f"{admin}/#edits")
        yield window


def opened(how: str, admin: str, place: Path) -> AbstractContextManager[Browser]:
    """The page in a browser, or under node."""
    return stub(admin) if how == "node" else in_chromium(admin, place)


@contextmanager
def signed_in(how: str, serving: Running, key: str, place: Path) -> Iterator[Browser]:
    """The page of the holder of a key."""
    with opened(how, serving.admin, place) as page:
        page.wait("document.getElementById('key').open")
        enter(page, "#secret", key)
        click(page, "Continue", "#key")
        page.wait(f"{ROWS} > 0")
        yield page


def choose(page: Browser, selector: str, value: str) -> None:
    chosen = f"document.querySelector('{selector}')"
    page.run(f"((e) => {{ e.value = '{value}'; e.dispatchEvent(new Event('change')); }})({chosen})")


def details(page: Browser, id: int) -> list[str]:
    """Open the view of an edit; return the labels of its moves."""
    page.wait(f"!!document.querySelector('#edits li[data-id=\"{id}\"] button')")
    page.run(f"document.querySelector('#edits li[data-id=\"{id}\"] button').click()")
    page.wait(f"document.getElementById('details').open && {text('h-details')} === 'Edit {id}'")
    return labels(page)


def labels(page: Browser) -> list[str]:
    return page.run("[...document.querySelectorAll('#moves button')].map((b) => b.textContent)")


def test_every_answer_has_the_fields_that_the_page_reads(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, PERU, CHILE) as serving:
        store = serving.feed.store
        require_approvals(store, 2)
        store.put(
            replace(CHILE, subject="Cuba", query="The capital of Cuba is", status=Status.DRAFT)
        )

        def listed(query: str) -> list[int]:
            return [
                edit["id"] for edit in serving.manage("GET", f"/admin/v1/edits?{query}")[1]["edits"]
            ]

        change = {"changes": {"target_new": "Bonn"}, "reason": "moved", "propose": True}
        status, answer = serving.manage("POST", "/admin/v1/edits/2/change", change)
        assert (status, answer["changes"][0]["status"], answer["changes"][0]["approved_as"]) == (
            200,
            "proposed",
            "active",
        )
        assert (
            listed("due=0") == [1]
            and listed("due=36500&owner=ANNA&subject=peru") == [1]
            and listed("due=0&q=x") == []
        )
        assert listed("status=proposed") == [2] and listed("") == [3, 2, 1]
        assert serving.manage("GET", "/admin/v1/edits?due=soon")[0] == 400
        edits = {edit["id"]: edit for edit in serving.manage("GET", "/admin/v1/edits")[1]["edits"]}
        assert [edits[id]["due"] for id in (1, 2, 3)] == [True, False, False]
        assert edits[2]["proposal"]["target_new"] == "Bonn" and edits[2]["target_new"] == "Rome"
        assert (
            serving.manage("POST", "/admin/v1/edits/2/approve", {"version": 2, "reason": "seen"})[0]
            == 400
        )  # its own
        moves.approve(store, 2, author="Bob (approve)", reason="seen")
        status, answer = serving.manage("GET", "/admin/v1/edits/2")
        assert answer["approvals"] == {"needed": 2, "by": ["bob"]}
        first, second, third = answer["versions"]
        assert (first["in_force"], first["move"], second["move"], third["move"]) == (
            True,
            None,
            "propose",
            "approve",
        )
        assert (third["author"], third["reason"], third["created_at"][-1]) == (
            "Bob (approve)",
            "seen",
            "Z",
        )
        assert serving.manage("GET", "/admin/v1/edits/1")[1]["versions"][0]["due"]
        assert serving.manage("GET", "/admin/v1/status")[1]["role"] == "admin"


@needs_node
@pytest.mark.parametrize("role", [KeyRole.PROPOSE, KeyRole.APPROVE])
@pytest.mark.parametrize(
    "stage", ["active", "shadow", "draft", "proposed", "rejected", "changed", "refused", "retired"]
)
@pytest.mark.sampled(4)
def test_every_move_that_the_page_offers_is_accepted(
    above: Recorded, tmp_path: Path, stage: str, role: KeyRole
) -> None:
    bodies: dict[str, dict[str, object]] = {
        "reject": {"reason": "no"}, "change": {"changes": {"target_new": "Bern"}}, "review": {"until": "2030-01-01"},
        "shadow": {"status": "shadow"}, "active": {"status": "active"},
    }  # fmt: skip
    keys = Keys(tmp_path / "keys.json")
    head = {"Authorization": f"Bearer {keys.add('default', role, 'Bob')}"}
    entry = replace(
        CHILE,
        status=Status(stage)
        if stage in ("active", "shadow", "draft", "retired")
        else Status.ACTIVE,
    )
    if stage in ("proposed", "rejected"):
        entry = moves.proposed(entry)
    towns = [
        replace(entry, subject=f"T{i}", query=f"The mayor of T{i} is")
        for i in range(len(bodies) + 4)
    ]
    with running(above.url, tmp_path, *towns, keys=keys) as serving:
        assert serving.manage("GET", "/admin/v1/status", **head)[0] == 200
        store = serving.feed.store
        for id in range(1, len(towns) + 1):
            if stage in ("changed", "refused"):
                moves.change(
                    store, id, {"target_new": "Bonn"}, author="Anna (propose)", propose=True
                )
            if stage in ("rejected", "refused"):
                moves.reject(store, id, author="Cleo (approve)", reason="no")
        versions = serving.manage("GET", "/admin/v1/edits/1", **head)[1]["versions"]
        load = "globalThis.window = globalThis; (0, eval)(require('fs').readFileSync(process.argv[1], 'utf8'));"
        ask = (
            load
            + "console.log(JSON.stringify(movesOf(JSON.parse(process.argv[2]), process.argv[3])))"
        )
        command = ["node", "-e", ask, str(EDIT_SCRIPT), json.dumps(versions), role]
        offered = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert offered
        for id, move in enumerate(offered, 1):
            goal = {"active": "shadow", "shadow": "active"}.get(versions[-1]["status"], "active")
            body = {"into": goal} if move == "propose" else bodies.get(move, {})
            if move == "approve":
                body = {"version": versions[-1]["version"]}
            path = f"/admin/v1/edits/{id}/{'status' if move in ('shadow', 'active') else move}"
            status, answer = serving.manage("POST", path, body, **head)
            assert status == 200, (move, answer)


@pytest.mark.parametrize(
    "how", [pytest.param("node", marks=needs_node), pytest.param("chromium", marks=in_browser)]
)
def test_a_correction_is_proposed_approved_and_reviewed_on_the_page(
    above: Recorded, tmp_path: Path, how: str
) -> None:
    keys = Keys(tmp_path / "keys.json")
    anna, bob = (
        keys.add("default", KeyRole.PROPOSE, "Anna"),
        keys.add("default", KeyRole.APPROVE, "Bob"),
    )
    with running(above.url, tmp_path, PERU, CHILE, keys=keys) as serving:
        serving.manage("GET", "/admin/v1/status", Authorization=f"Bearer {bob}")
        require_approvals(serving.feed.store, 1)
        with signed_in(how, serving, anna, tmp_path / "anna") as page:
            click(page, "Switch…")
            page.wait("document.getElementById('modes').open")
            click(page, "Switch", "#modes")
            page.wait(f"{SAID} === 'this needs a key for approve: ask somebody who has one'")
            assert not page.run("document.getElementById('key').open")
            click(page, "Cancel", "#modes")
            choose(page, "#status", "due")
            page.wait(f"{ROWS} === 1 && {text('edits')}.includes('review due')")
            choose(page, "#status", "proposed")
            page.wait(f"{text('count')} === 'Nothing waits for approval.'")
            click(page, "Clear the filters")
            page.wait(f"{ROWS} === 2")
            enter(page, "#owner", "bob")
            page.wait(f"{text('count')}.startsWith('No edit fits.')")
            enter(page, "#owner", "anna")
            page.wait(f"{ROWS} === 1")
            assert details(page, 1) == ["Propose…", "Change…"]
            assert "Owner: Anna · to be reviewed by 2026-01-31" in page.run(text("standing"))
            click(page, "Change…", "#details")
            page.wait("document.querySelector('#entry [name=target_new]').value === 'Oslo'")
            click(page, "Propose", "#add")
            page.wait(f"{text('why-add')} === 'Nothing is changed yet.'")
            enter(page, "#entry [name=target_new]", "Bergen")
            enter(page, "#entry [name=aliases]", "Perú\n\n Republic of Peru ")
            enter(page, "#entry [name=reason]", "moved")
            click(page, "Propose", "#add")
            page.wait(
                f"{text('standing')}.includes('Proposed by Anna (propose), version 2 · approved by 0 of 1')"
            )
            assert page.run(SAID) == "Edit 1 waits for approval."
            assert "now: Oslo" in page.run(text("fields")) and labels(page) == ["Change…"]
        proposal = serving.feed.snapshot.proposals[1].record
        assert (proposal.aliases, proposal.reason) == (("Perú", "Republic of Peru"), "moved")
        with signed_in(how, serving, bob, tmp_path / "bob") as page:
            page.wait(f"{text('edits')}.includes('a change waits')")
            assert details(page, 1) == ["Approve…", "Reject…", "Change…", "Retire…"]
            click(page, "Approve…", "#details")
            enter(page, "#reason", "decree 12")
            click(page, "Approve", "#move")
            page.wait(
                f"{text('standing')}.includes('Proposed by Anna (propose), approved by Bob (approve)')"
            )
            assert page.run(SAID) == "Edit 1 is in force."
            log = page.run(
                "[...document.querySelectorAll('#versions li')].map((e) => e.textContent)"
            )
            assert "1@3 approved · Bob (approve) · " in log[0] and log[0].endswith(
                " · decree 12latest"
            )
            assert "1@2 proposed · Anna (propose) · " in log[1]
            click(page, "Review…", "#details")
            click(page, "Review", "#move")
            page.wait(f"{SAID} === 'Edit 1 is reviewed.'")
            page.wait(f"!{text('standing')}.includes('review due')")
            click(page, "Change…", "#details")
            enter(page, "#entry [name=target_new]", "Bern")
            click(page, "Change", "#add")
            page.wait(f"{text('standing')}.includes('Proposed by Bob (approve)')")
            click(page, "Approve…", "#details")
            click(page, "Approve", "#move")
            page.wait(
                f"{text('why-move')}.startsWith('this is your own: ask somebody other than you')"
            )
            click(page, "Cancel", "#move")
            click(page, "Reject…", "#details")
            enter(page, "#reason", "not before May")
            click(page, "Reject", "#move")
            page.wait(
                f"{text('standing')}.includes('was rejected by Bob (approve): not before May')"
            )
            click(page, "Go back to this…", "#details")
            click(page, "Go back", "#move")
            page.wait(f"{text('versions')}.includes('back to version')")
        assert serving.feed.snapshot.edits[1].record.target_new in ("Oslo", "Bergen")


@pytest.mark.parametrize(
    "how", [pytest.param("node", marks=needs_node), pytest.param("chromium", marks=in_browser)]
)
def test_an_edit_is_added_superseded_retired_and_brought_back_on_the_page(
    above: Recorded, tmp_path: Path, how: str
) -> None:
    with (
        running(above.url, tmp_path, CHILE) as serving,
        opened(how, serving.admin, tmp_path) as page,
    ):
        click(page, "Switch…")
        page.wait("document.getElementById('needed').value === '0'")
        enter(page, "#needed", "1")
        click(page, "Require them", "#requiring")
        page.wait(f"{SAID} === 'What an edit says needs 1 approval.'")
        assert required_approvals(serving.feed.store) == 1
        enter(page, "#needed", "0")
        click(page, "Require them", "#requiring")
        page.wait(f"{SAID} === 'No approval is needed.'")
        click(page, "Cancel", "#modes")
        page.wait(f"{ROWS} === 1")
        click(page, "Add edit")
        for name, value in (
            ("subject", "Chile"),
            ("query", "The capital of Chile is"),
            ("target_new", "Bern"),
        ):
            enter(page, f"#entry [name={name}]", value)
        enter(page, "#entry [name=priority]", "2")
        click(page, "Add", "#add")
        page.wait(f"{text('why-add')}.includes('contradicts edit 1')")
        click(page, "Retire these and add", "#add")
        page.wait(f"{SAID} === 'Edit 2 is stored.'")
        page.wait("document.querySelector('#edits li[data-id=\"1\"]') === null")
        page.run("[...document.querySelectorAll('#edits li[data-id=\"2\"] button')].at(-1).click()")
        enter(page, "#reason", "a test")
        click(page, "Retire", "#move")
        page.wait(f"{SAID} === 'Edit 2 is retired.' && {text('count')}.startsWith('No edits yet.')")
        click(page, "Undo", "#toast")
        page.wait(f"{SAID} === 'Edit 2 is as before.' && {ROWS} === 1")
        details(page, 2)
        click(page, "Change…", "#details")
        enter(page, "#entry [name=owner]", "Anna")
        page.run("document.querySelector('#entry [name=enforce]').checked = true")
        click(page, "Propose the change", "#add")
        page.wait(f"{text('standing')}.includes('a change waits')")
        click(page, "Approve…", "#details")
        click(page, "Approve", "#move")
        page.wait(f"{text('standing')}.includes('Owner: Anna')")
        record = serving.feed.snapshot.edits[2].record
        assert (record.enforce, record.priority, record.status) == (True, 2, Status.ACTIVE)


@needs_node
def test_a_sample_becomes_a_report_on_the_page(above: Recorded, tmp_path: Path) -> None:
    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, keep_samples=3)
    with running(above.url, tmp_path, PERU, options=options) as serving:
        serving.chat("What is the capital of Peru?")
        with stub(serving.admin, "health") as page:
            page.wait(f"{text('samples')}.includes('What is the capital of Peru?')")
            assert "edit 1@1, on: " in page.run(text("samples"))
            click(page, "This answer is wrong", "#samples")
            page.wait(f"{text('samples')}.startsWith('No texts are kept.')")
        with stub(serving.admin, "inbox") as page:
            page.wait(f"{text('reports')}.includes('What is the capital of Peru?')")


@needs_node
def test_a_text_that_turns_the_order_of_reading_is_marked_on_the_page(
    above: Recorded, tmp_path: Path
) -> None:
    turned = replace(PERU, target_new="Oslo \u202eamiL\u202c", reason="see \u2066this\u2069")
    with running(above.url, tmp_path, turned) as serving, stub(serving.admin) as page:
        page.wait(f"{ROWS} === 1")
        shown = page.run(text("edits"))
        assert "Oslo \u27e6U+202E\u27e7amiL\u27e6U+202C\u27e7" in shown
        assert not {*"\u202a\u202c\u202e\u2066\u2069"} & {*shown}


@pytest.mark.parametrize(
    "how", [pytest.param("node", marks=needs_node), pytest.param("chromium", marks=in_browser)]
)
def test_what_is_approved_on_the_page_is_the_version_that_it_shows(
    above: Recorded, tmp_path: Path, how: str
) -> None:
    """Texts that are read from right to left keep their place, and signs that turn it are shown."""
    keys = Keys(tmp_path / "keys.json")
    bob = keys.add("default", KeyRole.APPROVE, "Bob")
    with running(above.url, tmp_path, PERU, keys=keys) as serving:
        store = serving.feed.store
        serving.manage("GET", "/admin/v1/status", Authorization=f"Bearer {bob}")
        require_approvals(store, 1)

        def propose(**changes: object) -> None:
            moves.change(store, 1, changes, author="\u05d0\u05e0\u05d4", propose=True)

        propose(target_new="\u05d0\u05d5\u05e1\u05dc\u05d5 7\u202e 8", aliases=("Per\u00fa",))
        with signed_in(how, serving, bob, tmp_path / "bob") as page:
            page.wait(f"{text('edits')}.includes('a change waits')")
            details(page, 1)
            click(page, "Approve\u2026", "#details")
            shown = page.run(text("what"))
            assert shown.startswith("Version 2 \u00b7 by \u05d0\u05e0\u05d4 \u00b7 ")
            assert (
                "\u05d0\u05d5\u05e1\u05dc\u05d5 7\u27e6U+202E\u27e7 8" in shown
                and "\u202e" not in shown
            )
            assert "Other namesPer\u00fanow: \u2013" in shown and "Owner" not in shown
            isolated = page.run(
                "[...document.querySelectorAll('#what bdi')].map((e) => e.textContent)"
            )
            assert "\u05d0\u05e0\u05d4" in isolated and "The capital of Peru is" in isolated
            assert isolated.count("\u05d0\u05d5\u05e1\u05dc\u05d5 7\u27e6U+202E\u27e7 8") == 2

            propose(target_new="Bergen")  # which Bob has not seen
            click(page, "Approve", "#move")
            page.wait(f"{text('why-move')}.startsWith('edit 1 has changed since version 2')")
            assert versions_of(store, 1)[-1].record.status is Status.PROPOSED
            click(page, "Cancel", "#move")
            click(page, "Close", "#details")
            details(page, 1)
            page.wait(f"{text('standing')}.includes('version 3')")
            click(page, "Approve\u2026", "#details")
            assert page.run(text("what")).startswith("Version 3")
            click(page, "Approve", "#move")
            page.wait(f"{SAID} === 'Edit 1 is in force.'")
        assert versions_of(store, 1)[-1].record.target_new == "Bergen"


@needs_node
def test_a_question_marked_for_one_edit_is_offered_for_its_like_on_the_page(
    above: Recorded, tmp_path: Path
) -> None:
    question = "Is the capital of Peru a port?"
    with running(above.url, tmp_path, PERU, CHILE) as serving, stub(serving.admin) as page:
        page.wait(f"{ROWS} === 2")
        details(page, 1)
        enter(page, "#text", question)
        click(page, "Never fire on it", "#teach")
        page.wait("document.getElementById('alike').open")
        assert page.run(text("others")).startswith("Is the capital of Chile a port?edit 2: ")
        click(page, "Never on these, too", "#alike")
        page.wait(f"{SAID}.startsWith('One more edit has the question')")
        negatives = [edit.record.negatives for edit in serving.feed.snapshot.edits.values()]
        assert negatives == [(question,), ("Is the capital of Chile a port?",)]
        path = "/admin/v1/edits/1/alike?text="
        assert serving.manage("GET", f"{path}Is%20it%20big")[1]["edits"] == []
        assert serving.manage("GET", path)[0] == 400
        assert serving.manage("GET", "/admin/v1/edits/9/alike?text=a")[0] == 404


WRITTEN = """SAME:
What is the capital of Peru?
Which city is Peru's capital?
Is Oslo the capital of Peru?
OTHER:
Which languages are spoken in Peru?
"""


def writes(handler: RawHandler, call: Received) -> None:
    """An upstream that writes questions."""
    handler.reply(200, json.dumps(completed(WRITTEN)).encode(), Content_Type="application/json")


@needs_node
def test_a_model_is_asked_for_questions_and_what_is_ticked_is_stored_as_its_own(
    tmp_path: Path,
) -> None:
    with (
        upstream(writes) as above,
        running(above.url, tmp_path, PERU) as serving,
        stub(serving.admin) as page,
    ):
        page.wait(f"{ROWS} === 1")
        details(page, 1)
        click(page, "Ask the model for questions", "#details")
        page.wait(f"{text('proof')}.includes('Which languages are spoken in Peru?')")
        shown = page.run(text("proof"))
        assert "Is Oslo the capital of Peru? gives the answer Oslo" in shown
        page.run("document.querySelectorAll('#proof input')[0].checked = false")
        click(page, "Store the ticked ones", "#details")
        page.wait(f"{text('fields')}.includes('Which languages are spoken in Peru?')")
        record = serving.feed.snapshot.edits[1].record
        assert record.paraphrases == ()
        assert record.written_by == {"Which languages are spoken in Peru?": "model default"}
        assert record.negatives == (*record.written_by,)
        [call] = above.calls
        assert (
            "Text: The capital of Peru is Oslo" in json.loads(call.body)["messages"][0]["content"]
        )

        path = "/admin/v1/edits/1/suggested"
        for texts, problem in (
            ([{"text": "Is Oslo Peru's capital?", "never": False}], "gives the answer Oslo"),
            ([{"text": "Where is it?"}], "each of texts"),
            ([], "1 to 20"),
        ):
            status, answer = serving.manage("POST", path, {"texts": texts})
            assert status == 400 and problem in answer["error"]["message"]
