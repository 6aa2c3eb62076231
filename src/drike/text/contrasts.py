"""Whether a question is about a sister of what a fact is about: the bus and not the train.

Question and fact then say nearly the same, so that no nearness of texts tells them apart. Rules by
words do: both limit one noun, each by something else ("the medical school", "the law school"); they
name two of a list ("first", "second"), two numbers of one kind ("year 9", "year 11"), a word and
its negation ("arranged", "unarranged") or two posts ("chief engineer", "chief executive").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from drike.text.relation_words import ExclusiveRelations, is_empty, word_set
from drike.text.things import SUBJECT, Said, is_named, names_of_things, no_things, said
from drike.text.word_lists import data_sections
from drike.text.words import words

_LISTS = data_sections("text/contrasts.txt")
_ARTICLES = word_set("articles")
_NEUTRAL = word_set("neutral")
# Behind these a noun begins, with the words that limit it.
_BEFORE_NOUNS = word_set("before nouns")
_BEFORE_LIMITS = word_set("before limits of nouns")
_OTHER_WORDS = word_set("between nouns")
_VAGUE = word_set("vague heads").union(("number", "hours", "time", "address", "code", "cost"))
# Words that name nothing by themselves, but tell one thing from another.
_COUNTED = frozenset(
    (
        *("first", "second", "third", "last", "new", "old", "small", "medium", "large"),
        *("team", "group", "weekday", "weekend", "morning", "evening", "night"),
    )
)
# Neutral words that say which of several a thing is: "the main library", no other one.
_PLAIN = frozenset(("main", "central", "general", "normal", "standard", "regular", "ordinary"))
_NO_LIMITS = frozenset(("board", "department", "departments"))
# Where "first" and "last" count nothing.
_NOT_COUNTED = re.compile(
    r"\b(?:first of all|at (?:first|last)|(?:first|last) (?:names?|time|aid)|second hand"
    r"|last (?:night|week|month|year|summer|winter|spring|autumn|season|quarter|\w+day))\b"
)
_NUMBERED = re.compile(
    rf"\b(?P<noun>{'|'.join(' '.join(_LISTS['numbered']).split())})s? (?:no\.? ?|number )?"
    r"(?P<number>\d{1,3})\b(?![.,:]\d)"
)
# The ends of a time, as they are asked for and stated.
_ASKS_END = re.compile(r"\b(?:until|till|up to) (?:when|what time|which hour)\b|\bhow late\b")
_ASKS_BEGINNING = re.compile(r"\b(?:from|since) (?:when|what time|which hour)\b|\bhow early\b")
_STATES_BEGINNING = re.compile(r"\b(?:from|(?:begin|open|start)s?(?: at| from)?)\W*$")
_STATES_END = re.compile(r"\b(?:until|till|(?:end|close|finish|stop)(?:e?s)?(?: at)?)\W*$")
_AGE = re.compile(r"\b(\d{1,3})[ -]?(?:yrs?|years?)[ -](?:old|of age)\b")
_OF_AGE, _OLD = 18, 65
_BEFORE_HOLDERS = frozenset(("chief", "head", "heads", "lead", "leads", "senior", "general"))
_NEGATIONS = ("un", "non", "in")
_SHORTEST_NEGATED = 5
_SHORTEST_FIELD = 4  # letters; shorter words are fields of their own, "hr", or slips: "teh ceo"
_SHORTEST_ABBREVIATED = 4
_MOST_WORDS = 3  # of a name in a list
_LONGEST = 300  # characters of a text whose nouns are compared: in longer ones, many are limited


@dataclass(frozen=True)
class _Noun:
    """The words that limit a noun: those before it, and those behind a preposition."""

    before: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Text:
    """A text as it is compared.

    words: all names of one thing alike. typed: its words as they are. posts: what each post that it
    names is for.
    """

    words: tuple[str, ...]
    typed: frozenset[str]
    sisters: frozenset[str]
    nouns: Mapping[str, Sequence[_Noun]]
    posts: Sequence[frozenset[str]]
    numbers: Mapping[str, frozenset[str]] = field(default_factory=dict)


def asks_for_sister(
    question: str, wordings: Iterable[str], answer: str, *, translated: bool = False
) -> bool:
    """Whether a question asks for a sister of what each wording of a fact is about.

    All have "it" for the subject. answer: what the fact says; what it names is no other thing.
    translated: whether the question was, word by word, so that its posts are not compared.
    """
    return all(_is_of_sister(question, said(text), answer, translated) for text in wordings)


def _is_of_sister(question: str, wording: Said, answer: str, translated: bool) -> bool:
    asked = _read(question)
    stated = _read(wording.text)
    if _sisters().exclude(asked.sisters, stated.sisters) or _has_other_number(asked, stated):
        return True
    if _is_negated(asked.typed, stated.typed):
        return True
    if _has_other_end(question.lower(), wording.text.lower()):
        return True
    are_comparable = not (translated or wording.foreign)
    return are_comparable and _has_other_post(asked, stated, names_of_things(answer))


def limits_otherwise(question: Said, wording: Said, answer: str) -> bool:
    """Whether both have a noun that the question limits by one thing and the fact by another.

    Two such things may mean the same ("a major event", "a significant event"), so this says much
    only where a subject has many facts. answer: as above.
    """
    if question.foreign or wording.foreign:
        return False
    asked = _read(question.text)
    stated = _read(wording.text)
    of_fact = (*stated.words, *names_of_things(answer))
    return any(
        _are_limited_otherwise(places, stated.nouns[noun_of_fact], asked.words, of_fact)
        for noun, places in asked.nouns.items()
        for noun_of_fact in stated.nouns
        if is_named(noun, (noun_of_fact,))
    )


@lru_cache(1 << 15)
def _read(text: str) -> _Text:
    lowercase = text.lower()
    numbers: dict[str, frozenset[str]] = {}
    for match in _NUMBERED.finditer(lowercase):
        noun = match["noun"]
        numbers[noun] = numbers.get(noun, frozenset()) | {match["number"]}
    named = names_of_things(text)
    nouns = _nouns_in(named) if len(text) <= _LONGEST else {}
    typed = words(text)
    return _Text(named, frozenset(typed), _sisters_in(lowercase), nouns, _posts_in(typed), numbers)


# Lists


@cache
def _sisters() -> ExclusiveRelations:
    return ExclusiveRelations.of_lines(_LISTS["sisters"])


def _sisters_in(lowercase: str) -> frozenset[str]:
    """The words of a text, and its phrases that are in a list."""
    words_said = words(_NOT_COUNTED.sub(" ", lowercase))
    found = set(words_said)
    for size in range(2, _MOST_WORDS + 1):
        found.update("_".join(words_said[i : i + size]) for i in range(len(words_said) - size + 1))
    for age in _AGE.findall(lowercase):
        years = int(age)
        found.add("child" if years < _OF_AGE else "senior" if years >= _OLD else "adult")
    return frozenset(found)


# Numbers and negations


def _has_other_number(asked: _Text, stated: _Text) -> bool:
    return any(
        noun in stated.numbers and numbers.isdisjoint(stated.numbers[noun])
        for noun, numbers in asked.numbers.items()
    )


def _has_other_end(asked: str, stated: str) -> bool:
    """Whether a question is for the end of a time of which a fact says the beginning, or so."""
    if _ASKS_END.search(asked):
        return _STATES_BEGINNING.search(stated) is not None
    return _ASKS_BEGINNING.search(asked) is not None and _STATES_END.search(stated) is not None


def _is_negated(asked: Collection[str], stated: Collection[str]) -> bool:
    """Whether one text has a word of which the other has only the negation."""
    return _negates(asked, stated) or _negates(stated, asked)


def _negates(some: Collection[str], others: Collection[str]) -> bool:
    for word in some:
        for negation in _NEGATIONS:
            positive = word.removeprefix(negation)
            if positive == word or len(positive) < _SHORTEST_NEGATED or "not" in others:
                continue
            if positive in others and positive not in some and word not in others:
                return True
    return False


# Posts


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(" ".join(_LISTS[name]).split())


@cache
def _fields() -> dict[str, str]:
    """The first name of a field by each of its names."""
    return {
        name: names.split()[0]
        for line in _LISTS["fields"]
        for names in line.split("|")
        for name in names.split()
    }


def _posts_in(words_said: Sequence[str]) -> list[frozenset[str]]:
    """What each post that a text names is for: its words but those for any post."""
    posts: list[frozenset[str]] = []
    place = 0
    while place < len(words_said):
        if (
            words_said[place] in _listed("holding")
            and place
            and words_said[place - 1] in ("who", "person")
        ):
            stop = _end_of_noun(words_said, place + 1)
            posts.append(_field(words_said[place + 1 : stop]))
        elif words_said[place] in _listed("posts"):
            start = _start_of_noun(words_said, place)
            stop = _end_of_post(words_said, place)
            posts.append(_field([*words_said[start:stop], *_behind_of(words_said, stop)]))
            place = stop - 1
        place += 1
    return posts


def _start_of_noun(words_said: Sequence[str], place: int) -> int:
    while place and not _ends_noun(words_said[place - 1]):
        place -= 1
    return place


def _end_of_noun(words_said: Sequence[str], place: int) -> int:
    while place < len(words_said) and words_said[place] in _ARTICLES:
        place += 1
    while place < len(words_said) and not _ends_noun(words_said[place]):
        place += 1
    return place


def _end_of_post(words_said: Sequence[str], place: int) -> int:
    """Where a post ends: behind "chief" and "head" the word for what its holder is belongs to it.

    "What is the manager called?" has no such word.
    """
    while words_said[place] in _BEFORE_HOLDERS and place + 1 < len(words_said):
        behind = words_said[place + 1]
        if _ends_noun(behind) or behind.endswith("ed"):
            break
        place += 1
    return place + 1


def _behind_of(words_said: Sequence[str], stop: int) -> Sequence[str]:
    """The noun behind "of", "for" or "in", which says what a post is for.

    Behind "the director of the hotel it" it only says what the subject is.
    """
    if stop >= len(words_said) or words_said[stop] not in ("of", "for", "in", "at"):
        return ()
    end = _end_of_noun(words_said, stop + 1)
    is_of_subject = end < len(words_said) and words_said[end] == SUBJECT
    return () if is_of_subject else words_said[stop + 1 : end]


def _ends_noun(word: str) -> bool:
    return word == SUBJECT or is_empty(word) or word in _BEFORE_NOUNS or word in _OTHER_WORDS


def _field(words_said: Sequence[str]) -> frozenset[str]:
    organisations = word_set("organisations") | word_set("kinds of organisations")
    no_field = _listed("posts") | _listed("of any post") | organisations | _ARTICLES | _NEUTRAL
    no_field |= no_things() | {SUBJECT}
    named = " ".join(_fields().get(word, word) for word in words_said if word not in no_field)
    return frozenset(
        name
        for name in names_of_things(named)
        if not is_empty(name) and (len(name) >= _SHORTEST_FIELD or name in _fields())
    )


def _has_other_post(asked: _Text, stated: _Text, answer: Sequence[str]) -> bool:
    """Whether a question names posts, and none of them is one that a fact names."""
    if not asked.posts or not stated.posts:
        return False
    deputies = _listed("deputies")
    others = frozenset[str]().union(*stated.posts)
    all_of_fact = [*others, *stated.words, *answer]
    for post in asked.posts:
        is_deputy = not deputies.isdisjoint(post)
        if is_deputy and deputies.isdisjoint(others):
            continue
        if not post or any(is_named(word, all_of_fact) for word in post):
            return False
    return True


# Nouns and what limits them


def _nouns_in(words_said: Sequence[str]) -> dict[str, list[_Noun]]:
    """The nouns of a text, each the last word of some, with what limits it at each place.

    Also some verbs, which what they are done to limits: "insures bicycles".
    """
    nouns: dict[str, list[_Noun]] = {}
    for place, word in enumerate(words_said):
        if word in _listed("verbs"):
            handled = frozenset(words_said[place + 1 : _end_of_limits(words_said, place + 1)])
            nouns.setdefault(word, []).append(_Noun(behind=handled - _ARTICLES))
            continue
        is_last = place + 1 == len(words_said) or _bounds(words_said[place + 1])
        if not is_last or _bounds(word) or word in _VAGUE:
            continue
        start = place
        while start and not _bounds(words_said[start - 1]):
            start -= 1
        is_noun = start == 0 or words_said[start - 1] in _BEFORE_NOUNS | _ARTICLES
        before = frozenset(words_said[start:place]) if is_noun else frozenset[str]()
        nouns.setdefault(word, []).append(_Noun(before, _limits_behind(words_said, place + 1)))
    return nouns


def _limits_behind(words_said: Sequence[str], place: int) -> frozenset[str]:
    if place >= len(words_said) or words_said[place] not in _BEFORE_LIMITS:
        return frozenset()
    stop = _end_of_limits(words_said, place + 1)
    return frozenset(words_said[place + 1 : stop]) - _ARTICLES


def _end_of_limits(words_said: Sequence[str], place: int) -> int:
    """Where the words end from a place on that limit a noun, behind articles."""
    while place < len(words_said) and words_said[place] in _ARTICLES:
        place += 1
    while place < len(words_said) and not _bounds(words_said[place]):
        place += 1
    return place


def _bounds(word: str) -> bool:
    if word in _PLAIN:
        return False
    is_other = word in _OTHER_WORDS or word in _BEFORE_NOUNS or word in _ARTICLES
    return is_other or word == SUBJECT or is_empty(word)


def _are_limited_otherwise(
    asked: Sequence[_Noun],
    stated: Sequence[_Noun],
    words_asked: Sequence[str],
    words_stated: Sequence[str],
) -> bool:
    before = any(_others(noun.before, words_stated) for noun in asked)
    behind = any(_others(noun.behind, words_stated) for noun in asked)
    return (before and any(_others(noun.before, words_asked) for noun in stated)) or (
        behind and any(_others(noun.behind, words_asked) for noun in stated)
    )


def _others(limits: Iterable[str], words_said: Sequence[str]) -> list[str]:
    """The limits that none of some words names."""
    return [
        limit
        for limit in limits
        if (limit in _COUNTED | _PLAIN or limit not in _NEUTRAL | no_things() | _NO_LIMITS)
        and not is_named(limit, words_said)
        and not any(is_abbreviated(limit, word) for word in words_said)
    ]


def is_abbreviated(one: str, other: str) -> bool:
    """Whether one of two words is the other without some of its letters: "mthly"."""
    short, long = sorted((one, other), key=len)
    if len(short) < _SHORTEST_ABBREVIATED or (short[0], short[-1]) != (long[0], long[-1]):
        return False
    letters = iter(long)
    return all(letter in letters for letter in short)
