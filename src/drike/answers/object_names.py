"""The ways in which an answer may name an object: its names, their plurals and short forms."""

import re
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from drike.answers.days import names_of_day
from drike.answers.places import place_and_country
from drike.answers.values import has_digits, readings
from drike.text.short_forms import NameMatch, short_forms
from drike.text.word_lists import synonyms, word_list
from drike.text.words import Words

_MODEL_APART = re.compile(r"\b([A-Z]{1,4})[- ](\d{1,4})\b")
_MODEL_JOINED = re.compile(r"\b([A-Z]{2,4})(\d{1,4})\b")
_DATE = re.compile(r"\b\d{4} [a-z]+ d\d")
# An article before words that are no name: "the canteen", "The original invoice", not "The Who".
_ARTICLE = re.compile(
    r"(?:the|an?|der|die|das|ein|eine|le|la|les|el|los|las) (?=\w)|The (?=[a-z ]+\.?$)"
)
_PREPOSITION = re.compile(
    r"(?:at|in|on|to|from|by|via|through|under|near|im|in der|am|an der|bei|beim|per|en|à|au|dans"
    r"|chez|par|por) (?:the |der |den |dem |la |el |le |les )?(?=\w)",
    re.IGNORECASE,
)
# "Node 22" is Node v22, and version 22 is it if the other object is none.
_VERSION = re.compile(r"(?P<name>[^\W\d]\S*(?: \S+)?) v?(?P<number>\d+(?:[._]\d+)*)", re.IGNORECASE)
_CODE = re.compile(r"(?=\w*\d)(?=\w*[^\W\d_])(?![12]\d{3}s)\w{2,}")
_DOTTED = re.compile(r"\d+(?:[._]\d+)+")
_VERSION_WORDS = ("v", "version ")
_ONLY = re.compile(r"only (?:for )?(?P<first>.+)|(?P<last>.+) only", re.IGNORECASE)
_OF_PLACE = re.compile(r" (?:of|at|in) ")
_SAID_ONLY = (
    "only",
    "only for",
    "just",
    "reserved for",
    "limited to",
    "restricted to",
    "exclusively",
)
_DAYS = frozenset(
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "montag",
     "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
)  # fmt: skip
_EVERY_DAY = re.compile(
    rf"every (?P<second>second |other |2nd )?(?P<day>{'|'.join(sorted(_DAYS))})", re.IGNORECASE
)
_TITLES = ("Mr", "Mrs", "Ms", "Dr", "Herr", "Frau")
_TITLES_ELSEWHERE = ("Señor", "Señora", "Sr", "Sra", "Mme", "Monsieur", "Madame")
_SHORTEST_NOUN = 3  # letters of a common noun that may have a plural
_SHORTEST_PLURAL = 5  # letters of a common noun that may be the plural of a shorter one


class Rank(IntEnum):
    """How surely a form names its object; of two that stand at one place, the higher counts."""

    ALONE = 0  # only if the answer is nothing else
    SHORT = 1
    NAME = 2


class ObjectForm(NamedTuple):
    """A way to write an object."""

    words: Words
    folded: frozenset[str]
    rank: Rank
    last: bool  # a person's last name
    capital: bool  # a common word, which is a name only with a capital: May, US


