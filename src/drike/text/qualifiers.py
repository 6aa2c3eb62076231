"""What limits an attribute: the monthly price and the yearly one are two, and so are two coaches.

A wording, with "it" for the subject, names an attribute by a head ("price") and by qualifiers
before it, behind it or behind the subject ("the monthly price of it in Germany"). Wordings with the
same head and other qualifiers ask for different things, whatever else they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from drike.text.question_forms import is_open
from drike.text.relation_words import (
    OPPOSED_QUALIFIERS,
    OPPOSITES,
    contrary,
    is_empty,
    word_set,
)
from drike.text.words import words

_SUBJECT = "it"
_POSSESSIVE = ("s", "'s")
_OF = word_set("of")
_LIMITS = word_set("limits")
_NEUTRAL = word_set("neutral")
_COPULAS = word_set("copulas")
_ASKING = word_set("asking")
_VAGUE_HEADS = word_set("vague heads")
_ARTICLES = word_set("articles")
_SHORTEST_STEM = 4  # letters of a word that another one may go on
_LONGEST_SHARED_END = 3  # letters in which the beginnings of two compounds may end alike
_SAME_FROM = 0.8  # the cosine of phrases whose qualifiers mean the same (annual and yearly)


@dataclass(frozen=True)
class Attribute:
    """What a wording asks for: words for the attribute, and those that limit it.

    heads: one where a noun stands before "of it" or behind "it's"; else all words that say what is
    asked. limits: the qualifiers behind the subject, as in "of it in Germany".
    """

    heads: tuple[str, ...]
    qualifiers: tuple[str, ...]
    words: frozenset[str]
    limits: frozenset[str] = frozenset()

    @property
    def phrase(self) -> str:
        """The qualifiers before the head."""
        return " ".join((*self.qualifiers, *self.heads))


class Differences(NamedTuple):
    """The qualifiers that only one of two attributes has."""

    first: tuple[str, ...]
    second: tuple[str, ...]


def asks_for_other(first: str, second: str, nearness: Callable[[str, str], float]) -> bool:
    """Whether two wordings ask for the same kind of attribute under different limits.

    nearness: the cosine of two texts, by which "annual" is no other limit than "yearly".
    """
    one = attribute(first)
    other = attribute(second)
    differing = _differences(one, other)
    if differing is None:
        return contrary(" ".join(one.heads), " ".join(other.heads), OPPOSED_QUALIFIERS)
    if not all(differing):
        return any(differing)  # one is limited, the other is not
    if _digits(differing.first) != _digits(differing.second):
        return True
    has_vague_head = _VAGUE_HEADS.issuperset(one.heads) or _VAGUE_HEADS.issuperset(other.heads)
    are_limits = one.limits.issuperset(differing.first) and other.limits.issuperset(
        differing.second
    )
    if has_vague_head and not are_limits:
        return False
    if _are_opposed(" ".join(differing.first), " ".join(differing.second)):
        return True
    return nearness(one.phrase, other.phrase) < _SAME_FROM


def _are_opposed(first: str, second: str) -> bool:
    """Whether qualifiers exclude each other, as inner and outer do."""
    return any(contrary(first, second, kinds) for kinds in (OPPOSITES, OPPOSED_QUALIFIERS))


def _digits(texts: Iterable[str]) -> set[str]:
    return {text for text in texts if any(map(str.isdigit, text))}


def _differences(one: Attribute, other: Attribute) -> Differences | None:
    """None for attributes without a head in common."""
    shared = [
        (mine, theirs) for mine in one.heads for theirs in other.heads if _is_same(mine, theirs)
    ]
    if shared:
        return Differences(_missing(one.qualifiers, other), _missing(other.qualifiers, one))
    for mine in one.heads:
        for theirs in other.heads:
            # The head of a compound is its end: a cofounder is a founder, and not the founder.
            if mine.endswith(theirs) and len(theirs) > _SHORTEST_STEM:
                return Differences((mine.removesuffix(theirs),), ())
            if theirs.endswith(mine) and len(mine) > _SHORTEST_STEM:
                return Differences((), (theirs.removesuffix(mine),))
            opposed = _opposed_beginnings(mine, theirs)
            if opposed:
                return opposed
    return None


def _opposed_beginnings(mine: str, theirs: str) -> Differences | None:
    """The opposed beginnings of two compounds with the same end, as of Nettopreis and Bruttopreis.

    None for other words.
    """
    pairs = zip(reversed(mine), reversed(theirs), strict=False)
    common = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if common <= _SHORTEST_STEM:
        return None
    for shared in range(_LONGEST_SHARED_END + 1):  # of the beginnings: Sommer and Winter
        first = mine[: len(mine) - common + shared]
        second = theirs[: len(theirs) - common + shared]
        if _are_opposed(first, second):
            return Differences((first,), (second,))
    return None


def _missing(qualifiers: Iterable[str], other: Attribute) -> tuple[str, ...]:
    return tuple(
        qualifier
        for qualifier in qualifiers
        if not any(_is_same(qualifier, word) for word in other.words)
    )


def _is_same(one: str, other: str) -> bool:
    """Whether two words are forms of one: "coach" and "coaches", "monthly" and "month"."""
    shorter, longer = sorted((one, other), key=len)
    if shorter == longer:
        return True
    if len(shorter) < _SHORTEST_STEM:
        return False
    stem = shorter if len(shorter) <= _SHORTEST_STEM + 1 else shorter[: _SHORTEST_STEM + 1]
    return longer.startswith(stem) and len(longer) - len(shorter) <= _SHORTEST_STEM


@lru_cache(4_096)
def attribute(wording: str) -> Attribute:
    """What a wording asks for; "it" stands for its subject."""
    said = _without_genitives(words(wording))
    telling = frozenset(word for word in said if _is_telling(word))
    if _SUBJECT not in said:
        return Attribute(tuple(telling), (), telling)
    place = said.index(_SUBJECT)

    if said[place + 1 : place + 2] and said[place + 1] in _POSSESSIVE:
        noun, rest = _noun_behind(said, place + 2)
        outside = rest
        is_head_first = False
    elif place and said[place - 1] in _OF:
        noun, before = _nouns_before(said, place - 1)
        outside = _up_to_copula(said[place + 1 :])
        outside += _leading_limits(said[:before])
        is_head_first = said[place - 1] not in ("of", "von", "vom", "van", "af", "av")
    else:
        return _without_noun(said, telling, is_question=is_open(wording))
    if not noun:
        return _without_noun(said, telling, is_question=is_open(wording))

    head = noun.parts[0][0 if is_head_first else -1]
    qualifiers = [word for part in noun.parts for word in part if word != head]
    limits = [word for word in outside if _is_telling(word)]
    return Attribute((head,), _limiting([*qualifiers, *limits]), telling, frozenset(limits))


def _without_genitives(said: Sequence[str]) -> list[str]:
    """The words without the s of "women's team"; that of the subject stays."""
    kept: list[str] = []
    for word in said:
        if word not in _POSSESSIVE or kept[-1:] == [_SUBJECT]:
            kept.append(word)
    return kept


class _Noun(NamedTuple):
    """The nouns of an attribute, the head's first: "coach" and "women's team" of "it"."""

    parts: tuple[tuple[str, ...], ...]


