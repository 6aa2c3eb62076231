"""The border behind which quantities are read: whether an answer gives an object's quantity.

An object is a quantity if all of its text is one: an amount, perhaps with a bound ("within 45
days"), a time of day or a span of them, days of the week, a version, a phone number or an address
of e-mail or of a page. What kind it is
decides how the answer is read, so that 6.30 is a time, a version or a price. A quantity of the same
kind that is not the object's names no object, whatever words they share.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from drike.answers.amounts import Amount, amounts, is_same, is_same_bare_money
from drike.answers.codes import addresses, is_same_phone, phones, urls, versions
from drike.answers.days import Days, all_day, days_in
from drike.answers.frequencies import frequencies, frequency_of
from drike.answers.number_words import spelled_in_digits
from drike.answers.ranges import is_range
from drike.answers.time_limit import TimeLimit
from drike.answers.times import TimeOfDay, spans, times

_WORD = re.compile(r"[^\W\d_]+")
_GREATER = (
    r"(?:more|later|longer|greater|higher|larger|bigger|heavier|older|taller|further) than"
    r"|over|above|beyond|exceed(?:s|ing)?"
    r"|(?:mehr|länger|später|höher|größer|schwerer|älter) als|über|más de|plus de|plus tard que"
)
_SMALLER = (
    r"(?:less|fewer|lower|smaller|shorter|earlier|sooner|lighter|younger) than|under|below"
    r"|(?:weniger|kürzer|früher|kleiner|leichter|jünger) als|unter|menos de|moins de"
)
# "not", and what may stand between it and a bound: "must not weigh more than".
_NOT = r"\b(?:no|not|never|cannot|\w+n['’]t|nicht|kein\w*|pas) (?:[^\W\d_]+ ){0,2}?"
_IS = r"(?:(?: [^\W\d_]+){0,2}? (?:is|was|beträgt))?"  # "the maximum stay is"
_AT_MOST = (
    rf"{_NOT}(?:{_GREATER})"
    rf"|up to|at (?:the )?most|at the latest|within|(?:a |the )?max(?:imum|\.)?{_IS}(?: of)?"
    r"|(?:capped|limited) (?:at|to)|a (?:limit|cap|ceiling) of|as (?:much|many|long|late) as"
    r"|höchstens|bis zu|innerhalb(?: von)?|maximal|spätestens"
    r"|until|hasta|como máximo|au plus|au maximum|jusqu'à"
)
_AT_LEAST = (
    rf"{_NOT}(?:{_SMALLER})"
    rf"|at least|at the earliest|(?:a |the )?min(?:imum|\.)?{_IS}(?: of)?|starting (?:at|from)"
    r"|mindestens|wenigstens|frühestens|al menos|como mínimo|au moins|au minimum"
)
_ABOUT = r"about|around|approximately|roughly|ca\.?|circa|exactly|etwa|genau|the|a|for|in|by"
_BOUND = re.compile(
    rf"(?:(?P<most>{_AT_MOST})|(?P<least>{_AT_LEAST})"
    rf"|(?P<over>\b(?:{_GREATER}))|(?P<under>\b(?:{_SMALLER}))|(?:{_ABOUT}))\s+$",
    re.IGNORECASE,
)
_FROM = re.compile(r"^(?:from|between|von|zwischen|de|entre) ", re.IGNORECASE)
_LAST_WORD = re.compile(r"([^\s]+)\s+$")
_ENDS_OF_BOUNDS = frozenset(  # the last words of what `_BOUND` finds
    (  # noqa: SIM905
        "than,over,above,beyond,exceed,exceeds,exceeding,als,über,de,que,under,below,unter,to,"
        "most,latest,within,maximum,max,max.,of,is,was,beträgt,at,as,höchstens,zu,innerhalb,"
        "von,maximal,spätestens,until,hasta,máximo,plus,jusqu'à,least,earliest,minimum,min,"
        "min.,from,mindestens,wenigstens,frühestens,menos,mínimo,moins,about,around,"
        "approximately,roughly,ca,ca.,circa,exactly,etwa,genau,the,a,for,in,by"
    ).split(",")
)
_BEYOND = {"over": "least", "under": "most"}  # the bound that each is another wording of
# Words of a question by which the object is a bound.
_ASKED_BOUNDS = {
    "most": ("maximum", "max", "limit", "cap", "ceiling", "latest", "longest", "largest",
             "maximal", "höchstens", "spätestens", "máximo", "máxima"),
    "least": ("minimum", "min", "least", "earliest", "shortest", "smallest", "minimal",
              "mindestens", "wenigstens", "frühestens", "mínimo", "mínima"),
}  # fmt: skip
_BOUND_BEHIND = re.compile(
    r",?\s+(?:(?P<most>at (?:the )?most|maximum|max\b|tops\b|at the latest|or under"
    r"|(?:or|oder|o|ou) (?:less|fewer|lower|below|earlier|sooner|shorter|weniger|menos|moins)\b)"
    r"|(?P<least>at least|minimum|at the earliest|and (?:up|above|more)\b|upwards\b"
    r"|(?:or|oder|o|ou) (?:more|higher|above|over|later|longer|older|mehr|más|plus)\b))",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"[^.;!?\n]{0,12}?\b(?:(?P<before>before|prior|ahead|in advance|vor|antes|avant)"
    r"|(?P<after>after|following|from|of receipt|nach|después|après))\b",
    re.IGNORECASE,
)
_TAIL = re.compile(r"['’]?(?:\s+[^\W\d_]+){0,4}[.!]?")
_BEFORE = 40  # characters before an amount in which its bound may stand
_BEHIND = 40  # characters behind it, by which it is before something or after it
# What may stand before a mere number that an answer gives, and behind it: "it is now 40."
_SAYS_NUMBER = re.compile(
    r"(?:\b(?:it['’]s|that['’]s|is|are|be|was|were|now|currently|only|just|exactly|allows?|holds?|accepts?|fits?|seats?"
    r"|(?:[a-z]+ed|went|gone|set|cut|up|down) (?:from \S+ )?(?:to|at)"
    r"|ist|sind|sei|war|nun|jetzt|nur|es|son|ahora|est|sont|désormais|aktuell)|[:=])[\s*_\"']*$",
    re.IGNORECASE,
)
_ENDS_NUMBER = re.compile(
    r"[*_\"']*\s*(?:$|[.,;:!?)\n](?!\d)|(?:now|today|at present|in total|from|and|but|und|aber|y"
    r"|et)\b)",
    re.IGNORECASE,
)
_IS_THE_LIMIT = re.compile(
    r" (?:is|was|ist|es|est) (?:the|our|das|die|el|la|le) (?:\w+ )?(?:limit|maximum|minimum|max|cap"
    r"|most|number|capacity|price|total|grenze|höchstzahl|límite|máximo|limite)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"\b(?:building|page|room|bus|tram|line|step|chapter|floor|gate|section|article|version|track"
    r"|platform|house|street|road|apartment|flat|extension|ext\.?|counter|desk|form|seite|raum|zimmer"
    r"|haus|linie|gleis|salle|habitación|página|no\.|nr\.|#) ?$",
    re.IGNORECASE,
)  # things that have numbers
_MOST_BARE = 5  # words of an answer whose bare number may be what was asked for


class GivenQuantity(NamedTuple):
    """A quantity of an object's kind in a text, and whether it is the object's."""

    begin: int
    end: int
    is_object: bool


class AnswerRead:
    """A text that is read, whose numbers are in digits, for the words of a question."""

    def __init__(self, text: str, question: str = "", limit: TimeLimit | None = None) -> None:
        self.text = spelled_in_digits(text)
        self.asked = frozenset(word.lower() for word in _WORD.findall(question))
        self.is_short = len(text.split(maxsplit=_MOST_BARE)) <= _MOST_BARE
        self._limit = limit

    def answers_with(self, bare: "BoundedAmount") -> bool:
        """Whether a mere number may be what was asked for: in few words, or "it is now 40."."""
        before = self.text[max(0, bare.begin - _BEFORE) : bare.begin]
        if _NUMBERED.search(before):
            return False
        if self.is_short:
            return True
        behind = self.text[bare.end : bare.end + _BEHIND]
        if _IS_THE_LIMIT.match(behind):
            return True
        has_said = bool(bare.bound) or _SAYS_NUMBER.search(before) is not None
        return has_said and _ENDS_NUMBER.match(behind) is not None

    @cached_property
    def amounts(self) -> list[Amount]:
        """Its amounts."""
        return amounts(self.text, self._limit)

    @cached_property
    def bounded_amounts(self) -> list["BoundedAmount"]:
        """The same with their bounds."""
        return [bounded(self.text, amount) for amount in self.amounts]

    @cached_property
    def ends_of_ranges(self) -> dict[int, str]:
        """Which amounts are the ends of ranges, by their numbers: the least, or the most."""
        ends: dict[int, str] = {}
        for number, (first, second) in enumerate(pairwise(self.amounts)):
            if number not in ends and is_range(self.text, first, second):
                ends |= {number: "least", number + 1: "most"}
        return ends

    @cached_property
    def times(self) -> Sequence[TimeOfDay]:
        """Its times of day."""
        return times(self.text)

    @cached_property
    def days(self) -> Sequence[Days]:
        """Its days of the week."""
        return days_in(self.text)


Reader = Callable[[AnswerRead], Iterator[GivenQuantity]]


@dataclass(frozen=True)
class BoundedAmount:
    """An amount with its bound, and what stands behind it."""

    amount: Amount
    begin: int
    end: int
    bound: str
    behind: str

    @property
    def order(self) -> str:
        """Whether it is before something or after it."""
        return _kind(_ORDER.match(self.behind))


def are_quantities(names: Iterable[str]) -> bool:
    """Whether one of these names of objects is a quantity."""
    return any(map(reader_of, names))


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def reader_of(name: str) -> Reader | None:
    """How to read what an object of this name may be in texts; None if it is no quantity."""
    text = spelled_in_digits(name.strip().rstrip("."))
    for make in (_all_day_reader, _frequency_reader, _days_reader, _url_reader):
        if reader := make(text):
            return reader
    if not any(map(str.isdigit, text)) and "@" not in text:
        return None
    readers = (_address_reader, _phone_reader, _version_reader, _time_reader, _amount_reader)
    return next((reader for make in readers if (reader := make(text))), None)


def is_code(name: str) -> bool:
    """Whether an object of this name counts sign by sign: an address, a number of a phone."""
    text = spelled_in_digits(name.strip().rstrip("."))
    makers = (_url_reader, _address_reader, _phone_reader, _version_reader)
    return any(make(text) for make in makers)


def with_marks(reading: AnswerRead, marks_by_name: Iterable[tuple[str, str]], other: str) -> str:
    """A text with marks where it gives an object's quantity, and with another for other ones.

    marks_by_name: the objects' names, each with its mark.
    """
    marks: dict[tuple[int, int], str] = {}
    for name, mark in marks_by_name:
        reader = reader_of(name)
        for begin, end, is_object in reader(reading) if reader else ():
            place = (begin, end)
            before = marks.setdefault(place, other)
            if is_object:
                is_of_both = before not in (other, mark)
                marks[place] = other if is_of_both else mark
    return _replaced(reading.text, marks, other)


def _replaced(text: str, marks: dict[tuple[int, int], str], other: str) -> str:
    """A text with marks for places; of two that overlap the object's counts, then the longer."""
    objects_first = sorted(marks, key=lambda place: (marks[place] == other, place[0] - place[1]))
    place_by_character: dict[int, tuple[int, int]] = {}
    for place in objects_first:
        begin, end = place
        if begin in place_by_character or end - 1 in place_by_character:
            continue
        for character in range(begin, end):
            place_by_character[character] = place

    parts: list[str] = []
    copied = 0
    for place in sorted(set(place_by_character.values())):
        begin, end = place
        parts.append(text[copied:begin])
        parts.append(marks[place])
        copied = end
    parts.append(text[copied:])
    return "".join(parts)


