"""The page: it escapes every text, loads nothing, is accessible, and holds all cases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.research.report.case_data import as_script, packed
from drike.research.report.document import document
from drike.research.report.groups import grouped
from drike.research.report.page import html
from drike.research.report.page_tables import blocks
from drike.research.report.pareto_chart import pareto
from drike.research.report.reported_runs import read_runs
from drike.support.table import Cell, Difference, Estimate, Number, Table
from tests.fakes.reports import HOSTILE, Page, run_of


@pytest.fixture(scope="module")
def hostile_page() -> str:
    groups = grouped(
        [run_of(0, hostile=HOSTILE, cases=4), run_of(0, model="b", hostile=HOSTILE, cases=4)]
    )
    return html(document(groups))


def test_hostile_texts_add_no_element_to_a_page(hostile_page: str) -> None:
    harmless = html(document(grouped([run_of(0, cases=4), run_of(0, model="b", cases=4)])))

    def shape(
        text: str,
    ) -> list[str]:  # drawings have as many paths as their labels need, so they are left out
        return [
            tag for tag, _ in Page(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)).elements
        ]

    assert shape(hostile_page) == shape(harmless)
    page = Page(hostile_page)
    assert not page.all("img")
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert "onerror=alert(1)" in page.text("h2"), "it is shown as text"
    hostile_page.encode("utf-8")


def test_a_page_loads_nothing_and_runs_no_script_but_its_viewer(hostile_page: str) -> None:
    page = Page(hostile_page)
    [policy] = [
        m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    ]
    assert (
        policy is not None
        and policy.startswith("default-src 'none'")
        and "script-src 'sha256-" in policy
    )
    assert not [a for _, attributes in page.elements for a in attributes if a == "src"]
    assert all((link["href"] or "").startswith("#") for link in page.all("a"))
    assert len(page.all("script")) == 2 and not page.all("link")


def test_a_page_is_accessible_to_screen_readers(hostile_page: str) -> None:
    page = Page(hostile_page)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("href", "aria-labelledby"):
            target = (attributes.get(name) or "").removeprefix("#")
            assert not target or target in ids

    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("main")) == len(page.all("header")) == 1
    assert len(page.all("caption")) == len(page.all("table"))

    pictures = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    charts = [svg for svg in page.all("svg") if "aria-hidden" not in svg and "x" not in svg]
    assert len(pictures) == len(charts) == 2
    assert all(len(picture["aria-label"] or "") > 20 for picture in pictures)

    headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1"


def test_the_best_shares_and_the_direction_of_differences_are_marked() -> None:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Measured",),
        ("Unedited", Estimate(1.0, 0.9, 1.0), Number(9)),
        ("IKE", Estimate(0.5, 0.4, 0.6), Number(7)),
        ("B", Number(0.7, ".3f"), Number(1)),
        ("C", Estimate(0.7001, 0.1, 0.9), Number(2)),
        ("D", "0.9 [.8,1.0]", Number(3)),
    )
    [(heading, of_editors)] = blocks(Table("T", ("Editor", "RR", "tokens/prompt"), rows))
    assert heading == "Measured"
    assert [[cell.kind for cell in cells] for _, cells in of_editors] == [
        ["", ""], ["", ""], ["best", ""], ["best", ""], ["", ""],
    ]  # fmt: skip
    intervals = ((0.1, 0.01, 0.2), (-0.1, -0.2, -0.01), (0.1, -0.1, 0.2), (None, None, None))
    signs = ("x", *(Difference(Estimate(*interval)) for interval in intervals))
    [(_, [(_, cells)])] = blocks(
        Table("Paired differences", ("", "S", "ESR", "PC", "RR"), (signs,))
    )
    assert [(cell.kind, cell.value) for cell in cells] == [
        ("up", "\N{BLACK UP-POINTING TRIANGLE} +0.100"),
        ("down", "\N{BLACK DOWN-POINTING TRIANGLE} -0.100"),
        ("level", "\N{WHITE CIRCLE} +0.100"),
        ("", "n/a"),
    ]


def test_the_chart_of_s_against_tokens_names_every_editor_and_its_names_do_not_overlap() -> None:
    many = ["IKE", *(f"DR-IKE (sigma .{i})" for i in range(10, 30))]
    for editors in (
        ["IKE", "DR-IKE"],
        ["Nearest (size of DR-IKE-Q)", "Nearest (k of DR-IKE)", "DR-IKE"],
        many,
    ):
        drawn = pareto(grouped([run_of(0, editors=editors)])[0])
        assert drawn is not None and drawn.svg.count('class="best"') == 2, "a circle and its name"
        named = re.findall(
            r'<svg x="100%"[^>]*><text[^>]* y="([^"]+)"[^>]*>([^<]+)</text>', drawn.svg
        )
        lines = sorted(float(y) for y, _ in named)
        assert sorted(name for _, name in named) == sorted(editors) and all(
            b - a > 12 for a, b in pairwise(lines)
        )
        assert all(-10 < y < 1.25 * 18 * max(15, len(editors)) for y in lines)
    [silent] = grouped([run_of(0, editors=["IKE", "DR-IKE"])])
    outcomes = {
        name: [replace(o, prompt_tokens=None) for o in of] for name, of in silent.outcomes.items()
    }
    drawn = pareto(replace(silent, runs=(replace(silent.runs[0], outcomes=outcomes),)))  # type: ignore[arg-type]
    assert drawn is not None and drawn.caption.startswith("S against retains per prompt")
    assert pareto(grouped([run_of(0, editors=["Unedited"])])[0]) is None


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=8))
def test_data_in_a_script_element_round_trip_unchanged(data: object) -> None:
    text = as_script(data)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == data


def test_the_case_viewer_holds_every_outcome(demo: Path) -> None:
    groups = grouped(read_runs([demo]))
    data = json.loads(as_script(packed(groups)))
    run = groups[0].runs[0]
    assert len(data["cases"]) == len(run.test)
    packed_outcomes = set()
    for _, _, case_id, probes, answers in data["cases"]:
        queries = [data["strings"][number] for number in probes[1::4]]
        for i in range(0, len(answers), 7):
            editor = data["editors"][answers[i]]
            for query, mark in zip(queries, answers[i + 1], strict=True):
                packed_outcomes.add((editor, data["strings"][case_id], query, mark == "1"))
    assert packed_outcomes == {
        (outcome.editor, outcome.case_id, outcome.query, outcome.correct)
        for of_editor in run.outcomes.values()
        for outcome in of_editor
    }


def test_a_probe_that_was_not_judged_is_packed_as_neither_right_nor_wrong() -> None:
    run = run_of(0, cases=1, editors=["IKE"])
    judged = (True, False, None, True, None, False)
    outcomes = tuple(
        replace(outcome, correct=right)
        for outcome, right in zip(run.outcomes["IKE"], judged, strict=True)
    )
    [[*_, answers]] = packed(grouped([replace(run, outcomes={"IKE": outcomes})]))["cases"]  # type: ignore[misc]
    assert answers[1] == "10-1-0"
