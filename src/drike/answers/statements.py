"""What an answer in free text says of an edit: its new object, the old one, both, neither, or that it refuses.

`matching` judges answers that begin with the object, as rewards and metrics ask for; this reads what a deployed model
writes to a person, by rules and the patterns of statements.txt, in time linear in the answer. An object is named by its
names, their short forms, and a number, date or quantity in any usual form; the longest name at a place counts, and what
stands inside a name of the subject names no object. It is stated where it is named and nothing around it denies it, or
where an answer is nothing but part of its name ("Bernini"), unless the question has the same words.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple

import regex

from drike.answers.matching import first_line
from drike.text.short_forms import NameMatch, lists, sections, short_forms
from drike.text.words import Words


class Stated(StrEnum):
    """Which object of an edit an answer states."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"
    NEITHER = "neither"
    REFUSED = "refused"


class _Form(NamedTuple):
    """A way to write an object. rank: of a name, of a short form, or 0 for one that counts only alone."""

    words: Words
    folded: frozenset[str]
    rank: int
    last: bool = False  # of a person
    capital: bool = False  # a common word, which is a name only with a capital: May, US


class _Names(NamedTuple):
    """The forms of an object's names."""

    forms: tuple[_Form, ...]
    folded: frozenset[str]
    numbers: bool  # whether a name holds a digit


class _Place(NamedTuple):
    """Where a form stands in an answer, by the numbers of its words."""

    begin: int
    end: int
    rank: int
    mark: str


_MARKS = _NEW, _OLD = "\ue000", "\ue001"  # stand for the objects where denials are looked for
_SUBJECT = ""
_MARK = regex.compile(f"[{_NEW}{_OLD}]")
_NAME, _SHORT = 2, 1  # ranks of forms
_TITLES = ("Mr", "Mrs", "Ms", "Dr")
_NEAR = 100  # characters before an object, and behind it, in which a denial may stand
_MOST_ALONE = 12  # words of an answer that is only part of a name
_PLURAL = 5  # letters of a common noun that may be the plural of a shorter one

_THOUGHT = regex.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", regex.S | regex.I)
_THOUGHT_END = regex.compile(r"</think>", regex.I)
_NEXT_TURN = regex.compile(r"\n[^\S\n]*(?:q|question|user|human|frage|pregunta)\s*:", regex.I)
_SPACES = regex.compile(rf"(?:[^\S\n]|[{_NEW}{_OLD}])+")
_STRUCK = regex.compile(r"~~[^~\n]{1,200}~~")


def stated(
    answer: str,
    new: Collection[str],
    old: Collection[str] = (),
    *,
    about: Collection[str] = (),
    question: str = "",
) -> Stated:
    """What an answer says. new, old: the names of the new object and of the old one, any of which states it.

    about: the names of the subject. question: what was asked, by which "yes" and "no" and parts of names are read.
    """
    named = dict(
        zip(
            (_NEW, _OLD, _SUBJECT),
            (_names(tuple(names)) for names in (new, old, about)),
            strict=True,
        )
    )
    text = _said(answer)
    marked = _read(text, named)
    states = {mark for mark, denied in _statements(marked) if not denied}
    yes = _pattern("yes").match(text)
    if question and (yes or _pattern("no").match(text)):
        meant = set(_read(question, named)) & {_NEW, _OLD}
        if len(meant) == 1:
            states = states | meant if yes else states - meant
    if not states and not any(mark in marked for mark in _MARKS):
        states = _alone(text, named, question)
    if states:
        return Stated.BOTH if len(states) > 1 else Stated.NEW if _NEW in states else Stated.OLD
    return Stated.REFUSED if _pattern("refused").search(marked) else Stated.NEITHER


def _said(answer: str) -> str:
    """An answer without what a model thinks before it, what it strikes out, and a next turn that it makes up."""
    answer = _THOUGHT_END.split(_THOUGHT.sub(" ", answer))[-1]
    if "~~" in answer:
        answer = _STRUCK.sub(" ", answer)
    following = _NEXT_TURN.search(answer.strip()) if "\n" in answer else None
    return answer.strip()[: following.start()] if following else answer


