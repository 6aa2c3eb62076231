"""Short forms of a name: what else a text may call what has it.

Rules derive them with the word lists of names.txt.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import numpy as np

from drike.text.ordinary_words import is_ordinary
from drike.text.word_lists import demonyms, word_list
from drike.text.words import Words

MOST_INITIALS = 4

_TITLE = re.compile(r", | \(")  # behind it: a title, a place, what distinguishes one of several
_WITH_BRACKET = re.compile(r"(.+) \(([^()]+)\)")
_ACRONYM = re.compile(r"[A-Z][A-Z0-9&]{1,7}")
_JOINED_INITIALS = re.compile(r"[A-Z]{2,3}")  # without points

# What joins the names of two people, or things, in that of a firm; and signs of a product's word.
_JOINING = re.compile(r"\s(?:[&+]|and|und|et)\s")
_MIXED = re.compile(
    r"\d|^(?!(?:Mac?|Mc|De|Di|Da|Du|La|Le|Lo|Fitz|Van|Von|Al|El|O)[A-Z]).*[a-z][A-Z]"
)
_TWO_JOINED = re.compile(r"[A-Z]\w+ ?[&+] ?[A-Z]\w+ \w")
_OF_TWO = 2  # words
_MODEL = re.compile(r"(?=.*\d)[A-Z][A-Z\d-]{2,}")  # C40, which no other thing is called
_GENITIVE = re.compile(r"\w['’]s$")
_ROMAN = re.compile(r"[IVX]+")
_LAST_OF_THINGS = (
    "things",
    "rules",
    "trades",
    "clubs",
    "legal forms",
    "kinds of things",
    "organisations",
)

_MOST_LEGAL_WORDS = 4  # of a legal form
_MOST_PERSON_WORDS = 6
_MOST_COUNTRY_WORDS = 4
_SHORTEST_LAST_NAME = 3  # letters
_MOST_WORDS_OFFERED = 4
_SHORTEST_MADE_UP = 4
# Words that are no last names, and words that alone name something else.
_NO_LAST_NAMES = ("common words", "after", "legal forms")
_OTHER_THINGS = ("common words", "first names", "famous towns", "large towns", "homonyms")


class NameMatch(StrEnum):
    """How a query names a subject."""

    FULL = "full"
    # Without a legal form, title or article; with initials, as an acronym, with an s at the end.
    SHORT = "short"
    # A person's first and last name, or a name without what is behind its comma.
    PARTIAL = "partial"
    LAST = "last"  # a person's last name alone
    DEMONYM = "demonym"  # "French" for France
    TYPO = "typo"


class ShortForm(NamedTuple):
    """A short form: some text, and behind it the words begin..end (excluded) of the name."""

    kind: NameMatch
    prefix: str
    begin: int
    end: int

    def text(self, name: Words) -> str:
        """As it is shown."""
        rest = name.between(self.begin, self.end) if self.begin < self.end else ""
        return " ".join(part for part in (self.prefix, rest) if part)


def short_forms(
    name: Words, folded: Sequence[str], *, of_thing: bool = False, of_object: bool = False
) -> Iterator[ShortForm]:
    """The short forms of a name, given its words as they are compared; some perhaps twice.

    Initials have no points. of_thing: whether it is known to be no person's, as only people have
    last names. of_object: whether it is what a fact says of its subject, which keeps its last word.
    """
    size = plain_size(name)
    if not size:
        return

    if size < len(folded):
        yield from _without_title(name, size, len(folded))

    begin, end = _kernel(name, folded, size)
    if begin < end and (begin, end) != (0, size):
        yield from _of_kernel(folded, begin, end, size)
    is_of_person = not of_thing and is_person(name, folded, begin, end)
    if end - begin > 1 and is_of_person and not names_thing(name, folded):
        yield from _of_person(name, folded, begin, end)
    yield from _of_thing(name, folded, begin, end)
    if not of_object:  # "Tuesday 9" says less than Tuesday 9 pm
        proper = _proper_size(name, folded, begin, end)
        if proper < end:
            yield ShortForm(NameMatch.PARTIAL, "", begin, proper)
        own = _own_size(name, folded, begin, end)
        if own < min(proper, end):
            yield ShortForm(NameMatch.PARTIAL, "", begin, own)
        place = _place_of_authority(name, folded, begin, end)
        if place is not None:
            yield ShortForm(NameMatch.PARTIAL, "", place, end)

    if size <= _MOST_COUNTRY_WORDS:
        for demonym in demonyms().get(" ".join(folded), ()):
            yield ShortForm(NameMatch.DEMONYM, demonym, 0, 0)


def plain_size(name: Words) -> int:
    """How many words of a name stand before its comma or bracket."""
    title = _TITLE.search(name.text)
    if title is None:
        return len(name)
    return int(np.searchsorted(name.ends, title.start(), side="right"))


def is_person(name: Words, folded: Sequence[str], begin: int, end: int) -> bool:
    """Whether some words of a name may be a person's: six at most, in capitals, particles aside."""
    if end - begin > _MOST_PERSON_WORDS:
        return False
    particles = word_list("particles")
    places = name.begins[begin:end].tolist()
    for place, word in zip(places, folded[begin:end], strict=True):
        if not name.text[place].isupper() and word not in particles:
            return False
    return True


