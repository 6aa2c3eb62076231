"""Reports of wrong answers, kept beside the edits until a person closes them.

A report may become an edit; closing it then names that.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from drike.edits.record import StoreError
from drike.stores import clock
from drike.stores.database import Database, insert, select
from drike.stores.failures import damaged
from drike.stores.settings import StoreSettings
from drike.support.records import parse, read

MOST_KEPT = 10_000  # reports and samples
LONGEST = 4_000  # characters of a text; the rest of an answer or comment is cut
GIVEN = ("question", "answer", "correction", "comment", "conversation", "model")  # by reporters
# The setting with the number of the last report; where it is missing, so is the table.
_LAST_NUMBER = "reports"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS drike_reports "
    "(number BIGINT PRIMARY KEY, closed BIGINT NOT NULL, report TEXT)"
)
_MAX_NUMBER = 2**63  # databases have no larger whole numbers


class FullInboxError(StoreError):
    """There are too many open reports to keep another one."""


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
    return read(Report, given)


class Inbox:
    """The reports in a database. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = StoreSettings(database)

    def add(self, reports: Sequence[Report], author: str | None) -> Sequence[Report]:
        """Keep reports, all or none. Raises FullInboxError.

        The oldest samples and closed reports make room.
        """
        with self._database.transaction():
            last_number = int(self._settings.get(_LAST_NUMBER) or 0)
            if not last_number:
                self._database.execute(_TABLE)
            self._make_room_for(len(reports))
            added = [
                replace(report, number=number, at=clock.now(), author=author)
                for number, report in enumerate(reports, last_number + 1)
            ]
            for report in added:
                row = (report.number, _CODES[report.state], _text(report))
                insert(self._database, "drike_reports", [row])
            self._settings.save(_LAST_NUMBER, str(last_number + len(added)))
        return added

    def reports(self, state: ReportState | None = ReportState.OPEN) -> list[Report]:
        """The reports in a state, or all but samples, the oldest first."""
        if state is None:
            codes = [_CODES[ReportState.OPEN], _CODES[ReportState.CLOSED]]
            return self._select("closed IN (%s, %s)", codes)
        return self._select("closed = %s", [_CODES[state]])

    def report(self, number: int) -> Report:
        """The report with a number. Raises StoreError if there is none."""
        found = self._select("number = %s", [number]) if abs(number) < _MAX_NUMBER else []
        if not found:
            raise StoreError(
                f"there is no report {number}: choose one that drike edits inbox lists"
            )
        return found[0]

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
        with self._database.transaction():
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
        with self._database.transaction():
            self.add(samples, None)
            kept_by_comment = Counter[str | None]()
            for sample in reversed(self.reports(ReportState.SAMPLE)):
                kept_by_comment[sample.comment] += 1
                if kept_by_comment[sample.comment] > most:
                    self._database.execute(
                        "DELETE FROM drike_reports WHERE number = %s", [sample.number]
                    )

    def forget_samples(self) -> int:
        """Delete all samples; return how many there were."""
        if self._settings.get(_LAST_NUMBER) is None:
            return 0
        with self._database.transaction():
            deleted = self._database.execute(
                "DELETE FROM drike_reports WHERE closed = %s", [_CODES[ReportState.SAMPLE]]
            )
            return int(deleted.rowcount)

    def mark_wrong(self, number: int, author: str | None = None) -> Report:
        """Turn a sample into an open report. Raises StoreError for a report that is no sample."""
        with self._database.transaction():
            sample = self.report(number)
            if sample.state is not ReportState.SAMPLE:
                remedy = "choose one that drike edits inbox --samples lists"
                raise StoreError(f"report {number} is no sample: {remedy}")
            opened = replace(sample, state=ReportState.OPEN, author=author, edit=None)
            self._update(opened)
            return opened

    def _make_room_for(self, count: int) -> None:
        """Delete the oldest samples, then closed reports, where `count` more would be too many."""
        [[kept]] = self._database.execute("SELECT COUNT(*) FROM drike_reports")
        excess = kept + count - MOST_KEPT
        if excess <= 0:
            return
        oldest = (
            "SELECT number FROM drike_reports WHERE closed > 0 "
            "ORDER BY closed DESC, number LIMIT %s"
        )
        deleted = self._database.execute(
            f"DELETE FROM drike_reports WHERE number IN ({oldest})",  # noqa: S608 - no values
            [excess],
        )
        if deleted.rowcount < excess:
            raise FullInboxError(
                f"the inbox holds {MOST_KEPT:,} reports: close some (drike edits inbox --close)"
            )

    def _update(self, report: Report) -> None:
        self._database.execute(
            "UPDATE drike_reports SET closed = %s, report = %s WHERE number = %s",
            [_CODES[report.state], _text(report), report.number],
        )

    def _select(self, condition: str, values: Sequence[object]) -> list[Report]:
        """The reports that fit a condition of SQL, the oldest first."""
        if self._settings.get(_LAST_NUMBER) is None:
            return []
        query = f"SELECT number, report FROM drike_reports WHERE {condition} ORDER BY number"  # noqa: S608
        reports = []
        for number, text in select(self._database, query, values):
            try:
                reports.append(read(Report, parse(text)))
            except ValueError as problem:
                raise damaged(self._database.name, f"report {number}: {problem}") from None
        return reports


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