def _address_reader(name: str) -> Reader | None:
    own = next(addresses(name), None)
    if own is None or (own.begin, own.end) != (0, len(name)):
        return None
    code = own.code

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in addresses(reading.text):
            yield GivenQuantity(found.begin, found.end, found.code == code)

    return read


def _url_reader(name: str) -> Reader | None:
    own = next(urls(name), None)
    if own is None or own.is_plain or (own.begin, own.end) != (0, len(name)):
        return None
    code = own.code

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in urls(reading.text):
            if not found.is_plain:
                yield GivenQuantity(found.begin, found.end, found.code == code)

    return read


def _all_day_reader(name: str) -> Reader | None:
    """How to read that something is so around the clock."""
    if all_day(name) != [(0, len(name))]:
        return None

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for begin, end in all_day(reading.text):
            yield GivenQuantity(begin, end, True)

    return read


def _frequency_reader(name: str) -> Reader | None:
    """How to read how often something is: "every 15 minutes". "Daily" may be days as well."""
    own = frequency_of(name)
    if own is None:
        return None
    read_days = _days_reader(name)

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        yield from read_days(reading) if read_days else ()
        for found in frequencies(reading.text):
            yield GivenQuantity(found.begin, found.end, own.is_same(found))

    return read


def _days_reader(name: str) -> Reader | None:
    """How to read several days of the week. A single one is a name."""
    name = _FROM.sub("", name)
    own = days_in(name)
    if len(own) != 1 or own[0][:2] != (0, len(name)) or len(own[0].days) < 2:
        return None
    days = own[0].days

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in reading.days:
            yield GivenQuantity(found.begin, found.end, found.days == days)

    return read


