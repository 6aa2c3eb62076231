"""Whether a question narrows down what a fact says: "the key deposit" is not any deposit.

A fact that says no limit of a noun says nothing of a limited one, unless the limit is in its
answer or its subject, or changes nothing ("the current deposit", "the hotel's deposit").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from drike.text.closed_questions import is_closed
from drike.text.contrasts import is_abbreviated
from drike.text.relation_words import is_empty, stem, stems, synonyms, word_set
from drike.text.things import SUBJECT, Said, is_named, names_of_things, no_things
from drike.text.word_lists import data_sections

_LONGEST = 150  # characters of a question that is read
_LISTS = data_sections("text/narrowing.txt")
_ARTICLES = word_set("articles")
_BEFORE_NOUNS = word_set("before nouns")
_BETWEEN_NOUNS = word_set("between nouns")
_CLAUSE_ENDS = re.compile(r"[,;:.!?\n]+(?=\s|$)")
_OF_SUBJECT = frozenset(("its", "s"))
_LEAST_LETTERS = 2  # of a word that limits a noun


class _Limited(NamedTuple):
    """A noun of a question with the words before it and behind it that limit it."""

    noun: str
    before: tuple[str, ...]
    behind: tuple[str, ...]
    periods: frozenset[str] = frozenset()


def narrows(
    question: Said, wording: Said, answer: str, words_of_attribute: Collection[str]
) -> bool:
    """Whether a question limits a noun of a fact by what the fact does not name.

    Both have "it" for the subject. answer: what the fact says, and of what.
    words_of_attribute: those by which the question asks for the attribute that the fact is about,
    any of which may stand for its noun: "the setup fee" of what a plan costs.
    """
    are_compared = not question.foreign and not wording.foreign and not is_closed(question.text)
    if not are_compared or len(question.text) > _LONGEST:
        return False
    attribute = tuple(name for word in words_of_attribute for name in names_of_things(word))
    of_fact = (*names_of_things(wording.text), *names_of_things(answer), *attribute)
    stems_of_fact = stems(of_fact)
    known = stems_of_fact | synonyms(stems_of_fact)
    for limited in _limited_nouns(question.text):
        is_shared = limited.noun in attribute or is_named(limited.noun, of_fact)
        if not is_shared and limited.noun not in _listed("prices"):
            continue
        if not all(_is_known(limit, of_fact, known) for limit in limited.before):
            return True
        if _is_of_other_period(limited.periods, of_fact):
            return True
        # Of what follows one word is enough: "the fee for learning pottery".
        if limited.behind and not any(_is_known(word, of_fact, known) for word in limited.behind):
            return True
    return False


def _is_known(limit: str, of_fact: Sequence[str], stems_of_fact: Collection[str]) -> bool:
    """Whether a fact says a limit, in any form or under another name."""
    if stem(limit) in stems_of_fact or is_named(limit, of_fact):
        return True
    return any(is_abbreviated(limit, word) for word in of_fact)


@lru_cache(4_096)
def _limited_nouns(question: str) -> tuple[_Limited, ...]:
    """The nouns of a question that words limit which change what is asked for."""
    clauses = list(filter(None, map(names_of_things, _CLAUSE_ENDS.split(question))))
    is_one = len(clauses) == 1
    return tuple(
        limited for clause in clauses for limited in _limited_nouns_in(clause, is_all=is_one)
    )


def _limited_nouns_in(said: Sequence[str], *, is_all: bool) -> Iterator[_Limited]:
    """The limited nouns of a clause. is_all: whether it is the question, which may be one noun."""
    for place, noun in enumerate(said):
        if noun in _listed("prices") and place + 1 < len(said):
            people = _people_behind(said, place + 1)
            if people:
                yield _Limited(noun, (), people)
                continue
        is_last = place + 1 == len(said) or _bounds(said[place + 1])
        if not is_last or _bounds(noun) or noun in _neutral() or noun.endswith("ed"):
            continue
        start = place
        while start and not _bounds(said[start - 1]):
            start -= 1
        if said[start - 1] not in _determiners() if start else not is_all:
            continue
        before = tuple(filter(_is_limit, said[start:place]))
        behind = tuple(filter(_is_limit_behind, _words_behind(said, place + 1)))
        if not behind and said[place + 2 : place + 3] == (SUBJECT,) and place + 3 < len(said):
            behind = _limits_behind_subject(said, place + 3)
        periods = _periods_in(said[start:place])
        if before or behind or periods:
            yield _Limited(noun, before, behind, periods)


def _is_of_other_period(periods: Collection[str], of_fact: Sequence[str]) -> bool:
    """Whether a noun is limited by a period, and a fact is of others: the yearly price."""
    of_fact_periods = _periods_in(of_fact)
    return bool(periods and of_fact_periods) and of_fact_periods.isdisjoint(periods)


def _periods_in(said: Sequence[str]) -> frozenset[str]:
    return frozenset(_periods()[word] for word in said if word in _periods())


@cache
def _periods() -> dict[str, str]:
    """The first name of a period by each of its names."""
    return {name: line.split()[0] for line in _LISTS["periods"] for name in line.split()}


def _limits_behind_subject(said: Sequence[str], place: int) -> tuple[str, ...]:
    """What limits the noun before "of it": "the fee of it for children", "... during probation"."""
    if said[place] == "during":
        return tuple(filter(_is_limit_behind, _words_behind(said, place)))
    return _people_behind(said, place)


def _people_behind(said: Sequence[str], place: int) -> tuple[str, ...]:
    """For whom something costs what is asked: "what does it cost for students"."""
    words_behind = _words_behind(said, place) if said[place] == "for" else ()
    return tuple(word for word in words_behind if word in _listed("people"))


def _words_behind(said: Sequence[str], place: int) -> Sequence[str]:
    """The noun behind "of" or "for" at a place; none if it is the subject's or one of several."""
    if place >= len(said) or said[place] not in _listed("joining"):
        return ()
    start = place + 1
    while start < len(said) and said[start] in _determiners():
        if said[start] in _OF_SUBJECT:
            return ()
        start += 1
    stop = start
    while stop < len(said) and not _bounds(said[stop]):
        stop += 1
    goes_on = stop < len(said) and said[stop] in (SUBJECT, "and", "or")
    return () if goes_on else said[start:stop]


def _is_limit(word: str) -> bool:
    return _is_limit_behind(word) and word not in _kinds_of_subjects()


def _is_limit_behind(word: str) -> bool:
    """Whether a word limits what it stands behind: "the number of the hotel" is not the spa's."""
    if len(word) < _LEAST_LETTERS or any(map(str.isdigit, word)) or word.endswith("est"):
        return False
    return word not in _neutral() and (word not in no_things() or word.endswith("ing"))


def _bounds(word: str) -> bool:
    if word in _listed("limiting"):
        return False
    is_other = word in _BETWEEN_NOUNS or word in _BEFORE_NOUNS or word in _listed("verbs")
    return is_other or word in _ARTICLES or word == SUBJECT or is_empty(word)


@cache
def _neutral() -> frozenset[str]:
    """Words that limit no noun, but say the same of it, or nothing."""
    return word_set("neutral") | word_set("vague heads") | _listed("neutral")


@cache
def _kinds_of_subjects() -> frozenset[str]:
    """Words for what the subject itself may be: "the hotel price"."""
    return word_set("organisations") | word_set("kinds of organisations")


@cache
def _determiners() -> frozenset[str]:
    return _ARTICLES | _listed("determiners")


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(" ".join(_LISTS[name]).split())
