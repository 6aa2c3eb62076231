"""What a question for yes or no asks about: "Does the pharmacy stock pens?" is not its hours.

A fact answers such a question if it says what is asked, or how much: "Is it open until eight?".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from drike.text.question_forms import is_open
from drike.text.relation_words import is_empty, stem, word_set
from drike.text.things import SUBJECT, names_of_things, no_things
from drike.text.value_kinds import kinds_of_value
from drike.text.word_lists import data_sections, demonyms
from drike.text.words import words

_LONGEST = 300  # characters of a question that is read
_CLOSED = re.compile(
    r"\W*(?:(?:and|so|but|or|ok|okay|hi|hello|hey|please|also|btw|then)\W+)*"
    r"(?:is|are|am|was|were|do|does|did|can|could|may|might|will|would|should|must|has|have)\b"
    r"(?! (?:you|i) (?:know|tell|say|remind|ask|please))"
    # Word by word from languages in which the verb is no first word: "¿it has a pool?".
    r"|\W*(?:it|there) (?:is|are|has|have|can|does)\b.*\?\W*$",
    re.I,
)
_EXISTING = re.compile(
    r"\W*(?:(?:and|so|but|or|ok|okay|hi|hello|hey|please|also|btw|then)\W+)*"
    r"(?:(?:is|are) there|have you got|(?:do|does) (?:you|they|it) (?:have|charge|give|offer)"
    r"|do we (?:have|get))\b(?P<thing>(?:\W+[\w-]+){0,3})",
    re.I,
)
_SHORTEST_WORD = 3
_MEASURED = ("clock", "date", "period", "money", "share", "number")
_TIME_OF_DAY = re.compile(
    r"\b(?:mornings?|afternoons?|evenings?|nights?|noon|late|early|weekends?|holidays?|today|tomorrow)\b",
    re.I,
)
_CAPITAL = re.compile(r"(?<=\S )[A-Z]\w+")


def asks_for_existing(question: str, things: Collection[str]) -> bool:
    """Whether a question asks for one of some things by whether it is there.

    "Is there a number that I can call?" asks for a number.
    """
    existing = _EXISTING.match(question[:_LONGEST])
    return existing is not None and not set(words(existing["thing"])).isdisjoint(things)


@lru_cache(4_096)
def is_closed(question: str) -> bool:
    """Whether a question in English asks for yes or no."""
    question = question[:_LONGEST]
    return _CLOSED.match(question) is not None and not is_open(question)


def asks_beyond(
    question: str, wordings: Iterable[str], stems_of_fact: Collection[str], answer: str
) -> bool:
    """Whether a question for yes or no asks for something that a fact does not say.

    wordings: the fact's. stems_of_fact: of the words by which people ask for it. A question with a
    value of the answer's kind, or with another name, may well check the answer.
    """
    measures = kinds_of_value(question).intersection(_MEASURED) or _TIME_OF_DAY.search(question)
    if measures and not kinds_of_value(answer).isdisjoint(_MEASURED):
        return False
    own = (
        word
        for text in (*wordings, answer)
        for name in names_of_things(text)
        for word in name.split()
    )
    known = {*stems_of_fact, *map(stem, own)}
    return any(stem(word) not in known for word in _telling(question))


@lru_cache(4_096)
def _telling(question: str) -> tuple[str, ...]:
    """The words of a question that say what it is about; no names."""
    names = {name.lower() for name in _CAPITAL.findall(question)}
    said = names_of_things(question[:_LONGEST])
    return tuple(
        word
        for name in said
        for word in name.split()
        if len(word) >= _SHORTEST_WORD
        and word != SUBJECT
        and word not in names
        and not word[0].isdigit()
        and not is_empty(word)
        and word not in no_things()
        and word not in _checking()
        and word not in demonyms()
    )


@lru_cache(1)
def _checking() -> frozenset[str]:
    """Words by which a question compares, or makes sure: "is it cheaper", "is it true that"."""
    lists = data_sections("text/things.txt")
    listed = " ".join([*lists["checking"], *lists["joining"], *lists["ending"]]).split()
    return word_set("neutral") | word_set("limits") | word_set("organisations") | {*listed}
