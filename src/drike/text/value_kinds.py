"""What kind of value an answer is, such as an amount of money, and which kinds a question takes.

"How much does parking cost?" cannot be answered by "building C", nor "Who runs it?" by "17:45".
Rules tell it; where they do not know, anything goes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from drike.text.months import months_pattern

_LONGEST = 1_000  # characters of a text that is read

_MONTHS = months_pattern()
_CURRENCIES = (
    r"euros?|eur|dollars?|usd|pounds?|gbp|francs?|chf|yen|yuan|rupees?|crowns?|cents?|pence"
    r"|kronor|pesos?|zł|kč"
)
_PERIODS = (
    r"seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|quarters?"
    r"|sekunden?|minuten?|stunden?|tage?n?|wochen?|monate?n?|jahre?n?"
    r"|secondes?|heures?|jours?|semaines?|mois|ans?|années?"
    r"|segundos?|minutos?|horas?|días?|semanas?|mes(?:es)?|años?"
    r"|天|周|个月|月|年|小时|分钟"
)
_WEEKDAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_BEFORE_PERIODS = "after|at least|at most|for|half|of|once|than|up to|within"
_NUMBER_WORDS = (
    r"no|none|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen|sixteen|eighteen|twenty|thirty|forty|fifty|sixty|ninety|hundred|thousand|million"
    r"|billion|half|dozen|quarter|single|double|unlimited|nothing|free|gratis|kostenlos|unbegrenzt"
)
# What shows that a value is of a kind.
_SHOWING = {
    "money": rf"[€$£¥₹]|(?:\d ?|\b(?:{_NUMBER_WORDS}) )(?:{_CURRENCIES})\b"
    r"|\b(?:eur|usd|gbp|chf) ?\d",
    "clock": r"\b\d{1,2}[:h]\d\d\b|\b\d{1,2} ?(?:am|pm|a\.m\.|p\.m\.|uhr|h)\b"
    r"|\b(?:noon|midnight)\b|o'clock|\b24/7\b|点",
    "date": rf"\b(?:{_MONTHS})\b|\b(?:{_WEEKDAYS})\b|\b\d{{4}}-\d\d\b"
    r"|^\W*(?:in |by )?(?:1\d|20)\d\d\W*$|\bcentury\b|\b\d{1,2}\.\d{1,2}\.(?:\d{4})?"
    r"|\b\d{1,2}(?:st|nd|rd|th)\b|\bend of\b",
    # "5 books a day" are no period, "at least a day" is one.
    "period": rf"(?:\d[ -]?|\b(?:{_NUMBER_WORDS})[ -]|(?:^|\b(?:{_BEFORE_PERIODS}) )an? )"
    rf"(?:(?:working|business|calendar) )?(?:{_PERIODS})\b|\d ?(?:天|周|个月|年|小时|分钟)",
    "share": r"\d ?%|\bper ?cent\b",
    "email": r"\S@\S",
    "address": r"\bhttps?://|\bwww\.|\b[\w-]+\.(?:com|org|net|io|de|fr|es|example)\b(?!@)",
    "phone": r"^\W*(?:ext(?:ension)?\.? ?)?\+?\d[\d ()/-]{6,}$",
    "number": rf"\d|\b(?:{_NUMBER_WORDS})\b",
}
_SHOWS = {kind: re.compile(pattern, re.I) for kind, pattern in _SHOWING.items()}

# What a question may be answered with, by each way in which it is put.
_TIMES = frozenset(("clock", "date", "period", "number"))
_AMOUNTS = frozenset(("number", "period", "share"))
_NAMES = frozenset(("name", "address", "email", "phone"))
_ASKED: tuple[tuple[str, frozenset[str] | None], ...] = (
    # "How do I file it?" asks for a way, and "why" for a reason; no figure is one.
    (
        r"^\W*(?:(?:and|so|but|ok|hi|hello|hey|please)\W+)*"
        r"how (?:(?:do|does|can|could|should|would|must|will) (?:i|we|you|one|they|people|it)|to)\b"
        r"(?! (?:often|pay|cost|charge)\b)",
        _NAMES,
    ),
    (r"^\W*(?:(?:and|so|but)\W+)*why\b", frozenset(())),
    (
        r"\b(?:what|which) (?:brands?|makes?|models?|kinds?|types?|sorts?|materials?|colou?rs?"
        r"|languages?|formats?|currenc(?:y|ies)|operating systems?|flavou?rs?|brand of)\b",
        _NAMES | {"number"},
    ),
    (r"\bhow often\b", frozenset(("period", "number", "date"))),
    (r"\b(?:contact|reach|write to|get in touch|turn to|ring|call|phone)\b", None),
    (r"\b(?:e-?mail)\b", frozenset(("email",))),
    (r"\b(?:tele)?phone number\b|\bwhat number\b.*\bcall\b", frozenset(("phone", "number"))),
    (r"\b(?:website|web address|url)\b", frozenset(("address",))),
    (
        r"\bhow (?:much (?:does|do|did|is|are|will|would)\b.*\b(?:cost|costs|charge)"
        r"|much (?:is|are)|expensive)\b|^(?!.*\band\b).*\b(?:price|cost|costs|fee|fees)\b",
        frozenset(("money", "share", "free", "number")),
    ),
    (
        r"\bhow (?:much|many)\b.{0,30}\b(?:euro|dollar|pound|money|pay|tax)",
        frozenset(("money", "share", "number")),
    ),
    (rf"\bhow many (?:\w+ ){{0,2}}(?:{_PERIODS})\b", frozenset(("period", "number"))),
    (
        rf"\bhow many\b(?! (?:\w+ ){{0,2}}(?:{_PERIODS})\b)",
        frozenset(("number", "share", "money")),
    ),
    (
        r"\bhow much\b(?!.*\b(?:costs?|costing|charged?|charges|price|expensive)\b)",
        _AMOUNTS | {"money"},
    ),
    (
        r"(?:^|[,;:.?!] |\b(?:and|or|so) )\W*(?:(?:until|till|by|from|since|at|on|in) )?when\b"
        r"|\b(?:what|which) (?:time(?! zone| period)|date|day|year|month)\b"
        r"|\bhow (?:late|early|soon)\b|\bopening hours\b",
        _TIMES,
    ),
    (r"\bhow (?:long|old|far|fast)\b", _TIMES),
    (r"\bhow (?:big|large|heavy|tall|deep|wide|loud)\b", frozenset(("number",))),
    (r"^\W*(?:and |so )?(?:who|whom|whose)\b", frozenset(("name", "email"))),
    (
        r"^\W*(?:and |so )?(?:where|(?:in |on |at )?(?:what|which) (?:city|town|country|building"
        r"|floor|room|street))\b",
        frozenset(("name", "address", "email", "number")),
    ),
)
_TAKEN = tuple((re.compile(pattern, re.I), kinds) for pattern, kinds in _ASKED)
# A capital word that is neither a month nor a day: of a name, whatever number stands beside it.
_NAME = re.compile(
    rf"\b(?!(?i:{_MONTHS}|{_CURRENCIES}|{_PERIODS}|uhr|{_WEEKDAYS})\b)"
    r"[A-Z]\w{2,}"
)
# An amount of money that hardly anything else has: with cents, or of thousands.
_TELLING_AMOUNT = re.compile(r"\D{0,5}(\d{1,3}(?:[,.'’]\d{3})+|\d+[.,]\d\d)(?![\d:])")
_FREE = re.compile(r"\b(?:free|nothing|gratis|included|kostenlos|no charge)\b", re.I)
_EXACT = ("money", "clock", "date", "share", "email", "phone", "address", "period")


@lru_cache(4_096)
def kinds_of_value(value: str) -> frozenset[str]:
    """The kinds of a value: none for one of which nothing is known, such as "on request"."""
    value = value[:_LONGEST]
    kinds = {kind for kind, pattern in _SHOWS.items() if pattern.search(value)}
    if _FREE.search(value):
        kinds.add("free")
    if kinds.intersection(_EXACT):
        kinds.discard("number")
    if _NAME.search(value):
        kinds.add("name")
    return frozenset(kinds)


@lru_cache(4_096)
def kinds_asked(question: str) -> frozenset[str] | None:
    """The kinds of values that a question takes; None for any."""
    question = question[:_LONGEST]
    taken = [kinds for pattern, kinds in _TAKEN if pattern.search(question)]
    if not taken or None in taken:
        return None
    return frozenset[str]().union(*filter(None, taken))


def takes(question: str, value: str) -> bool:
    """Whether a value may answer a question, by its kind."""
    kinds = kinds_asked(question)
    of_value = kinds_of_value(value)
    return kinds is None or not of_value or not kinds.isdisjoint(of_value)


def telling_amount(value: str) -> str | None:
    """The number of an amount of money by which people ask for what costs so much: 49.90."""
    amount = _TELLING_AMOUNT.match(value)
    return amount[1] if amount and "money" in kinds_of_value(value) else None
