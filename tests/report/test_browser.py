"""Report pages in a real browser: `make browser`.

Skipped where chromium and chromedriver are not installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.research.evaluation.metrics import Outcome
from drike.research.report.document import Document, document
from drike.research.report.groups import grouped
from drike.research.report.page import html
from drike.research.report.reported_runs import ReportedRun
from drike.research.runs.files import CasePrompts
from tests.fakes.browsers import CHROMIUM, DRIVER, Browser, browser
from tests.fakes.reports import run_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"
    ),
]
HOSTILE = "</script><img src=x onerror=document.title='broken'>"
SHOWN = "document.querySelectorAll('#list details').length"
OPEN = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
COUNT = "document.getElementById('count').textContent"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    small = grouped([run_of(0, cases=40, hostile=HOSTILE), run_of(0, model="another", cases=40)])
    large = grouped([run_of(0, cases=20_000, editors=["Unedited", "IKE", "DR-IKE"], neighbours=10)])
    run = run_of(0, cases=1, editors=["IKE"])
    [ike] = run.outcomes.values()
    blocks = (("copy", "A"), ("retain", "<b>B</b>"), ("copy", "C"), ("edit", "Asked:"))
    kept = CasePrompts("0", blocks, {ike[0].query: (0, 1, 2, 3)})
    judged = (replace(ike[0], correct=True), *ike[1:-1], replace(ike[-1], correct=None))
    recorded = grouped([replace(run, outcomes={"IKE": judged}, prompts={"IKE": {"0": kept}})])
    many = ["Unedited", *(f"Editor {i}" for i in range(15))]
    aspects = grouped([with_all_aspects(run_of(0, cases=40, editors=many))])
    made = {
        "small": html(document(small)),
        "large": html(Document("20,000 cases", large, ())),
        "recorded": html(document(recorded)),
        "aspects": html(document(aspects)),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


def with_aspect(outcome: Outcome, aspect: Aspect) -> Outcome:
    return replace(outcome, aspect=aspect, query=f"{aspect} of {outcome.query}")


def with_all_aspects(run: ReportedRun) -> ReportedRun:
    """The run with a probe of every further aspect at every case."""
    further = [aspect for aspect in Aspect if aspect not in ASPECTS_OF_S]
    outcomes = {
        editor: tuple(
            asked
            for outcome in of_editor
            for asked in (
                outcome,
                *(with_aspect(outcome, a) for a in further if outcome.aspect is Aspect.REWRITE),
            )
        )
        for editor, of_editor in run.outcomes.items()
    }
    return replace(run, outcomes=outcomes, written={})


def select(window: Browser, id: str, value: str) -> None:
    window.run(
        f"(document.getElementById('{id}').value = '{value}', "
        f"document.getElementById('{id}').dispatchEvent(new Event('change', {{bubbles: true}})))"
    )


def test_a_page_opens_without_errors_or_requests(desktop: Browser, pages: dict[str, Path]) -> None:
    desktop.open(pages["small"])
    assert desktop.run(COUNT) == "80 of 80 cases" and desktop.run(SHOWN) == 25
    desktop.run(OPEN)
    desktop.wait("document.querySelectorAll('#list .probe').length === 25 * 6")
    assert not desktop.logs()
    assert desktop.requests() == [pages["small"].as_uri()]
    assert "broken" not in desktop.run("document.title.slice(0, 5)")
    assert desktop.run("document.querySelectorAll('img').length") == 0


def test_search_and_filters_show_exactly_the_matching_cases(
    desktop: Browser, pages: dict[str, Path]
) -> None:
    desktop.open(pages["small"])
    desktop.run("document.getElementById('f-text').focus()")
    desktop.press(*"land7</script")
    desktop.wait(f"{COUNT} === '1 of 80 cases'")
    desktop.run("document.getElementById('filters').reset()")
    desktop.wait(f"{COUNT} === '80 of 80 cases'")
    data = "JSON.parse(document.getElementById('data').textContent)"

    def expected(change: str) -> int:
        """Cases whose rewrite answers under editors 1 and 2 are these; -1: not judged."""
        of = "c[4][c[4].findIndex((x, i) => i % 7 === 0 && x === e) + 1][0]"
        script = (
            f"{data}.cases.filter((c) => [1, 2].map((e) => {of}).join('') === '{change}').length"
        )
        return int(desktop.run(script))

    select(desktop, "f-before", "1")
    select(desktop, "f-editor", "2")
    select(desktop, "f-aspect", "0")
    for answer, change in (("fixed", "01"), ("broken", "10")):
        select(desktop, "f-answer", answer)
        assert desktop.run(COUNT) == f"{expected(change)} of 80 cases"
    select(desktop, "f-answer", "fixed")
    assert expected("01") > 0
    desktop.run("(document.querySelector('#list details').open = true)")
    desktop.wait("document.querySelectorAll('#list .probe').length === 1")
    assert desktop.run("document.querySelectorAll('#list .probe .answers li').length") == 2, (
        "the editors compared"
    )
    desktop.run("document.getElementById('filters').reset()")
    desktop.wait(f"{COUNT} === '80 of 80 cases'")
    select(desktop, "f-run", "1/0")
    assert desktop.run(COUNT) == "40 of 80 cases"
    select(desktop, "f-editor", "4")
    select(desktop, "f-answer", "0")
    wrong = int(desktop.run(COUNT).split()[0])
    select(desktop, "f-answer", "1")
    assert wrong + int(desktop.run(COUNT).split()[0]) == 40


def test_a_case_shows_what_was_written_the_prompt_by_role_and_what_was_not_judged(
    desktop: Browser, pages: dict[str, Path]
) -> None:
    desktop.open(pages["recorded"])
    desktop.run("(document.querySelector('#list details').open = true)")
    desktop.wait("document.querySelectorAll('#list .probe').length === 6")
    first = "document.querySelector('#list .answers li')"
    assert desktop.run(f"{first}.querySelector('p').textContent") == "\u2713 said 0"
    assert (
        desktop.run("document.querySelectorAll('#list li [aria-label=\"not judged\"]').length") == 1
    )
    assert "6/6" not in desktop.run("document.querySelector('.tallies').textContent")
    button = "document.querySelector('#list .answers button')"
    assert desktop.run(f"{button}.textContent") == "Prompt: 2 copies, 1 retain"
    desktop.run(f"{button}.click()")
    shown = (
        "[...document.querySelectorAll('#list .prompt > *')].map((e) => e.tagName + e.textContent)"
    )
    assert desktop.run(shown) == [
        "SMALLPrompt of IKE", "DETAILS2 copiesblock 1Ablock 3C", "DETAILS1 retainblock 2<b>B</b>", "PREAsked:",
    ]  # fmt: skip
    assert desktop.run(f"{button}.getAttribute('aria-expanded')") == "true"


def test_the_page_is_usable_by_keyboard_alone(desktop: Browser, pages: dict[str, Path]) -> None:
    desktop.open(pages["small"])
    focus = "document.activeElement.tagName + '#' + document.activeElement.id"
    desktop.press("tab")
    desktop.wait("document.activeElement.className === 'skip'")
    desktop.press("enter")
    # A busy browser follows a link a moment later, and takes the focus off it later still.
    desktop.wait("location.hash.length > 1 && document.activeElement.className !== 'skip'")
    desktop.press("tab")
    reached = []
    for _ in range(80):
        reached.append(desktop.run(focus))
        if reached[-1] == "SUMMARY#" and "BUTTON#" in reached:
            break
        desktop.press("tab")
    for expected in (
        "INPUT#f-text",
        "SELECT#f-run",
        "SELECT#f-editor",
        "SELECT#f-before",
        "BUTTON#",
        "SUMMARY#",
    ):
        assert expected in reached
    assert desktop.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    desktop.press("enter")
    desktop.wait("document.activeElement.parentElement.open")
    desktop.run("document.getElementById('p-next').focus()")
    desktop.press("space")
    desktop.wait("document.getElementById('p-where').textContent === 'page 2 of 4'")


def test_20_000_cases_render_and_filter_within_seconds(
    desktop: Browser, pages: dict[str, Path]
) -> None:
    began = time.monotonic()
    desktop.open(pages["large"])
    desktop.wait(f"{COUNT} === '20,000 of 20,000 cases'")
    opened = time.monotonic() - began
    desktop.run("document.getElementById('f-text').focus()")
    desktop.press(*"land1234")
    first = desktop.wait(f"{COUNT} !== '20,000 of 20,000 cases'")
    assert desktop.run(COUNT).startswith("11 of"), "Land1234 and Land12340 to Land12349"
    script = (
        "(() => { const t = performance.now(); const s = document.getElementById('f-answer'); s.value = 'fixed';"
        "document.getElementById('f-editor').value = 2; document.getElementById('f-text').value = 'land';"
        "s.dispatchEvent(new Event('change', {bubbles: true})); return performance.now() - t; })()"
    )
    filtered = desktop.run(script) / 1000
    assert desktop.run(SHOWN) == 25
    size = pages["large"].stat().st_size / 1e6
    print(
        f"{size:.0f} MB: open {opened:.1f} s, first search {first:.1f} s, filter {filtered:.2f} s"
    )
    assert opened < 20 and first < 10 and filtered < 3


# Elements that reach beyond the window, or hold more than they show; what is hidden for sight is
# left out.
CUT = """(() => {
  const width = document.documentElement.clientWidth, cut = [];
  for (const e of document.querySelectorAll('main *')) {
    const box = e.getBoundingClientRect();
    if (!box.width || box.right < 0) continue;
    const scrolls = e.matches('div, td, th, table') && e.scrollWidth > e.clientWidth + 1;
    if (box.left < -1 || box.right > width + 1 || scrolls)
      cut.push(e.tagName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 40));
  }
  return cut; })()"""


@pytest.mark.parametrize("page", ["small", "aspects"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(
    width: int, page: str, pages: dict[str, Path], tmp_path: Path
) -> None:
    with browser(tmp_path / "profile", width) as window:
        window.open(pages[page])
        above = window.run("document.getElementById('cases').getBoundingClientRect().top")
        assert width == 390 or above <= 3050, "the cases begin further down"
        window.run(OPEN)
        window.wait("document.querySelector('#list .case:last-child .probe') !== null")
        assert window.run(CUT) == []
        assert window.run("document.documentElement.scrollWidth") <= width
        small = window.run(
            "[...document.querySelectorAll('button, select, input, summary')].filter((e) => e.offsetHeight "
            "&& e.offsetHeight < 24).length"
        )
        assert small == 0, "touch targets need room"


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(dark: bool, desktop: Browser, pages: dict[str, Path]) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    desktop.call(
        "POST",
        "/chromium/send_command",
        cmd="Emulation.setEmulatedMedia",
        params={"features": [scheme]},
    )
    desktop.open(pages["small"])
    desktop.run(OPEN)
    desktop.wait("document.querySelector('#list .case:last-child .probe') !== null")
    script = """(() => {
      const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const light = (c) => { const [r, g, b] = parse(c).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      const worst = {};
      const texts = 'p, td, th, a, li, h1, h2, h3, dt, dd, b, span, caption, label, small, figcaption, button, text';
      for (const e of document.querySelectorAll(texts)) {
        const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
        if (e.disabled) continue;
        const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
        worst[e.tagName] = Math.min(worst[e.tagName] || 99, ratio);
      }
      return worst; })()"""
    contrasts = desktop.run(script)
    assert contrasts["TD"] > 4.5
    assert min(contrasts.values()) >= 4.5, contrasts
