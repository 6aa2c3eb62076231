"""Reports in a store: kept, bounded, closed once, and made in stores that had none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.record import StoreError
from drike.stores.edit_store import EditStore
from drike.stores.inbox import (
    GIVEN,
    LONGEST,
    FullInboxError,
    Inbox,
    LargeReportError,
    Load,
    Report,
    ReportPage,
    ReportState,
    _text,
    report_of,
)
from drike.stores.opening import open_store
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
    monkeypatch.setattr("drike.stores.inbox.MOST_KEPT", Load(3, 1 << 20))
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


def asked(count: int, length: int = 10) -> list[Report]:
    return [Report(ASKED, f"{i} ".ljust(length, "x")) for i in range(count)]


def test_a_file_of_its_own_holds_the_inbox(tmp_path: Path) -> None:
    path = tmp_path / "edits.db"
    with closing(open_store(path)) as store:
        store.put(PERU)
        before = path.read_bytes()
        assert Inbox(store.database).reports() == [] and not (tmp_path / "edits.db-inbox").exists()
        Inbox(store.database).add(asked(100, 4_000), "Anna")
        Inbox(store.database).close(1, reason="no fault")
        Inbox(store.database).keep_samples([Report(ASKED, state=ReportState.SAMPLE)], 1)
        assert path.read_bytes() == before
        assert (tmp_path / "edits.db-inbox").stat().st_mode & 0o777 == 0o600
    with closing(open_store(path)) as store:
        assert len(Inbox(store.database).reports(None)) == 100
        (tmp_path / "edits.db-inbox").unlink()
        assert Inbox(store.database).reports(None) == []
        assert Inbox(store.database).add(asked(1), None)[0].number == 1


def test_a_file_that_a_kill_left_empty_is_an_inbox(tmp_path: Path) -> None:
    (tmp_path / "edits.db-inbox").touch()
    with closing(open_store(tmp_path / "edits.db")) as store:
        assert Inbox(store.database).reports() == []
        assert Inbox(store.database).add(asked(1), None)[0].number == 1


def put_as_before(store: EditStore, reports: list[Report]) -> None:
    """Keep reports as earlier versions did: in a table among the edits."""
    codes = {ReportState.OPEN: 0, ReportState.CLOSED: 1, ReportState.SAMPLE: 2}
    with store.database.transaction():
        store.database.execute(
            "CREATE TABLE IF NOT EXISTS drike_reports "
            "(number BIGINT PRIMARY KEY, closed BIGINT NOT NULL, report TEXT)"
        )
        for report in reports:
            row = [report.number, codes[report.state], _text(report)]
            store.database.execute("INSERT INTO drike_reports VALUES (%s, %s, %s)", row)
        store.settings.save("reports", str(max(report.number for report in reports) + 5))


def test_reports_of_an_earlier_version_are_moved_without_loss(store: EditStore) -> None:
    earlier = [
        Report(ASKED, "Lima", number=1, at="2026-01-01T00:00:00.000Z", author="Anna"),
        Report(ASKED, "x\u0308\U0001f1f5" * 999, number=2, state=ReportState.CLOSED, reason="late"),
        Report(ASKED, "Rome", number=700, comment="edit 1@1", state=ReportState.SAMPLE),
    ]
    many = [Report(ASKED, str(i), number=i) for i in range(1_000, 2_300)]
    put_as_before(store, [*earlier, *many])
    store.put(PERU)
    assert Inbox(store.database).reports(None) == [*earlier[:2], *many]
    assert Inbox(store.database).reports(ReportState.SAMPLE) == earlier[2:]
    assert store.settings.get("reports") is None
    [added] = Inbox(store.database).add(asked(1), None)
    assert added.number == 2_305  # no number is given twice, of a deleted one neither


def test_a_kill_as_reports_are_moved_loses_and_doubles_none(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = [Report(ASKED, str(i), number=i) for i in range(1, 4)]
    put_as_before(store, earlier)
    execute = store.database.execute

    def killed(query: str, values: Sequence[object] = ()) -> object:
        if query.startswith("DROP TABLE"):
            raise KeyboardInterrupt
        return execute(query, values)

    monkeypatch.setattr(store.database, "execute", killed)
    with pytest.raises(KeyboardInterrupt):
        Inbox(store.database).reports()
    monkeypatch.undo()
    assert Inbox(store.database).reports() == earlier == Inbox(store.database).reports()


def test_what_an_earlier_version_adds_meanwhile_gets_a_number_of_its_own(store: EditStore) -> None:
    Inbox(store.database).add(asked(3), None)
    other = Report("Who?", "Ann", number=2)
    put_as_before(store, [other])
    found = Inbox(store.database).reports()
    assert [report.number for report in found] == [1, 2, 3, 8]
    assert found[-1] == replace(other, number=8)


def test_a_key_that_fills_the_inbox_shuts_no_other_out(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.stores.inbox.MOST_KEPT", Load(20, 1 << 20))
    monkeypatch.setattr("drike.stores.inbox.MOST_OF_KEY", Load(8, 1 << 20))
    monkeypatch.setattr("drike.stores.inbox._FEW", Load(2, 1 << 20))
    monkeypatch.setattr("drike.stores.inbox._MOST_OF_FEW", Load(23, 1 << 20))
    inbox = Inbox(store.database)
    taken = Counter[str]()
    for author in ("a", "b", "c", "d", None):
        with suppress(FullInboxError):
            for report in asked(30):
                inbox.take(report, author)
                taken[str(author)] += 1
    assert taken == {"a": 8, "b": 8, "c": 4, "d": 2, "None": 1}
    with pytest.raises(FullInboxError, match="this key has 8 open reports"):
        inbox.take(Report(ASKED, "x"), "a")
    with pytest.raises(FullInboxError, match="the inbox holds 20 reports"):
        inbox.take(Report(ASKED, "x"), "e")
    for report in inbox.reports()[:5]:
        inbox.close(report.number, reason="late")
    assert inbox.take(Report(ASKED, "x"), "a") and inbox.take(Report(ASKED, "x"), "e")
    assert {report.number for report in inbox.reports()} >= set(range(6, 24))  # none that is open


def test_bytes_are_bounded_as_reports_are(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.stores.inbox.MOST_KEPT", Load(100, 10_000))
    monkeypatch.setattr("drike.stores.inbox.MOST_OF_KEY", Load(100, 5_000))
    monkeypatch.setattr("drike.stores.inbox._FEW", Load(0, 0))
    inbox = Inbox(store.database)
    inbox.add(asked(9, 1_000), None)
    with pytest.raises(FullInboxError):
        inbox.add(asked(1, 1_000), None)
    inbox.close(3, reason="late")
    inbox.add(asked(1, 1_000), None)
    assert [report.number for report in inbox.reports(None)] == [1, 2, *range(4, 11)]
    inbox.close(1, reason="late")
    inbox.close(2, reason="late")
    inbox.take(Report(ASKED, "é" * 900), "Anna")  # of two bytes each
    with pytest.raises(FullInboxError, match="this key"):
        inbox.take(Report(ASKED, "é" * 1_900), "Anna")


def test_reports_come_in_pages_that_are_bounded_in_bytes(
    store: EditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox(store.database)
    assert inbox.page() == ReportPage((), 0)
    inbox.add(asked(30, 1_000), None)
    inbox.close(7, reason="late")
    monkeypatch.setattr("drike.stores.inbox._BYTES_OF_PAGE", 5_000)
    for state, numbers in (
        (ReportState.OPEN, [*range(1, 7), *range(8, 31)]),
        (None, [*range(1, 31)]),
    ):
        for most in (1, 3, 500):
            seen: list[int] = []
            after: int | None = 0
            while after is not None:
                page = inbox.page(state, after=after, most=most)
                assert 1 <= len(page.reports) <= min(most, 4) and page.total == len(numbers)
                seen += [report.number for report in page.reports]
                after = page.next
            assert seen == numbers
    monkeypatch.setattr("drike.stores.inbox._BYTES_OF_PAGE", 1)
    assert len(inbox.page().reports) == 1  # one at least
    assert inbox.page(after=30) == ReportPage((), 29)


def test_a_report_is_bounded_in_bytes() -> None:
    long = "\U0001f1f5" * LONGEST
    assert report_of({"question": long, "answer": long, "correction": long}).question == long
    with pytest.raises(LargeReportError, match="more than 64 KB"):
        report_of(dict.fromkeys(GIVEN, long))
