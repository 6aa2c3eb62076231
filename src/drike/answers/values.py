"""Numbers, dates, quantities and initials in one form each, to be compared word by word.

The names of numbers, magnitudes and units are in `values.txt`, those of months in `months.txt`.
"""

import re
from calendar import monthrange
from collections.abc import Iterable

from drike.text.months import month_names, month_numbers
from drike.text.word_lists import data_sections


def _names_in(section: str) -> dict[str, str]:
    """The first name of each thing in a section of values.txt, by each of its names."""
    lines = [line.split(", ") for line in data_sections("answers/values.txt")[section]]
    return {name: names[0] for names in lines for name in names}


def _any(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


_NUMBERS = _names_in("numbers")
_MONTH_BY_NUMBER = dict(enumerate(month_names("english"), 1))
_MONTHS = {name: _MONTH_BY_NUMBER[number] for name, number in month_numbers().items()}
_MAGNITUDES = _names_in("magnitudes")
_UNITS = _names_in("units")
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "gbp", "¥": "yen"}
# That a magnitude puts behind a number.
_ZEROS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_DAYS_OF_MONTH = 31

_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_NUMBER_WORD = re.compile(rf"\b(?:{_any(_NUMBERS)})\b", re.IGNORECASE)

_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|\.)?"
_MONTH = rf"(?P<month>{_any(_MONTHS)})"
_OF = r"(?:of[ ]+|de[ ]+)?"
# "21 May 1971", "21. Mai", "21 de mayo de 1971".
_DAY_AND_MONTH = re.compile(
    rf"\b{_DAY}[ ]+{_OF}{_MONTH}\b\.?(?:,?[ ]+(?:de[ ]+)?(?P<year>\d{{4}})\b)?", re.IGNORECASE
)
# "May 1971", "May 21", "May 21, 1971".
_MONTH_AND_DAY = re.compile(
    rf"\b{_MONTH}\.?,?[ ]+{_OF}"
    rf"(?:(?P<year>\d{{4}})\b|{_DAY}\b(?:,?[ ]+(?P<year_behind>\d{{4}})\b)?)",
    re.IGNORECASE,
)
_UNIFORM_DATE = re.compile(r"(?:\b\d{4} )?\b((?:[a-zä]+) d\d{1,2})\b")
_LAST_DAY = re.compile(
    rf"\b(?:last day|end) of {_MONTH}\b(?:,?[ ]+(?P<year>\d{{4}})\b)?", re.IGNORECASE
)
_DATE_IN_NUMBERS = re.compile(r"(\d{1,4})(?P<separator>[-./])(\d{1,2})(?P=separator)(\d{1,4})\b")
_DAY_FIRST = re.compile(r"(?<!\d)(?:1[3-9]|2\d|3[01])/\d{1,2}/\d{4}\b")
_SLASHED = re.compile(r"\d/\d{1,2}/\d{4}\b")
_NUMBER = re.compile(
    rf"""
    (?<!\d)
    (?P<whole>
        \d{{1,3}}(?:[,\u202f\u00a0'’]\d{{3}})+  # 1,000
      | \d{{1,3}}(?:[ ]\d{{3}}){{2,}}  # 1 000 000
      | \d{{1,3}}(?:\.\d{{3}}){{2,}}  # 1.000.000
      | \d++
    )
    (?:\.(?P<fraction>\d+))?
    (?!\.?\d)
    (?:[ -]?(?P<magnitude>{_any(_MAGNITUDES)})\b)?
    (?:[ -]?(?P<unit>{_any(_UNITS)})(?!\w))?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_NUMBER = re.compile(
    r"(?P<part>\w|\d[.,])$|(?P<currency>[$€£¥])[ ]?$|(?P<minus>(?<!\w)[-−])$"
)
_INITIALS = re.compile(r"\b[^\W\d_]\.(?: ?[^\W\d_]\.)+|\b[^\W\d_](?:\.[^\W\d_])+\b")
# It begins with the space, which is found fast, and looks back from the article.
_INNER_ARTICLE = re.compile(
    r" the\b(?:(?<=\b(?:of|in|to|at|by|on) the)|(?<=\b(?:for|and) the)|(?<=\bfrom the))",
    re.IGNORECASE,
)


def readings(text: str) -> tuple[str, ...]:
    """A text in that form; in two if it has a date such as 02/06/2027, in June or in February."""
    form = uniform(text)
    other = uniform(text, day_first=True) if _SLASHED.search(text) else form
    return (form,) if form == other else (form, other)


def uniform(text: str, numbers: bool = True, known: str = "", *, day_first: bool = False) -> str:
    """The text with one form for initials and "&", and if asked for, for numbers, dates and units.

    It is for comparison alone: the 21st of May 1971 becomes "1971 may d21". Its time is linear in
    the text. known: dates in this form, by which others such as 02/06/2027 are read. day_first:
    whether these begin with the day if nothing else tells.
    """
    words = frozenset(_LETTERS.findall(text.lower())) if numbers else frozenset[str]()
    if not _NUMBERS.keys().isdisjoint(words):
        text = _NUMBER_WORD.sub(lambda match: _NUMBERS[match[0].lower()], text)
    if numbers and has_digits(text):
        if not _MONTHS.keys().isdisjoint(words):
            text = _with_uniform_dates(text)
        begins_with_day = day_first or _DAY_FIRST.search(text) is not None
        text = _DATE_IN_NUMBERS.sub(
            lambda match: _uniform_date_in_numbers(match, begins_with_day, known), text
        )
        text = _with_uniform_numbers(text)
    if "." in text:
        text = _INITIALS.sub(lambda match: match[0].replace(".", "").replace(" ", ""), text)
    return _INNER_ARTICLE.sub("", text.replace("&", " and "))


def _with_uniform_dates(text: str) -> str:
    """A text with its dates in one form. They are looked for only around names of months."""
    text = _LAST_DAY.sub(_last_day, text)
    text = _DAY_AND_MONTH.sub(_uniform_date, text)
    parts: list[str] = []
    copied = 0
    for letters in _LETTERS.finditer(text):
        if letters.start() < copied or letters[0].lower() not in _MONTHS:
            continue
        match = _MONTH_AND_DAY.match(text, letters.start())
        if match:
            parts += (text[copied : match.start()], _uniform_date(match))
            copied = match.end()
    return "".join((*parts, text[copied:]))


def split_dates(text: str) -> tuple[str, list[str]]:
    """A text without its dates of a day and a month, and these: "march d31"."""
    if not has_digits(text) or _MONTHS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        return text, []
    text = _with_uniform_dates(text)
    return _UNIFORM_DATE.sub(" ", text), _UNIFORM_DATE.findall(text)


def has_digits(text: str) -> bool:
    """Whether a text has a digit."""
    return not text.isalpha() and any(map(str.isdigit, text))


def _last_day(match: re.Match[str]) -> str:
    """The last day of February 2027 as a date; as it is if the year is missing."""
    if not match["year"]:
        return match[0]
    month = _MONTHS[match["month"].lower()]
    numbers = {name: number for number, name in _MONTH_BY_NUMBER.items()}
    _, days = monthrange(int(match["year"]) or 1, numbers[month])
    return _date(match["year"], month, str(days))


def _uniform_date(match: re.Match[str]) -> str:
    groups = match.groupdict()
    year = groups["year"] or groups.get("year_behind")
    return _date(year, _MONTHS[groups["month"].lower()], groups["day"])


def _uniform_date_in_numbers(match: re.Match[str], begins_with_day: bool, known: str) -> str:
    """1971-05-21; 21.5.1971 as in Europe; 5/21/1971 as in America if there is such a month.

    begins_with_day: whether another date of the text is surely written as in Europe. known: other
    dates, as one of which it is read if it may be.
    """
    first, separator, second, last = match.groups()
    if separator == "-":
        return _date_in_numbers(first, second, last) or match[0]
    european = _date_in_numbers(last, second, first)
    american = _date_in_numbers(last, first, second) if separator == "/" else None
    if american and european:
        is_known_european = european in known and american not in known
        return european if begins_with_day or is_known_european else american
    return american or european or match[0]


def _date_in_numbers(year: str, month: str, day: str) -> str | None:
    """A date of numbers; None if there is none such."""
    month_name = _MONTH_BY_NUMBER.get(int(month))
    if len(year) != 4 or int(day) > _DAYS_OF_MONTH or month_name is None:
        return None
    return _date(year, month_name, day)


def _date(year: str | None, month: str, day: str | None) -> str:
    day_form = f"d{int(day)}" if day else None
    return " ".join(part for part in (year, month, day_form) if part)


def _with_uniform_numbers(text: str) -> str:
    """A text with its numbers in one form. They are looked for only where digits begin."""
    parts: list[str] = []
    copied = 0
    for digits in _DIGITS.finditer(text):
        match = _NUMBER.match(text, digits.start()) if digits.start() >= copied else None
        if match:
            parts += (text[copied : match.start()], _uniform_number(match))
            copied = match.end()
    return "".join((*parts, text[copied:]))


def _uniform_number(match: re.Match[str]) -> str:
    """A number without separators, its fraction behind "_" as a point ends a word, and its unit.

    $3.5 million becomes "3500000 dollar". A number that is a part of a word stays.
    """
    before = _BEFORE_NUMBER.search(match.string[max(0, match.start() - 2) : match.start()])
    if before and before["part"]:
        return match[0]

    currency = before["currency"] if before else None
    magnitude = match["magnitude"]
    unit = match["unit"]
    if currency and unit and unit.lower() == "m":  # $3 m
        magnitude = "million"
        unit = None
    kind = _kind_of(currency, unit)

    whole = "".join(character for character in match["whole"] if character.isdigit())
    fraction = match["fraction"] or ""
    if magnitude or kind:  # else 3.10 may be a version
        zeros = _ZEROS[_MAGNITUDES[magnitude.lower()]] if magnitude else 0
        shifted = fraction[:zeros].ljust(zeros, "0")
        whole = (whole + shifted).lstrip("0") or "0"
        fraction = fraction[zeros:].rstrip("0")

    sign = "_" if before and before["minus"] else ""
    number = f"{sign}{whole}_{fraction}" if fraction else f"{sign}{whole}"
    return f"{number} {kind}" if kind else number


def _kind_of(currency: str | None, unit: str | None) -> str | None:
    """What a number counts, by the currency before it or the unit behind it."""
    if currency:
        return _CURRENCIES[currency]
    return _UNITS[unit.lower()] if unit else None
