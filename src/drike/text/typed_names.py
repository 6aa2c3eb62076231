"""Other ways in which people type a name: "univ of Calder Vale", "kings college", "UK" for "U.K.".

All of them are as good as the name itself; typing errors are found in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from drike.text.word_lists import data_sections, word_list

LONG_WORD = 5  # letters of the words of names that are checked for typing errors

_MOST_JOINED = 5  # words of a name of which two may be joined
_AMPERSAND = re.compile(r"\s*&\s*")
_AND = re.compile(r"\s+(?:and|und|et)\s+")
_POINTED = re.compile(r"\b(?:[A-Za-z]\.){2,5}")  # "U.S."
_SHORT_CAPITALS = re.compile(r"[A-Z]{2,4}")
_CAPITALS_WITHIN = re.compile(r"(?<![\w.])[A-Z]{2,4}(?![\w.])")
# A firm and what it offers: Querystone Team plan. Its last word is a common noun.
_OF_FIRM = re.compile(r"[A-Z]\w{3,} [A-Z]\w+(?: \w+)* [a-z]+")
_WITHIN_CAMEL = re.compile(r"(?<=[a-z]{3})(?=[A-Z][a-z]{2})")  # Roast|Link
_TWO_AND_KIND = re.compile(r"(?P<first>[A-Z]\w+) ?& ?(?P<second>[A-Z]\w+) (?P<kind>\w[\w ]*)")
_WITH_MODEL = re.compile(
    r"(?P<before>[A-Z]\w+(?: [A-Za-z]\w+){0,2}) (?P<letters>[A-Za-z]{0,3})-?(?P<digits>\d{1,4})"
)
# No universities: Washington University is another than the University of Washington.
_OFFICE = re.compile(
    r"(?P<kind>Ministry|Department|Office|Bureau|Board|Museum|Institute|Agency|Society|Association)"
    r" of (?:the )?(?P<matter>[A-Z]\w+)"
)
_GENITIVE = re.compile(r"(?<=\w)['’`´]s\b")
_PLUS = re.compile(r"(?<=\w) (?:Plus|plus)$")
_SMALL_WORDS = re.compile(r" (?:of(?: the)?|for|the|de|du|von|der) ")
_LEAST_WITHOUT_SMALL = 3  # words of a name from which "of" may be left out
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_NORDIC = str.maketrans({"ø": "oe", "å": "aa", "Ø": "Oe", "Å": "Aa"})
_MOST_FORMS = 24  # of a name
_BEFORE_FIRMS = ("of ", "at ", "from ", "by ", "")  # "Team plan of Querystone"
_MOST_TURNED = 5  # words of a name of which the last may come first


def as_typed(name: str) -> list[str]:
    """Other ways to type a name, the likeliest first; not the name itself."""
    forms = dict.fromkeys([name])
    ways_to_type = (
        _turned,
        _with_other_signs,
        _of_model,
        _of_office,
        _with_short_words,
        _without_small_words,
    )
    for ways in ways_to_type:
        for form in list(forms):
            forms |= dict.fromkeys(ways(form))
    del forms[name]
    return list(forms)[:_MOST_FORMS]


def joins(folded: Sequence[str]) -> list[tuple[int, int]]:
    """Which two words of a name that adjoin people may join.

    No people's: these are told by first and last name. A name that becomes a common word is none.
    """
    size = len(folded)
    if not 2 <= size <= _MOST_JOINED or folded[0] in word_list("first names"):
        return []
    pairs = [(begin, begin + 2) for begin in range(size - 1)]
    return [
        (begin, end)
        for begin, end in pairs
        if sum(map(len, folded[begin:end])) >= LONG_WORD
        and (size > 2 or "".join(folded) not in word_list("common words"))
    ]


def _with_other_signs(name: str) -> Iterator[str]:
    """Words split, "and" for "&", initials with points or without, a genitive without its sign."""
    if _AMPERSAND.search(name):
        yield from (_AMPERSAND.sub(f" {word} ", name) for word in ("and", "und", "et", "n"))
        yield from _with_initials_of_two(name)
    elif _AND.search(name):
        yield _AND.sub(" ", name)
    yield from _with_other_initials(name)
    if _OF_FIRM.fullmatch(name) or _is_called_what_it_is(name):
        yield name.replace(" ", "'s ", 1)
    split = _WITHIN_CAMEL.sub(" ", name)
    if split != name:
        yield split
    if " " in name and _GENITIVE.search(name):
        yield _GENITIVE.sub("s", name)
        if _GENITIVE.sub("", name).count(" ") > 1:
            yield _GENITIVE.sub("", name)
    if _PLUS.search(name):
        yield _PLUS.sub("+", name)
    if not name.isascii():
        for letters in (_UMLAUTS, _NORDIC):
            if name.translate(letters) != name:
                yield name.translate(letters)


def _is_called_what_it_is(name: str) -> bool:
    """Whether a name is two words, the second of which says what it is: "Lindner Boathouse"."""
    first, _, rest = name.partition(" ")
    is_thing = rest.lower() in _kinds_of_things() | word_list("organisations") | word_list("trades")
    return is_thing and first[0].isupper() and not first.endswith(("s", "'"))


def _turned(name: str) -> Iterator[str]:
    """What a firm offers before the firm: "Team plan of Querystone", "Leeds branch of Bank X"."""
    written = name.split(" ")
    size = len(written)
    is_of_thing = written[-1].islower() or written[-1].lower() in _kinds_of_things()
    if not is_of_thing or not 2 < size <= _MOST_TURNED or not written[0][0].isupper():
        return
    for place in range(1, size - 1):
        if "&" in written[place - 1 : place + 1]:  # it joins two names of one firm
            continue
        firm = " ".join(written[:place])
        offered = " ".join(written[place:])
        yield from (f"{offered} {joining}{firm}" for joining in _BEFORE_FIRMS)


@cache
def _kinds_of_models() -> frozenset[str]:
    return frozenset(" ".join(data_sections("text/typed_names.txt")["kinds of models"]).split())


@cache
def _kinds_of_things() -> frozenset[str]:
    return word_list("kinds of things") | word_list("things")


def _with_initials_of_two(name: str) -> Iterator[str]:
    """Two names of a firm by their first letters: "H&B Opticians"."""
    of_two = _TWO_AND_KIND.fullmatch(name)
    if of_two:
        yield f"{of_two['first'][0]} {of_two['second'][0]} {of_two['kind']}"


def _of_model(name: str) -> Iterator[str]:
    """A model with its number apart, behind its maker alone, or first: "Zenvia S2", "S2 by Zenvia".

    What is left out is a common noun for what it is: "Zenvia Tablet S2".
    """
    model = _WITH_MODEL.fullmatch(name)
    if model is None:
        return
    number = f"{model['letters']}{model['digits']}"
    if model["letters"]:
        yield f"{model['before']} {model['letters']} {model['digits']}"
    maker, *kind = model["before"].split(" ")
    if model["letters"] and not kind:
        yield f"{number} {maker}"
    if len(kind) == 1 and kind[0].lower() in _kinds_of_models():
        yield f"{maker} {number}"
        yield f"{number} {kind[0]} {maker}"
        yield from (f"{number} {joining}{maker}" for joining in _BEFORE_FIRMS)


def _of_office(name: str) -> Iterator[str]:
    """An office by what it is for: "Tides Ministry", "Ministry for Tides", "ministryoftides"."""
    office = _OFFICE.fullmatch(name)
    if office:
        yield f"{office['matter']} {office['kind']}"
        yield f"{office['kind']} for {office['matter']}"
        yield name.replace(" ", "")


def _with_other_initials(name: str) -> Iterator[str]:
    if _POINTED.search(name):
        yield _POINTED.sub(lambda initials: initials[0].replace(".", "").upper(), name)
    elif _SHORT_CAPITALS.fullmatch(name):
        yield " ".join(name)
    elif " " in name and not name.isupper() and _CAPITALS_WITHIN.search(name):
        yield _CAPITALS_WITHIN.sub(lambda capitals: " ".join(capitals[0]), name)


def _with_short_words(name: str) -> Iterator[str]:
    """The name with one of its words in short: "univ", "hosp", "intl"."""
    if " " not in name:
        return
    written = name.split(" ")
    for place, word in enumerate(written):
        for short in _short_words().get(word.rstrip(".").lower(), ()):
            yield " ".join((*written[:place], short, *written[place + 1 :]))


def _without_small_words(name: str) -> Iterator[str]:
    """Names of several words without "of": "Museum Glass" for Museum of Glass, in lists."""
    shorter = _SMALL_WORDS.sub(" ", name)
    if shorter != name and shorter.count(" ") + 1 >= _LEAST_WITHOUT_SMALL:
        yield shorter


@cache
def _short_words() -> dict[str, tuple[str, ...]]:
    """The short ways to write a word, and the long ways to write a short one."""
    others: dict[str, tuple[str, ...]] = {}
    for line in data_sections("text/typed_names.txt")["short words"]:
        forms = line.split()
        for form in forms:
            others[form] = tuple(other for other in forms if other != form)
    return others