def _phone_reader(name: str) -> Reader | None:
    own = next(phones(name), None)
    if own is None or own.is_plain or (own.begin, own.end) != (0, len(name)):
        return None
    code = own.code

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in phones(reading.text):
            if not found.is_plain:
                yield GivenQuantity(found.begin, found.end, is_same_phone(code, found.code))

    return read


def _version_reader(name: str) -> Reader | None:
    own = next(versions(name), None)
    if own is None or own.is_plain or (own.begin, own.end) != (0, len(name)):
        return None
    code = own.code

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in versions(reading.text):
            if reading.is_short or not found.is_plain:
                yield GivenQuantity(found.begin, found.end, found.code == code)

    return read


def _time_reader(name: str) -> Reader | None:
    """How to read a time of day, or a span of them."""
    name = _FROM.sub("", name)
    own = times(name)
    own_spans = list(spans(name, own))
    if len(own_spans) == 1 and own_spans[0][:2] == (0, len(name)):
        return _span_reader(own_spans[0].minutes)
    is_one = len(own) == 1 and own[0].is_marked and own[0][:2] == (0, len(name))
    # "5h" is a duration.
    if not is_one or re.fullmatch(r"\d+\s?(?:h|hrs?)", name, re.IGNORECASE):
        return None
    minutes = own[0].minutes

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in reading.times:
            if reading.is_short or found.is_marked:
                yield GivenQuantity(found.begin, found.end, found.may_be(minutes))

    return read


