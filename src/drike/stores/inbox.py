"""Reports of wrong answers, kept beside the edits until a person closes them.

A report may become an edit; closing it then names that. An inbox is bounded in reports and in
bytes, and so is what each key may have open in it. Where it is full, a key with few reports is
still heard.
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from drike.edits.record import StoreError
from drike.stores import clock
from drike.stores.database import Database, insert, select
from drike.stores.failures import damaged
from drike.stores.settings import StoreSettings
from drike.support.records import parse, read

LONGEST = 4_000  # characters of a text; the rest of an answer or comment is cut
LARGEST = 64 << 10  # bytes of a report
MOST_PAGED = 500  # reports of a page
_BYTES_OF_PAGE = 1 << 20
GIVEN = ("question", "answer", "correction", "comment", "conversation", "model")  # by reporters
# The setting with the number of the last report; where it is missing, so is the table.
_LAST_NUMBER = "inbox"
# author: "" for none. topic: of a sample, its comment. size: in bytes.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS drike_inbox (number BIGINT PRIMARY KEY, state BIGINT NOT NULL, "
    "author TEXT NOT NULL, topic TEXT NOT NULL, size BIGINT NOT NULL, report TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS drike_inbox_sizes ON drike_inbox (state, author, size)",
    "CREATE INDEX IF NOT EXISTS drike_inbox_topics ON drike_inbox (state, topic, number)",
)
_OLD_LAST_NUMBER = "reports"  # as until version 0.1, in the edits' own database
_MOVED_AT_ONCE = 500  # reports
_MAX_NUMBER = 2**63  # databases have no larger whole numbers


class FullInboxError(StoreError):
    """There are too many open reports to keep another one."""


class LargeReportError(ValueError):
    """A report has too many bytes to be kept."""


class Load(NamedTuple):
    """How many reports there are, or may be, and their bytes."""

    reports: int = 0
    size: int = 0

    def plus(self, other: "Load") -> "Load":
        """Both together."""
        return Load(self.reports + other.reports, self.size + other.size)

    def fits(self, most: "Load") -> bool:
        """Whether it is no more than `most`."""
        return self.reports <= most.reports and self.size <= most.size


MOST_KEPT = Load(10_000, 64 << 20)  # reports and samples
MOST_OF_KEY = Load(2_000, 8 << 20)  # that are open
_FEW = Load(100, 1 << 20)  # open reports of a key that is heard where the inbox is full, ...
_MOST_OF_FEW = Load(20_000, 128 << 20)  # ... up to so many


class ReportState(StrEnum):
    """Whether a report waits for a person."""

    OPEN = "open"
    CLOSED = "closed"
    SAMPLE = "sample"  # an answer that a gateway kept, of which nobody has said that it is wrong


# A state in the column `closed`.
_CODES = {ReportState.OPEN: 0, ReportState.CLOSED: 1, ReportState.SAMPLE: 2}


@dataclass(frozen=True)
class Report:
    """A wrong answer, as someone reports it."""

    sparse: ClassVar[bool] = True  # fields with their default are left out of JSON

    question: str
    answer: str = ""
    correction: str | None = None  # what is right
    comment: str | None = None
    conversation: str | None = None  # its id
    model: str | None = None  # its id
    number: int = 0  # which report of the store it is
    at: str = ""  # when it came
    author: str | None = None  # from whom
    state: ReportState = ReportState.OPEN
    edit: int | None = None  # the one that came of it, or that a sample is of
    closed_by: str | None = None
    reason: str | None = None


def report_of(values: object) -> Report:
    """A report from the fields that a reporter gives, whose texts are stripped and cut.

    Raises ValueError.
    """
    if not isinstance(values, dict):
        raise ValueError("a report is a JSON object: give question, answer and correction")
    unknown = values.keys() - set(GIVEN)
    if unknown:
        raise ValueError(f"a report has no field {min(unknown)!r}: it has {', '.join(GIVEN)}")
    given = {name: _cleaned(value) for name, value in values.items() if value not in (None, "")}
    if not given.get("question"):
        raise ValueError("question is missing: give what was asked")
    if not any(given.get(name) for name in ("answer", "correction", "comment")):
        raise ValueError("a report says what is wrong: give answer, correction or comment")
    report = read(Report, given)
    if len(_text(report).encode()) > LARGEST:
        raise LargeReportError(
            f"the report has more than {LARGEST >> 10} KB: give less of its texts"
        )
    return report


@dataclass(frozen=True)
class ReportPage:
    """Some reports of `total`, the oldest first; next: what the next page is after, if any."""

    reports: Sequence[Report]
    total: int
    next: int | None = None


class Inbox:
    """The reports beside the edits in a database. Every method raises StoreError."""

    def __init__(self, edits: Database) -> None:
        self._edits = edits

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes of the block at once, or none if it raises."""
        database = self._database()
        if database is None:
            yield
            return
        with database.transaction():
            yield

    def take(self, report: Report, author: str | None) -> Report:
        """Keep a report that a key sends. Raises FullInboxError, also if it has sent too many."""
        [added] = self._add([report], author, is_of_key=True)
        return added

    def add(self, reports: Sequence[Report], author: str | None) -> Sequence[Report]:
        """Keep reports, all or none. Raises FullInboxError.

        The oldest samples and closed reports make room.
        """
        return self._add(reports, author, is_of_key=False)

    def _add(
        self, reports: Sequence[Report], author: str | None, *, is_of_key: bool
    ) -> Sequence[Report]:
        database = self._database(create=True)
        assert database  # noqa: S101 - it was made
        settings = StoreSettings(database)
        with database.transaction():
            last_number = int(settings.get(_LAST_NUMBER) or 0)
            if not last_number:
                _make_tables(database)
            added = [
                replace(report, number=number, at=clock.now(), author=author)
                for number, report in enumerate(reports, last_number + 1)
            ]
            rows = [_row(report) for report in added]
            new = Load(len(rows), sum(row.size for row in rows))
            most = _most_for(database, author, new) if is_of_key else MOST_KEPT
            _make_room(database, new, most)
            for row in rows:
                insert(database, "drike_inbox", [row])
            settings.save(_LAST_NUMBER, str(last_number + len(added)))
        return added

    def reports(self, state: ReportState | None = ReportState.OPEN) -> list[Report]:
        """The reports in a state, or all but samples, the oldest first."""
        codes = _codes_of(state)
        return self._select(f"state IN ({', '.join(['%s'] * len(codes))})", codes)

    def page(
        self,
        state: ReportState | None = ReportState.OPEN,
        *,
        after: int = 0,
        most: int = MOST_PAGED,
    ) -> ReportPage:
        """At most so many reports in a state, or all but samples, behind a number."""
        codes = _codes_of(state)
        placeholders = ", ".join(["%s"] * len(codes))
        database = self._readable()
        if database is None:
            return ReportPage((), 0)
        [[total]] = select(
            database,
            f"SELECT count(*) FROM drike_inbox WHERE state IN ({placeholders})",  # noqa: S608
            codes,
        )
        found = select(
            database,
            f"SELECT number, size FROM drike_inbox WHERE state IN ({placeholders}) "  # noqa: S608
            "AND number > %s ORDER BY number LIMIT %s",
            [*codes, after, most + 1],
        )
        numbers = _within(found[:most], _BYTES_OF_PAGE)
        if not numbers:
            return ReportPage((), total)
        reports = self._select(
            f"state IN ({placeholders}) AND number > %s AND number <= %s",
            [*codes, after, numbers[-1]],
        )
        return ReportPage(reports, total, numbers[-1] if len(numbers) < len(found) else None)

    def report(self, number: int) -> Report:
        """The report with a number. Raises StoreError if there is none."""
        found = self.find(number)
        if found is None:
            raise StoreError(
                f"there is no report {number}: choose one that drike edits inbox lists"
            )
        return found

    def find(self, number: int) -> Report | None:
        """The report with a number, if there is one."""
        found = self._select("number = %s", [number]) if abs(number) < _MAX_NUMBER else []
        return found[0] if found else None

    def last_number(self) -> int:
        """The number of the last report; 0 if there was never one."""
        database = self._readable()
        return 0 if database is None else int(StoreSettings(database).get(_LAST_NUMBER) or 0)

    def close(
        self,
        number: int,
        *,
        author: str | None = None,
        reason: str | None = None,
        edit: int | None = None,
    ) -> Report:
        """Close a report, with the reason or the edit that came of it.

        Raises StoreError if it is closed, too.
        """
        with self.transaction():
            report = self.report(number)
            if report.state is ReportState.CLOSED:
                why = f"edit {report.edit} came of it" if report.edit else report.reason
                raise StoreError(f"report {number} is closed already ({why}): choose an open one")
            if edit is None and not reason:
                raise StoreError(
                    "closing a report needs a reason, for its author: give one (--reason)"
                )
            closed = replace(
                report, state=ReportState.CLOSED, closed_by=author, reason=reason, edit=edit
            )
            self._update(closed)
            return closed

    def keep_samples(self, samples: Sequence[Report], most: int) -> None:
        """Keep samples, of each comment the newest `most`."""
        database = self._database(create=True)
        assert database  # noqa: S101 - it was made
        with database.transaction():
            self.add(samples, None)
            for topic in dict.fromkeys(sample.comment or "" for sample in samples):
                newest = (
                    "SELECT number FROM drike_inbox WHERE state = %s AND topic = %s "
                    "ORDER BY number DESC LIMIT %s"
                )
                database.execute(
                    "DELETE FROM drike_inbox WHERE state = %s AND topic = %s "  # noqa: S608
                    f"AND number NOT IN ({newest})",
                    [_CODES[ReportState.SAMPLE], topic] * 2 + [most],
                )

    def forget_samples(self) -> int:
        """Delete all samples; return how many there were."""
        database = self._readable()
        if database is None:
            return 0
        with database.transaction():
            deleted = database.execute(
                "DELETE FROM drike_inbox WHERE state = %s", [_CODES[ReportState.SAMPLE]]
            )
            return int(deleted.rowcount)

    def mark_wrong(self, number: int, author: str | None = None) -> Report:
        """Turn a sample into an open report. Raises StoreError for a report that is no sample."""
        with self.transaction():
            sample = self.report(number)
            if sample.state is not ReportState.SAMPLE:
                remedy = "choose one that drike edits inbox --samples lists"
                raise StoreError(f"report {number} is no sample: {remedy}")
            opened = replace(sample, state=ReportState.OPEN, author=author, edit=None)
            self._update(opened)
            return opened

    def _update(self, report: Report) -> None:
        database = self._database()
        assert database  # noqa: S101 - it has the report
        database.execute("DELETE FROM drike_inbox WHERE number = %s", [report.number])
        insert(database, "drike_inbox", [_row(report)])

    def _database(self, create: bool = False) -> Database | None:
        """Where the reports are, with those that an earlier version kept among the edits."""
        if StoreSettings(self._edits).get(_OLD_LAST_NUMBER) is not None:
            _move(self._edits)
        return self._edits.beside(create)

    def _readable(self) -> Database | None:
        """Where the reports are; None if there has never been one."""
        database = self._database()
        if database is None or StoreSettings(database).get(_LAST_NUMBER) is None:
            return None
        return database

    def _select(self, condition: str, values: Sequence[object]) -> list[Report]:
        """The reports that fit a condition of SQL, the oldest first."""
        database = self._readable()
        if database is None:
            return []
        query = f"SELECT number, report FROM drike_inbox WHERE {condition} ORDER BY number"  # noqa: S608
        reports = []
        for number, text in select(database, query, values):
            try:
                reports.append(read(Report, parse(text)))
            except ValueError as problem:
                raise damaged(database.name, f"report {number}: {problem}") from None
        return reports


