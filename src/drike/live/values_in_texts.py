"""The values in what a firm writes: amounts, times, dates, codes, addresses and names.

`captures` compares those of a draft with those of what a person sent instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import regex

from drike.answers.amounts import Amount, amounts, is_same
from drike.answers.codes import addresses, is_same_phone, phones
from drike.answers.number_words import spelled_in_digits
from drike.answers.times import times
from drike.answers.values import uniform
from drike.text.months import month_names, months_pattern
from drike.text.relation_words import is_empty

_MONEY = frozenset(("euro", "dollar", "pound sterling", "franc", "yen", "rupee", "zloty", "krona"))
_NAME = "name"
_IN_TWO_LANGUAGES = ("english", "german")
_MONTH = f"(?:{months_pattern(*_IN_TWO_LANGUAGES, 'english short', 'german short')})"
_OTHER_WORDS = ("march", "may")  # that a month's name may be
_LINK = regex.compile(r"(?:https?://|www\.)[^\s,;<>\"')]+|\b[\w-]+(?:\.[\w-]+)+/[^\s,;<>\"')]*")
_DATE = regex.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}\b(?:\s+\d{{4}})?"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?",
    regex.IGNORECASE,
)
_NAMES_OF_MONTHS = (
    month.capitalize() for month in month_names(*_IN_TWO_LANGUAGES) if month not in _OTHER_WORDS
)
_MONTH_ALONE = regex.compile(rf"\b(?:{'|'.join(_NAMES_OF_MONTHS)})\b")
_WEEKDAY = regex.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?)\b",
    regex.IGNORECASE,
)
_NOON = regex.compile(r"\b(?:noon|midday|midnight|mittags?|mitternacht)\b", regex.IGNORECASE)
_CODE = regex.compile(
    r"\b(?P<word>gate|line|linie|ligne|pier|quai|room|raum|zimmer|platform|gleis|version|extension"
    r"|floor|terminal|dock|lane|desk|hall|building|house|level|class|port|size|grade|zone|bus|tram)"
    r"\s+(?P<code>[A-Z]?\d[\w.]*\w|[A-Z]?\d|[A-Z])\b",
    regex.IGNORECASE,
)
_ORDINAL = regex.compile(
    r"\b(?P<number>\d+)(?:st|nd|rd|th)\s+(?P<word>floor|level|gate|place|edition)\b", regex.I
)
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_ORDINAL_WORD = regex.compile(
    rf"\b(?P<number>{'|'.join(_ORDINALS)})\s+(?P<word>floor|level|gate|place|edition)\b", regex.I
)
_FREE = regex.compile(
    r"\b(?:free of charge|(?:is|are|for) free(?! (?:to|of))|cost(?:s)? nothing|at no cost"
    r"|kostenlos|gratis)\b",
    regex.IGNORECASE,
)
_HALVES = {
    "an hour and a half": "90 minutes",
    "half an hour": "30 minutes",
    "a quarter of an hour": "15 minutes",
    "a fortnight": "14 days",
}
_RATE = regex.compile(
    r"\s*(?:/\s?|\b(?:an?|per|each|pro|par|por)\s)(?:month|year|night|day|week"
    r"|person|hour|monat|jahr|nacht|tag|woche|mes|mois)\b.*$",
    regex.IGNORECASE,
)
_YEAR = regex.compile(r"(?:1[5-9]|20)\d\d")
_NAMES = regex.compile(
    r"(?:(?:Dr|St)\.\s)?\p{Lu}(?:[\w-]|['’](?!s\b))*"
    r"(?:\s+(?:(?:&|of the|of|de|la)\s+)?(?:\p{Lu}(?:[\w-]|['’](?!s\b))*|\d+\b))*"
)
_OFFICE = regex.compile(r"\p{Lu}{2,4} of (?:the )?")  # as "CEO of" in "CEO of Brightloaf"
_NO_NAMES = frozenset(
    (
        *("i", "dear", "hi", "hello", "mr", "mrs", "ms", "dr", "usd", "eur", "gbp", "am", "pm"),
        *("ok", "thanks", "sorry", "please", "yes", "no", "line", "hd"),
    )
)


@dataclass(frozen=True)
class Value:
    """A value in a text. kind: only values of one kind can take each other's place."""

    kind: str
    key: object
    text: str
    begin: int
    end: int

    def is_like(self, other: Value) -> bool:
        """Whether both are the same value, however each is written."""
        if isinstance(self.key, Amount) and isinstance(other.key, Amount):
            return self.kind == other.kind and is_same(self.key, other.key, ())
        if self.kind == other.kind == "phone":
            return is_same_phone(str(self.key), str(other.key))
        return (self.kind, self.key) == (other.kind, other.key)


