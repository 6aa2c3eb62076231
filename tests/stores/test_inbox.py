"""Reports in a store: kept, bounded, closed once, and made in stores that had none."""

from __future__ import annotations

import pytest

from drike.edits.record import StoreError
from drike.stores.edit_store import EditStore
from drike.stores.inbox import (
    LONGEST,
    FullInboxError,
    Inbox,
    Report,
    ReportState,
    report_of,
)
from tests.fakes.stores import PERU

ASKED = "What is the capital of Peru?"


def test_reports_are_kept_beside_the_edits(store: EditStore) -> None:
    assert Inbox(store.database).reports() == []
    store.put(PERU)
    given = report_of(
        {"question": f" {ASKED}\n", "answer": "Lima", "correction": "Oslo", "model": None}
    )
    [added] = Inbox(store.database).add([given], "Anna (report)")
    assert (added.number, added.question, added.author, added.model) == (
        1,
        ASKED,
        "Anna (report)",
        None,
    )
    assert Inbox(store.database).report(1) == added and Inbox(store.database).reports() == [added]
    assert len(store.changes()) == 1  # the log is as it was


def test_a_report_is_closed_once_and_with_a_reason(store: EditStore) -> None:
    Inbox(store.database).add([Report(ASKED, "Lima"), Report(ASKED, "Rome")], None)
    with pytest.raises(StoreError, match="needs a reason"):
        Inbox(store.database).close(1)
    Inbox(store.database).close(1, author="Tom", reason="no fault")
    Inbox(store.database).close(2, edit=7)
    assert Inbox(store.database).reports() == []
    first, second = Inbox(store.database).reports(ReportState.CLOSED)
    assert (first.reason, first.closed_by, second.edit) == ("no fault", "Tom", 7)
    with pytest.raises(StoreError, match="edit 7 came of it"):
        Inbox(store.database).close(2, reason="again")
    for number in (3, 2**63, -(2**70)):
        with pytest.raises(StoreError, match=f"there is no report {number}"):
            Inbox(store.database).report(number)


def test_the_oldest_closed_reports_make_room_and_open_ones_never_do(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.stores.inbox.MOST_KEPT", 3)
    Inbox(store.database).add([Report(ASKED, str(i)) for i in range(3)], None)
    Inbox(store.database).close(2, reason="old")
    Inbox(store.database).add([Report(ASKED, "new")], None)
    assert [report.number for report in Inbox(store.database).reports(None)] == [1, 3, 4]
    with pytest.raises(FullInboxError, match="close some"):
        Inbox(store.database).add([Report(ASKED, "one too many")], None)
    assert [report.number for report in Inbox(store.database).reports(None)] == [1, 3, 4]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "JSON object"),
        ({"question": "x", "answer": "y", "odd": 1}, "no field 'odd'"),
        ({"answer": "y"}, "question is missing"),
        ({"question": "x"}, "what is wrong"),
        ({"question": 1, "answer": "y"}, "1"),
    ],
)
def test_unusable_reports_are_refused(values: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        report_of(values)


def test_texts_are_cut_and_lose_control_characters() -> None:
    report = report_of({"question": "a\0b\x1bc", "answer": "y" * 100_000})
    assert report.question == "a b c" and len(report.answer) == LONGEST
