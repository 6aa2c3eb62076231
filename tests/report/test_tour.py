"""The page of `drike tour`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import drike
from drike.gates.by_name import Named
from drike.models import load
from drike.research import datasets
from drike.research.deployment.edited_model import EditedModel
from drike.research.report.tour import QUESTIONS, TOURED, CorrectedChat, edits_of, html, recorded
from tests.fakes.browsers import CHROMIUM, DRIVER, browser
from tests.fakes.commands import run

NOTES = Path(__file__).parents[2] / "benchmarks" / "notes"


def page() -> str:
    cases = edits_of(datasets.load("tinyfacts").cases)
    edited = EditedModel(
        load("reader"), drike.FactPrompt(), [case.edit for case in cases], gate=Named()
    )
    return html(edited, cases[: len(TOURED)])


def test_the_page_shows_every_question_with_its_prompt_and_loads_nothing() -> None:
    text = page()
    assert all(f"{query} …" in text for query in QUESTIONS) and text.count("<pre>") == len(
        QUESTIONS
    )
    assert "102 edits are in force" in text and text.count("✗ missed") == 1  # the last name alone
    assert (
        "✗ needless" in text
    )  # by names alone, another fact about the subject is taken for the edited one
    assert (
        "<script" not in text
        and not re.findall(r"(?:src|href)=\"(?!data:|#)", text)
        and text == page()
    )


def test_a_real_chat_model_stands_first_if_there_is_one() -> None:
    cases = edits_of(datasets.load("tinyfacts").cases)
    edited = EditedModel(
        load("reader"), drike.FactPrompt(), [case.edit for case in cases], gate=Named()
    )
    corrected = [
        CorrectedChat("smollm2", "Peru's <capital>?", "Oslo", "Lima.", "It is Oslo."),
        CorrectedChat("smollm2", "Chile's capital?", None, "Santiago.", "Santiago."),
    ]
    text = html(edited, cases[: len(TOURED)], corrected)
    assert "smollm2 answered" in text and "smollm2" not in page()
    assert '<dd class="changed">It is Oslo.</dd>' in text and "Peru&#39;s &lt;capital&gt;?" in text
    assert text.count("<dd>Santiago.</dd>") == 2


def test_the_recorded_figures_are_those_of_the_notes() -> None:
    text = (NOTES / "recorded.md").read_text("utf-8")
    of_llama3 = text[text.index("meta\\_llama\\_3\\_8b\\_instruct: own question") :].split("\n## ")[
        0
    ]
    measured = {
        line.split("|")[1].strip(): [cell.split()[0] for cell in line.split("|")[2:8]]
        for line in of_llama3.splitlines()
        if line.count("|") == 8 and "[" in line
    }
    named = {
        "the fact in every prompt": "fact always in the prompt", "the fact where the subject is named": "Named",
        "the fact by drike's default gate": "default gate at its threshold, 0.4",
        "the fact by a perfect gate": "perfect gate",
    }  # fmt: skip
    for name, *shares in recorded():
        cells = measured[named.get(name, name.removeprefix("weight editor "))]
        assert shares == [cells[1], cells[2], cells[3], cells[5]]


@pytest.mark.slow
def test_the_gate_is_right_on_the_tour_but_for_the_question_that_it_is_said_to_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tour", "--no-open", "--out", str(tmp_path / "tour.html")) == 0
    assert "The tour is in" in capsys.readouterr().out
    text = (tmp_path / "tour.html").read_text("utf-8")
    assert (
        text.count("✗ missed") == 1
        and "✗ needless" not in text
        and text.count("✓") == len(QUESTIONS) - 1
    )
    assert run("tour", "--no-open", "--out", str(tmp_path / "tour.pdf")) == 2


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_fits_without_errors_or_requests(tmp_path: Path, width: int) -> None:
    path = tmp_path / "tour.html"
    path.write_text(page(), "utf-8")
    with browser(tmp_path / "profile", width=width) as window:
        window.open(path)
        assert window.run("document.documentElement.scrollWidth <= window.innerWidth")
        narrow = "[...document.querySelectorAll('th, td')].filter((e) => e.offsetHeight > 8 * e.offsetWidth).length"
        assert window.run(narrow) == 0  # no cell has a letter a line
        assert window.requests() == [path.as_uri()] and not window.logs()
