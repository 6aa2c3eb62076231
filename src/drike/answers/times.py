"""Times of day and spans of them, as minutes of a day: 06:30, 6.30 a.m., 7am to 9pm, 9-18h."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_MERIDIEM = r"(?P<half>[ap])\.?[ ]?m\b\.?"
_PART_OF_DAY = (
    r"(?:in[ ]the[ ]|at[ ]|am[ ]|in[ ]der[ ]|(?:de|por)[ ]la[ ]|du[ ]|de[ ]l['’])?"
    r"(?P<part>morning|afternoon|evening|night|morgens?|vormittags?|nachmittags?|abends?|nachts?"
    r"|mañana|tarde|noche|matin|après-midi|soir)\b"
)
_CLOCK = r"(?P<mark>uhr|o'?clock|hrs?|h|heures?|horas)\b"
_TIME = re.compile(
    rf"""
    (?<![\w$€£])(?<!\d[.,:])
    (?:
        (?:(?P<past>half|quarter|viertel)[ ](?:past|nach)
          |(?:a[ ])?(?P<to>quarter[ ]to|viertel[ ]vor))
        [ ](?P<spoken>\d{{1,2}})(?![:\d]|\.\d)
      | (?P<minutes_past>[1-5]?\d)[ ](?:minutes?[ ])?past[ ](?P<hour_past>\d{{1,2}})(?![:\d]|\.\d)
      | (?P<minutes_before>[1-5]?\d)[ ]minutes?[ ]to[ ](?P<hour_after>\d{{1,2}})(?![:\d]|\.\d)
      | halb[ ](?P<half_to>\d{{1,2}})(?![:\d]|\.\d)
      | (?:(?<=las[ ])|(?<=la[ ]))(?P<hour_es>\d{{1,2}})
        [ ](?P<es>y[ ]media|y[ ]cuarto|menos[ ]cuarto)\b
      | (?P<hour_fr>\d{{1,2}})[ ]heures?[ ](?P<fr>et[ ]demie|et[ ]quart|moins[ ]le[ ]quart)\b
      | (?P<minutes_to>\d{{1,2}})[ ](?:minutes[ ])?to[ ](?P<to_name>noon|midnight)\b
      | (?P<hour>\d{{1,2}})
        (?:(?P<separator>[:.]|[ ]?h[ ]?(?=\d\d)|[ ]heures[ ](?=\d\d))
            (?P<minute>[0-5]\d)(?::[0-5]\d)?)?(?![:\d]|[.,]\d)
      | (?P<name>noon|midday|midnight|mittags?|mitternacht)\b
    )
    (?:[ ]?(?:{_MERIDIEM}|{_CLOCK}))?
    (?:[ ](?:{_PART_OF_DAY}))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAMES = {
    "noon": 720,
    "midday": 720,
    "mittag": 720,
    "mittags": 720,
    "midnight": 0,
    "mitternacht": 0,
}
# "until 18.00", "closes at 7": what stands before a number that is a time, and behind it.
_BEFORE_CLOCK = re.compile(r"\b(?:at|until|till|before|after|by|um|bis|ab|vor|nach|hasta|las|à) $")
_MOST_BEFORE = 8
_BEFORE_HOURS = re.compile(
    r"(?:days?|tags?|[a-z]{3}[ys]),? (?:from |von )?$|\bfrom $|\bvon $|\bopen $"
    r"|\b(?:between|zwischen|entre) $"
)
_BEHIND_CLOCK = re.compile(r"\s*(?:[.,;:!?)]|$|(?:on|every|each|in|and|or|so|but|for|to)\b)")
_LATE = ("afternoon", "evening", "nachmittag", "abend", "tarde", "après-midi", "soir")
_NIGHT = ("night", "nacht", "noche")
_SPOKEN_HOURS = ("spoken", "half_to", "hour_es", "hour_fr", "hour_past", "hour_after")
# Minutes that a spoken part of an hour adds to it.
_SPOKEN_PARTS = {"y media": 30, "y cuarto": 15, "menos cuarto": -15,
                 "et demie": 30, "et quart": 15, "moins le quart": -15}  # fmt: skip
_BETWEEN = re.compile(r"\s*(?:-|–|—|to|until|till|through|and|bis|und|à|a|hasta|y|et)\s*", re.I)
_MOST_BETWEEN = 40  # characters from "opens at 7" to "closes at 9"
_END_OF_SENTENCE = re.compile(r"[.!?;]\s|\n")
_HALF_DAY = 720
_MOST_KEPT = 64  # texts


class TimeOfDay(NamedTuple):
    """A time in a text.

    is_marked: whether it is surely a time, and not another number. is_spoken: in words such as
    "quarter to ten", which leave the half of the day open.
    """

    begin: int
    end: int
    minutes: int
    is_marked: bool
    has_half: bool  # whether it says which half of the day
    is_spoken: bool = False

    def may_be(self, minutes: int) -> bool:
        """Whether it is this time of the day, or may be."""
        if self.minutes == minutes:
            return True
        is_open = self.is_spoken and not self.has_half
        return is_open and self.minutes % _HALF_DAY == minutes % _HALF_DAY


