"""Report pages in a real browser: `make browser`. Skipped where chromium and chromedriver are not installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from browsing import CHROMIUM, DRIVER, Browser, browser
from drike.report.document import Document, document
from drike.report.groups import grouped
from drike.report.page import html
from reports import run_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
HOSTILE = "</script><img src=x onerror=document.title='broken'>"
SHOWN = "document.querySelectorAll('#list details').length"
COUNT = "document.getElementById('count').textContent"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    small = grouped([run_of(0, cases=40, hostile=HOSTILE), run_of(0, model="another", cases=40)])
    large = grouped([run_of(0, cases=20_000, editors=["Unedited", "IKE", "DR-IKE"], neighbours=10)])
    made = {"small": html(document(small)), "large": html(Document("20,000 cases", large, ()))}
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


def select(window: Browser, id: str, value: str) -> None:
    window.run(
        f"(document.getElementById('{id}').value = '{value}', "
        f"document.getElementById('{id}').dispatchEvent(new Event('change', {{bubbles: true}})))"
    )


def test_a_page_opens_without_errors_or_requests(desktop: Browser, pages: dict[str, Path]) -> None:
    desktop.open(pages["small"])
    assert desktop.run(COUNT) == "80 of 80 cases" and desktop.run(SHOWN) == 25
    desktop.run("document.querySelectorAll('#list details').forEach((d) => { d.open = true; })")
    desktop.wait("document.querySelectorAll('#list table').length === 25")
    assert not desktop.logs()
    assert desktop.requests() == [pages["small"].as_uri()]
    assert "broken" not in desktop.run("document.title.slice(0, 5)")
    assert desktop.run("document.querySelectorAll('img').length") == 0


def test_search_and_filters_show_exactly_the_matching_cases(desktop: Browser, pages: dict[str, Path]) -> None:
    desktop.open(pages["small"])
    desktop.run("document.getElementById('f-text').focus()")
    desktop.press(*"land7</script")
    desktop.wait(f"{COUNT} === '1 of 80 cases'")
    desktop.run("document.getElementById('filters').reset()")
    desktop.wait(f"{COUNT} === '80 of 80 cases'")
    data = "JSON.parse(document.getElementById('data').textContent)"
    select(desktop, "f-from", "1")
    select(desktop, "f-to", "2")
    select(desktop, "f-aspect", "0")
    select(desktop, "f-change", "01")
    expected = desktop.run(
        f"{data}.cases.filter((c) => {{ const a = (e) => c[4][c[4].findIndex((x, i) => i % 6 === 0 && x === e) + 1];"
        "return a(1)[0] === '0' && a(2)[0] === '1'; }).length"
    )
    assert 0 < expected < 80 and desktop.run(COUNT) == f"{expected} of 80 cases"
    desktop.run("document.getElementById('filters').reset()")
    desktop.wait(f"{COUNT} === '80 of 80 cases'")
    select(desktop, "f-run", "1/0")
    assert desktop.run(COUNT) == "40 of 80 cases"
    select(desktop, "f-editor", "4")
    select(desktop, "f-answer", "0")
    wrong = int(desktop.run(COUNT).split()[0])
    select(desktop, "f-answer", "1")
    assert wrong + int(desktop.run(COUNT).split()[0]) == 40


def test_the_page_is_usable_by_keyboard_alone(desktop: Browser, pages: dict[str, Path]) -> None:
    desktop.open(pages["small"])
    focus = "document.activeElement.tagName + '#' + document.activeElement.id"
    desktop.press("tab")
    desktop.wait("document.activeElement.className === 'skip'")
    desktop.press("enter")
    desktop.wait("location.hash.length > 1")  # a busy browser follows a link a moment later
    desktop.press("tab")
    reached = []
    for _ in range(80):
        reached.append(desktop.run(focus))
        if reached[-1] == "SUMMARY#":
            break
        desktop.press("tab")
    for expected in ("INPUT#f-text", "SELECT#f-run", "SELECT#f-editor", "SELECT#f-change", "BUTTON#", "SUMMARY#"):
        assert expected in reached
    assert desktop.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    desktop.press("enter")
    desktop.wait("document.activeElement.parentElement.open")
    desktop.run("document.getElementById('p-next').focus()")
    desktop.press("space")
    desktop.wait("document.getElementById('p-where').textContent === 'page 2 of 4'")


def test_20_000_cases_render_and_filter_within_seconds(desktop: Browser, pages: dict[str, Path]) -> None:
    began = time.monotonic()
    desktop.open(pages["large"])
    desktop.wait(f"{COUNT} === '20,000 of 20,000 cases'")
    opened = time.monotonic() - began
    desktop.run("document.getElementById('f-text').focus()")
    desktop.press(*"land1234")
    first = desktop.wait(f"{COUNT} !== '20,000 of 20,000 cases'")
    assert desktop.run(COUNT).startswith("11 of"), "Land1234 and Land12340 to Land12349"
    script = (
        "(() => { const t = performance.now(); const s = document.getElementById('f-from'); s.value = 1;"
        "document.getElementById('f-to').value = 2; document.getElementById('f-text').value = 'land';"
        "s.dispatchEvent(new Event('change', {bubbles: true})); return performance.now() - t; })()"
    )
    filtered = desktop.run(script) / 1000
    assert desktop.run(SHOWN) == 25
    size = pages["large"].stat().st_size / 1e6
    print(f"{size:.0f} MB: open {opened:.1f} s, first search {first:.1f} s, filter {filtered:.2f} s")
    assert opened < 20 and first < 10 and filtered < 3


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(width: int, pages: dict[str, Path], tmp_path: Path) -> None:
    with browser(tmp_path / "profile", width) as window:
        window.open(pages["small"])
        window.run("(document.querySelector('#list details').open = true)")
        assert window.run("document.documentElement.scrollWidth") <= width
        small = window.run(
            "[...document.querySelectorAll('button, select, input, summary')].filter((e) => e.offsetHeight "
            "&& e.offsetHeight < 24).length"
        )
        assert small == 0, "touch targets need room"


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(dark: bool, desktop: Browser, pages: dict[str, Path]) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    desktop.call("POST", "/chromium/send_command", cmd="Emulation.setEmulatedMedia", params={"features": [scheme]})
    desktop.open(pages["small"])
    script = """(() => {
      const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const light = (c) => { const [r, g, b] = parse(c).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      const worst = {};
      const texts = 'p, td, th, a, li, h1, h2, label, small, figcaption, button, svg text';
      for (const e of document.querySelectorAll(texts)) {
        const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
        if (e.disabled) continue;
        const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
        worst[e.tagName] = Math.min(worst[e.tagName] || 99, ratio);
      }
      return worst; })()"""
    found = desktop.run(script)
    assert found["TD"] > 4.5
    assert min(found.values()) >= 4.5, found
