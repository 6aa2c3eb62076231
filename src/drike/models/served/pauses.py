"""How long a server asks to wait before it is asked again (Retry-After)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from drike.support.table import counted

UNTOLD = 5.0  # seconds; of a longer pause people are told
_LONGEST = 1e9  # seconds; what is longer, is as long
_MINUTE = 60
_HOUR = 60 * _MINUTE


def pause_asked_for(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks for, as a number or as a date; None if it asks for none.

    headers: by name, in lower case.
    """
    for name, units_in_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / units_in_second
        except ValueError:
            continue
        return _usable(seconds)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return _usable(until.timestamp() - time.time())


def in_words(seconds: float) -> str:
    """A pause, with its minutes or hours where there are several."""
    exact = counted(math.ceil(seconds), "second")
    if seconds >= 2 * _HOUR:
        return f"{exact} (about {seconds / _HOUR:,.0f} hours)"
    if seconds >= 2 * _MINUTE:
        return f"{exact} (about {seconds / _MINUTE:.0f} minutes)"
    return exact


def _usable(seconds: float) -> float | None:
    return min(seconds, _LONGEST) if seconds > 0 else None  # NaN is not
