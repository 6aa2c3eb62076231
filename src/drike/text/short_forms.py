"""Short forms of a name: what else a text may call what has it, by rules and the lists of names.txt."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from drike.text.words import Words, words

MOST_INITIALS = 4

_TITLE = re.compile(r", | \(")  # behind it: a title, a place, what distinguishes one of several
_BRACKET = re.compile(r"(.+) \(([^()]+)\)")
_ACRONYM = re.compile(r"[A-Z][A-Z0-9&]{1,7}")
_JOINED = re.compile(r"[A-Z]{2,3}")  # initials without points
_OF_OTHERS = (
    "common words",
    "first names",
    "famous towns",
    "homonyms",
)  # lists of what names other things alone
_MOST_LEGAL_WORDS, _MOST_PERSON_WORDS = 4, 6


class NameMatch(StrEnum):
    """How a query names a subject."""

    FULL = "full"
    SHORT = "short"  # without a legal form, title or article; with initials, as an acronym, with an s at the end
    PARTIAL = (
        "partial"  # a person's first and last name, or a name without what is behind its comma
    )
    LAST = "last"  # a person's last name alone
    DEMONYM = "demonym"  # "French" for France
    TYPO = "typo"


class ShortForm(NamedTuple):
    """A short form of a name: some text, and behind it the words begin..end (excluded) of the name."""

    kind: NameMatch
    prefix: str
    begin: int
    end: int

    def text(self, name: Words) -> str:
        """As it is shown."""
        own = name.between(self.begin, self.end) if self.begin < self.end else ""
        return " ".join(filter(None, (self.prefix, own)))


def short_forms(name: Words, folded: Sequence[str]) -> Iterator[ShortForm]:
    """The short forms of a name, given its words as they are compared; some perhaps twice. Initials have no points."""
    if not (size := plain_size(name)):
        return
    if 1 < size < len(folded):
        yield ShortForm(NameMatch.PARTIAL, "", 0, size)
    if size < len(folded) and (
        match := _BRACKET.fullmatch(name.text)
    ):  # with an acronym before or in it
        for short, long in (match.groups(), match.group(2, 1)):
            initials = "".join(part[0] for part in re.split(r"[\s-]+", long) if part[:1].isupper())
            if _ACRONYM.fullmatch(short) and short == initials:
                yield from (
                    ShortForm(NameMatch.SHORT, "", *some)
                    for some in ((0, size), (size, len(folded)))
                )
    begin, end = _kernel(name, folded, size)
    if begin < end and (begin, end) != (0, size):
        kind = (
            NameMatch.SHORT
            if begin == 0 or end - begin > 1 or folded[0] in lists("articles")
            else NameMatch.LAST
        )
        yield ShortForm(kind, "", begin, end)
        if begin and end < size:  # without one of both
            yield from (ShortForm(NameMatch.SHORT, "", *some) for some in ((begin, size), (0, end)))
    if end - begin > 1 and is_person(name, folded, begin, end):
        yield from _of_person(name, folded, begin, end)
    yield from _of_thing(name, folded, begin, end)
    if size <= 4:
        yield from (
            ShortForm(NameMatch.DEMONYM, of, 0, 0) for of in demonyms().get(" ".join(folded), ())
        )


def plain_size(name: Words) -> int:
    """How many words of a name stand before its comma or bracket."""
    if not (match := _TITLE.search(name.text)):
        return len(name)
    return int(np.searchsorted(name.ends, match.start(), side="right"))


def is_person(name: Words, folded: Sequence[str], begin: int, end: int) -> bool:
    """Whether some words of a name may be a person's: six at most, in capitals, particles aside."""
    some, particles = (
        zip(name.begins[begin:end].tolist(), folded[begin:end], strict=True),
        lists("particles"),
    )
    return end - begin <= _MOST_PERSON_WORDS and all(
        name.text[at].isupper() or word in particles for at, word in some
    )


def _kernel(name: Words, folded: Sequence[str], size: int) -> tuple[int, int]:
    """Which of the first words of a name are left without titles, an article and legal forms."""
    begin, end = 0, size
    while begin + 1 < end and folded[begin] in lists("titles"):
        begin += 1
    if (
        not begin
        and size > 1
        and folded[0] in lists("articles")
        and name.text[name.begins[1]].isupper()
    ):
        begin = 1
    while end - begin > 1 and folded[end - 1] in _last_of_legal_forms():
        for count in range(min(_MOST_LEGAL_WORDS, end - begin - 1), 0, -1):
            form = " ".join(folded[end - count : end])
            if form in lists("legal forms") and not name.between(end - count, end).islower():
                end -= count
                break
        else:
            break
    nothing = end - begin == 1 and (
        len(folded[begin]) == 1 or folded[begin] in lists("question words")
    )
    return (0, size) if nothing else (begin, end)


