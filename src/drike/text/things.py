"""Which thing within a subject a text is about: the head of neurology is not that of cardiology.

Of the words of a text, those that the inventory of relations has say what is asked ("head", "runs",
"costs"), and others name a thing ("cardiology"). A question that names a thing which a fact does
not, while the fact names one which the question does not, asks for something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from drike.text.glossary import glossed
from drike.text.relation_wordings import built_in
from drike.text.relation_words import is_empty, word_set
from drike.text.word_lists import data_sections
from drike.text.words import words

_LISTS = data_sections("text/things.txt")
_MOST_WORDS = 3  # of a name of a thing
_SUBJECT = "it"
_SHORTEST_STEM, _LONGEST_STEM = 4, 6  # letters by which forms of a word are told from other words
_LONGEST_ENDING = 4
_SHORTEST_THING = 3
_ARTICLES = frozenset(("the", "a", "an"))
_JOINING = frozenset(("of", "at", "in", "for", "on", "from", "by", "with", "inside"))
# Words that stand in no noun that is joined to the subject.
_ENDING = word_set("asking").union(
    ("i", "you", "we", "he", "she", "they", "it", "me", "us", "my", "your", "to", "and", "or"),
    ("who", "when", "where", "how", "why", "do", "does", "did", "is", "are", "was", "were", "can"),
    ("could", "may", "must", "should", "will", "would", "have", "has", "had", "there", "much"),
    ("many", "if", "that", "but", "so", "get", "find", "until", "till", "before", "after", "then"),
)
_NEUTRAL = word_set("neutral")
_VAGUE_HEADS = word_set("vague heads").union(("number", "hours", "time", "address", "code"))
_NO_LIMITS = frozenset(("s", "per", "any", "some", "this", "these", "which", "what", "its"))


@dataclass(frozen=True)
class ThingsInCommon:
    """Which things a question and a fact name.

    extra: those that only the question names. missing: those that only the fact names. shared: those that
    both name. focus: those of `extra` that the question joins to its subject.
    """

    extra: tuple[str, ...]
    missing: tuple[str, ...]
    shared: tuple[str, ...]
    focus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """A text with "it" for its subject. foreign: the words of it that could not be translated."""

    text: str
    foreign: frozenset[str] = frozenset()


@lru_cache(4_096)
def said(text: str) -> Said:
    """A text in English, as far as its words are known."""
    english = glossed(text)
    if english == text:
        return Said(text)
    return Said(english, frozenset(words(text)).intersection(words(english)))


@lru_cache(4_096)
def focus(text: str) -> tuple[str, ...]:
    """The things that a text joins to its subject: "the head of neurology at it", "it's library".

    They are in the words before the last preposition with the subject, up to a word that ends a
    noun, and in those behind the subject with an s.
    """
    said_words = words(text)
    joined: list[str] = []
    for place, word in enumerate(said_words):
        if word != _SUBJECT:
            continue
        before = said_words[:place]
        if before and before[-1] in _ARTICLES:
            before.pop()
        if before and before[-1] in _JOINING:
            start = len(before) - 1
            while start and before[start - 1] not in _ENDING:
                start -= 1
            joined += before[start:-1]
        if said_words[place + 1 : place + 2] == ["s"]:
            for behind in said_words[place + 2 : place + 5]:
                if behind in _ENDING or behind in _JOINING:
                    break
                joined.append(behind)
    return tuple(name for name in _names(joined) if _is_thing(name))


def compared_things(question: Said, fact: Said, answer: str) -> ThingsInCommon:
    """The things of a question and of a fact. Foreign words count only where both have them.

    answer: what the fact says; a thing that it names is no other than the fact's.
    """
    of_question = things(question.text)
    words_of_fact = all_words(fact.text, answer)
    words_of_question = all_words(question.text)
    shared = [thing for thing in of_question if _is_among(thing, words_of_fact)]
    extra = [t for t in of_question if t not in shared and t not in question.foreign]
    if _audiences().isdisjoint(all_words(fact.text)):
        extra = [thing for thing in extra if thing not in _audiences()]
    missing = [
        thing
        for thing in things(fact.text)
        if thing not in fact.foreign and not _is_among(thing, words_of_question)
    ]
    if _audiences().isdisjoint(words_of_question):
        missing = [thing for thing in missing if thing not in _audiences()]
    return ThingsInCommon(tuple(extra), tuple(missing), tuple(shared), tuple(t for t in focus(question.text) if t in extra))


def switched(question: Said, fact: Said, answer: str) -> tuple[bool, bool]:
    """Whether a noun of both is limited otherwise in each; whether in the question alone.

    "The second bag" is not the first one, "express shipping" is more than shipping.
    """
    words_of_fact = all_words(fact.text, answer)
    words_of_question = all_words(question.text)
    is_other = is_narrower = False
    for noun, limits in _limited(question.text).items():
        for noun_of_fact, limits_of_fact in _limited(fact.text).items():
            if not _is_same(noun, noun_of_fact):
                continue
            extra = [
                limit
                for limit in limits
                if not _is_among(limit, words_of_fact) and limit not in question.foreign
            ]
            missing = [
                limit
                for limit in limits_of_fact
                if not _is_among(limit, words_of_question) and limit not in fact.foreign
            ]
            is_other |= bool(extra and missing)
            is_narrower |= bool(extra and not missing)
    return is_other, is_narrower


@lru_cache(4_096)
def _limited(text: str) -> dict[str, frozenset[str]]:
    """The nouns of a text with the words right before each that limit it."""
    limits_by_noun: dict[str, frozenset[str]] = {}
    before: list[str] = []
    limited: str | None = None  # the noun before "of", which the next words limit
    for name in _names(words(text)):
        if name in ("of", "for") and before:
            limited = before[-1]
            before = []
        elif name in _NEUTRAL or name in _ARTICLES:
            continue
        elif name in _ENDING or name in _JOINING or is_empty(name) or name in _NO_LIMITS:
            before = []
            limited = None
        else:
            if name not in _VAGUE_HEADS:
                limits_by_noun[name] = limits_by_noun.get(name, frozenset()).union(before)
            if limited is not None:
                limits_by_noun[limited] = limits_by_noun.get(limited, frozenset()) | {name}
            before.append(name)
    return limits_by_noun


@lru_cache(4_096)
def things(text: str) -> tuple[str, ...]:
    """The things that a text names, each once."""
    named = {name for name in _names(words(text)) if _is_thing(name)}
    return tuple(sorted(named))


@lru_cache(4_096)
def all_words(*texts: str) -> tuple[str, ...]:
    """The words of texts, those for one thing alike."""
    return tuple(name for text in texts for name in _names(words(text)))


def _names(said: Sequence[str]) -> Iterator[str]:
    """The words of a text, where names of one thing are replaced by the first of them."""
    place = 0
    while place < len(said):
        for size in range(min(_MOST_WORDS, len(said) - place), 0, -1):
            phrase = " ".join(said[place : place + size])
            name = _things_by_name().get(phrase)
            if name is not None:
                break
        else:
            size = 1
            name = said[place]
        yield name
        place += size


@cache
def _things_by_name() -> dict[str, str]:
    """The first name of a thing by each of its names."""
    return {
        " ".join(words(name)): names[0].strip()
        for names in (line.split("|") for line in _LISTS["same"])
        for name in names
    }


def _is_thing(name: str) -> bool:
    if name in _things_by_name().values():
        return True
    if len(name) < _SHORTEST_THING or name[0].isdigit() or name.endswith("ly"):
        return False
    is_word = name != _SUBJECT and not is_empty(name)
    return is_word and name not in _no_things() and _stem(name) not in _stems_of_relations()


@cache
def _audiences() -> frozenset[str]:
    """Words for whom a thing is, which tell it from others only where it is for others."""
    return frozenset(_LISTS["audiences"])


@cache
def _no_things() -> frozenset[str]:
    """The words that name nothing by themselves."""
    return frozenset(words(" ".join(_LISTS["generic"])))


@cache
def _stems_of_relations() -> frozenset[str]:
    """The stems of the words with which relations are asked for."""
    return frozenset(
        _stem(word)
        for relation in built_in()
        for group in relation.groups
        for text in group
        for word in words(text)
    )


def _stem(word: str) -> str:
    return word[:_LONGEST_STEM]


def _is_among(thing: str, others: Iterable[str]) -> bool:
    return any(_is_same(thing, other) for other in others)


def _is_same(one: str, other: str) -> bool:
    """Whether two words are forms of one, "drums" and "drummer", or one is a typing error."""
    if one == other:
        return True
    shorter, longer = sorted((_singular(one), _singular(other)), key=len)
    if len(shorter) < _SHORTEST_STEM or len(longer) - len(shorter) > _LONGEST_ENDING:
        return shorter == longer
    if longer.startswith(shorter[:_LONGEST_STEM]):
        return True
    return len(shorter) >= _LONGEST_STEM and _is_typo(shorter, longer)


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > _SHORTEST_STEM else word


def _is_typo(shorter: str, longer: str) -> bool:
    """Whether one letter is wrong, missing or too much, or two are swapped."""
    if len(longer) - len(shorter) > 1:
        return False
    start = 0
    while start < len(shorter) and shorter[start] == longer[start]:
        start += 1
    if len(longer) > len(shorter):
        return shorter[start:] == longer[start + 1 :]
    if shorter[start + 1 :] == longer[start + 1 :]:
        return True
    swapped = shorter[start : start + 2] == longer[start : start + 2][::-1]
    return swapped and shorter[start + 2 :] == longer[start + 2 :]