def _read(text: str, named: Mapping[str, _Names]) -> str:
    """A text in lower case with marks for the objects that it names."""
    words = Words.of(
        uniform(_SPACES.sub(" ", text), any(names.numbers for names in named.values()))
    )
    marked = words.replaced(
        {(place.begin, place.end): place.mark for place in _places(words, named)}
    )
    return marked.casefold().replace("’", "'")


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def _names(names: tuple[str, ...]) -> _Names:
    texts = [text for name in names if len(Words.of(text := uniform(name)))]
    forms: dict[str, _Form] = {}

    def add(text: str, rank: int, last: bool = False) -> None:
        words, capital = (
            Words.of(text),
            text[:1].isupper() and text.casefold() in lists("common words"),
        )
        forms.setdefault(text, _Form(words, frozenset(words.folded()), rank, last, capital))

    for text in texts:
        forms.pop(text, None)
        add(text, _NAME)
        noun = text.split()[-1]
        if noun.islower() and noun.isalpha() and len(noun) > 2:  # a common noun
            add(f"{text}es" if text.endswith(("s", "x", "ch", "sh")) else f"{text}s", _NAME)
            add(text[:-1] if noun.endswith("s") and len(noun) >= _PLURAL else text, _NAME)
        if text.endswith("ism"):  # Lutheran, of Lutheranism
            add(text[:-3], 0)
    for text in texts:
        name = Words.of(text)
        for short in short_forms(name, name.folded()):
            plain, last = short.text(name), short.kind is NameMatch.LAST
            alone = plain.casefold() in lists("common words") or short.kind is NameMatch.DEMONYM
            alone = alone or (last and name.folded(0, 1)[0] not in lists("first names"))
            add(plain, 0 if alone else _SHORT, last)
            for title in _TITLES if last else ():
                add(f"{title} {plain}", _SHORT)
    folded = frozenset[str]().union(*(Words.of(text).folded() for text in texts))
    return _Names(tuple(forms.values()), folded, any(map(has_digits, texts)))


def _places(words: Words, named: Mapping[str, _Names]) -> list[_Place]:
    """Where a text names objects, in order: the longest names that do not overlap, none that both objects have."""
    places, casual = [], words.text.islower()
    for mark, names in named.items():
        others = frozenset().union(
            *(other.folded for known, other in named.items() if known != mark)
        )
        for form in names.forms:
            if form.rank == _NAME or (form.rank and mark and not form.folded <= others):
                places += [
                    _Place(begin, end, form.rank, mark)
                    for begin, end in words.spans(form.words)
                    if not (form.last and _is_of_other_name(words, begin, end, names))
                    and not (
                        form.capital and not casual and words.text[words.begins[begin]].islower()
                    )
                ]
    kept: dict[int, _Place] = {}  # by the number of each word
    for place in sorted(
        places, key=lambda place: (place.begin - place.end, -place.rank, not place.mark)
    ):
        rivals = {kept.get(at) for at in (place.begin, place.end - 1)} - {None}
        if not rivals:
            kept.update(dict.fromkeys(range(place.begin, place.end), place))
        elif place.mark and rivals == {place._replace(mark=_OLD if place.mark == _NEW else _NEW)}:
            kept.update(dict.fromkeys(range(place.begin, place.end), place._replace(mark=_SUBJECT)))
    return sorted({place for place in kept.values() if place.mark})


def _is_of_other_name(words: Words, begin: int, end: int, names: _Names) -> bool:
    """Whether another first or last name stands beside a last name."""
    for at, gap in ((begin - 1, begin), (end, end)):
        if 0 < gap < len(words) and words.text[words.ends[gap - 1] : words.begins[gap]] == " ":
            [folded], text = words.folded(at, at + 1), words.between(at, at + 1)
            known = (
                folded in names.folded
                or folded in lists("titles")
                or folded in lists("common words")
            )
            if folded in lists("particles") or (len(text) > 1 and text[0].isupper() and not known):
                return True
    return False


def _statements(marked: str) -> Iterator[tuple[str, bool]]:
    """Each mark in a text, and whether what is around it denies that the object is the answer."""
    for match in _MARK.finditer(marked):
        before, after = (
            marked[max(0, match.start() - _NEAR) : match.start()],
            marked[match.end() :][:_NEAR],
        )
        denied = (
            (
                _pattern("before").search(before)
                or _pattern("after").match(after)
                or _pattern("withheld").search(before)
            )
            or (_pattern("from").search(before) and _pattern("to another").match(after))
            or (_pattern("the claim").search(before) and _pattern("is wrong").match(after))
            or (
                _pattern("was").search(before)
                and any(_pattern(p).match(after) for p in ("until then", "now another"))
            )
            or (
                (asked := _pattern("asked").match(after))
                and (asked[1] is None or _pattern("offered").search(before))
            )
        )
        yield match[0], bool(denied)


def _alone(text: str, named: Mapping[str, _Names], question: str) -> set[str]:
    """The marks of the objects of whose name an answer is nothing but a part, which the question does not hold."""
    part = Words.of(
        uniform(_pattern("lead").sub("", first_line(text), count=1), named[_NEW].numbers)
    )
    folded = set(part.folded()) - lists("small words")
    if not 0 < len(part) <= _MOST_ALONE or folded <= named[_SUBJECT].folded | set(
        Words.of(question).folded()
    ):
        return set()
    new, old = (
        max((_rank(part, form) for form in named[mark].forms), default=0) for mark in _MARKS
    )
    return {_NEW} if new > old else {_OLD} if old > new else set()


