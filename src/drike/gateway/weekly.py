"""A week of corrections on one page for people who do not run the gateway: no text of any user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median

from drike.edits.record import EditVersion, Status
from drike.gateway.health import ALARMS, AT_LEAST, EditHealth, edit_label, health_of_edits, of_days
from drike.live.report_progress import Stage
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report, ReportState
from drike.stores.moves import due
from drike.stores.snapshots import Snapshot, folded
from drike.stores.traffic import Counts
from drike.support.rows import shown
from drike.support.table import Cell, Number, Table, counted

DAYS = 7
_DUE_WITHIN = 30  # days
_MOST_ROWS = 40  # of a table
_DAY = 86_400  # seconds
_HOUR = 3_600


@dataclass(frozen=True)
class WeeklyPart:
    """A part of the page: what there is to say, and a table where there are rows."""

    title: str
    sentences: Sequence[str]
    table: Table | None = None


@dataclass(frozen=True)
class WeekOfStore:
    """What is known of a store for a week that ends now.

    counts: as `counts_of_health` has them. in_force_since: by edit, when it began to say what it
    says.
    """

    now: datetime
    first_day: date
    edits: Snapshot
    counts: Counts
    reports: Sequence[Report]
    in_force_since: Mapping[int, datetime]

    @classmethod
    def of(cls, store: EditStore, counts: Counts, now: datetime, days: int = DAYS) -> WeekOfStore:
        """What a store holds. Raises StoreError."""
        changes = store.changes()
        edits = folded(changes)
        return cls(
            now=now,
            first_day=now.date() - timedelta(days=days - 1),
            edits=edits,
            counts=counts,
            reports=Inbox(store.database).reports(None),
            in_force_since=in_force_since(changes, edits),
        )

    @property
    def in_force(self) -> Sequence[EditVersion]:
        """The edits in force now."""
        return self.edits.in_force(self.now)


def weekly_parts(week: WeekOfStore) -> list[WeeklyPart]:
    """The page, part by part."""
    health = health_of_edits(week.edits, week.counts, first_day=week.first_day)
    of_week = health_of_edits(week.edits, of_days(week.counts, week.first_day))
    return [
        _corrections(week),
        _reports(week),
        _heeded(health),
        _recurring(of_week),
        _due(week),
    ]


def _corrections(week: WeekOfStore) -> WeeklyPart:
    new = [edit for edit in week.in_force if _is_of_week(week, week.in_force_since.get(edit.id))]
    proposed = {
        edit.id for edit in week.edits.edits.values() if edit.record.status is Status.PROPOSED
    }
    waiting = len(proposed | set(week.edits.proposals))
    sentence = (
        f"{counted(len(week.in_force), 'correction')} in force, {len(new):,} of them new in this "
        f"week; {waiting:,} waiting for approval."
    )
    rows = [
        (edit_label(edit), f"{week.in_force_since[edit.id]:%Y-%m-%d}", edit.record.author or "")
        for edit in new
    ]
    return WeeklyPart("Corrections", [sentence], _table(("new in force", "since", "by"), rows))


def _reports(week: WeekOfStore) -> WeeklyPart:
    """Reports of wrong answers, and how long they took to become corrections."""
    came = [report for report in week.reports if _is_of_week(week, _time(report.at))]
    waiting = [report for report in week.reports if report.state is ReportState.OPEN]
    sentences = [
        f"{counted(len(came), 'report')} of wrong answers in this week; {len(waiting):,} waiting."
    ]
    if waiting:
        oldest = max((week.now - _time(report.at)).total_seconds() for report in waiting)
        sentences.append(f"The oldest waits for {_long(oldest)}.")

    taken = {
        report.number: seconds
        for report in week.reports
        if (seconds := _seconds_until_in_force(week, report)) is not None
    }
    if taken:
        middle = _long(median(taken.values()))
        became = f"{counted(len(taken), 'report')} became a correction"
        sentences.append(f"{became} that is in force, in the median after {middle}.")

    rows = [
        (
            f"report {report.number}",
            f"{_time(report.at):%Y-%m-%d}",
            _state_of(week, report),
            f"edit {report.edit}" if report.edit else "",
            _long(taken[report.number]) if report.number in taken else "",
        )
        for report in came
    ]
    header = ("report", "came", "state", "became", "in force after")
    return WeeklyPart("Reports", sentences, _table(header, rows))


def _state_of(week: WeekOfStore, report: Report) -> str:
    """How far a report has come, by the edit that was made of it."""
    edit = week.edits.edits.get(report.edit or 0)
    if report.state is ReportState.OPEN:
        return Stage.RECEIVED.value
    if edit is None or edit.record.status in (Status.RETIRED, Status.REJECTED):
        return Stage.CLOSED.value
    if edit.id in week.in_force_since:
        return Stage.IN_FORCE.value
    return (Stage.DRAFTED if edit.record.status is Status.DRAFT else Stage.PROPOSED).value


def _seconds_until_in_force(week: WeekOfStore, report: Report) -> float | None:
    """How long after a report its edit was in force; None where there is none that is."""
    since = week.in_force_since.get(report.edit or 0)
    if report.state is not ReportState.CLOSED or since is None:
        return None
    return max(0.0, (since - _time(report.at)).total_seconds())


def _heeded(health: Sequence[EditHealth]) -> WeeklyPart:
    """How often each model heeds each edit, those that need a person first."""
    alarms = [line for line in health if line.verdict in ALARMS]
    sentence = f"Of {counted(len(health), 'correction')} asked about, {len(alarms):,} need a look."
    if not health:
        sentence = "No question in this week concerned a correction."
    rows: list[tuple[Cell, ...]] = [
        (
            edit_label(line.edit),
            shown(model.model),
            Number(model.prompts),
            model.heeded,
            Number(model.recurred),
            model.words,
        )
        for line in health
        for model in line.models
    ]
    header = ("correction", "model", "in prompts", "heeded", "recurred", "")
    note = (
        "Heeded: the share of answers that state the new value alone, and recurred: how many state "
        f"the old one alone, since the correction says this. Expected: {AT_LEAST:.0%} heeded. The "
        "interval holds however often one looks."
    )
    return WeeklyPart("Heeded", [sentence], _table(header, rows, note))


def _recurring(of_week: Sequence[EditHealth]) -> WeeklyPart:
    """Which old values were stated again in this week."""
    recurring = [(line.edit, model) for line in of_week for model in line.models if model.recurred]
    recurring.sort(key=lambda pair: -pair[1].recurred)
    rows: list[tuple[Cell, ...]] = [
        (
            edit_label(edit),
            shown(edit.record.target_true or ""),
            shown(model.model),
            f"{model.recurred:,} of {model.judged:,}",
        )
        for edit, model in recurring
    ]
    number = sum(model.recurred for _, model in recurring)
    sentence = "No answer of this week stated an old value."
    if rows:
        sentence = f"{counted(number, 'answer')} of this week stated an old value again."
    header = ("correction", "old value", "model", "answers")
    return WeeklyPart("What recurs", [sentence], _table(header, rows))


def _due(week: WeekOfStore) -> WeeklyPart:
    """Which reviews are due soon."""
    soon = due(week.edits, week.now + timedelta(days=_DUE_WITHIN))
    late = due(week.edits, week.now)
    sentence = (
        f"{counted(len(late), 'review')} due, {len(soon) - len(late):,} more within "
        f"{_DUE_WITHIN} days."
    )
    rows = [
        (edit_label(edit), (edit.record.review_by or "")[:10], edit.record.owner or "")
        for edit in soon
    ]
    return WeeklyPart("Due for review", [sentence], _table(("correction", "due", "owner"), rows))


def _table(
    header: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], note: str = ""
) -> Table | None:
    if not rows:
        return None
    notes = [note] if note else []
    if len(rows) > _MOST_ROWS:
        notes.append(f"{len(rows) - _MOST_ROWS:,} more are not shown.")
    return Table("", header, tuple(rows[:_MOST_ROWS]), tuple(notes), wide=True)


def _is_of_week(week: WeekOfStore, time: datetime | None) -> bool:
    return time is not None and time.date() >= week.first_day


def in_force_since(changes: Sequence[EditVersion], edits: Snapshot) -> dict[int, datetime]:
    """By edit, when it came into force as it is now."""
    since: dict[int, datetime] = {}
    for change in changes:
        status = change.record.status
        is_former = change.version < edits.unchanged.get(change.id, 0)
        if status is Status.PROPOSED or is_former:
            continue
        if status is not Status.ACTIVE:
            since.pop(change.id, None)
        elif change.id not in since:
            begins = max(change.created_at, change.record.valid_from or "")
            since[change.id] = _time(begins)
    return since


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _long(seconds: float) -> str:
    """A time in days, hours or minutes."""
    if seconds >= 2 * _DAY:
        return counted(round(seconds / _DAY), "day")
    if seconds >= 2 * _HOUR:
        return counted(round(seconds / _HOUR), "hour")
    return counted(round(seconds / 60), "minute")
