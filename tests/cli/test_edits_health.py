"""`drike edits health` and `drike edits report`: what they print, write and fail for."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drike.cli.console import console
from drike.edits.record import EditRecord, Status
from drike.stores.opening import open_store
from drike.stores.traffic import Counted, TrafficCounts
from tests.fakes.commands import run

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a store of two edits."""
    monkeypatch.chdir(tmp_path)
    with closing(open_store("edits.db")) as store:
        store.put(EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima"))
        store.put(EditRecord(HOSTILE, f"The sign of {HOSTILE} is", "a fish"))
    return tmp_path


def count(*rows: tuple[int, str, str, int], days_ago: int = 0, model: str = "m") -> None:
    day = (datetime.now(UTC).date() - timedelta(days=days_ago)).isoformat()
    with closing(open_store("edits.db")) as store:
        TrafficCounts(store.database).add(
            Counter(
                {
                    Counted(day, edit, bool(edit), model, mode, what): n
                    for edit, mode, what, n in rows
                }
            ),
        )


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run("edits", *arguments) == code
    return " ".join("".join(capsys.readouterr()).split())


def test_health_fails_where_an_edit_is_below_and_lists_it_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "No answer under an edit was counted in 7 days" in said(capsys, "health")
    count((1, "on", "matched", 100), (1, "on", "new", 100))
    count((2, "on", "matched", 100), (2, "on", "old", 60), (2, "on", "new", 40), days_ago=6)
    shown = said(capsys, "health", code=1)
    assert shown.index("2: The sign of") < shown.index("1: The capital of Peru is")
    assert (
        "Error: 1 edit below 95%: see the first rows" in shown
        and "0.400" in shown
        and "[.25" in shown
    )
    assert "as it should be" in said(capsys, "health", "--at-least", ".3")
    assert "The sign of" not in said(capsys, "health", "--days", "6")
    assert "--days must be between 1 and 400" in said(capsys, "health", "--days", "0", code=2)


def test_health_has_a_row_for_each_model_and_fails_where_one_fell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for days_ago in range(40):
        heeded = 10 if days_ago > 5 else 6
        count((1, "on", "matched", 10), (1, "on", "new", heeded), days_ago=days_ago, model="big")
        count((1, "on", "neither", 10 - heeded), days_ago=days_ago, model="big")
    count((1, "on", "matched", 5), (1, "on", "new", 5), model="small")
    shown = said(capsys, "health", "--at-least", ".5", code=1)
    assert "1 edit heeded less than before" in shown
    day = (datetime.now(UTC).date() - timedelta(days=5)).isoformat()
    assert "- big: fell from" in shown and "- small 5 1.000" in shown
    assert run("edits", "health", "--json", "--at-least", ".5") == 1
    [line] = json.loads(capsys.readouterr().out)["edits"]
    assert line["words"] == f"fell from 100% to 60% (60 answers) since {day} (big)"
    assert [model["model"] for model in line["models"]] == ["big", "small"]


def test_health_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    count((1, "on", "matched", 2), (1, "on", "new", 2), (1, "on", "tokens", 100))
    capsys.readouterr()
    assert run("edits", "health", "--json", "--at-least", "0.9") == 0
    made = json.loads(capsys.readouterr().out)
    [line] = made["edits"]
    assert (made["at_least"], line["id"], line["judged"], line["tokens_a_day"]) == (0.9, 1, 2, 100)
    assert line["numbers"] == {"matched": 2, "new": 2, "tokens": 100}


def test_texts_of_any_kind_are_json_of_any_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    query = "The capital of Mali\x7f\x9b is \u2192 \U0001f600"
    with closing(open_store("edits.db")) as store:
        store.put(EditRecord("Mali", query, "Oslo", source="a\x7f", status=Status.SHADOW))
        store.put(EditRecord("Mali", query, "Oslo"))
    count((4, "on", "matched", 2), (4, "on", "new", 2))
    capsys.readouterr()
    assert run("edits", "list", "--subject", "Mali", "--json") == 0
    shadow, listed = map(json.loads, (printed := capsys.readouterr().out).splitlines())
    assert printed.isascii() and (shadow["source"], listed["query"]) == ("a\x7f", query)
    assert run("edits", "health", "--json") == 0
    printed = capsys.readouterr().out
    assert printed.isascii() and json.loads(printed)["edits"][0]["query"] == query


def test_the_report_is_a_page_that_needs_nothing_else(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    count((0, "shadow", "requests", 200), (0, "shadow", "matched", 20), (2, "shadow", "old", 15),
          (2, "shadow", "new", 5), (2, "shadow", "matched", 20), (2, "shadow", "tokens", 1_700))  # fmt: skip
    shown = said(capsys, "report", "--price-in", "0.15", "-o", "page.html")
    assert "Of 200 requests in 1 day, 20 (10.0 %) concern an edit." in shown
    assert (
        "states the old object in 75 % of 20 answers" in shown
        and "1,700 tokens a day (0.00 a day" in shown
    )
    page = (place / "page.html").read_text()
    assert "Of 200 requests in 1 day" in page and "&lt;script&gt;" in page and "<script" not in page
    assert "src=" not in page and "url(" not in page and "http" not in page
    assert "let page.txt end in .html" in said(capsys, "report", "-o", "page.txt", code=2)


def test_the_weekly_report_is_markdown_and_a_page_that_needs_nothing_else(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    count((2, "on", "matched", 20), (2, "on", "old", 15), (2, "on", "new", 5))
    shown = said(capsys, "report", "--weekly", "-o", "week.html")
    assert "## Heeded Of 1 correction asked about, 1 need a look." in shown
    assert "15 answers of this week stated an old value again." in shown
    page = (place / "week.html").read_text()
    assert "15 of 20" in page and "&lt;script&gt;" in page and "<script" not in page
    assert "src=" not in page and "url(" not in page and "http" not in page
    said(capsys, "report", "--weekly", "-o", "week.md")
    written = (place / "week.md").read_text()
    assert written.startswith("# Corrections, ") and r"| m | 20 | 0.250" in written
    assert "<script" not in written
    assert "let week.md end in .html" in said(capsys, "report", "-o", "week.md", code=2)


def test_without_counts_or_a_store_they_say_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert "send some through the gateway" in said(capsys, "report")
    for command in ("health", "report"):
        assert "there is no store of edits" in said(capsys, command, "--store", "none.db", code=1)


def test_the_table_of_health_fits_80_columns_with_all_outcomes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = ("new", "old", "both", "neither", "refused", "unread")
    count(*((1, "on", what, 12_345) for what in ("matched", "tokens", *outcomes)))
    monkeypatch.setattr(console, "_width", 80)
    capsys.readouterr()
    assert run("edits", "health", "--at-least", "0.1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {"prompts", "heeded", "otherwise", "12,345", "neither", "refused", "unread"} <= set(
        words
    )
    assert any("old 12,345" in line for line in lines), "a number stays beside its outcome"
