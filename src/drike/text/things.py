"""Which thing within a subject a text is about: the head of neurology is not that of cardiology.

Of the words of a text, those that the inventory of relations has say what is asked ("head", "runs",
"costs"), and others name a thing ("cardiology"). A question that names a thing which a fact does
not, while the fact names one which the question does not, asks for something else. So does one
that limits the same noun otherwise: the second bag is not the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from drike.text.glossary import glossed
from drike.text.relation_wordings import built_in
from drike.text.relation_words import is_empty, word_set
from drike.text.typos import one_typo
from drike.text.word_lists import data_sections
from drike.text.words import words

_LISTS = data_sections("text/things.txt")
_MOST_WORDS = 3  # of a name of a thing
SUBJECT = "it"
_SHORTEST_STEM, _LONGEST_STEM = 4, 6  # letters by which forms of a word are told from other words
_LONGEST_ENDING = 4
_SHORTEST_MISSPELT = 5
_SHORTEST_THING = 3
_MOST_BEHIND = 3  # words of a noun behind "it's"

_ARTICLES = frozenset(("the", "a", "an"))
_NUMBERS = frozenset(("one", "two", "three", "four", "five", "six", "ten"))
_OF = frozenset(("of", "for"))
_JOINING = frozenset(_LISTS["joining"][0].split())
_ENDING = word_set("asking").union(_LISTS["ending"][0].split())
_NEUTRAL = word_set("neutral")
# Nouns whose limits are what is asked for: two words for a date may well mean the same one.
_VAGUE_HEADS = word_set("vague heads").union(("number", "hours", "time", "address", "code"))


@dataclass(frozen=True)
class Said:
    """A text with "it" for its subject. foreign: the words of it that could not be translated."""

    text: str
    foreign: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ThingsInCommon:
    """Which things a question and a fact name.

    extra, missing: those that only the question, and that only the fact names. shared: those that
    both name. is_joined: whether the question joins one of `extra` to its subject, as in "the head
    of neurology at it". is_switched: whether both limit a noun, each otherwise.
    """

    extra: frozenset[str]
    missing: frozenset[str]
    shared: frozenset[str]
    is_joined: bool
    is_switched: bool

    @property
    def distance(self) -> tuple[int, int]:
        """How far apart question and fact are: first by what each says in place of the other."""
        extra, missing = len(self.extra), len(self.missing)
        return self.is_switched + min(extra, missing), extra + missing

    def outdoes(self, other: ThingsInCommon) -> bool:
        """Whether its fact has more of what the question names than another, and lacks no more."""
        if not self.shared or (self.extra and self.missing):
            return False
        if not (self.extra <= other.extra and self.shared >= other.shared):
            return False
        lacks_less = len(self.missing) < len(other.missing)
        lacks_as_much = len(self.missing) == len(other.missing)
        return lacks_less or (lacks_as_much and self.shared > other.shared)


@lru_cache(4_096)
def said(text: str) -> Said:
    """A text in English, as far as its words are known."""
    english = glossed(text)
    if english == text:
        return Said(text)
    return Said(english, frozenset(words(text)).intersection(words(english)))


def compared_things(question: Said, fact: Said, answer: str) -> ThingsInCommon:
    """The things of a question and of a fact. Foreign words count only where both have them.

    answer: what the fact says, and of what; a thing that it names is no other than the fact's.
    """
    words_of_fact = (*names_of_things(fact.text), *names_of_things(answer))
    words_of_question = names_of_things(question.text)
    things_of_question = things(question.text)
    shared = {thing for thing in things_of_question if is_named(thing, words_of_fact)}
    extra = things_of_question - shared - question.foreign
    missing = {
        thing
        for thing in things(fact.text) - fact.foreign
        if not is_named(thing, words_of_question)
    }
    if _audiences().isdisjoint(words_of_fact):
        extra -= _audiences()
    if _audiences().isdisjoint(words_of_question):
        missing -= _audiences()
    return ThingsInCommon(
        extra,
        frozenset(missing),
        frozenset(shared),
        is_joined=not extra.isdisjoint(_joined(question.text)),
        is_switched=_is_switched(question, fact, words_of_question, words_of_fact),
    )


@lru_cache(4_096)
def things(text: str) -> frozenset[str]:
    """The things that a text names."""
    return frozenset(filter(_is_thing, names_of_things(text)))


@lru_cache(4_096)
def _joined(text: str) -> frozenset[str]:
    """The words that a text joins to its subject: "the head of neurology at it", "it's library".

    They are those before a preposition with the subject, up to a word that ends a noun, and those
    behind the subject with an s.
    """
    said_words = words(text)
    joined: list[str] = []
    for place, word in enumerate(said_words):
        if word == SUBJECT:
            joined += _joined_before(said_words[:place])
            if said_words[place + 1 : place + 2] == ["s"]:
                joined += _noun_at(said_words[place + 2 : place + 2 + _MOST_BEHIND])
    return frozenset(_names(joined))


def _joined_before(before: Sequence[str]) -> Sequence[str]:
    """The words for a noun of which a text says that it is at, of or in what follows."""
    stop = len(before)
    while stop and before[stop - 1] in _ARTICLES:
        stop -= 1
    if not stop or before[stop - 1] not in _JOINING:
        return ()
    start = stop - 1
    while start and before[start - 1] not in _ENDING:
        start -= 1
    return before[start : stop - 1]


def _noun_at(behind: Sequence[str]) -> Iterator[str]:
    for word in behind:
        if word in _ENDING or word in _JOINING:
            return
        yield word


def _is_switched(
    question: Said, fact: Said, words_of_question: Sequence[str], words_of_fact: Sequence[str]
) -> bool:
    """Whether a noun of both has words before it, or behind "of", that limit it otherwise."""
    limits_of_fact = _limits_by_noun(fact.text)
    for noun, limits in _limits_by_noun(question.text).items():
        if not limits:
            continue
        extra = {
            limit
            for limit in limits - question.foreign - _NUMBERS
            if not is_named(limit, words_of_fact)
        }
        if not extra:
            continue
        for noun_of_fact, other_limits in limits_of_fact.items():
            if _is_same(noun, noun_of_fact) and any(
                not is_named(limit, words_of_question) for limit in other_limits - fact.foreign
            ):
                return True
    return False


@lru_cache(4_096)
def _limits_by_noun(text: str) -> Mapping[str, frozenset[str]]:
    """The words of a text that may be nouns, with those right before each and behind "of"."""
    limits_by_noun: dict[str, frozenset[str]] = {}
    before: list[str] = []
    limited: str | None = None  # the noun before "of", which the next words limit
    for name in names_of_things(text):
        if name in _OF and before:
            limited = before[-1]
            before = []
        elif name in _NEUTRAL or name in _ARTICLES:
            continue
        elif name in _ENDING or name in _JOINING or is_empty(name):
            limited = None
            before = []
        else:
            if name not in _VAGUE_HEADS:
                limits_by_noun[name] = limits_by_noun.get(name, frozenset()).union(before)
            if limited is not None:
                limits_by_noun[limited] = limits_by_noun.get(limited, frozenset()) | {name}
            before.append(name)
    return limits_by_noun


@lru_cache(4_096)
def names_of_things(text: str) -> tuple[str, ...]:
    """The words of a text, all names of one thing alike."""
    return tuple(_names(words(text)))


def _names(said_words: Sequence[str]) -> Iterator[str]:
    """The words, where each name of a thing is replaced by the first that it has in the list."""
    place = 0
    while place < len(said_words):
        size = min(_MOST_WORDS, len(said_words) - place)
        while size > 1 and " ".join(said_words[place : place + size]) not in _first_names():
            size -= 1
        name = " ".join(said_words[place : place + size])
        yield _first_names().get(name, name)
        place += size


@cache
def _first_names() -> dict[str, str]:
    """The first name of a thing by each of its names."""
    first_names = {}
    for line in _LISTS["same"]:
        names = [" ".join(words(name)) for name in line.split("|")]
        first_names.update(dict.fromkeys(names, names[0]))
    return first_names


@cache
def _listed() -> frozenset[str]:
    """The first names of all things that are listed."""
    return frozenset(_first_names().values())


def _is_thing(name: str) -> bool:
    if name in _listed():
        return True
    if len(name) < _SHORTEST_THING or name[0].isdigit() or name.endswith("ly"):
        return False
    is_word = name != SUBJECT and not is_empty(name)
    return is_word and name not in no_things() and _stem(name) not in _stems_of_relations()


@cache
def _audiences() -> frozenset[str]:
    """Words for whom a thing is, which tell it from others only where it is for others."""
    return frozenset(_LISTS["audiences"])


@cache
def no_things() -> frozenset[str]:
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


@lru_cache(1 << 14)
def _stem(word: str) -> str:
    """A word without its ending, as far as that is plain: "paying" is of "pay"."""
    for ending in ("ments", "ment", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_THING:
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e")[:_LONGEST_STEM]


def is_named(name: str, others: Collection[str]) -> bool:
    """Whether a word is among some, in any form."""
    if name in others:
        return True
    for other in others:  # noqa: SIM110 - this takes half the time that `any` takes
        if _is_same(name, other):
            return True
    return False


@lru_cache(1 << 15)
def _is_same(one: str, other: str) -> bool:
    """Whether two words are forms of one, "drums" and "drummer", or one is a typing error."""
    if one == other:
        return True
    shorter, longer = sorted((_singular(one), _singular(other)), key=len)
    if one[0] != other[0]:  # forms of a word begin alike, so this is most pairs' end
        are_as_long = len(longer) - len(shorter) <= 1
        return are_as_long and len(shorter) >= _SHORTEST_MISSPELT and one_typo(shorter, longer)
    if _stem(one) == _stem(other):
        return True
    if len(shorter) < _SHORTEST_STEM or len(longer) - len(shorter) > _LONGEST_ENDING:
        return shorter == longer
    if longer.startswith(shorter[:_LONGEST_STEM]):
        return True
    return len(shorter) >= _SHORTEST_MISSPELT and one_typo(shorter, longer)


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > _SHORTEST_STEM else word
