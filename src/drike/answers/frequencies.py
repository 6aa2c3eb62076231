"""Frequencies: how often something is done. "Every 15 minutes" is four times an hour, and 96 a day.

They are read in English, German, Spanish and French. A month is no number of days, so "twice a
month" is not "every two weeks".
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from drike.answers.amounts import Unit, times_named

_EVERY = r"every|each|alle|jede[nrs]?|cada|chaque|tous les|toutes les|todos los|todas las"
_A = r"an?|per|each|every|pro|am|im|in der|in|al|a la|por|par|el|la"
_UNIT = r"(?P<unit>[^\W\d_]+)"
_COUNT = r"(?<!\d)\d{1,9}"  # Python reads no number of 4,301 digits
_NUMBER = r"(?P<number>\d{1,9}(?:[.,]\d{1,9})?)"
_MAL = {"vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8, "zehn": 10, "zwölf": 12}
_PATTERNS = (
    # "every 15 minutes", "every other day", "alle zwei Wochen"
    rf"(?:once |einmal )?(?:{_EVERY}) "
    rf"(?:{_NUMBER}[ -]|(?P<second>other|second|zweite[nrs]?) )?{_UNIT}",
    # "four times an hour", "zweimal pro Tag", "once every two weeks", "twice weekly"
    r"(?:(?P<once>once|einmal|una vez|une fois)|(?P<twice>twice|zweimal)|(?P<thrice>thrice|dreimal)"
    rf"|(?P<times>{_COUNT})(?:\s?[x×]| times?| ?mal| veces| fois)|(?P<mal>{'|'.join(_MAL)})mal)"
    rf" (?:(?:{_A}) (?:(?P<of>{_COUNT}) )?)?{_UNIT}",
    # "at 15-minute intervals", "im 15-Minuten-Takt"
    rf"(?:(?:at|in) (?:intervals of )?)?(?P<interval>{_COUNT})[- ](?P<interval_unit>[^\W\d_]+)"
    r"[- ](?:intervals?|takt|rhythmus)",
    rf"(?:at|in) intervals of (?P<apart>{_COUNT}) (?P<apart_unit>[^\W\d_]+)",
    r"(?P<adverb>(?:half-?|bi-?)?[^\W\d_]{3,}ly|(?:viertel|halb)?(?:stünd|tägl|wöchentl|monatl|jährl)"
    r"i?(?:ch|lich)|(?:diari|semanal|mensual|anual)a?mente|a diario)",
)  # fmt: skip
_ADVERBS = {  # that name no time by themselves, or twice another
    "quarterly": ("month", 3), "fortnightly": ("week", 2), "biweekly": ("week", 2),
    "bi-weekly": ("week", 2), "half-yearly": ("month", 6), "half-hourly": ("minute", 30),
    "vierteljährlich": ("month", 3), "halbjährlich": ("month", 6), "diariamente": ("day", 1),
    "semanalmente": ("week", 1), "mensualmente": ("month", 1), "anualmente": ("year", 1),
    "a diario": ("day", 1),
}  # fmt: skip
_FREQUENCY = tuple(re.compile(rf"(?<!\w)(?:{each})(?!\w)", re.IGNORECASE) for each in _PATTERNS)
_MAY_BE = re.compile(
    r"\b(?:every|each|alle|jede|cada|chaque|tou(?:te)?s|tod[ao]s|once|twice|thrice|\w+mal|mal|times?|vez"
    r"|veces|fois|intervals?|\w*takt|\w*rhythmus|\w+ly|\w+lich|\w+mente|diario|\d+ ?[x×])",
    re.IGNORECASE,
)  # found fast
_MOST_KEPT = 64  # texts


class Frequency(NamedTuple):
    """How often: so many times in a base unit of a kind of time."""

    begin: int
    end: int
    kind: str
    rate: Fraction

    def is_same(self, other: "Frequency") -> bool:
        """Whether both say the same of how often."""
        return (self.kind, self.rate) == (other.kind, other.rate)


@lru_cache(maxsize=_MOST_KEPT)  # one answer is read for each part of an object
def frequencies(text: str) -> tuple[Frequency, ...]:
    """The frequencies in a text whose numbers are in digits, the longer of those that overlap."""
    if not _MAY_BE.search(text):
        return ()
    found = [each for pattern in _FREQUENCY for each in _found(pattern, text)]
    kept: list[Frequency] = []
    for frequency in sorted(found, key=lambda each: each.begin - each.end):
        begin, end = frequency.begin, frequency.end
        if all(end <= other.begin or other.end <= begin for other in kept):
            kept.append(frequency)
    return tuple(sorted(kept))


def frequency_of(name: str) -> Frequency | None:
    """The frequency that a name is, if it is nothing else."""
    found = frequencies(name)
    is_whole = len(found) == 1 and (found[0].begin, found[0].end) == (0, len(name))
    return found[0] if is_whole else None


def _found(pattern: re.Pattern[str], text: str) -> Iterator[Frequency]:
    for match in pattern.finditer(text):
        said = {name: value for name, value in match.groupdict().items() if value}
        times, span, unit = _times_in_span(said)
        if unit and span:
            begin, end = match.span()
            yield Frequency(begin, end, unit.dimension, Fraction(times) / (span * unit.factor))


def _times_in_span(said: dict[str, str]) -> tuple[int, Fraction, Unit | None]:
    """How often in how many of which unit, by the named groups that matched."""
    if "interval" in said:
        return 1, Fraction(said["interval"]), _unit(said["interval_unit"])
    if "apart" in said:
        return 1, Fraction(said["apart"]), _unit(said["apart_unit"])
    if "adverb" in said:
        adverb = said["adverb"].lower()
        name, count = _ADVERBS.get(adverb, (adverb, 1))
        return 1, Fraction(count), _unit(name)
    return _times(said), _span(said), _unit(said["unit"])


def _times(said: dict[str, str]) -> int:
    """How often: once where nothing is said of it."""
    for times, name in enumerate(("once", "twice", "thrice"), 1):
        if name in said:
            return times
    if "mal" in said:
        return _MAL[said["mal"].lower()]
    return int(said.get("times", 1))


def _span(said: dict[str, str]) -> Fraction:
    """In how many units: two where it is every other one."""
    if "second" in said:
        return Fraction(2)
    number = said.get("number") or said.get("of") or "1"
    return Fraction(number.replace(",", "."))


def _unit(name: str) -> Unit | None:
    return next(iter(times_named(name.lower())), None)
