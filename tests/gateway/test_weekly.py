"""The weekly page: what is in force, what became of reports, what is heeded, recurs and is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from drike.edits.record import EditRecord, EditVersion, Move, Status
from drike.edits.times import stamp
from drike.gateway.weekly import WeeklyPart, WeekOfStore, in_force_since, weekly_parts
from drike.stores.inbox import Report, ReportState
from drike.stores.snapshots import folded
from drike.stores.sqlite import SqliteStore
from drike.stores.traffic import Counted
from drike.support.table import as_text

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
CHAD = EditRecord("Chad", "The capital of Chad is", "Rome", review_by="2026-12-10T00:00:00Z")


def ago(**time: float) -> str:
    return stamp(NOW - timedelta(**time))


def version(number: int, id: int, of_edit: int, days: float, record: EditRecord) -> EditVersion:
    return EditVersion(number, id, of_edit, ago(days=days), record)


def week(
    *changes: EditVersion,
    reports: tuple[Report, ...] = (),
    counts: Sequence[tuple[str, int, str, str, int]] = (),
) -> WeekOfStore:
    edits = folded(changes)
    made = Counter(
        {Counted(day, id, 1, model, "on", what): n for day, id, model, what, n in counts}
    )
    return WeekOfStore(
        now=NOW,
        first_day=NOW.date() - timedelta(days=6),
        edits=edits,
        counts=made,
        reports=reports,
        in_force_since=in_force_since(changes, edits),
    )


def part(parts: list[WeeklyPart], title: str) -> WeeklyPart:
    return next(each for each in parts if each.title == title)


def rows(found: WeeklyPart) -> list[list[str]]:
    return (
        [] if found.table is None else [[as_text(cell) for cell in row] for row in found.table.rows]
    )


def test_corrections_count_from_when_they_say_what_they_say() -> None:
    proposed = replace(PERU, status=Status.PROPOSED, target_new="Bern")
    changed = replace(PERU, target_new="Bern", move=Move.APPROVE)
    found = week(version(1, 1, 1, 90, PERU), version(2, 2, 1, 60, CHAD), version(3, 1, 2, 5, proposed),
                 version(4, 1, 3, 2, changed), version(5, 1, 4, 1, replace(changed, move=Move.REVIEW)),
                 version(6, 3, 1, 3, replace(CHAD, subject="Mali", status=Status.DRAFT)))  # fmt: skip
    corrections = part(weekly_parts(found), "Corrections")
    assert corrections.sentences == [
        "2 corrections in force, 1 of them new in this week; 0 waiting for approval."
    ]
    assert rows(corrections) == [["1: The capital of Peru is Bern", "2026-11-26", ""]]


def test_reports_have_the_time_until_their_correction_was_in_force_and_no_text() -> None:
    reports = (
        Report("secret?", "x", number=1, at=ago(days=3), state=ReportState.CLOSED, edit=1),
        Report("secret?", "x", number=2, at=ago(hours=30)),
        Report("secret?", "x", number=3, at=ago(days=40), state=ReportState.CLOSED, reason="no"),
    )
    found = part(weekly_parts(week(version(1, 1, 1, 2, PERU), reports=reports)), "Reports")
    assert found.sentences == [
        "2 reports of wrong answers in this week; 1 waiting.",
        "The oldest waits for 30 hours.",
        "1 report became a correction that is in force, in the median after 24 hours.",
    ]
    assert rows(found) == [
        ["report 1", "2026-11-25", "in force", "edit 1", "24 hours"],
        ["report 2", "2026-11-27", "received", "", ""],
    ]
    assert "secret" not in str(weekly_parts(week(version(1, 1, 1, 2, PERU), reports=reports)))


def test_a_proposed_edit_waits_once_and_its_report_says_so() -> None:
    proposed = version(1, 1, 1, 2, replace(PERU, status=Status.PROPOSED))
    rejected = version(2, 2, 1, 1, replace(CHAD, status=Status.REJECTED))
    reports = tuple(
        Report("q", "x", number=n, at=ago(days=2), state=ReportState.CLOSED, edit=n) for n in (1, 2)
    )
    parts = weekly_parts(week(proposed, rejected, reports=reports))
    assert part(parts, "Corrections").sentences == [
        "0 corrections in force, 0 of them new in this week; 1 waiting for approval."
    ]
    assert [row[2] for row in rows(part(parts, "Reports"))] == ["proposed", "closed"]


def test_what_is_heeded_is_since_the_edit_says_it_and_what_recurs_is_of_the_week() -> None:
    counts = [("", 1, "m", "matched", 90), ("", 1, "m", "new", 80), ("", 1, "m", "old", 10),
              ("2026-11-27", 1, "m", "matched", 20), ("2026-11-27", 1, "m", "new", 17),
              ("2026-11-27", 1, "m", "old", 3)]  # fmt: skip
    parts = weekly_parts(week(version(1, 1, 1, 90, PERU), counts=counts))
    [[_, *figures]] = rows(part(parts, "Heeded"))
    assert figures == [
        "m",
        "110",
        "0.882 [.76,.96]",
        "13",
        "too little traffic: 110 of at least 116 answers",
    ]
    assert rows(part(parts, "What recurs")) == [
        ["1: The capital of Peru is Oslo", "Lima", "m", "3 of 20"]
    ]


def test_reviews_are_listed_before_they_are_due_and_an_empty_store_has_its_page() -> None:
    due = part(weekly_parts(week(version(1, 1, 1, 90, CHAD))), "Due for review")
    assert due.sentences == ["0 reviews due, 1 more within 30 days."]
    assert rows(due) == [["1: The capital of Chad is Rome", "2026-12-10", ""]]
    parts = weekly_parts(week())
    assert [each.table for each in parts] == [None] * 5
    assert part(parts, "Heeded").sentences == ["No question in this week concerned a correction."]


def test_a_store_is_read_as_it_is(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(PERU)
        made = WeekOfStore.of(store, Counter(), datetime.now(UTC))
    assert [edit.id for edit in made.in_force] == [1] == list(made.in_force_since)