def names_thing(name: Words, folded: Sequence[str]) -> bool:
    """Whether a name shows that it is no person's: "Orion Platform", "Halvard & Finch", "NX-417".

    It has a legal form, joins two names, has a digit or capitals inside a word, or ends with what
    it is.
    """
    size = plain_size(name)
    begin, end = _kernel(name, folded, size)
    if end < size or _JOINING.search(name.text):
        return True
    last_word = folded[size - 1]
    if last_word in _last_words_of_things():
        return True
    written = [name.between(place, place + 1) for place in range(begin, end)]
    if any(map(_MIXED.search, written)):
        return True
    if len(written) < 2 or name.text.isupper() or _ROMAN.fullmatch(written[-1]):
        return False
    is_suffix = last_word in word_list("suffixes of people")
    return not is_suffix and _ACRONYM.fullmatch(written[-1]) is not None


def _without_title(name: Words, size: int, total: int) -> Iterator[ShortForm]:
    """A name without what follows its comma or bracket, or both parts if one is an acronym.

    "World Health Organization (WHO)" is called by either.
    """
    if size > 1:
        yield ShortForm(NameMatch.PARTIAL, "", 0, size)

    parts = _WITH_BRACKET.fullmatch(name.text)
    if parts is None:
        return
    before, inside = parts.groups()
    for acronym, long_form in ((before, inside), (inside, before)):
        if _ACRONYM.fullmatch(acronym) and acronym == _initials(long_form):
            yield ShortForm(NameMatch.SHORT, "", 0, size)
            yield ShortForm(NameMatch.SHORT, "", size, total)


def _initials(text: str) -> str:
    """The first letters of the words that begin with a capital."""
    parts = re.split(r"[\s-]+", text)
    return "".join(part[0] for part in parts if part[:1].isupper())


def _kernel(name: Words, folded: Sequence[str], size: int) -> tuple[int, int]:
    """Which of the first `size` words are left without titles, article and legal forms."""
    begin = _without_titles_and_article(name, folded, size)
    end = _without_legal_forms(name, folded, begin, size)
    if end - begin == 1:
        only_word = folded[begin]
        if len(only_word) == 1 or only_word in word_list("question words"):
            return 0, size  # such a word would name nothing
    return begin, end


def _without_titles_and_article(name: Words, folded: Sequence[str], size: int) -> int:
    """Where a name begins behind its titles, or else behind its article."""
    begin = 0
    while begin + 1 < size and folded[begin] in word_list("titles"):
        if folded[begin + 1] == "s" and name.ends[begin] + 1 == name.begins[begin + 1]:
            return 0  # "King's College" is no college of a king
        begin += 1
    if begin == 0 and size > 1 and folded[0] in word_list("articles"):
        behind_article = name.text[name.begins[1]]
        return 1 if behind_article.isupper() else 0
    return begin


def _without_legal_forms(name: Words, folded: Sequence[str], begin: int, end: int) -> int:
    """Where a name ends before its legal forms, of which it may have several."""
    while end - begin > 1 and folded[end - 1] in _last_words_of_legal_forms():
        size = _legal_form_size(name, folded, begin, end)
        if not size:
            break
        end -= size
    return end


