"""Opening hours: days of the week with spans of time, and which part of them an answer gives."""

import re
from collections.abc import Sequence
from functools import lru_cache

from drike.answers.days import EVERY_DAY, all_day, days_in
from drike.answers.number_words import spelled_in_digits
from drike.answers.times import spans, times

# What may stand between days and times: "open from 9 to 5, Mon-Fri".
_BETWEEN = re.compile(
    r"(?:[\s,;:.()|/–—-]|\b(?:and|und|et|y|open|opens|from|on|at|the|von|ab|uhr|h|hours|de|am)\b)*",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def parts_of_hours(name: str) -> tuple[str, ...]:
    """The days and spans of time that an object is made of; () if it is not all such."""
    text = spelled_in_digits(name.strip().rstrip("."))
    times_of_day, is_one_time = _places_of_times(text)
    days = [(found.begin, found.end) for found in days_in(text)]
    if is_one_time and not days:
        return ()

    parts = []
    copied = 0
    for begin, end in sorted([*days, *times_of_day, *all_day(text)]):
        if begin < copied or not _BETWEEN.fullmatch(text, copied, begin):
            return ()
        parts.append(text[begin:end])
        copied = end
    return tuple(parts) if _BETWEEN.fullmatch(text, copied) else ()


def _places_of_times(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Where the spans of time and single times stand, and whether there is just one time."""
    found = times(text)
    places = [(span.begin, span.end) for span in spans(text, found)]
    in_spans = {place for begin, end in places for place in range(begin, end)}
    single = [time for time in found if time.is_marked and time.begin not in in_spans]
    places += [(time.begin, time.end) for time in single]
    return places, len(single) == len(places) == 1


def is_every_day(part: str) -> bool:
    """Whether a part of opening hours is all days, which go without saying."""
    found = days_in(part)
    return len(found) == 1 and found[0].days == EVERY_DAY


def names_days(text: str) -> bool:
    """Whether a text names days of the week."""
    return bool(days_in(text))


def contradicts(parts: Sequence[str], answer: str) -> bool:
    """Whether an answer gives other days of the week, or another span of time, than these parts.

    Days that have none in common with these may be those on which it is closed.
    """
    own_days = [days.days for part in parts for days in days_in(part)]
    own_spans = {minutes for part in parts for minutes in _spans_in(part)}
    if not own_days and not own_spans:
        return False
    text = spelled_in_digits(answer)
    given_days = [given.days for given in days_in(text) if len(given.days) > 1]
    others = [days for days in given_days if days not in own_days]
    if others == given_days and any(days & own for days in others for own in own_days):
        return True
    given_spans = _spans_in(text)
    return bool(own_spans and given_spans) and not given_spans & own_spans


def _spans_in(text: str) -> set[tuple[int, int]]:
    """The spans of time in a text, by the minutes of the day."""
    return {span.minutes for span in spans(text, times(text))}


def gives_part(part: str, answer: str) -> bool:
    """Whether an answer gives one of some days, or one end of a span of time, and no other.

    On Saturdays one may come from Tuesday to Saturday; who opens at 9 may open from 9 to 17.
    """
    own_days = days_in(part)
    if own_days:
        given = days_in(spelled_in_digits(answer))
        return bool(given) and all(
            len(days.days) == 1 and days.days < own_days[0].days for days in given
        )
    own_spans = list(spans(part, times(part)))
    if not own_spans:
        return False
    text = spelled_in_digits(answer)
    found = times(text)
    if any(spans(text, found)):
        return False
    marked = [time for time in found if time.is_marked]
    return bool(marked) and all(any(map(time.may_be, own_spans[0].minutes)) for time in marked)