def _noun_behind(said: Sequence[str], start: int) -> tuple[_Noun | None, list[str]]:
    """The noun behind "it's", and what follows up to a copula."""
    stop = start
    while stop < len(said) and _is_telling(said[stop]):
        stop += 1
    noun = tuple(word for word in said[start:stop])
    rest = _up_to_copula(said[stop:])
    return (_Noun((noun,)) if noun else None), rest


def _nouns_before(said: Sequence[str], of: int) -> tuple[_Noun | None, int]:
    """The nouns before "of it", and where the first of them begins."""
    parts: list[tuple[str, ...]] = []
    stop = of
    while True:
        start = stop
        while start and _is_telling(said[start - 1]):
            start -= 1
        if start < stop:
            parts.insert(0, tuple(said[start:stop]))
        while start and said[start - 1] not in _OF and _is_article(said[start - 1]):
            start -= 1
        if not (start and said[start - 1] in _OF and stop > start):
            return (_Noun(tuple(parts)) if parts else None), start
        stop = start - 1


def _without_noun(said: Sequence[str], telling: frozenset[str], *, is_question: bool) -> Attribute:
    """The attribute of a clause such as "What does it cost per month?"."""
    limits: list[list[str]] = []  # the telling words behind each preposition
    is_limit = False
    for place, word in enumerate(said):
        if word in _LIMITS:
            next_words = said[place + 1 : place + 2]
            is_limit = _SUBJECT not in next_words and not _ASKING.issuperset(next_words)
            if is_limit:
                limits.append([])
        elif word == _SUBJECT:
            is_limit = False
        elif is_limit and _is_telling(word):
            limits[-1].append(word)
    if not is_question and is_limit:
        limits.pop()  # what a statement ends with is the answer's: "it is located in the city of"
    qualifiers = [word for limit in limits for word in limit]
    heads = tuple(word for word in said if word in telling and word not in qualifiers)
    return Attribute(heads, _limiting(qualifiers), telling)


def _leading_limits(before: Sequence[str]) -> list[str]:
    """The limits with which a wording begins: "In Germany, the price ..."."""
    return list(before) if before and before[0] in _LIMITS else []


def _up_to_copula(said: Sequence[str]) -> list[str]:
    stop = next((place for place, word in enumerate(said) if word in _COPULAS), len(said))
    return list(said[:stop])


def _limiting(qualifiers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in qualifiers if word not in _NEUTRAL))


def _is_telling(word: str) -> bool:
    is_function_word = word in _OF or word in _LIMITS or word in _COPULAS or word == _SUBJECT
    return len(word) > 1 and not is_function_word and not is_empty(word)


def _is_article(word: str) -> bool:
    return word in _ARTICLES