def _legal_form_size(name: Words, folded: Sequence[str], begin: int, end: int) -> int:
    """How many words the longest legal form at the end of a name has; 0 without one."""
    for size in range(min(_MOST_LEGAL_WORDS, end - begin - 1), 0, -1):
        form = " ".join(folded[end - size : end])
        if form in word_list("legal forms") and not name.between(end - size, end).islower():
            return size
    return 0


@cache
def _last_words_of_things() -> frozenset[str]:
    return frozenset[str]().union(*map(word_list, _LAST_OF_THINGS))


@cache
def _no_last_names() -> frozenset[str]:
    return frozenset[str]().union(*map(word_list, _NO_LAST_NAMES))


@cache
def _last_words_of_legal_forms() -> frozenset[str]:
    return frozenset(form.split()[-1] for form in word_list("legal forms"))


def _of_kernel(folded: Sequence[str], begin: int, end: int, size: int) -> Iterator[ShortForm]:
    """A name without titles, article and legal forms, and without only what precedes or follows."""
    behind_title = begin > 0 and folded[0] not in word_list("articles")
    is_last_name = behind_title and end - begin == 1
    yield ShortForm(NameMatch.LAST if is_last_name else NameMatch.SHORT, "", begin, end)
    if begin and end < size:
        yield ShortForm(NameMatch.SHORT, "", begin, size)
        yield ShortForm(NameMatch.SHORT, "", 0, end)


def _of_person(name: Words, folded: Sequence[str], begin: int, end: int) -> Iterator[ShortForm]:
    """A person's last name, alone and with initials: Tolkien, J. R. R. Tolkien, J. Tolkien."""
    while end - begin > 2 and folded[end - 1] in word_list("suffixes of people"):
        end -= 1
        yield ShortForm(NameMatch.PARTIAL, "", begin, end)
    if not _has_last_name(name, folded, begin, end):
        return

    particles = word_list("particles")
    last = end - 1
    yield ShortForm(NameMatch.LAST, "", last, end)
    given_names = [i for i in range(begin, last) if folded[i] not in particles]

    if end - begin > 2 and _has_two_last_names(folded, end):
        yield ShortForm(NameMatch.LAST, "", last - 1, last)
        yield ShortForm(NameMatch.LAST, "", last - 1, end)
        given_names = given_names[:-1]

    if not given_names:
        return
    first_name = name.between(given_names[0], given_names[0] + 1)
    if _JOINED_INITIALS.fullmatch(first_name):
        return
    all_initials = "".join(folded[i][0] for i in given_names)
    for initials in dict.fromkeys((all_initials, all_initials[0])):
        if initials.isalpha() and len(initials) <= MOST_INITIALS:
            yield ShortForm(NameMatch.SHORT, initials.upper(), last, end)


def _has_last_name(name: Words, folded: Sequence[str], begin: int, end: int) -> bool:
    """Whether the last of a name's words is a last name that may stand alone."""
    last_word = folded[end - 1]
    if len(last_word) < _SHORTEST_LAST_NAME or folded[begin] in word_list("before"):
        return False
    if last_word in _no_last_names():
        return False
    # Brandenburg-Prussia is no person, Al-Khwarizmi is.
    hyphenated = end - begin == 2 and name.text[name.ends[begin] : name.begins[begin + 1]] == "-"
    return not hyphenated or folded[begin] in word_list("particles")


def _has_two_last_names(folded: Sequence[str], end: int) -> bool:
    """Whether the word before the last is a Spanish last name, too: García Márquez."""
    before_last = folded[end - 2]
    return before_last.endswith("ez") or before_last in word_list("spanish surnames")


def _of_thing(name: Words, folded: Sequence[str], begin: int, end: int) -> Iterator[ShortForm]:
    """A mountain without Mount, a club without FC, a company without legal form and trade.

    Also what a rule or a program is called: vacation for Vacation policy, Orbis for Orbis API; and
    a model without its maker: C40 for Brewster C40.
    """
    size = end - begin
    if size > 2 and folded[begin] in word_list("clubs"):
        yield ShortForm(NameMatch.SHORT, "", begin + 1, end)
    if size > 2 and folded[end - 1] in word_list("clubs"):
        yield ShortForm(NameMatch.SHORT, "", begin, end - 1)
    if size > 1 and folded[begin] in ("mount", "mt"):
        yield ShortForm(NameMatch.PARTIAL, "", begin + 1, end)

    if size > 1 and _MODEL.fullmatch(name.between(end - 1, end)):
        yield ShortForm(NameMatch.PARTIAL, "", end - 1, end)

    stop = end
    if end < len(name):  # it has a legal form
        while stop - begin > 1 and folded[stop - 1] in word_list("trades"):
            stop -= 1
    if folded[end - 1] in word_list("rules") or _is_named_thing(folded, begin, end):
        stop = end - 1
    if begin < stop < end:
        yield ShortForm(NameMatch.PARTIAL, "", begin, stop)


