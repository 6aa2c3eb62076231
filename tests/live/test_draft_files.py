"""Drafts from the files of help desks, of Langfuse in both forms, and from CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drike.live.captures import Draft
from drike.live.draft_files import read_drafts

DRAFT, SENT, ASKED = "Aria costs 20 euros.", "Aria costs 25 euros.", "What does Aria cost?"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own.csv", f"draft,sent,question,reason\n{DRAFT},{SENT},{ASKED},May\n"),
        (
            "desk.csv",
            f"Ticket ID,Suggested Reply,Final Reply,Customer message,Note\n7,{DRAFT},{SENT},{ASKED},May\n",
        ),
        (
            "desk.json",
            json.dumps(
                [{"ticket": {"description": ASKED}, "ai_draft": DRAFT, "public_reply": SENT, "note": "May"}]
            ),
        ),
        (
            "api.json",
            json.dumps(
                [
                    {
                        "id": "t",
                        "input": [{"role": "user", "content": ASKED}],
                        "output": {"content": DRAFT},
                        "scores": [
                            {"dataType": "CORRECTION", "stringValue": SENT, "comment": "May"}
                        ],
                    }
                ]
            ),
        ),
        (
            "batch.jsonl",
            json.dumps(
                {
                    "traceId": "t",
                    "input": ASKED,
                    "output": DRAFT,
                    "correction": [SENT],
                    "comments": [{"content": "May"}],
                }
            ),
        ),
    ],
)  # fmt: skip
def test_drafts_are_read(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    [given], refused = read_drafts(file)
    assert (given.draft, given.reason, refused) == (Draft(DRAFT, SENT, ASKED), "May", [])


def test_a_row_without_what_was_sent_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "drafts.csv"
    file.write_text(f"draft,sent\n{DRAFT},\n", "utf-8")
    found, refused = read_drafts(file)
    assert found == [] and "sent is missing" in refused[0]


def test_a_mark_of_an_empty_cell_is_no_text_that_was_sent(tmp_path: Path) -> None:
    rows = f"draft,sent,question\n{DRAFT},#N/A,{ASKED}\n{DRAFT},{SENT},#REF!\n"
    (tmp_path / "a.csv").write_text(rows, "utf-8")
    [given], [left] = read_drafts(tmp_path / "a.csv")
    assert given.draft.sent == SENT and "#REF!" not in str(given)
    assert "row 2" in left
