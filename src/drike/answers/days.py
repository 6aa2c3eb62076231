"""Days of the week in texts: single ones, lists and ranges of them, in English, German and others.

"Mon-Fri", "weekdays" and "Monday through Friday" are the same days, "daily" and "seven days a week"
all of them. "24/7" is around the clock.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

_DAYS_BY_LANGUAGE = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
)
_SHORT = (
    "mon tue wed thu fri sat sun",
    "mo di mi do fr sa so",
)
_OTHERS = {"tues": 1, "weds": 2, "thurs": 3, "sonnabend": 5}
_WEEK = 7
_MOST_KEPT = 64  # texts
EVERY_DAY = frozenset(range(_WEEK))
_GROUPS = (
    (r"on weekdays|weekdays?|working days|werktags?|werktäglich|en semaine|entre semana", range(5)),
    (
        r"(?:at |on )?(?:the )?week-?ends?|(?:am )?wochenende|(?:le )?week-?end|fin de semana",
        range(5, 7),
    ),
    (
        r"daily|every ?day(?: of the week)?|each day|(?:7|seven) days a week|all week(?: long)?"
        r"|täglich|jeden tag|tous les jours|chaque jour|todos los días|a diario",
        range(_WEEK),
    ),
)
_JOINER = r"(?:,?\s*(?:and|or|&|und|oder|et|ou|y|o)\s+(?:on |every |each )?(?:the )?|\s*[,/]\s*)"
_TO = r"\s*(?:-|–|—|to|through|thru|until|till|bis|au|à|a|al)\s*(?:the )?"
_ALL_DAY = re.compile(
    r"(?<!\w)(?:24 ?/ ?7|(?:24|twenty-four) hours(?: (?:a|per|each) day)?|24 ?h(?! ?\d)"
    r"|a?round[- ]the[- ]clock|day and night|at any (?:time|hour)(?: of (?:the )?day)?"
    r"|(?:rund um die|24 stunden) uhr|rund um die uhr|24 stunden(?: am tag)?|jour et nuit"
    r"|24 heures sur 24|las 24 horas)(?!\w)",
    re.IGNORECASE,
)


class Days(NamedTuple):
    """Days of the week in a text, from 0 for Monday."""

    begin: int
    end: int
    days: frozenset[int]


@cache
def _number_by_name() -> dict[str, int]:
    """The number of each day, by its names."""
    numbers = dict(_OTHERS)
    for names in (*_DAYS_BY_LANGUAGE, *_SHORT):
        numbers |= {name: number for number, name in enumerate(names.split())}
    return numbers


def names_of_day(day: str) -> tuple[str, ...]:
    """The names of a day in other languages."""
    number = _number_by_name().get(day.lower())
    if number is None:
        return ()
    names = (names_of_days.split()[number] for names_of_days in _DAYS_BY_LANGUAGE)
    return tuple(name for name in names if name != day)


@cache
def _day() -> re.Pattern[str]:
    """A day's name. Short ones count only with a capital, those of two letters in pairs."""
    long_names = "|".join([*(" ".join(_DAYS_BY_LANGUAGE).split()), *_OTHERS])
    short_names = "|".join(name.title() for name in _SHORT[0].split())
    shortest = rf"(?:{'|'.join(name.title() for name in _SHORT[1].split())})"
    between = r"\.?\s?(?:[-–—/,&]|bis|und)\s?"
    return re.compile(
        rf"(?<!\w)(?P<name>(?i:{long_names})|{short_names}|{shortest}(?={between}{shortest}\b)"
        rf"|(?:(?<=[-–—/,&])|(?<=[-–—/,&] )|(?<=bis )){shortest})s?\.?(?!\w)"
    )


@cache
def _groups() -> re.Pattern[str]:
    names = "|".join(f"(?P<g{number}>{pattern})" for number, (pattern, _) in enumerate(_GROUPS))
    return re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)


_JOINED = re.compile(_JOINER, re.IGNORECASE)
_RANGE = re.compile(_TO, re.IGNORECASE)


@lru_cache(maxsize=_MOST_KEPT)  # one answer is read for each part of an object
def days_in(text: str) -> Sequence[Days]:
    """The days that a text names, those together that it joins: "Mon-Wed and Fri"."""
    joined: list[Days] = []
    for days in sorted([*_single_days(text), *_groups_of_days(text)]):
        before = joined[-1] if joined else None
        together = _together(text, before, days) if before else None
        if before and together:
            joined[-1] = Days(before.begin, days.end, before.days | together)
        else:
            joined.append(days)
    return tuple(joined)


def _together(text: str, first: Days, second: Days) -> frozenset[int] | None:
    """The days of the second, and those between, if a text joins it to the first."""
    between = text[first.end : second.begin]
    if _RANGE.fullmatch(between):
        return _from_to(max(first.days), max(second.days))
    return second.days if _JOINED.fullmatch(between) else None


def _from_to(first: int, last: int) -> frozenset[int]:
    """The days from one to another, perhaps over the end of a week."""
    count = (last - first) % _WEEK + 1
    return frozenset((first + step) % _WEEK for step in range(count))


def _single_days(text: str) -> Iterator[Days]:
    for match in _day().finditer(text):
        number = _number_by_name()[match["name"].lower()]
        yield Days(match.start(), match.end(), frozenset((number,)))


def _groups_of_days(text: str) -> Iterator[Days]:
    for match in _groups().finditer(text):
        number = next(number for number in range(len(_GROUPS)) if match[f"g{number}"])
        yield Days(match.start(), match.end(), frozenset(_GROUPS[number][1]))


def all_day(text: str) -> list[tuple[int, int]]:
    """Where a text says that something is so around the clock."""
    return [match.span() for match in _ALL_DAY.finditer(text)]