def _proper_size(name: Words, folded: Sequence[str], begin: int, end: int) -> int:
    """Where a name ends before the common nouns that say what it is: "Heron 2" for Heron 2 tent.

    These are in lower case. A noun behind a genitive is left out, too: "St. Orwin's" for St.
    Orwin's Hospital. At least two words are left, as "Harbor" for Harbor hotel would be found
    everywhere, and no person: Charles de Gaulle airport.
    """
    if folded[begin] in word_list("first names"):
        return end
    stop = end
    while stop - begin > 2 and name.between(stop - 1, stop).islower():
        stop -= 1
    last = name.between(stop - 1, stop)
    if stop < end:
        return stop if last[0].isupper() or last[0].isdigit() else end
    if end - begin > 2 and _GENITIVE.search(name.between(begin, end - 1)):
        return end - 1
    return end


def offered_by(name: Words, folded: Sequence[str], *, of_thing: bool) -> tuple[int, int] | None:
    """The places of the words for a firm and for what it offers: "Querystone Team plan".

    None for other names. of_thing: whether it is known to be no person's.
    """
    begin, end = _kernel(name, folded, plain_size(name))
    if not 2 <= end - begin <= _MOST_WORDS_OFFERED or not is_made_up(folded[begin]):
        return None
    ends_small = name.between(end - 1, end).islower()
    is_thing = of_thing or ends_small or names_thing(name, folded)
    is_firm = _own_size(name, folded, begin, end) < end
    if not is_thing or is_firm:
        return None
    firm = name.between(begin, begin + 1)
    offered = name.between(begin + 1, begin + 2)
    has_capitals = firm[0].isupper() and offered[0].isupper()
    return (begin, begin + 1) if has_capitals else None


def _own_size(name: Words, folded: Sequence[str], begin: int, end: int) -> int:
    """Where the own name of a firm or an authority ends: "Brackwater" for Brackwater Bank.

    Behind it stands what it is. One word has to be long, and no word, town, country or first name.
    """
    stop = end
    while stop - begin > 1 and folded[stop - 1] in _words_of_organisations():
        stop -= 1
    if stop == end and end - begin > _OF_TWO and _TWO_JOINED.match(name.between(begin, end)):
        stop = begin + _OF_TWO  # "Hollis & Brand Opticians", whatever they are
        return stop if any(map(is_made_up, folded[begin:stop])) else end
    if stop - begin == 1:
        return stop if is_made_up(folded[begin]) else end
    has_capitals = all(name.between(place, place + 1)[0].isupper() for place in range(begin, stop))
    return stop if has_capitals else end


def _place_of_authority(name: Words, folded: Sequence[str], begin: int, end: int) -> int | None:
    """Where the place begins for which an authority is: Eldham, for the City of Eldham.

    None for other names, also where the place may be called so for something else.
    """
    place = begin + 2
    if place >= end or folded[begin] not in word_list("authorities of"):
        return None
    is_of = folded[begin + 1] in word_list("prepositions")
    has_capital = name.between(place, place + 1)[0].isupper()
    return place if is_of and has_capital and is_made_up(folded[place]) else None


def is_made_up(word: str) -> bool:
    """Whether a word names only what is called by it: no word, town, country or first name."""
    if len(word) < _SHORTEST_MADE_UP or not word.isalpha() or is_ordinary(word):
        return False
    return not any(word in word_list(words) for words in (*_OTHER_THINGS, "before", "countries"))


@cache
def _words_of_organisations() -> frozenset[str]:
    return word_list("trades") | word_list("organisations")


def _is_named_thing(folded: Sequence[str], begin: int, end: int) -> bool:
    """Whether a name is one word that names nothing else and what it is: "Orbis API"."""
    if end - begin != 2 or folded[end - 1] not in word_list("things"):
        return False
    return not any(folded[begin] in word_list(words) for words in _OTHER_THINGS)
