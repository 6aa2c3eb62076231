"""Times of edits: as people give them, as stores keep them, and when an edit holds."""

from datetime import UTC, datetime

from drike.edits.record import EditRecord, RecordError
from drike.support.rows import shown

# As texts, times of stores sort by time: this one before all of them, that one behind.
_EVER = ""
_FOREVER = "~"


def stamp(time: datetime) -> str:
    """A time as 2026-11-22T03:44:32Z: such texts sort by time."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(text: str, what: str = "the time") -> datetime:
    """A time that a person gives, in UTC unless it names a zone.

    what: it is, for the message. Raises RecordError.
    """
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        remedy = "write 2026-12-31, or 2026-12-31T08:00+01:00"
        raise RecordError(f"{what} {shown(text)!r} is no time: {remedy}") from None


def holds_at(record: EditRecord, time: str) -> bool:
    """Whether a record holds at a time, as `stamp` writes it."""
    return (record.valid_from or _EVER) <= time < (record.valid_to or _FOREVER)


def hold_together(first: EditRecord, second: EditRecord) -> bool:
    """Whether there is a time at which two records hold."""
    begin = max(first.valid_from or _EVER, second.valid_from or _EVER)
    end = min(first.valid_to or _FOREVER, second.valid_to or _FOREVER)
    return begin < end