def _codes_of(state: ReportState | None) -> list[int]:
    """A state as tables have it, or all but samples."""
    states = [ReportState.OPEN, ReportState.CLOSED] if state is None else [state]
    return [_CODES[state] for state in states]


def _within(found: Sequence[tuple[int, int]], most: int) -> list[int]:
    """The numbers of the first reports that have so many bytes together, one at least."""
    numbers: list[int] = []
    for number, size in found:
        most -= size
        if numbers and most < 0:
            break
        numbers.append(number)
    return numbers


def _make_tables(database: Database) -> None:
    for statement in _TABLES:
        database.execute(statement)


def _load(database: Database, condition: str = "", values: Sequence[object] = ()) -> Load:
    """How much there is that fits a condition of SQL."""
    query = f"SELECT count(*), coalesce(sum(size), 0) FROM drike_inbox {condition}"  # noqa: S608
    [[reports, size]] = select(database, query, values)
    return Load(reports, int(size))


def _most_for(database: Database, author: str | None, new: Load) -> Load:
    """How much the inbox may hold with a key's new report. Raises FullInboxError."""
    open_of_key = [_CODES[ReportState.OPEN], author or ""]
    own = _load(database, "WHERE state = %s AND author = %s", open_of_key).plus(new)
    if not own.fits(MOST_OF_KEY):
        most = f"{MOST_OF_KEY.reports:,} open reports or {MOST_OF_KEY.size >> 20} MB of them"
        raise FullInboxError(
            f"this key has {most} in the inbox: ask for some to be closed (drike edits inbox "
            "--close)"
        )
    return _MOST_OF_FEW if own.fits(_FEW) else MOST_KEPT


