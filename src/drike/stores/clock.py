"""The time that stores give to what they keep."""

from datetime import UTC, datetime

from drike.edits.times import stamp


def now() -> str:
    """The time in UTC, as 2026-11-22T03:44:32Z."""
    return stamp(datetime.now(UTC))
