"""Objects of several parts: lists, policies and yes or no with conditions.

Which of the parts of an object does an answer give? A list has its items, in any order; a policy
has conditions, each present by its quantities and by most of its telling words. An answer that
gives all of them states the object, one that gives some states it partly.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from drike.answers.amounts import Amount, amounts
from drike.answers.bounds import bounds_of, split_bounds
from drike.answers.denials import agrees, behind_politeness, said_not
from drike.answers.number_words import spelled_in_digits
from drike.answers.permissions import (
    allows,
    forbids,
    rules_on_permission,
    sentences,
    without_permission,
)
from drike.answers.quantities import BoundedAmount, bounded, is_same_bounded, reader_of
from drike.text.relation_words import stem, telling_words

_SEPARATOR = re.compile(
    r"\s*[,;\n]\s*(?:(?:and|und|y|et|as well as|plus)\s+)?|\s+(?:and|und|y|et|as well as|plus)\s+"
)
_MOST_ITEM_WORDS = 4
_CERTAIN = 3  # items that no single name has
_LEAST_POLICY = 4  # words
_CONDITION = re.compile(
    r"\s*[,;]\s*(?:and\s+)?|\s+(?=(?:if|unless|provided|when|while|except|only|with|without|wenn"
    r"|sofern|außer|mit|ohne)\b)|(?<=[.!?])\s+|\s+and\s+(?=(?:in|with|on|by|at|only|if)\b)",
    re.IGNORECASE,
)
# What a policy has and a long name has not.
_CUE = re.compile(
    r"\b(?:no|not|never|always|only|if|unless|must|may|can|cannot|should|will|is|are|has|have|within"
    r"|when|except|before|after|up to|at least|at most|required|allowed|permitted|free|wenn|nur"
    r"|nicht|kein\w*|muss|müssen|darf|dürfen|ist|sind)\b",
    re.IGNORECASE,
)
_LEAST_ABOUT = 0.4  # of the telling words of a question in a sentence about it
_PRESENT = 0.6  # of the telling words of a condition that is there
_YES_OR_NO = re.compile(r"\s*(?P<yes>yes|ja|sí|oui)\b|\s*(?P<no>no|nein|non)\b(?!\.\s*\d)", re.I)
_NO_MATTER = re.compile(r"no (?:problem|worries|doubt|matter|one|longer)\b", re.IGNORECASE)
_NEGATED = re.compile(
    r"\b(?:not|never|no|cannot|without|nicht|kein\w*|nie|pas|jamais|nunca)\b|n't\b", re.IGNORECASE
)
_NOT = frozenset(("not", "no", "never", "without", "nicht", "kein", "keine"))
_WORD = re.compile(r"[^\W\d_]+(?:'t\b)?")
# "Thursdays from 17:00 to 20:30"
_TIME_ON_DAY = re.compile(
    r"(?:on |am )?(?P<day>[^\W\d_]*(?:day|tag|woch)s?),? (?:(?:from|at|von|um|ab) )?(?P<time>\d.*)",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|an?|der|die|das|la|le|les|el|los|las) (?=\w)", re.IGNORECASE)
_OF_CLAUSES = frozenset(
    ("no", "not", "only", "if", "unless", "must", "may", "can", "is", "are", "of", "for")
)
_BOUNDS = frozenset(  # what `quantities` reads, and what joins conditions
    "within if unless provided when while except only with without up to most least than more less,"
    "no not must may can will maximum minimum and or".replace(",", " ").split()
)
_NEAR = 3  # words behind a "not"


class PartsGiven(IntEnum):
    """How much of an object an answer gives."""

    NONE = 0
    SOME = 1
    ALL = 2


@dataclass(frozen=True)
class Content:
    """What an object of several parts says. says: yes or no, if it begins with that."""

    items: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    says: str = ""

    @property
    def is_certain_list(self) -> bool:
        """Whether its items are so many, or such, that it is not one name."""
        return len(self.items) >= _CERTAIN or any(map(reader_of, self.items))


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def content_of(name: str) -> Content | None:
    """What an object of this name says; None if it is one thing."""
    if reader_of(name):
        return None
    said = _YES_OR_NO.match(name)
    if said:
        rest = name[said.end() :].strip(" ,.;:–—-")
        conditions = _conditions(rest) if rest else ()
        return Content(conditions=conditions, says="yes" if said["yes"] else "no")
    on_day = _TIME_ON_DAY.fullmatch(name.strip(" ."))
    if on_day and reader_of(on_day["time"]):
        return Content(items=(on_day["day"], on_day["time"]))
    bounds = bounds_of(name)
    if bounds:
        return Content(conditions=bounds)
    items = tuple(item for item in _SEPARATOR.split(name.strip(" .")) if item)
    if _are_items(items):
        return Content(items=items)
    return Content(conditions=_conditions(name)) if _is_policy(name) else None


def _is_policy(name: str) -> bool:
    """Whether a text is a sentence or so, and not a long name."""
    if len(name.split()) < _LEAST_POLICY or len(_stems(name)) < 2:
        return False
    has_unit = any(not amount.is_counted for amount in amounts(spelled_in_digits(name)))
    return has_unit or _CUE.search(name) is not None


def _are_items(items: Sequence[str]) -> bool:
    """Whether the parts of a text are items of a list, and not of one name or a sentence."""
    if len(items) < 2 or any(map(_is_clause, items)):
        return False
    is_short = all(len(item.split()) <= _MOST_ITEM_WORDS for item in items)
    named = [_ARTICLE.sub("", item) for item in items]
    has_capital = {item[0].isupper() for item in named if not item[0].isdigit()}
    return is_short and len(has_capital) <= 1


def _is_clause(item: str) -> bool:
    """Whether an item is a part of a sentence or of a name, or a mere number."""
    return item.isdigit() or not _OF_CLAUSES.isdisjoint(item.lower().split())


def _conditions(text: str) -> tuple[str, ...]:
    parts = (part.strip(" .") for part in _CONDITION.split(text))
    return tuple(part for part in parts if _stems(part) or amounts(spelled_in_digits(part)))


def polarity(answer: str) -> str:
    """Whether an answer begins with yes or no; else ""."""
    said = behind_politeness(answer)
    if said_not(said):
        return "no"
    match = _YES_OR_NO.match(said)
    if match and not _NO_MATTER.match(said):
        return "yes" if match["yes"] else "no"
    return "yes" if agrees(said) else ""


def is_negated(answer: str) -> bool:
    """Whether an answer denies something."""
    return _NEGATED.search(answer) is not None


def share_of_items(
    items: Sequence[str], states: Callable[[str], bool]
) -> tuple[PartsGiven, set[str]]:
    """How many of a list's items an answer states, and which."""
    stated = {item for item in items if states(item)}
    if len(stated) == len(items):
        return PartsGiven.ALL, stated
    return PartsGiven.SOME if stated else PartsGiven.NONE, stated