def _make_room(database: Database, new: Load, most: Load) -> None:
    """Delete the oldest samples, then closed reports, where new ones would be too many."""
    kept = _load(database).plus(new)
    if kept.fits(MOST_KEPT):
        return
    deletable = select(
        database,
        "SELECT number, size FROM drike_inbox WHERE state > 0 ORDER BY state DESC, number",
    )
    for number, size in deletable:
        if kept.fits(MOST_KEPT):
            return
        database.execute("DELETE FROM drike_inbox WHERE number = %s", [number])
        kept = Load(kept.reports - 1, kept.size - size)
    if not kept.fits(most):
        raise FullInboxError(
            f"the inbox holds {MOST_KEPT.reports:,} reports or {MOST_KEPT.size >> 20} MB of them: "
            "close some (drike edits inbox --close)"
        )


def _move(edits: Database) -> None:
    """Move the reports that an earlier version kept among the edits to where they belong.

    A kill between the two changes leaves them in both places, from which this goes on.
    """
    inbox = edits.beside(create=True)
    assert inbox  # noqa: S101 - it was made
    with edits.transaction():
        last_of_old = StoreSettings(edits).get(_OLD_LAST_NUMBER)
        if last_of_old is None:  # another process was faster
            return
        with inbox.transaction():
            _make_tables(inbox)
            last_number = int(StoreSettings(inbox).get(_LAST_NUMBER) or 0)
            last_number = max(last_number, int(last_of_old))
            for text in _old_reports(edits):
                last_number = _place(inbox, text, last_number)
            StoreSettings(inbox).save(_LAST_NUMBER, str(last_number))
        edits.execute("DROP TABLE drike_reports")
        edits.execute("DELETE FROM drike_settings WHERE name = %s", [_OLD_LAST_NUMBER])