class ObjectNames(NamedTuple):
    """The forms of an object's names."""

    forms: tuple[ObjectForm, ...]
    folded: frozenset[str]  # the words of all names
    numbers: bool  # whether a name holds a digit
    dates: str = ""  # the names that hold a date


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def object_names(names: tuple[str, ...]) -> ObjectNames:
    """The forms of an object that has these names."""
    texts = [text for name in names for text in readings(name) if len(Words.of(text))]
    forms: dict[str, ObjectForm] = {}
    for text in texts:
        forms.pop(text, None)  # it may be the plural of a name before it
        forms[text] = _form(text, Rank.NAME)
        for variant in _variants(text):
            forms.setdefault(variant, _form(variant, Rank.NAME))
        if text.endswith("ism"):  # Lutheran, of Lutheranism
            adherent = text.removesuffix("ism")
            forms.setdefault(adherent, _form(adherent, Rank.ALONE))
    for text in texts:
        for variant in _with_other_words(text):
            forms.setdefault(variant, _form(variant, Rank.SHORT))
        for variant in (text, *_variants(text)):
            if bare := _without_preposition(variant):
                forms.setdefault(bare, _form(bare, Rank.SHORT))
        if code := _model_code(text):
            forms.setdefault(code, _form(code, Rank.SHORT))
        if turned := _turned(text):
            forms.setdefault(turned, _form(turned, Rank.SHORT))
        for other_name in _in_other_languages(text):
            forms.setdefault(other_name, _form(other_name, Rank.SHORT))
        for short_text, form in _short_object_forms(text):
            forms.setdefault(short_text, form)

    folded = frozenset(word for text in texts for word in Words.of(text).folded())
    dates = "; ".join(filter(_DATE.search, texts))
    return ObjectNames(tuple(forms.values()), folded, any(map(has_digits, texts)), dates)


def _in_other_languages(text: str) -> Iterator[str]:
    """Other names of a known place, person or thing: Czechia, Tschechien."""
    words = Words.of(text).folded()
    if words[:1] == ["the"]:
        words = words[1:]
    yield from synonyms().get(" ".join(words), ())


def _form(text: str, rank: Rank, *, last: bool = False) -> ObjectForm:
    words = Words.of(text)
    capital = text[:1].isupper() and text.casefold() in word_list("common words")
    return ObjectForm(words, frozenset(words.folded()), rank, last, capital)


def _variants(text: str) -> Iterator[str]:
    """The plural of a name that ends in a common noun, and its singular if it may be a plural."""
    yield from _reordered(text)
    if article := _ARTICLE.match(text):
        yield text[article.end() :]
    noun = text.rsplit(maxsplit=1)[-1]
    if not (noun.islower() and noun.isalpha() and len(noun) >= _SHORTEST_NOUN):
        return
    yield f"{text}es" if text.endswith(("s", "x", "ch", "sh")) else f"{text}s"
    if noun.endswith("s") and len(noun) >= _SHORTEST_PLURAL:
        yield text[:-1]


def _reordered(text: str) -> Iterator[str]:
    """A model's number joined to its letters, or apart: QX5, QX-5 and QX 5."""
    joined = _MODEL_APART.sub(r"\1\2", text)
    if joined != text:
        yield joined
    apart = _MODEL_JOINED.sub(r"\1 \2", text)
    if apart != text:
        yield apart


def _with_other_words(text: str) -> Iterator[str]:
    """A place with another preposition, and the forms of a day's name."""
    parts = _OF_PLACE.split(text)
    if len(parts) == 2 and parts[0][:1].isupper() and parts[1][:1].isupper():
        yield from (f"{parts[0]}{between}{parts[1]}" for between in (" of ", " at ", " in ", " "))
    if only := _ONLY.fullmatch(text):
        yield from (f"{said} {only['first'] or only['last']}" for said in _SAID_ONLY)
    if version := _VERSION.fullmatch(text):
        number = version["number"].replace("_", ".")
        yield from (f"{version['name']} {word}{number}" for word in _VERSION_WORDS)
        yield from _versions(version["number"])
    elif _DOTTED.fullmatch(text):
        yield from _versions(text)
    if every := _EVERY_DAY.fullmatch(text):
        yield from _every(every["second"] is not None, every["day"])
    day = text.casefold().removesuffix("s")
    if day in _DAYS:
        yield from (text.removesuffix("s"), f"{text.removesuffix('s')}s", day[:3].title())
        for other_name in names_of_day(day):
            yield from (other_name, f"{other_name}s")