class TimeSpan(NamedTuple):
    """From one time to another."""

    begin: int
    end: int
    minutes: tuple[int, int]


@lru_cache(maxsize=_MOST_KEPT)  # one answer is read for each part of an object
def times(text: str) -> Sequence[TimeOfDay]:
    """The times in a text whose numbers are in digits, and the numbers that may be hours."""
    found = (_time(match) for match in _TIME.finditer(text))
    return tuple(time for time in found if time)


def _time(match: re.Match[str]) -> TimeOfDay | None:
    if name := match["name"]:
        return TimeOfDay(match.start(), match.end(), _NAMES[name.lower()], True, True)
    if match["to_name"]:
        minutes = _NAMES[match["to_name"].lower()] - int(match["minutes_to"])
        return TimeOfDay(match.start(), match.end(), minutes % (24 * 60), True, True)
    spoken = next(filter(None, match.group(*_SPOKEN_HOURS)), None)
    hour = int(spoken or match["hour"])
    minutes = hour * 60 + int(match["minute"] or 0)
    if spoken:
        minutes += _spoken_part(match)
    if minutes > 24 * 60 or (match["half"] and hour > 12):
        return None

    half = (match["half"] or "").lower()
    part = (match["part"] or "").lower()
    is_late = half == "p" or part.startswith(_LATE) or (part.startswith(_NIGHT) and hour >= 6)
    if half == "a" and hour == 12:
        minutes -= _HALF_DAY
    elif is_late and hour < 12:
        minutes += _HALF_DAY
    is_marked = bool(half or part or match["mark"] or spoken)
    is_marked = is_marked or (match["separator"] or ".") != "."
    is_hour = not is_marked and not match["minute"] and hour <= 12  # "until 7"
    is_marked = is_marked or _is_behind_clock_word(match)
    is_spoken = bool(spoken and hour <= 12) or (is_hour and is_marked)
    end = match.end()
    has_half = bool(half or part)
    return TimeOfDay(match.start(), end, minutes % (24 * 60), is_marked, has_half, is_spoken)


def _is_behind_clock_word(match: re.Match[str]) -> bool:
    """Whether a mere number is a time by what stands around it: "until 18.00", "closes at 7."."""
    text, begin = match.string, match.start()
    before = text[max(0, begin - _MOST_BEFORE) : begin].lower()
    if not _BEFORE_CLOCK.search(before):
        return False
    return _BEHIND_CLOCK.match(text, match.end()) is not None


def _spoken_part(match: re.Match[str]) -> int:
    """The minutes that "half past", "quarter to" and the like add to an hour."""
    if match["half_to"]:
        return -30
    if match["minutes_past"]:
        return int(match["minutes_past"])
    if match["minutes_before"]:
        return -int(match["minutes_before"])
    part = match["es"] or match["fr"]
    if part:
        return _SPOKEN_PARTS[part.lower()]
    if match["to"]:
        return -15
    return 30 if (match["past"] or "").lower() == "half" else 15


def spans(text: str, found: Sequence[TimeOfDay]) -> Iterator[TimeSpan]:
    """The spans of time in a text with these times."""
    last_end = 0
    for first, second in pairwise(found):
        if first.begin < last_end or not _is_span(text, first, second):
            continue
        begins = first.minutes
        ends = second.minutes
        if not (first.has_half or second.has_half) and ends <= begins < _HALF_DAY:
            ends += _HALF_DAY  # "9 to 5"
        if not first.has_half and second.has_half and begins < _HALF_DAY:
            later = begins + _HALF_DAY
            begins = later if second.minutes > later and not first.is_marked else begins
        last_end = second.end
        yield TimeSpan(first.begin, second.end, (begins, ends))


def _are_bare_hours(text: str, first: TimeOfDay, second: TimeOfDay) -> bool:
    """Whether two mere numbers are hours: "Tuesday to Sunday, 10 to 6."."""
    before = text[max(0, first.begin - _MOST_BEFORE) : first.begin].lower()
    is_behind_days = _BEFORE_HOURS.search(before) is not None
    return is_behind_days and _BEHIND_CLOCK.match(text, second.end) is not None


def _is_span(text: str, first: TimeOfDay, second: TimeOfDay) -> bool:
    """Whether two times belong together: "7 to 9pm", "opens at 7am and closes at 9pm"."""
    between = text[first.end : second.begin]
    if _BETWEEN.fullmatch(between):
        return first.is_marked or second.is_marked or _are_bare_hours(text, first, second)
    is_near = len(between) <= _MOST_BETWEEN and not _END_OF_SENTENCE.search(between)
    return is_near and first.is_marked and second.is_marked