def _rank(part: Words, form: _Form) -> int:
    """2 if a text is a form, 1 if it is a part of a name that tells it: "State of Palestine", not "Tower of London"."""
    if form.words.folded() == part.folded():
        return 2
    befores = (
        [form.words.folded(0, begin + 1) for begin, _ in form.words.spans(part)]
        if form.rank == _NAME
        else ()
    )
    of, tells_little = lists("prepositions"), lists("places and houses")
    return int(
        any(of.isdisjoint(before) or not tells_little.isdisjoint(before) for before in befores)
    )


@cache
def _pattern(name: str) -> regex.Pattern[str]:
    """A pattern of statements.txt."""
    return regex.compile(_source(name))


def _source(name: str) -> str:
    alternatives = "|".join(sections("answers/statements.txt")[name])
    return f"(?:{re.sub('<([a-z ]+)>', lambda other: _source(other[1]), alternatives)})"


def _forms(name: str) -> dict[str, str]:
    """The first of the forms of each thing in a list, by each of them."""
    lists = [line.split(", ") for line in sections("answers/statements.txt")[name]]
    return {form: forms[0] for forms in lists for form in forms}


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_DIGITS, _MONTHS, _MAGNITUDES, _UNITS = map(_forms, ("numbers", "months", "magnitudes", "units"))
_MONTH_OF = dict(enumerate(dict.fromkeys(_MONTHS.values()), 1))
_ZEROS = {
    "thousand": 3,
    "million": 6,
    "billion": 9,
    "trillion": 12,
}  # that a magnitude puts behind a number
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "gbp", "¥": "yen"}
_NUMBER_WORD = re.compile(rf"\b(?:{_any(_DIGITS)})\b", re.I)
_DAY = r"([0-3]?\d)(?:st|nd|rd|th|er|\.)?"
_DAY_FIRST = re.compile(
    rf"\b{_DAY} +(?:of +|de +)?({_any(_MONTHS)})\b\.?(?:,? +(?:de +)?(\d{{4}})\b)?", re.I
)
_MONTH_DAY = re.compile(
    rf"\b({_any(_MONTHS)})\.?,? +(?:of +|de +)?(?:(\d{{4}})\b|{_DAY}\b(?:,? +(\d{{4}})\b)?)", re.I
)
_IN_NUMBERS = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})\b")
_NUMBER = re.compile(
    r"(?<!\d)(\d{1,3}(?:[,\u202f\u00a0'’]\d{3})+|\d{1,3}(?: \d{3}){2,}|\d{1,3}(?:\.\d{3}){2,}|\d++)"
    r"(?:\.(\d+))?(?!\.?\d)"
    rf"(?:[ -]?({_any(_MAGNITUDES)})\b)?(?:[ -]?({_any(_UNITS)})(?!\w))?", re.I,
)  # fmt: skip
_BEFORE_NUMBER = re.compile(r"(?P<part>\w|\d[.,])$|(?P<currency>[$€£¥]) ?$|(?<!\w)[-−]$")
_INITIALS = re.compile(r"\b[^\W\d_]\.(?: ?[^\W\d_]\.)+|\b[^\W\d_](?:\.[^\W\d_])+\b")
_INNER_ARTICLE = re.compile(r"\b(of|in|for|and|to|at|by|from|on) the\b", re.I)


def uniform(text: str, numbers: bool = True) -> str:
    """The text with one form for initials and "&"; and for numbers, dates and some units if these are asked for.

    It is for comparison alone: the 21st of May 1971 becomes "1971 may d21". Its time is linear in the text.
    """
    if numbers:
        text = _NUMBER_WORD.sub(lambda match: _DIGITS[match[0].lower()], text)
        if has_digits(text):
            text = _DAY_FIRST.sub(lambda match: _date(match[3], match[2], match[1]), text)
            text = _MONTH_DAY.sub(
                lambda match: _date(match[2] or match[4], match[1], match[3]), text
            )
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
    first, point, second, last = match.groups()
    if point == "-":
        year, month, day = first, second, last
    elif point == "/" and int(first) <= len(_MONTH_OF):
        month, day, year = first, second, last
    else:
        day, month, year = first, second, last
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
        zeros = _ZEROS[_MAGNITUDES[magnitude.lower()]] if magnitude else 0
        whole += fraction[:zeros].ljust(zeros, "0")
        whole, fraction = whole.lstrip("0") or "0", fraction[zeros:].rstrip("0")
    sign = "_" if before and not currency else ""
    return " ".join(
        filter(None, (f"{sign}{whole}{'_' if fraction else ''}{fraction}", kind))
    )  # a point ends a word