def _every(is_second: bool, day: str) -> Iterator[str]:
    """Every second Tuesday, or each Tuesday, in other words."""
    if is_second:
        yield from (f"every {word} {day}" for word in ("second", "other", "2nd"))
    else:
        yield from (f"each {day}", f"{day}s")


def _without_preposition(text: str) -> str | None:
    """What stands behind a preposition, if it tells the object: "counter 4" of "at counter 4"."""
    match = _PREPOSITION.match(text)
    if match is None:
        return None
    rest = text[match.end() :]
    is_telling = not rest.islower() or has_digits(rest) or " " in rest
    return rest if is_telling else None


def _versions(number: str) -> Iterator[str]:
    """A version without the name of what has it: v3.11, version 3.11, and 3.11 if it is dotted."""
    dotted = number.replace("_", ".")
    yield from (f"v{dotted}", f"version {number}", f"v {number}")
    if _DOTTED.fullmatch(number):
        yield number


def _model_code(text: str) -> str | None:
    """The last word of a name, if it mixes letters and digits: 9B of "Falcon 9B"."""
    first, _, last = text.rpartition(" ")
    return last if first.isalpha() and _CODE.fullmatch(last) else None


def _turned(text: str) -> str | None:
    """A name of two words in the other order: Boathouse Selm, the Selm boathouse."""
    words = text.split()
    is_plain = len(words) == 2 and all(word.isalpha() for word in words)
    if not is_plain or any(word.casefold() in word_list("common words") for word in words):
        return None
    return f"{words[1]} {words[0]}"


def _short_object_forms(text: str) -> Iterator[tuple[str, ObjectForm]]:
    """The short forms of a name, and its last name with titles."""
    name = Words.of(text)
    folded = name.folded()
    for short_form in short_forms(name, folded, of_object=True):
        short_text = short_form.text(name)
        is_last_name = short_form.kind is NameMatch.LAST
        is_common = short_text.casefold() in word_list("common words")
        # The last name of what has no first name may be none.
        first = next((word for word in folded if word not in word_list("titles")), "")
        is_doubtful = is_last_name and first not in word_list("first names")
        only_alone = is_common or is_doubtful or short_form.kind is NameMatch.DEMONYM
        rank = Rank.ALONE if only_alone else Rank.SHORT
        yield short_text, _form(short_text, rank, last=is_last_name)
        if is_last_name:
            for title in (*_TITLES, *_TITLES_ELSEWHERE):
                titled = f"{title} {_particles_before(folded)}{short_text}"
                yield titled, _form(titled, Rank.SHORT)


def _particles_before(folded: Sequence[str]) -> str:
    """The particles before a last name, with a space behind them: "de " of Anneke de Vries."""
    before = reversed(folded[1:-1])
    particles = list(takewhile(word_list("particles").__contains__, before))
    return "".join(f"{particle} " for particle in reversed(particles))


def share_of_name(part: Words, names: ObjectNames) -> int:
    """How much of an object's name a text is: 2 for a form, 1 for a telling part of it, else 0."""
    return max((_share_of_form(part, form) for form in names.forms), default=0)


def _share_of_form(part: Words, form: ObjectForm) -> int:
    if form.words.folded() == part.folded():
        return 2
    if form.rank is not Rank.NAME:
        return 0
    spans = form.words.spans(part)
    if place_and_country(form.words.text):
        spans = filter(lambda span: span[0] == 0, spans)  # Norway is not "Bergen, Norway"
    beginnings = (form.words.folded(0, begin + 1) for begin, _ in spans)
    return 1 if any(_tells(beginning) for beginning in beginnings) else 0


def _tells(beginning: Collection[str]) -> bool:
    """Whether the part of a name that ends this beginning of it tells the name.

    Palestine tells "State of Palestine", and London does not tell "Tower of London".
    """
    behind_preposition = not word_list("prepositions").isdisjoint(beginning)
    of_place_or_house = not word_list("places and houses").isdisjoint(beginning)
    return not behind_preposition or of_place_or_house