@dataclass(frozen=True)
class ValuedText:
    """A text whose numbers are in digits, with its values in order."""

    text: str
    values: tuple[Value, ...]

    @classmethod
    def of(cls, text: str) -> ValuedText:
        """Read a text."""
        for phrase, amount in _HALVES.items():
            text = regex.sub(rf"\b{phrase}\b", amount, text, flags=regex.IGNORECASE)
        text = spelled_in_digits(text)
        values: list[Value] = []
        for value in _candidates(text):
            if all(value.end <= other.begin or other.end <= value.begin for other in values):
                values.append(value)
        return cls(text, tuple(sorted(values, key=lambda value: value.begin)))

    def has(self, value: Value) -> bool:
        """Whether it has a value, perhaps written otherwise."""
        if any(value.is_like(other) for other in self.values):
            return True
        return value.kind == _NAME and value.text.casefold() in self.text.casefold()


def _candidates(text: str) -> Iterator[Value]:
    """What may be values, the surer kinds first."""
    for match in _LINK.finditer(text):
        link = regex.sub(r"^https?://|^www\.|[/.]+$", "", match[0].rstrip("."))
        yield _value("link", link, match)
    for address in addresses(text):
        yield Value("address", address.code, text[address.begin : address.end], *address[:2])
    for phone in phones(text):
        if not phone.is_plain:
            yield Value("phone", phone.code, text[phone.begin : phone.end], *phone[:2])
    for match in _DATE.finditer(text):
        yield _value("date", uniform(match[0]), match)
    for match in _ORDINAL.finditer(text):
        yield _value(match["word"].lower(), match["number"], match)
    for match in _ORDINAL_WORD.finditer(text):
        number = _ORDINALS.index(match["number"].lower()) + 1
        yield _value(match["word"].lower(), str(number), match)
    for match in _CODE.finditer(text):
        yield _value(match["word"].lower(), match["code"].lower(), match)
    yield from _times_and_amounts(text)
    for match in _WEEKDAY.finditer(text):
        yield _value("weekday", match[0].lower().rstrip("s"), match)
    for match in _MONTH_ALONE.finditer(text):
        yield _value("month", match[0].lower(), match)
    yield from names_in(text)


def _times_and_amounts(text: str) -> Iterator[Value]:
    for match in _NOON.finditer(text):
        minutes = 0 if match[0].lower().startswith(("midn", "mittern")) else 720
        yield _value("time", minutes, match)
    for time in times(text):
        if time.is_marked:
            yield Value("time", time.minutes, text[time.begin : time.end], time.begin, time.end)
    for match in _FREE.finditer(text):
        nothing = Amount(match.start(), match.end(), frozenset({("euro", Fraction(0))}))
        yield _value("money", nothing, match)
    for amount in amounts(text):
        yield from _amount(text, amount)


def _amount(text: str, amount: Amount) -> Iterator[Value]:
    kind = _kind_of(amount)
    given = text[amount.begin : amount.end]
    key = amount
    if kind == "money":  # 500 pounds and 500 pounds a day are one price, said with less care
        given = _RATE.sub("", given)
        key = next(iter(amounts(given)), amount)
    end = amount.begin + len(given)
    is_article = amount.is_counted and (given == "1" or given.startswith("1 "))
    if is_article:  # as in "please send us one photo"
        return
    if amount.is_bare and _YEAR.fullmatch(given):
        yield Value("year", given, given, amount.begin, end)
        return
    yield Value(kind, key, given, amount.begin, end)


def _kind_of(amount: Amount) -> str:
    if amount.is_counted:
        return f"number of {amount.nouns[0] if amount.nouns else 'things'}"
    dimensions = {dimension for dimension, _ in amount.readings}
    if dimensions & _MONEY:
        return "money"
    return "time span" if dimensions & {"time", "months"} else min(dimensions)


def names_in(text: str) -> Iterator[Value]:
    """The names in a text, without a word that only begins a sentence."""
    for match in _NAMES.finditer(text):
        begin = match.start()
        words = regex.split(r"\s", match[0])
        begins = begin == 0 or text[:begin].rstrip()[-1:] in (*".!?:\n",)
        while words and (is_empty(words[0].lower()) or words[0].lower() in _NO_NAMES - {"dr"}):
            begin += len(words[0]) + 1
            words = words[1:]
            begins = False
        name = " ".join(words)
        office = _OFFICE.match(name)
        if office:
            begin += office.end()
            name = name[office.end() :]
        if not name or not name[0].isupper() or name.casefold() in _NO_NAMES:
            continue
        if begins and len(words) == 1 and text.count(name) == 1:
            continue
        yield Value(_NAME, name.casefold(), name, begin, begin + len(name))


def _value(kind: str, key: object, match: regex.Match[str]) -> Value:
    return Value(kind, key, match[0], *match.span())
