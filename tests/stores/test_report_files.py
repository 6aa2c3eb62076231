"""Reports from files, made as Langfuse and Open WebUI document their exports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from drike.stores.report_files import read_reports

ASKED = "What is the capital of Peru?"


def written(tmp_path: Path, rows: object, name: str = "export.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(rows) if not isinstance(rows, str) else rows, "utf-8")
    return path


def test_thumbs_down_of_open_webui_are_reports(tmp_path: Path) -> None:
    def row(rating: int) -> object:
        messages = {
            "q": {"id": "q", "parentId": None, "role": "user", "content": ASKED},
            "a": {"id": "a", "parentId": "q", "role": "assistant", "content": "Lima."},
        }
        return {
            "id": "1", "user_id": "u", "version": 0, "type": "rating",
            "data": {"rating": rating, "model_id": "llama3", "reason": "wrong", "comment": "it is Oslo"},
            "meta": {"model_id": "llama3", "message_id": "a", "message_index": 2, "chat_id": "c-1"},
            "snapshot": {"chat": {"id": "c-1", "chat": {"history": {"messages": messages, "currentId": "a"}}}},
        }  # fmt: skip

    [report], [left] = read_reports(written(tmp_path, [row(-1), row(1)]))
    assert (report.question, report.answer, report.model, report.conversation) == (
        ASKED,
        "Lima.",
        "llama3",
        "c-1",
    )
    assert report.comment == "wrong: it is Oslo" and "thumbs down" in left


def test_corrections_and_bad_scores_of_langfuse_are_reports(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": ASKED}]
    trace = {"id": "t-1", "name": "chat", "sessionId": "s-1", "input": {"messages": messages},
             "output": {"role": "assistant", "content": "Lima"}}  # fmt: skip
    correction = {
        "name": "output",
        "dataType": "CORRECTION",
        "value": 0,
        "stringValue": "Oslo",
        "comment": "moved",
    }
    thumb = {
        "name": "user-feedback",
        "dataType": "BOOLEAN",
        "value": 0,
        "stringValue": "False",
        "comment": "wrong",
    }
    good = {"name": "user-feedback", "dataType": "NUMERIC", "value": 1}
    rows = [
        {**trace, "scores": [correction]},
        {**trace, "input": ASKED, "scores": [thumb]},
        {**trace, "scores": [good]},
        {"id": "x", "traceId": "t-1", "name": "user-feedback", "value": 0},
    ]
    (first, second), left = read_reports(written(tmp_path, rows))
    assert (first.question, first.answer, first.correction, first.conversation) == (
        ASKED,
        "Lima",
        "Oslo",
        "s-1",
    )
    assert (second.question, second.correction, second.comment) == (ASKED, None, "wrong")
    assert ["is a correction" in left[0], "export the traces" in left[1]] == [True, True]


def test_our_own_reports_come_as_csv_too(tmp_path: Path) -> None:
    text = f"question,answer,correction\r\n{ASKED},Lima,Oslo\r\n,Lima,\r\n"
    [report], [left] = read_reports(written(tmp_path, text, "reports.csv"))
    assert (report.question, report.answer, report.correction) == (ASKED, "Lima", "Oslo")
    assert "question is missing" in left


EXPORTED = {  # a trace as Langfuse's batch export of traces writes it, without its scores
    "id": "t-1", "timestamp": "2026-03-01T10:00:00.000Z", "name": "chat", "userId": None, "sessionId": "s-1",
    "release": None, "version": None, "environment": "default", "tags": ["bad", "false"], "bookmarked": False,
    "public": False, "input": {"messages": [{"role": "user", "content": ASKED}]}, "output": {"content": "Lima"},
    "metadata": {"scores": [0]}, "latency": 0, "totalCost": 0, "comments": [],
}  # fmt: skip
NO_SCORE = {"accuracy": None, "user-feedback": None, "quality": None}
BAD_SCORES = [
    {"user-feedback": [0]}, {"user-feedback": [-1]}, {"user-feedback": [1, 0]}, {"helpful": ["False"]},
    {"quality": ["good", "Bad"]}, {"thumb": ["thumbs-down"]}, {"thumb": ["thumbs_down"]}, {"quality": ["incorrect"]},
]  # fmt: skip
GOOD_SCORES = [{}, {"user-feedback": [1]}, {"helpful": ["True"]}, {"quality": ["good"]}]


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as Langfuse writes them into a table: lists and objects in JSON, and nothing for null."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(names)
    for row in rows:
        cells = [row.get(name) for name in names]
        table.writerow(
            "" if cell is None else cell if isinstance(cell, str) else json.dumps(cell)
            for cell in cells
        )
    return text.getvalue()


def exported(tmp_path: Path, rows: Sequence[Mapping[str, object]]) -> list[Path]:
    lines = "\n".join(map(json.dumps, rows))
    return [
        written(tmp_path, rows),
        written(tmp_path, as_csv(rows), "export.csv"),
        written(tmp_path, lines, "export.jsonl"),
    ]


@pytest.mark.parametrize("scores", BAD_SCORES)
def test_scores_of_batch_exports_are_columns(tmp_path: Path, scores: dict[str, object]) -> None:
    rows = [{**EXPORTED, **NO_SCORE, **scores}, {**EXPORTED, **NO_SCORE}]
    for file in exported(tmp_path, rows):
        [report], [left] = read_reports(file)
        assert (report.question, report.answer, report.conversation) == (ASKED, "Lima", "s-1")
        assert report.comment == f"bad score: {next(iter(scores))}" and "no score of it" in left


@pytest.mark.parametrize("scores", GOOD_SCORES)
def test_no_other_column_is_a_score(tmp_path: Path, scores: dict[str, object]) -> None:
    rows = [{**EXPORTED, **NO_SCORE, **scores}]
    for file in exported(tmp_path, rows):
        read, [left] = read_reports(file)
        assert not read and "no score of it" in left


def test_what_people_say_of_a_trace_comes_with_it(tmp_path: Path) -> None:
    comments = [{"id": "c", "content": "It moved.", "authorUserId": "u"}]
    rows = [{**EXPORTED, "comments": comments, "correction": ["Oslo"], "feedback": [0]}]
    for file in exported(tmp_path, rows):
        [report], [] = read_reports(file)
        assert (report.correction, report.comment) == ("Oslo", "It moved.")


def test_observations_of_batch_exports_are_read_too(tmp_path: Path) -> None:
    row = {"id": "o-1", "traceId": "t-1", "type": "GENERATION", "input": ASKED, "output": "Lima", "model": "m-1",
           "usageDetails": {"input": 0}, "toolCallNames": ["bad"], "feedback": [0]}  # fmt: skip
    for file in exported(tmp_path, [row]):
        [report], [] = read_reports(file)
        assert (report.answer, report.model, report.conversation) == ("Lima", "m-1", "t-1")


@pytest.mark.parametrize(
    ("rating", "is_kept"),
    [
        ("", True),
        ("0", True),
        ("-1", True),
        ("false", True),
        ("thumbs down", True),
        ("1", False),
        ("5", False),
        ("0.9", False),
        ("true", False),
        ("good", False),
    ],
)
def test_a_row_with_a_good_rating_is_no_report(tmp_path: Path, rating: str, is_kept: bool) -> None:
    text = f"question,answer,Rating\n{ASKED},Lima,{rating}\n"
    reports, left = read_reports(written(tmp_path, text, "a.csv"))
    assert len(reports) == is_kept
    assert is_kept or f"its Rating ({rating}) is not 0 or less, false or bad" in left[0]


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        ("hallucination", 0, False),
        ("hallucination", 1, True),
        ("Toxicity", 0.0, False),
        ("is_hallucinated", "False", False),
        ("is_hallucinated", "True", True),
        ("helpful", 0, True),
    ],
)
def test_a_score_of_a_fault_is_bad_where_the_fault_is(
    tmp_path: Path, name: str, value: object, is_kept: bool
) -> None:
    trace = {
        "id": "t-1",
        "input": ASKED,
        "output": "Lima",
        "scores": [{"name": name, "value": value}],
    }
    reports, _ = read_reports(written(tmp_path, [trace]))
    assert len(reports) == is_kept


@pytest.mark.parametrize("mark", ["#N/A", "#REF!", "nan", "(blank)"])
def test_marks_of_empty_cells_are_neither_questions_nor_corrections(
    tmp_path: Path, mark: str
) -> None:
    text = f"question,answer,correction\n{ASKED},{mark},{mark}\n{mark},Lima,Oslo\n"
    [report], [left] = read_reports(written(tmp_path, text, "a.csv"))
    assert (report.question, report.answer, report.correction) == (ASKED, mark, None)
    assert "question is missing" in left