def _span_reader(minutes: tuple[int, int]) -> Reader:
    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for found in spans(reading.text, reading.times):
            yield GivenQuantity(found.begin, found.end, found.minutes == minutes)

    return read


def _amount_reader(name: str) -> Reader | None:
    """How to read an amount with a unit, a rate or a bound, or of counted things."""
    found = amounts(name)
    if len(found) != 1:
        return None
    own = bounded(name, found[0])
    if own.begin != 0 or not _TAIL.fullmatch(name, own.end):
        return None
    if own.amount.is_bare and not own.bound:
        return None  # a mere number is read as a word, as it may be a year or a version

    def read(reading: AnswerRead) -> Iterator[GivenQuantity]:
        for number, other in enumerate(reading.bounded_amounts):
            if other.amount.is_bare and own.amount.is_counted and not reading.answers_with(other):
                continue
            is_object = is_same_bounded(own, other, reading.asked)
            if other.amount.is_bare and reading.answers_with(other) and own.amount.by is None:
                is_object = is_object or is_same_bare_money(own.amount, other.amount)
            # "20 to 50 euros" is neither 20 nor 50 euros, and at most 50.
            end_of_range = reading.ends_of_ranges.get(number, own.bound)
            is_object = is_object and end_of_range == own.bound
            yield GivenQuantity(other.begin, other.end, is_object)

    return read


def bounded(text: str, amount: Amount) -> BoundedAmount:
    """An amount with the bound before it or behind it."""
    text_before = text[max(0, amount.begin - _BEFORE) : amount.begin]
    before = _BOUND.search(text_before) if _may_end_bound(text_before) else None
    behind = _BOUND_BEHIND.match(text, amount.end)

    begin = amount.begin - len(before[0]) if before else amount.begin
    end = behind.end() if behind else amount.end
    bound = _kind(before) or _kind(behind)
    return BoundedAmount(amount, begin, end, bound, text[amount.end : amount.end + _BEHIND])


def _may_end_bound(text: str) -> bool:
    """Whether a text ends as bounds do, which is found much faster than a bound."""
    if not text[-1:].isspace():
        return False
    last_word = _LAST_WORD.search(text)
    return last_word is not None and last_word[1].lower() in _ENDS_OF_BOUNDS


def _kind(match: re.Match[str] | None) -> str:
    """The first named group that matches something; "" for none."""
    groups = match.groupdict() if match else {}
    return next((kind for kind, text in groups.items() if text), "")


@lru_cache(maxsize=1 << 8)  # a question is read for each amount of its answer
def _asked_bound(asked: frozenset[str]) -> str:
    """The bound that a question asks for, if one."""
    bounds = [bound for bound, names in _ASKED_BOUNDS.items() if not asked.isdisjoint(names)]
    return bounds[0] if len(bounds) == 1 else ""


def _are_same_bounds(own: str, other: str, is_before: bool) -> bool:
    """Whether two bounds, of which either may be missing, do not differ.

    "Below 25 kg" is a bound of its own, and for a maximum of 25 kg another wording.
    """
    if own == other:
        return True
    if own in _BEYOND or other in _BEYOND:
        return _BEYOND.get(own, own) == _BEYOND.get(other, other)
    return is_before or {own, other} != {"most", "least"}


def is_same_bounded(own: BoundedAmount, other: BoundedAmount, asked: frozenset[str]) -> bool:
    """Whether an amount is an object's, and not bound the other way.

    At least 48 hours before arrival is up to 48 hours before it.
    """
    if not is_same(own.amount, other.amount, asked):
        return False
    if own.order and other.order and own.order != other.order:
        return False
    is_before = own.order == "before" or other.order == "before"
    return _are_same_bounds(own.bound or _asked_bound(asked), other.bound, is_before)