def _old_reports(edits: Database) -> Iterator[str]:
    """The texts of the reports that an earlier version kept, by their numbers."""
    number = -1
    while True:
        rows = select(
            edits,
            "SELECT number, report FROM drike_reports WHERE number > %s ORDER BY number LIMIT %s",
            [number, _MOVED_AT_ONCE],
        )
        if not rows:
            return
        yield from (text for _, text in rows)
        number = rows[-1][0]


def _place(inbox: Database, text: str, last_number: int) -> int:
    """Put a report into the inbox, with a new number if another one has its own.

    Returns the last number that is used.
    """
    try:
        report = read(Report, parse(text))
    except ValueError as problem:
        raise damaged(inbox.name, f"a report: {problem}") from None
    found = select(inbox, "SELECT report FROM drike_inbox WHERE number = %s", [report.number])
    if found and found[0][0] == text:
        return last_number
    if found:
        last_number += 1
        report = replace(report, number=last_number)
    insert(inbox, "drike_inbox", [_row(report)])
    return last_number


class _Row(NamedTuple):
    """A report as the table has it."""

    number: int
    state: int
    author: str
    topic: str
    size: int
    report: str


def _row(report: Report) -> _Row:
    text = _text(report)
    size = len(text.encode())
    topic = report.comment or "" if report.state is ReportState.SAMPLE else ""
    return _Row(report.number, _CODES[report.state], report.author or "", topic, size, text)


def _cleaned(value: Any) -> Any:
    """A text without control characters and half ones, stripped and cut; another value as it is."""
    if not isinstance(value, str):
        return value
    # Enough of a long text for `LONGEST` characters to be left after what is stripped.
    characters = value[: 4 * LONGEST]
    printable = "".join(char if _is_printable(char) else " " for char in characters)
    return printable.strip()[:LONGEST]


def _is_printable(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")


def _text(report: Report) -> str:
    """The fields of a report that differ from their defaults, as JSON."""
    fields = {
        name: value for name, value in vars(report).items() if value != getattr(Report, name, None)
    }
    return json.dumps(fields, ensure_ascii=False)
