"""The admin page in a real browser, on a real gateway: `make browser`; what serves it, everywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drike.edits.record import EditRecord, Status
from drike.gates.by_name import Named
from drike.gateway.http.keys import KeyRole, Keys
from drike.gateway.options import Mode
from drike.stores.moves import rollback
from tests.fakes.browsers import CHROMIUM, DRIVER, ROWS, SAID, Browser, browser, click, enter, text
from tests.fakes.gateways import Running, ask, decided, running
from tests.fakes.upstreams import RawHandler, Received, completed, upstream

HOSTILE = "</script><img src=x onerror=document.title='broken'><b>\u202e{{7*7}}"
WORDINGS = ("What is the capital of Peru?", "Which city is the seat of that government?")
PERU = EditRecord(
    "Peru",
    "The capital of Peru is",
    "Oslo",
    aliases=("Republic of Peru",),
    paraphrases=WORDINGS,
    author="ann",
)
EDITS = (
    PERU,
    EditRecord("Chile", "The capital of Chile is", "Rome", negatives=("Who sells Chile sauce?",)),
    EditRecord(
        HOSTILE,
        f"The sign of {HOSTILE} is",
        HOSTILE,
        aliases=("Mallory",),
        source=HOSTILE,
        reason=HOSTILE,
    ),
    EditRecord("Cuba", "The capital of Cuba is", "Bonn", status=Status.SHADOW),
)
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"
)


def answer(handler: RawHandler, call: Received) -> None:
    """An upstream that knows Lima, unless it is shown the edit."""
    text = json.loads(call.body)["messages"][-1]["content"]
    said = f"It is {'Oslo' if 'Oslo' in text else 'Lima'}. {HOSTILE}"
    handler.reply(200, json.dumps(completed(said)).encode(), Content_Type="application/json")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with (
        upstream(answer) as above,
        running(above.url, tmp_path_factory.mktemp("store"), *EDITS) as serving,
    ):
        yield serving


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(window: Browser, gateway: Running) -> Browser:
    """The page, just opened."""
    window.call("POST", "/url", url="about:blank")
    window.logs()
    window.call("POST", "/url", url=f"{gateway.admin}/#edits")
    window.wait(f"{ROWS} >= 4")
    return window


def test_the_page_is_served_without_a_key_and_under_a_strict_policy(gateway: Running) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/edit.js", "text/javascript"),
        ("/inbox.js", "text/javascript"),
    ):
        status, headers, body = ask(gateway.admin + path, "GET")
        assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "unsafe" not in policy
            and "frame-ancestors 'none'" in policy
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert not any(
            word in body
            for word in (b"innerHTML", b"outerHTML", b"insertAdjacent", b"eval(", b"Storage")
        )
        assert (
            b"style=" not in body
            and b" onclick=" not in body
            and b"http://" not in body.replace(b"http://www.w3.org", b"")
        )


def in_browser(test: Any) -> Any:
    return pytest.mark.browser(needs_browser(test))


@in_browser
def test_the_page_shows_edits_without_errors_and_asks_no_other_host(
    page: Browser, gateway: Running
) -> None:
    for view in ("try", "activity", "health", "gate", "edits"):
        page.run(f"location.hash = '#{view}'")
        page.wait(f"!document.getElementById('v-{view}').hidden")
    page.wait(f"{text('mode')} === 'edits on'")
    assert page.logs() == []
    assert page.run(
        "performance.getEntriesByType('resource').every((e) => e.name.startsWith(location.origin))"
    )


@in_browser
def test_hostile_texts_stay_texts(page: Browser, gateway: Running) -> None:
    gateway.chat("Who is Mallory?")
    page.run("document.querySelector('#edits li[data-id=\"3\"] button').click()")
    page.wait("document.getElementById('details').open")
    click(page, "Try it", "#details")
    page.wait("!document.getElementById('v-try').hidden")
    assert HOSTILE in page.run("document.getElementById('question').value")
    page.run("location.hash = '#activity'")
    page.wait("document.querySelector('#fired .fact') !== null")
    page.run("location.hash = '#try'")
    enter(page, "#question", f"Mallory {HOSTILE}")
    click(page, "Ask before and after")
    page.wait("!document.getElementById('answers').hidden")
    marked = HOSTILE.replace("\u202e", "\u27e6U+202E\u27e7")
    assert marked in page.run(text("before")) and marked in page.run(text("decision"))
    assert page.run("document.querySelectorAll('main img, main b b, dialog img').length") == 0
    assert page.run("document.title") == "drike: edits in force"
    assert page.logs() == []


@in_browser
def test_search_and_status_choose_the_edits(page: Browser, gateway: Running) -> None:
    enter(page, "#q", "capital rome")
    page.wait(f"{ROWS} === 1 && {text('count')} === '1 edit'")
    enter(page, "#q", "nowhere")
    page.wait(f"{text('count')} === 'No edit has these words.'")
    enter(page, "#q", "")
    page.run(
        "((s) => { s.value = 'shadow'; s.dispatchEvent(new Event('change')); })(document.getElementById('status'))"
    )
    page.wait(f"{ROWS} === 1")
    assert "Bonn" in page.run(text("edits"))


@in_browser
def test_an_edit_is_added_by_keyboard_superseded_and_retired(
    page: Browser, gateway: Running
) -> None:
    page.press("n")
    page.wait("document.getElementById('add').open")
    page.press(*"Mali", "tab", *"The capital of Mali is", "tab")
    page.wait(f"{text('found-as')}.includes('Malians')")
    page.run("document.querySelector('#found-as input').click()")
    page.press(*"Pisa", "enter")
    page.wait(f"{SAID}.includes('is stored')")
    assert [edit.record.not_names for edit in gateway.feed.index.edits.values()][-1] == ("Malian",)
    assert [edit.record.target_new for edit in gateway.feed.index.edits.values()][-1] == "Pisa"
    click(page, "Add edit")
    for name, value in (
        ("subject", "Mali"),
        ("query", "The capital of Mali is"),
        ("target_new", "Bern"),
    ):
        enter(page, f"#entry [name={name}]", value)
    click(page, "Add", "#add")
    page.wait(f"{text('why-add')}.includes('contradicts edit 5')")
    click(page, "Retire these and add", "#add")
    page.wait(f"{SAID} === 'Edit 6 is stored.'")
    page.wait("!!document.querySelector('#edits li[data-id=\"6\"]')")
    assert page.run("document.querySelector('#edits li[data-id=\"5\"]') === null")
    page.run("[...document.querySelectorAll('#edits li[data-id=\"6\"] button')].at(-1).click()")
    enter(page, "#reason", "a test")
    click(page, "Retire", "#move")
    page.wait(f"{SAID} === 'Edit 6 is retired.'")
    assert gateway.feed.snapshot.edits[6].record.reason == "a test"
    click(page, "Undo", "#toast")
    page.wait(f"{SAID} === 'Edit 6 is as before.'")
    assert gateway.feed.snapshot.edits[6].record.status is Status.ACTIVE


@in_browser
def test_a_change_leaves_texts_with_line_breaks_as_they_are(
    window: Browser, tmp_path: Path
) -> None:
    several = "Hello!\nWhat is the capital of Peru?\nThanks"
    entry = replace(PERU, paraphrases=(several,), negatives=(f"{several}!",))
    with upstream(answer) as above, running(above.url, tmp_path, entry) as gateway:
        window.call("POST", "/url", url=f"{gateway.admin}/#edits")
        window.wait("!!document.querySelector('#edits li[data-id=\"1\"] button')")
        window.run("document.querySelector('#edits li[data-id=\"1\"] button').click()")
        window.wait("document.getElementById('details').open")
        window.run(
            "[...document.querySelectorAll('#moves button')].find((b) => b.textContent.startsWith('Change')).click()"
        )
        window.wait("document.getElementById('add').open")
        enter(window, "#entry [name=owner]", "Ann")
        click(window, "Change", "#add")
        window.wait(f"{SAID} === 'Edit 1 is changed.'")
        record = gateway.feed.snapshot.edits[1].record
        assert (record.owner, record.paraphrases, record.negatives) == (
            "Ann",
            entry.paraphrases,
            entry.negatives,
        )


@in_browser
def test_an_entry_without_its_subject_is_refused_on_the_spot(page: Browser) -> None:
    click(page, "Add edit")
    click(page, "Add", "#add")
    page.wait(f"{text('why-add')} === 'Subject, query and new answer are needed.'")
    enter(page, "#entry [name=subject]", "Mars")
    enter(page, "#entry [name=query]", "The capital of Venus is")
    enter(page, "#entry [name=target_new]", "Rome")
    click(page, "Add", "#add")
    page.wait(f"{text('why-add')}.includes('is not in the query')")
    click(page, "Cancel", "#add")


@in_browser
def test_a_question_is_tried_before_and_after_with_the_reasons(page: Browser) -> None:
    page.run("location.hash = '#try'")
    page.wait("document.getElementById('question').offsetParent !== null")
    page.run("document.getElementById('question').focus()")
    page.press(*"What is the capital of Peru?", "enter")
    page.wait("!document.getElementById('answers').hidden")
    assert "Lima" in page.run(text("before")) and "Oslo" in page.run(text("after"))
    decision = page.run(text("decision"))
    assert "One edit fires" in decision and "is named" in decision and "100\u202f%" in decision
    assert "the question names \u201cperu\u201d" in decision


class WithThreshold(Named):
    """Names, and a threshold as gates with probabilities have it."""

    threshold = 0.4


@in_browser
def test_a_trial_shows_the_threshold_and_folds_the_features(
    window: Browser, tmp_path: Path
) -> None:
    with (
        upstream(answer) as above,
        running(above.url, tmp_path, PERU, gate=WithThreshold()) as gateway,
    ):
        window.call("POST", "/url", url=f"{gateway.admin}/#try")
        enter(window, "#question", "What is the capital of Peru?")
        click(window, "Show the decision only")
        window.wait("document.querySelector('#decision details') !== null")
        assert "it fires from 40\u202f% on" in window.run(text("decision"))
        assert not window.run("document.querySelector('#decision details').open")


@in_browser
def test_a_wrong_fire_becomes_a_negative_exemplar_and_a_miss_a_wording(
    page: Browser, gateway: Running
) -> None:
    gateway.chat("Is the Republic of Peru large?")
    gateway.chat("Who sells Chile sauce?")
    page.run("location.hash = '#activity'")
    page.wait(f"{text('fired')}.includes('Is the Republic of Peru large?')")
    assert "Who sells Chile sauce?" in page.run(text("missed"))
    click(page, "Never fire on this", "#fired")
    page.wait(f"{SAID}.startsWith('Edit 1 no longer fires on this question, in whatever case.')")
    assert gateway.feed.snapshot.edits[1].record.negatives == ("Is the Republic of Peru large?",)
    assert decided(gateway.feed, "Is the Republic of Peru large?").matched == ()
    click(page, "Undo", "#toast")
    page.wait(f"{SAID} === 'Edit 1 is as before.'")
    assert gateway.feed.snapshot.edits[1].record.negatives == ()
    page.run("location.hash = '#try'")
    enter(page, "#question", "Who sells Chile sauce?")
    click(page, "Show the decision only")
    click(page, "Should have fired", "#decision")
    page.wait(f"{SAID}.includes('negatives hold')")
    rollback(gateway.feed.store, 1, 1)


@in_browser
def test_a_text_that_is_recorded_in_part_is_not_offered_as_a_text_of_an_edit(
    window: Browser, tmp_path: Path
) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as gateway:
        gateway.chat("Is the Republic of Peru large? " + "Say it in a few words. " * 400)
        window.call("POST", "/url", url=f"{gateway.admin}/#activity")
        window.wait(f"{text('fired')}.includes('too long to be marked')")
        assert "Never fire on this" not in window.run(text("fired"))


@in_browser
def test_the_calibration_curve_is_drawn_with_a_table_of_its_numbers(
    page: Browser, gateway: Running
) -> None:
    page.run("location.hash = '#gate'")
    page.wait("document.querySelectorAll('#curve circle').length === 2")
    rows = page.run(
        "[...document.querySelectorAll('#curve tbody tr')].map((r) => r.innerText.replace(/\\s+/g, ' '))"
    )
    assert rows == ["0 % 100 % 1", "100 % 50 % 2"]
    _, found = gateway.manage("GET", "/admin/v1/calibration")
    assert [bin["count"] for bin in found["bins"]] == [1, 2]


@in_browser
def test_health_says_how_edits_fare_and_what_to_do_where_nothing_was_counted(
    window: Browser, tmp_path: Path
) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as serving:
        window.logs()
        window.call("POST", "/url", url=f"{serving.admin}/#health")
        window.wait(f"{text('on')}.includes('Switch edits on, and ask')")
        assert "send some through the gateway" in window.run(text("said-of-traffic"))
        for _ in range(3):
            serving.chat(WORDINGS[0])
        window.call("POST", "/refresh")
        window.wait(f"{text('on')}.includes('heeded in 100')")
        assert "too little traffic: 3 of at least 116 answers" in window.run(text("on"))
        assert "Of 3 requests in 1 day, 3 (100.0 %)" in window.run(text("said-of-traffic"))
        assert window.run("document.querySelectorAll('#on svg.days rect.taken').length") == 1
        assert (
            window.run("document.querySelector('#on svg.days').getBoundingClientRect().height") > 20
        )
        click(window, "Details", "#on")
        click(window, "Put into shadow…", "#details")
        click(window, "Put into shadow", "#move")
        window.wait(f"{text('moves')}.includes('Put in force…')")
        assert serving.feed.snapshot.edits[1].record.status is Status.SHADOW
        assert window.logs() == []


@in_browser
def test_the_mode_is_switched_with_a_reason(window: Browser, tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU, mode=Mode.SHADOW) as serving:
        window.logs()
        window.call("POST", "/url", url=serving.admin)
        click(window, "Switch…")
        window.wait("document.getElementById('modes').open")
        assert window.run("document.getElementById('new-mode').value") == "shadow"
        assert "Never switched here." in window.run(text("switched"))
        enter(window, "#new-mode", "on")
        enter(window, "#share", "25")
        enter(window, "#why-switch", "a first try")
        click(window, "Switch", "#modes")
        window.wait(f"{text('mode')} === 'edits on for 25\u202f%'")
        assert (serving.feed.switch.mode, serving.feed.switch.share) == (Mode.ON, 0.25)
        click(window, "Switch…")
        window.wait(f"{text('switched')}.includes('a first try')")
        assert window.logs() == []


@in_browser
def test_a_trial_shows_the_message_as_it_is_sent(page: Browser, gateway: Running) -> None:
    page.run("location.hash = '#try'")
    enter(page, "#question", WORDINGS[0])
    click(page, "Ask before and after")
    page.wait("!document.getElementById('as-sent').hidden")
    assert "Oslo" in page.run(text("sent")) and page.run(text("sent")).endswith(WORDINGS[0])


@in_browser
def test_a_key_is_asked_for_and_kept_in_memory_only(window: Browser, tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    key = keys.add("default", KeyRole.APPROVE)
    with upstream(answer) as above, running(above.url, tmp_path, PERU, keys=keys) as serving:
        window.call("POST", "/url", url=serving.admin)
        for given, expected in (("wrong", False), (key, True)):
            window.wait("document.getElementById('key').open")
            window.run("document.getElementById('secret').focus()")
            window.press(*given, "enter")
            window.wait(
                f"{ROWS} === 1" if expected else f"{text('why-key')}.includes('needs a key')"
            )
        stored = "Object.keys(localStorage).length + Object.keys(sessionStorage).length + document.cookie.length"
        assert window.run(stored) == 0 and key not in window.run(
            "document.documentElement.outerHTML"
        )
        window.call("POST", "/refresh")
        window.wait("document.getElementById('key').open")


@in_browser
def test_a_gateway_that_is_gone_is_reported(page: Browser, window: Browser, tmp_path: Path) -> None:
    with upstream(answer) as above, running(above.url, tmp_path, PERU) as serving:
        window.call("POST", "/url", url=serving.admin)
        window.wait(f"{ROWS} === 1")
    window.run("document.getElementById('search').requestSubmit()")
    window.wait(f"{SAID} === 'The gateway does not answer: check that it is running.'")


@in_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_screen_with_readable_text(
    gateway: Running, width: int, dark: bool, tmp_path: Path
) -> None:
    contrast = """(() => {
      const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      const seen = [...document.querySelectorAll('a, p, div, button, label, h1, h2, span, dt, dd, th, td')]
        .filter((e) => e.offsetParent && !e.disabled && e.textContent.trim());
      return Math.min(...seen.map((e) => { const [a, b] = [light(getComputedStyle(e).color), light(ground(e))]
        .sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); })); })()"""
    with browser(tmp_path / "profile", width) as opened:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        opened.call(
            "POST",
            "/chromium/send_command",
            cmd="Emulation.setEmulatedMedia",
            params={"features": [scheme]},
        )
        opened.call("POST", "/url", url=gateway.admin)
        opened.wait(f"{ROWS} >= 4")
        for view in ("edits", "try", "activity", "health", "gate"):
            opened.run(f"location.hash = '#{view}'")
            opened.wait(f"!document.getElementById('v-{view}').hidden")
            assert opened.run("document.documentElement.scrollWidth") <= width, view
            assert opened.run(contrast) >= 4.5, view
            small = "[...document.querySelectorAll('button, input, select, textarea')].filter((e) => e.offsetParent "
            assert opened.run(small + "&& e.offsetHeight < 24).length") == 0
        opened.run("(location.hash = '#edits', document.getElementById('new').click())")
        for dialog, button, within in (
            ("add", "Cancel", "#add"),
            ("details", "Retire…", "#details"),
            ("move", "Cancel", "#move"),
        ):
            opened.wait(f"document.getElementById('{dialog}').open")
            box = f"document.getElementById('{dialog}').getBoundingClientRect()"
            assert opened.run(f"((b) => b.left >= 0 && b.right <= innerWidth)({box})"), dialog
            assert opened.run(contrast) >= 4.5, dialog
            click(opened, button, within)
            if dialog == "add":
                opened.run("document.querySelector('#edits li button').click()")


@in_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_report_becomes_a_proven_edit_in_force_by_keyboard_in_six_clicks(
    width: int, tmp_path: Path
) -> None:
    reported = {
        "question": "What is the capital of Mali?",
        "answer": "Lima",
        "correction": "it's Oslo, not Lima",
    }
    began, clicks = time.monotonic(), 0
    with (
        browser(tmp_path / "profile", width) as window,
        upstream(answer) as above,
        running(above.url, tmp_path) as gateway,
    ):
        address = gateway.url.removesuffix("/v1") + "/feedback"
        assert (
            ask(address, "POST", json.dumps(reported).encode(), Content_Type="application/json")[0]
            == 201
        )
        window.call("POST", "/url", url=gateway.admin)
        window.wait("document.querySelector('nav').offsetParent !== null")
        for label, expected in (
            ("Inbox", "document.querySelectorAll('#reports li').length === 1"),
            (
                "Draft an edit",
                "document.querySelector('#drafted .pill.good')?.textContent.startsWith('took')",
            ),
            ("Put in force", f"{SAID} === 'Edit 1 is in force.'"),
        ):
            window.tab_to(label)
            window.press("enter")
            clicks += 1
            window.wait(expected)
            assert window.run("document.documentElement.scrollWidth") <= width, label
        assert gateway.chat(reported["question"])[1]["x-drike-edits"] == "1@2"
        assert [line for line in window.logs() if "favicon" not in line] == []
    assert clicks <= 6 and time.monotonic() - began < 60