def _of_person(name: Words, folded: Sequence[str], begin: int, end: int) -> Iterator[ShortForm]:
    while end - begin > 2 and folded[end - 1] in lists("suffixes of people"):
        end -= 1
        yield ShortForm(NameMatch.PARTIAL, "", begin, end)
    last, no_last_names = folded[end - 1], ("common words", "after", "legal forms")
    if (
        len(last) < 3
        or folded[begin] in lists("before")
        or any(last in lists(other) for other in no_last_names)
    ):
        return
    joined = end - begin == 2 and name.text[name.ends[begin] : name.begins[begin + 1]] == "-"
    if joined and folded[begin] not in lists(
        "particles"
    ):  # Brandenburg-Prussia is no person, Al-Khwarizmi is
        return
    yield ShortForm(NameMatch.LAST, "", end - 1, end)
    first = [i for i in range(begin, end - 1) if folded[i] not in lists("particles")]
    if end - begin > 2 and (
        folded[end - 2].endswith("ez") or folded[end - 2] in lists("spanish surnames")
    ):
        yield from (ShortForm(NameMatch.LAST, "", end - 2, stop) for stop in (end - 1, end))
        first = first[:-1]
    if not first or _JOINED.fullmatch(name.between(first[0], first[0] + 1)):
        return
    initials = "".join(folded[i][0] for i in first)
    for letters in dict.fromkeys((initials, initials[0])):
        if letters.isalpha() and len(letters) <= MOST_INITIALS:
            yield ShortForm(NameMatch.SHORT, letters.upper(), end - 1, end)


def _of_thing(name: Words, folded: Sequence[str], begin: int, end: int) -> Iterator[ShortForm]:
    """A mountain without Mount, a club without FC, a company without legal form and trade, X of X policy or X API."""
    if end - begin > 2 and folded[begin] in lists("clubs"):
        yield ShortForm(NameMatch.SHORT, "", begin + 1, end)
    if end - begin > 2 and folded[end - 1] in lists("clubs"):
        yield ShortForm(NameMatch.SHORT, "", begin, end - 1)
    if end - begin > 1 and folded[begin] in ("mount", "mt"):
        yield ShortForm(NameMatch.PARTIAL, "", begin + 1, end)
    last = end
    while end < len(name) and last - begin > 1 and folded[last - 1] in lists("trades"):
        last -= 1
    thing = end - begin == 2 and folded[end - 1] in lists("things")
    if folded[end - 1] in lists("rules") or (
        thing and not any(folded[begin] in lists(of) for of in _OF_OTHERS)
    ):
        last = end - 1
    if begin < last < end:
        yield ShortForm(NameMatch.PARTIAL, "", begin, last)


@cache
def lists(name: str) -> frozenset[str]:
    """A list of names.txt, compared as words are."""
    items = [item for line in sections("text/names.txt")[name] for item in line.split(",")]
    return frozenset(filter(None, (" ".join(item.folded()) for item in Words.of_each(items))))


@cache
def _last_of_legal_forms() -> frozenset[str]:
    return frozenset(form.split()[-1] for form in lists("legal forms"))


@cache
def demonyms() -> dict[str, tuple[str, ...]]:
    """The adjectives and nouns for what is of a country, by the country's names as words are compared."""
    found = {}
    for countries, of in (
        [part.split(",") for part in line.split(":")]
        for line in sections("text/names.txt")["countries"]
    ):
        plurals = (f"{d.strip()}s" for d in of if not d.endswith(("h", "s", "e", "hman", "hmen")))
        names = (*(d.strip() for d in of), *plurals)
        found.update({" ".join(country.folded()): names for country in Words.of_each(countries)})
    return found


@cache
def in_other_languages() -> dict[str, tuple[str, ...]]:
    """What places, people and things are called in other languages, by their English names."""
    found = defaultdict[str, list[str]](list)
    for names, others in (
        line.split(": ") for line in sections("text/names.txt")["in other languages"]
    ):
        for name in names.split(", "):
            found[" ".join(words(name))] += others.split(", ")
    return {name: tuple(others) for name, others in found.items()}


@cache
def sections(file: str) -> dict[str, list[str]]:
    """The lines of a file of this folder by the name in brackets above them, without comments."""
    found: dict[str, list[str]] = {}
    for line in files("drike").joinpath(file).read_text("utf-8").splitlines():
        if name := re.fullmatch(r"\[([a-z ]+)\]", line):
            found[name[1]] = own = []
        elif line and not line.startswith("#"):
            own.append(line)
    return found