@dataclass(frozen=True)
class AnswerContent:
    """An answer as policies are looked for in it.

    negated: the stems that it denies. asked: the words of the question. known: the stems that the
    question and the names of the subject give.
    """

    stems: frozenset[str]
    negated: frozenset[str]
    amounts: tuple[BoundedAmount, ...]
    asked: frozenset[str]
    known: frozenset[str]
    sentences: tuple[tuple[str, frozenset[str]], ...]  # each with its stems

    @classmethod
    def of(cls, answer: str, question: str, about: Iterable[str]) -> "AnswerContent":
        """Read an answer."""
        text = spelled_in_digits(answer)
        known = _stems(" ".join([question, *about]))
        asked = frozenset(word.lower() for word in _WORD.findall(question))
        own_sentences = tuple((part, _stems(part)) for part in sentences(text))
        return cls(
            _stems(text),
            _negated_stems(text),
            tuple(split_bounds(text, _bounded_amounts(text))),
            asked,
            known,
            own_sentences,
        )

    def share_of(self, conditions: Sequence[str]) -> PartsGiven:
        """How many of a policy's conditions it gives; none if it contradicts one."""
        present = 0
        own_by_condition = [_bounded_amounts(spelled_in_digits(text)) for text in conditions]
        all_own = [own for owns in own_by_condition for own in owns]
        others = [other for other in self.amounts if not self._is_one_of(other, all_own)]
        for condition, owns in zip(conditions, own_by_condition, strict=True):
            missing = [own for own in owns if not self._gives(own)]
            if any(self._contradicts(own, others) for own in missing):
                return PartsGiven.NONE
            present += not missing and self._has_words(condition)
        if present == len(conditions):
            return PartsGiven.ALL
        return PartsGiven.SOME if present else PartsGiven.NONE

    def _gives(self, own: BoundedAmount) -> bool:
        return any(is_same_bounded(own, other, self.asked) for other in self.amounts)

    def _is_one_of(self, other: BoundedAmount, all_own: Sequence[BoundedAmount]) -> bool:
        """Whether an amount of the answer is one of a policy's."""
        return any(is_same_bounded(own, other, self.asked) for own in all_own)

    def _contradicts(self, bounded_amount: BoundedAmount, others: Iterable[BoundedAmount]) -> bool:
        """Whether one of these, which are none of the policy's, is of the kind of its amount."""
        own = bounded_amount.amount
        kinds = {dimension for dimension, _ in own.readings}
        kind = (own.by, own.nouns[:1])
        for other in (bounded_other.amount for bounded_other in others):
            kinds_of_other = {dimension for dimension, _ in other.readings}
            if kinds & kinds_of_other and kind == (other.by, other.nouns[:1]):
                return True
        return False

    def _has_words(self, condition: str) -> bool:
        """Whether most telling words of a condition are there, denied if it denies them."""
        text = spelled_in_digits(condition)
        units = {stem(word) for amount in amounts(text) for word in _words_of(text, amount)}
        rules = rules_on_permission(text)
        if rules:
            text = without_permission(text)
        own = _stems(text) - units
        wanted = own - self.known or own
        if rules and self._forbids(own) != forbids(condition):
            return False
        if not wanted:
            return bool(units)
        denied = _negated_stems(text)
        there = {word for word in wanted if self._has(word, word in denied)}
        against = {word for word in wanted & self.stems if self._is_against(word, word in denied)}
        return not against and len(there) >= _PRESENT * len(wanted)

    def _forbids(self, stems: frozenset[str]) -> bool | None:
        """Whether what it says of these stems forbids something; None if it does not say."""
        about = [text for text, of_sentence in self.sentences if stems & of_sentence]
        if any(map(forbids, about)):
            return True
        return False if any(map(allows, about)) else None

    @property
    def permission(self) -> str:
        """Yes or no, where its first sentence about what was asked allows or forbids it."""
        for text, stems in self.sentences:
            if self.known and len(stems & self.known) >= _LEAST_ABOUT * len(self.known):
                return "no" if forbids(text) else "yes" if allows(text) else ""
        return ""

    def _has(self, word: str, is_denied: bool) -> bool:
        if word in self.stems:
            return (word in self.negated) == is_denied
        opposite = word.removeprefix("un") if word.startswith("un") else ""
        return any(len(opposite) > 2 and denied.startswith(opposite) for denied in self.negated)

    def _is_against(self, word: str, is_denied: bool) -> bool:
        return (word in self.negated) != is_denied


def _bounded_amounts(text: str) -> list[BoundedAmount]:
    return [bounded(text, amount) for amount in amounts(text)]


def _words_of(text: str, amount: Amount) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[amount.begin : amount.end])]


def _stems(text: str) -> frozenset[str]:
    """The stems of the words of a text that tell something."""
    words = telling_words(text.lower())
    return frozenset(stem(word) for word in words if word.isalpha() and word not in _BOUNDS)


def _negated_stems(text: str) -> frozenset[str]:
    """The stems that stand shortly behind a "not"."""
    stems: set[str] = set()
    left = 0
    for match in re.finditer(r"[^\W\d_]+(?:'t\b)?|[.,;:!?]", text.lower()):
        word = match[0]
        if word in _NOT or word.endswith("'t"):
            left = _NEAR
        elif not word[0].isalpha() or word in ("only", "but", "and"):
            left = 0
        elif left:
            stems.add(stem(word))
            left -= 1
    return frozenset(stems)
