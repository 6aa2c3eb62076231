"""Amounts: numbers with what they count, their units and rates, in the usual spellings.

Two amounts are the same if one reading of each is: 2.4 L is 2400 ml, 12 requests a second are 720 a
minute, and $10 is not 10 euros. "12.500" is read as in Berlin and as in London. The units are in
`amounts.txt`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

from drike.answers.time_limit import TimeLimit
from drike.text.word_lists import data_sections

_SPACE = "[ \u00a0\u202f]"
_BEFORE = 5  # characters of a currency and a space
_DIGITS = re.compile(r"\d+")
_NUMERAL = re.compile(
    r"""
    (?<!\d[.,:])
    (?P<grouped>
        \d{1,3}(?:,\d{3})+(?:\.\d+)?
      | \d{1,3}(?:\.\d{3})+(?:,\d+)?
      | \d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?:[.,]\d{1,2})?
      | \d+(?:[.,]\d+)?
    )
    (?![.,:]?\d)
    """,
    re.VERBOSE,
)
_IN_WORD = re.compile(r"[\w#]$")
_MAGNITUDE = re.compile(
    r"[ -]?(?P<name>thousand|k|tausend|mil|mille|million|millions|mio|millionen|mn"
    r"|billion|billions|bn|milliarden|mrd)\b\.?",
    re.IGNORECASE,
)
_SHORT_MILLION = re.compile(r" ?(?P<name>m)\b", re.IGNORECASE)
_ZEROS = {"t": 3, "k": 3, "mil": 3, "mille": 3, "b": 9, "milliarden": 9, "mrd": 9, "m": 6}
_SIGNS = "%$€£¥₹₺₪₽₴₩₫฿₱₦"
_UNIT = re.compile(
    rf"{_SPACE}?-?(?P<two>°?[^\W\d_]+ [^\W\d_]+)|{_SPACE}?-?(?P<one>°{_SPACE}?[CF]\b|[{_SIGNS}]"
    r"|[^\W\d_]+\$?[²³23]?(?!\w))"
)
_ONE_UNIT = re.compile(
    rf"{_SPACE}?-?(?P<one>°{_SPACE}?[CF]\b|[{_SIGNS}]|[^\W\d_]+\$?[²³23]?(?!\w))"
)
_WORDS_AND_TIME = re.compile(
    r"[ -](?P<words>(?:[^\W\d_]+[ -]){1,2})(?P<time>(?:day|week|month|year|hour|minute)s?)\b",
    re.IGNORECASE,
)
_NOUN = re.compile(r"[ -]([^\W\d_]+)")
_LONGEST_NUMBER = 40  # characters; what is longer is no amount, and Python reads no number of 4,301
_MOST_NOUNS = 2  # words behind a number that may say what it counts
_MINUS = re.compile(r"(?:^|[\s(])[-−]$")
_JOINED = re.compile(r"\s*(?:,|and|und|et|y)?\s*")
_SMALL_WORDS = frozenset(  # which say nothing about what is counted
    "a an the of at in on per for to and or if is are was be by as so but from with within after,"
    "before each every max maximum minimum total also not no pro je im in der die und oder ab bei,"
    "für nach vor par por al et ou y o,"
    "now today currently here there jetzt heute".replace(",", " ").split()
)
_STEM = 6  # letters
_BY_THE_YEAR = frozenset(("percent", "percentage points", "time"))
_MOST_BEFORE = 40  # characters before an amount in which its time may be named
# "from 96 euros to", before the second amount
_FIRST_OF_TWO = re.compile(
    r"\b(?:from|between|von|zwischen|de) \S{0,3}?\d[\d.,]*\S{0,3}(?: \w+)?"
    r" (?:to|and|auf|und|bis|à|a|y) \S{0,4}$"
)
_CLAUSE_END = re.compile(r"[\d.;!?\n]")
_LETTERS = re.compile(r"[^\W\d_]+")
_PER_BEFORE = frozenset(("per", "each", "every", "pro", "im", "par", "al", "por", "jeden", "cada"))
_COUNTED = ""  # the dimension of what has no unit


class Unit(NamedTuple):
    """What a unit measures, and of how many base units it is one."""

    dimension: str
    factor: Fraction
    by: str | None = None  # the kind of time that it is for: mph


@dataclass(frozen=True)
class Amount:
    """An amount in a text. readings: what it may be, in base units.

    by: the time that it is for, if any. nouns: what it may count. before: what stands before it,
    which may say for what time it is: "billed annually at".
    """

    begin: int
    end: int
    readings: frozenset[tuple[str, Fraction]]
    by: str | None = None
    nouns: tuple[str, ...] = ()
    before: str = ""

    @property
    def periods(self) -> tuple[str, ...]:
        """The words before it that say for what time it may be."""
        return _periods_in(self.before) if self.before else ()

    @property
    def is_bare(self) -> bool:
        """Whether nothing tells what it counts or measures."""
        return not self.nouns and self.by is None and self.is_counted

    @property
    def is_counted(self) -> bool:
        """Whether it has no unit."""
        return all(dimension == _COUNTED for dimension, _ in self.readings)


@cache
def _currencies() -> frozenset[str]:
    """The dimensions that are money: a name of each may stand before a number."""
    names = data_sections("answers/amounts.txt")["before numbers"][0].split(", ")
    return frozenset(unit.dimension for name in names for unit in _units_named(name))


def is_same_bare_money(own: Amount, bare: Amount) -> bool:
    """Whether a mere number is that of a price."""
    values = {value for _, value in bare.readings}
    return any(kind in _currencies() and value in values for kind, value in own.readings)


_NO_UNITS = frozenset(("per", "adverbs", "counted", "before numbers"))


def stem(word: str) -> str:
    """The letters by which the forms of a noun are told from other nouns."""
    return word.removesuffix("s")[:_STEM]


@cache
def _units() -> dict[str, tuple[Unit, ...]]:
    """The units that a name may mean."""
    units: dict[str, tuple[Unit, ...]] = {}
    for dimension, lines in data_sections("answers/amounts.txt").items():
        if dimension in _NO_UNITS:
            continue
        measured, _, by = dimension.partition(" by ")
        measured = measured.removeprefix("counted")
        for line in lines:
            factor, *names = line.split(", ")
            unit = Unit(measured, Fraction(factor), by or None)
            units |= {name: (*units.get(name, ()), unit) for name in names}
    return units


def _units_named(name: str) -> tuple[Unit, ...]:
    """The units that a name in a text may mean; nothing if it is none."""
    units = _units()
    return units.get(name) or units.get(name.lower().replace("° ", "°")) or ()


@cache
def _currency() -> re.Pattern[str]:
    """A currency before a number. One with a capital counts only as it is written."""
    names = data_sections("answers/amounts.txt")["before numbers"][0].split(", ")
    as_written = "|".join(re.escape(name) for name in names if not name.islower())
    in_any_case = "|".join(re.escape(name) for name in names if name.islower())
    return re.compile(rf"(?<!\w)(?P<name>{as_written}|(?i:{in_any_case})){_SPACE}?$")


@cache
def _periods() -> dict[str, Unit]:
    """What time an adverb such as "monthly" means."""
    lines = data_sections("answers/amounts.txt")["adverbs"]
    parts = [line.split(", ") for line in lines]
    return {name: _units()[names[0]][0] for names in parts for name in names[1:]}


# "240 dollars, billed once a year"
_BILLED = r"(?:,?\s(?:billed|paid|charged|payable|due|invoiced)(?:\sonce)?(?=\s))?"


@cache
def _by() -> re.Pattern[str]:
    """A rate behind an amount: "/min", "a month", "of water per minute"."""
    per = data_sections("answers/amounts.txt")["per"][0].split(", ")
    words = "|".join(rf"{re.escape(name)}\b" for name in per if name != "/")
    return re.compile(
        rf"{_BILLED}(?:\s(?!and\b|or\b)[^\W\d_]+){{0,2}}?"
        rf"\s*(?:/\s?|\s(?:{words})\s?|\s(?:{words}) )"
        r"(?P<time>[^\W\d_]+)",
        re.IGNORECASE,
    )


_ADVERB = re.compile(rf"{_BILLED}\s(?P<name>p\.a\b\.?|[^\W\d_]+)")


@cache
def _same_noun() -> dict[str, str]:
    """One stem for nouns that count the same."""
    lines = [line.split(", ") for line in data_sections("answers/amounts.txt")["counted"]]
    return {stem(name): stem(names[0]) for names in lines for name in names}


def amounts(text: str, limit: TimeLimit | None = None) -> list[Amount]:
    """The amounts in a text whose numbers are in digits (`spelled_in_digits`)."""
    found: list[Amount] = []
    end = 0
    for digits in _DIGITS.finditer(text):
        if limit:
            limit.check()
        numeral = _NUMERAL.match(text, digits.start()) if digits.start() >= end else None
        if numeral is None:
            continue
        end = numeral.end()
        if len(numeral["grouped"]) > _LONGEST_NUMBER:
            continue
        amount = _amount(text, numeral)
        if amount is None:
            continue
        joined = _joined(text, found[-1], amount) if found else None
        if joined:
            found[-1] = joined
        else:
            found.append(amount)
    return found


def _amount(text: str, numeral: re.Match[str]) -> Amount | None:
    """The amount that begins with a number; None for a part of a word."""
    # 1. The currency before it, if any, and the number with its magnitude.
    begin = numeral.start()
    currency = _currency().search(text[max(0, begin - _BEFORE) : begin])
    if currency:
        begin -= currency.end() - currency.start()
    elif _IN_WORD.search(text, max(0, begin - 1), begin):
        return None
    values, end = _values_with_magnitude(text, numeral, currency is not None)
    if _MINUS.search(text, max(0, begin - 2), begin):
        values = frozenset(-value for value in values)
        begin -= 1

    # 2. Its unit, or what it counts.
    units, unit_end = _unit_behind(text, end)
    if currency:
        units, unit_end = _units_named(currency["name"].removesuffix(".")), end
    end = unit_end or end
    nouns, end_of_nouns = ((), end) if units else _nouns_behind(text, end)
    readings = {
        (unit.dimension, value * unit.factor)
        for unit in units or (Unit(_COUNTED, Fraction(1)),)
        for value in values
    }

    # 3. The time that it is for.
    by = units[0].by if units else None
    amount = Amount(begin, end_of_nouns, frozenset(readings), by, nouns)
    return amount if by else _with_rate(text, amount, end)


def _values_with_magnitude(
    text: str, numeral: re.Match[str], is_money: bool
) -> tuple[frozenset[Fraction], int]:
    """What a number may be, with "thousand" or "k" behind it, and where it ends."""
    values = _values(numeral["grouped"])
    magnitude = _MAGNITUDE.match(text, numeral.end())
    if magnitude is None and is_money:
        magnitude = _SHORT_MILLION.match(text, numeral.end())
    if magnitude is None:
        return values, numeral.end()
    zeros = _zeros(magnitude["name"].lower())
    return frozenset(value * 10**zeros for value in values), magnitude.end()


def _zeros(name: str) -> int:
    return _ZEROS.get(name) or _ZEROS[name[0]]


@lru_cache(maxsize=1 << 10)
def _values(grouped: str) -> frozenset[Fraction]:
    """What a number may be: 12.500 in German and in English, 12,500 in English alone."""
    return frozenset(_values_of(grouped))


def _values_of(grouped: str) -> Iterator[Fraction]:
    digits = re.sub("[ \u00a0\u202f'’]", "", grouped)
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma < 0 and point < 0:
        yield Fraction(digits)
        return
    decimal = "." if point > comma else ","
    other = "," if decimal == "." else "."
    whole, _, rest = digits.rpartition(decimal)
    is_group = len(rest) == 3 and other not in digits and whole.strip("0") != ""
    if is_group:
        yield Fraction(digits.replace(decimal, ""))
    if not is_group or (decimal == "." and digits.count(".") == 1):
        yield Fraction(f"{whole.replace(other, '')}.{rest}")


def _time_behind(text: str, end: int) -> tuple[tuple[Unit, ...], int]:
    """The time that stands behind a number and words that say which: "3 home-office days"."""
    match = _WORDS_AND_TIME.match(text, end)
    if match is None or not _SMALL_WORDS.isdisjoint(_LETTERS.findall(match["words"].lower())):
        return (), 0
    units = tuple(unit for unit in _units_named(match["time"]) if _is_time(unit))
    return units, match.end() if units else 0


def _unit_behind(text: str, end: int) -> tuple[tuple[Unit, ...], int]:
    """The units that stand behind a number, and where they end; nothing if none does."""
    for pattern, group in ((_UNIT, "two"), (_ONE_UNIT, "one")):
        match = pattern.match(text, end)
        name = match[group] if match else None
        if match and name:
            units = _units_named(name)
            if units:
                return units, match.end()
    return _time_behind(text, end)


def _nouns_behind(text: str, end: int) -> tuple[tuple[str, ...], int]:
    """The words behind a number that may say what it counts, and where they end."""
    nouns: list[str] = []
    while len(nouns) < _MOST_NOUNS and (match := _NOUN.match(text, end)):
        word = match[1].lower()
        if word in _SMALL_WORDS or word in _periods():
            break
        nouns.append(_same_noun().get(stem(word), stem(word)))
        end = match.end()
    return tuple(nouns), end


def _with_rate(text: str, amount: Amount, unit_end: int) -> Amount:
    """An amount by the time behind it, if there is one: "a minute", "monthly"."""
    match = _by().match(text, unit_end) or _by().match(text, amount.end)
    units: Sequence[Unit] = ()
    if match:
        units = [unit for unit in _units().get(match["time"].lower(), ()) if _is_time(unit)]
        end = match.end()
    if not units:
        adverb = _ADVERB.match(text, amount.end)
        period = _periods().get(adverb["name"].lower()) if adverb else None
        if adverb is None or period is None:
            before = text[max(0, amount.begin - _MOST_BEFORE) : amount.begin]
            return Amount(
                amount.begin, amount.end, amount.readings, amount.by, amount.nouns, before
            )
        units, end = [period], adverb.end()
    unit = units[0]
    per_base = {(dimension, value / unit.factor) for dimension, value in amount.readings}
    return replace(amount, end=end, readings=frozenset(per_base), by=unit.dimension)


def _periods_in(text_before: str) -> tuple[str, ...]:
    """The words shortly before an amount that name a time: "per month", "billed annually at"."""
    clause = _CLAUSE_END.split(_FIRST_OF_TWO.sub(" ", text_before))[-1]
    before = ""
    periods = []
    for match in _LETTERS.finditer(clause.lower()):
        word = match[0]
        if word in _periods() or (before in _PER_BEFORE and times_named(word)):
            periods.append(word)
        before = word
    return tuple(periods)


def _is_time(unit: Unit) -> bool:
    return unit.dimension in ("time", "months")


def _joined(text: str, first: Amount, second: Amount) -> Amount | None:
    """Two amounts such as "2 hours and 30 minutes" as one; None where they do not make one."""
    if first.by or second.is_counted or not _JOINED.fullmatch(text, first.end, second.begin):
        return None
    seconds = dict(second.readings)
    sums = {
        (dimension, value + seconds[dimension])
        for dimension, value in first.readings
        if 0 < seconds.get(dimension, 0) < min(value, _smallest_step(dimension, value))
    }
    if not sums:
        return None
    return replace(second, begin=first.begin, readings=frozenset(sums))


def _smallest_step(dimension: str, value: Fraction) -> Fraction:
    """The largest unit of which a value is a multiple: what is joined to it is less."""
    factors = {unit.factor for units in _units().values() for unit in units
               if unit.dimension == dimension}  # fmt: skip
    return max((factor for factor in factors if value % factor == 0), default=Fraction(0))


def is_same(own: Amount, other: Amount, asked: Iterable[str]) -> bool:
    """Whether an answer's amount is an object's. asked: the words of the question.

    The time that a rate is for may be left out if the question has it.
    """
    if _is_by_the_year(own, other):
        return _same_by_year(own, other) or _same_by_question(own, other, asked)
    if not own.readings & other.readings and not _same_by_question(own, other, asked):
        return False
    if own.by != other.by and not (own.by is None or other.by is None):
        return False
    if own.by is not None and other.by is None and not _same_by_question(own, other, asked):
        return False
    if not own.is_counted or not own.nouns or not other.nouns:
        return True
    return not set(own.nouns).isdisjoint(other.nouns)


def _is_by_the_year(own: Amount, other: Amount) -> bool:
    """Whether just one says for what time it is, of what is for a year if nothing is said."""
    if (own.by is None) == (other.by is None):
        return False
    return all(kind in _BY_THE_YEAR for kind, _ in (*own.readings, *other.readings))


def _same_by_year(own: Amount, other: Amount) -> bool:
    """Whether they are the same if the one without a time is for a year.

    Interest, growth and leave are: 2 % is 2 % a year, and not 2 % a month.
    """
    year = _units()["year"][0]
    rate, total = (own, other) if own.by else (other, own)
    by_year = {(dimension, value / year.factor) for dimension, value in total.readings}
    return rate.by == year.dimension and not by_year.isdisjoint(rate.readings)


def times_named(word: str) -> list[Unit]:
    """What time a word of a question means: "month", "monthly"."""
    period = _periods().get(word)
    if period:
        return [period]
    return [unit for unit in _units().get(word, ()) if _is_time(unit)]


def _same_by_question(own: Amount, other: Amount, asked: Iterable[str]) -> bool:
    """Whether the amounts are the same if one is for the time that the question names."""
    if (own.by is None) == (other.by is None):
        return False
    rate, total = (own, other) if own.by else (other, own)
    words = total.periods or asked
    times = [unit for word in words for unit in times_named(word)]
    return any(
        (dimension, value / unit.factor) in rate.readings
        for unit in times
        if unit.dimension == rate.by
        for dimension, value in total.readings
    )
