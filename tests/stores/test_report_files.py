"""Reports from files, made as Langfuse and Open WebUI document their exports."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert ["correction" in left[0], "export the traces" in left[1]] == [True, True]


def test_our_own_reports_come_as_csv_too(tmp_path: Path) -> None:
    text = f"question,answer,correction\r\n{ASKED},Lima,Oslo\r\n,Lima,\r\n"
    [report], [left] = read_reports(written(tmp_path, text, "reports.csv"))
    assert (report.question, report.answer, report.correction) == (ASKED, "Lima", "Oslo")
    assert "question is missing" in left
