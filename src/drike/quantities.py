"""One written form for what texts write in several: numbers, dates, units, initials, "&".

`uniform` is applied to answers and to the names that are looked for in them, so it need not be pretty: the 21st of May
1971 becomes "1971 may d21", and "1.5 million km" becomes "1500000 km". Its time is linear in the text.
"""

from __future__ import annotations

import re


def _named(*lines: str) -> dict[str, str]:
    """The first of the forms of each thing by each of them; things are separated by |, forms by commas."""
    things = [[form.strip() for form in thing.split(",")] for line in lines for thing in line.split("|")]
    return {form: forms[0] for forms in things for form in forms}


_MONTHS = _named(
    "january, jan, januar, enero, janvier | february, feb, februar, febrero, février | march, mar, märz, marzo, mars",
    "april, apr, abril, avril | may, mai, mayo | june, jun, juni, junio, juin | july, jul, juli, julio, juillet",
    "august, aug, agosto, août | september, sep, sept, septiembre, septembre | october, oct, oktober, octubre, octobre",
    "november, nov, noviembre, novembre | december, dec, dezember, diciembre, décembre",
)
_MONTH_OF = dict(enumerate(dict.fromkeys(_MONTHS.values()), 1))
_UNITS = _named(
    "percent, %, per cent, prozent | km, kms, kilometre, kilometer, kilometres, kilometers",
    "m, metre, meter, metres, meters | cm, centimetre, centimeter, centimetres, centimeters",
    "mm, millimetre, millimeter, millimetres, millimeters | mile, mi, miles | foot, ft, feet",
    "kg, kgs, kilogram, kilograms, kilogramme, kilogrammes, kilo, kilos",
    "sqkm, km², km2, sq km, square kilometres, square kilometers, square kilometre, square kilometer",
    "kmh, km/h, kph, kilometres per hour, kilometers per hour",
    "celsius, °c, ° c, degrees celsius, degree celsius, grad celsius",
    "fahrenheit, °f, ° f, degrees fahrenheit, degree fahrenheit",
    "dollar, usd, us dollars, us dollar, dollars | euro, eur, euros, € | gbp, pounds sterling | yen, jpy",
)
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "gbp", "¥": "yen"}
_ZEROS = {  # that a word puts behind a number
    "thousand": 3, "k": 3, "tausend": 3, "mil": 3, "mille": 3,
    "million": 6, "millions": 6, "millionen": 6, "millones": 6, "mn": 6,
    "billion": 9, "billions": 9, "bn": 9, "milliarden": 9, "milliards": 9, "trillion": 12, "trillions": 12,
}  # fmt: skip
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS.split())}
_DIGITS |= {word: f"{number}0" for number, word in enumerate(_TENS.split(), 3)}


def _any(words: dict[str, str] | dict[str, int]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_NUMBER_WORD = re.compile(rf"\b(?:{_any(_DIGITS)})\b", re.I)
_DAY = r"([0-3]?\d)(?:st|nd|rd|th|er|\.)?"
_DAY_FIRST = re.compile(rf"\b{_DAY} +(?:of +|de +)?({_any(_MONTHS)})\b\.?(?:,? +(?:de +)?(\d{{4}})\b)?", re.I)
_MONTH_FIRST = re.compile(
    rf"\b({_any(_MONTHS)})\.?,? +(?:of +|de +)?(?:(\d{{4}})\b|{_DAY}\b(?:,? +(\d{{4}})\b)?)", re.I
)
_IN_NUMBERS = re.compile(r"\d{1,4}([-./])(\d{1,2})\1(\d{1,4})\b")
_NUMBER = re.compile(
    r"(\d{1,3}(?:[,\u202f\u00a0'’]\d{3})+|\d{1,3}(?: \d{3}){2,}|\d{1,3}(?:\.\d{3}){2,}|\d+)(?:\.(\d+))?(?!\.?\d)"
    rf"(?:[ -]?({_any(_ZEROS)})\b)?(?:[ -]?({_any(_UNITS)})(?!\w))?",
    re.I,
)
_BEFORE_NUMBER = re.compile(r"(?P<part>\w|\d[.,])$|(?P<currency>[$€£¥]) ?$|(?<!\w)[-−]$")
_INITIALS = re.compile(r"\b[^\W\d_]\.(?: ?[^\W\d_]\.)+|\b[^\W\d_](?:\.[^\W\d_])+\b")
_INNER_ARTICLE = re.compile(r"\b(of|in|for|and|to|at|by|from|on) the\b", re.I)


def uniform(text: str, numbers: bool = True) -> str:
    """The text with one form for initials and "&"; and for numbers, dates and some units if these are asked for."""
    if numbers:
        text = _NUMBER_WORD.sub(lambda match: _DIGITS[match[0].lower()], text)
        if has_digits(text):
            text = _DAY_FIRST.sub(lambda match: _date(match[3], match[2], match[1]), text)
            text = _MONTH_FIRST.sub(lambda match: _date(match[2] or match[4], match[1], match[3]), text)
            text = _IN_NUMBERS.sub(_date_in_numbers, text)
            text = _NUMBER.sub(_number, text)
    if "." in text:
        text = _INITIALS.sub(lambda match: match[0].replace(".", "").replace(" ", ""), text)
    return _INNER_ARTICLE.sub(r"\1", text.replace("&", " and "))


def has_digits(text: str) -> bool:
    """Whether a text has a digit."""
    return not text.isalpha() and any(map(str.isdigit, text))


def _date(year: str | None, month: str, day: str | None) -> str:
    return " ".join(filter(None, (year, _MONTHS[month.lower()], day and f"d{int(day)}")))


def _date_in_numbers(match: re.Match[str]) -> str:
    """1971-05-21; 21.5.1971 as in Europe; 5/21/1971 as in America, unless there is no such month."""
    first, point, second, last = *match[0].split(match[1])[:1], match[1], match[2], match[3]
    if point == "-":
        year, month, day = first, second, last
    else:
        american = point == "/" and int(first) <= len(_MONTH_OF)
        year, month, day = (last, first, second) if american else (last, second, first)
    is_date = len(year) == 4 and int(day) <= 31 and int(month) in _MONTH_OF
    return _date(year, _MONTH_OF[int(month)], day) if is_date else match[0]


def _number(match: re.Match[str]) -> str:
    whole, fraction, magnitude, unit = match.groups()
    before = _BEFORE_NUMBER.search(match.string[max(0, match.start() - 2) : match.start()])
    if before and before["part"]:
        return match[0]
    currency = before and before["currency"]
    if currency and unit and unit.lower() == "m":
        magnitude, unit = "million", None
    whole, fraction = "".join(filter(str.isdigit, whole)), fraction or ""
    kind = _CURRENCIES[currency] if currency else unit and _UNITS[unit.lower()]
    if magnitude or kind:  # 3.10 may be a version
        zeros = _ZEROS[magnitude.lower()] if magnitude else 0
        whole += fraction[:zeros].ljust(zeros, "0")
        whole, fraction = whole.lstrip("0") or "0", fraction[zeros:].rstrip("0")
    sign = "_" if before and not currency else ""
    return " ".join(filter(None, (f"{sign}{whole}{'_' if fraction else ''}{fraction}", kind)))  # a point ends a word
