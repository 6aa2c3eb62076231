"""Policies in answers: which of the conditions of a stored text an answer gives.

A condition is there if its quantities are, and most of its telling words or words that say the
same, denied where it denies them. An answer that contradicts a quantity gives nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

from drike.answers.amounts import Amount, amounts, is_same
from drike.answers.bounds import split_bounds
from drike.answers.days import days_in
from drike.answers.number_words import spelled_in_digits
from drike.answers.permissions import (
    allows,
    forbids,
    is_open_question,
    rules_on_permission,
    sentences,
    without_permission,
)
from drike.answers.policy_words import (
    is_telling,
    stem,
    telling_stems,
    with_words_for_phrases,
)
from drike.answers.quantities import BoundedAmount, bounded, is_same_bounded
from drike.answers.times import TimeOfDay, times
from drike.answers.turned import (
    Clause,
    Directed,
    DirectedTime,
    clauses_in,
    directed,
    directed_times,
    is_negated,
    without_idle_denials,
)
from drike.answers.values import split_dates
from drike.answers.yes_no import says_of

_LEAST_ABOUT = 0.4  # of the telling words of a question in a sentence about it
_LEAST_OF_CORE = 0.6  # of those of them that are not of the subject
_LEAST_STATED = 0.75  # of the telling words of a question in a sentence that says yes to it
_PRESENT = 0.7  # of the telling words of a condition that is there
_PRESENT_BY_VALUES = 0.3  # of those of a condition whose quantities and dates are there
_WORD = re.compile(r"[^\W\d_]+(?:'t\b)?")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’]t\b)?|[.,;:!?\n]")
_OF_ASSISTANT = re.compile(r"\bI(?:['’]m)?\b")
_NOT = frozenset(
    (
        "not",
        "no",
        "non",
        "never",
        "without",
        "except",
        "excluding",
        "nor",
        "cannot",
        "nicht",
        "kein",
        "keine",
    )
)
# Words that deny without a "not", unless the question has them: "Is it closed?"
_SAYS_NO = re.compile(
    r"\b(?:nobody|no one|none|nothing|neither|closed|unavailable|suspended|discontinued|ended"
    r"|stopped|off|niemand|nichts|geschlossen|eingestellt)\b",
    re.IGNORECASE,
)
_DENIED_BEHIND = frozenset(("excluded", "exempt", "excepted", "ausgenommen", "ausgeschlossen"))
_ENDS_DENIAL = frozenset(("only", "but", "and", "just"))
_NEAR = 3  # telling words behind a "not"
_NEAR_BEFORE = 3  # telling words before an "isn't"


class PartsGiven(IntEnum):
    """How much of an object an answer gives."""

    NONE = 0
    SOME = 1
    ALL = 2


class Values(NamedTuple):
    """The quantities, times of day and dates of a text."""

    amounts: Sequence[BoundedAmount]
    times: Sequence[TimeOfDay]
    dates: frozenset[str]

    @property
    def total(self) -> int:
        """How many they are."""
        return len(self.amounts) + len(self.times) + len(self.dates)


@dataclass(frozen=True)
class Condition:
    """A condition of a policy. units: the stems of its quantities. denied: those it denies."""

    text: str
    amounts: tuple[BoundedAmount, ...]
    times: tuple[TimeOfDay, ...]
    dates: frozenset[str]
    units: frozenset[str]
    denied: frozenset[str]
    times_directed: frozenset[DirectedTime]

    @classmethod
    @lru_cache(maxsize=1 << 10)  # edits are judged many times
    def of(cls, condition: str) -> "Condition":
        """Read a condition."""
        text, dates = split_dates(spelled_in_digits(condition))
        directions = directed_times(text)
        text, times_of_day = split_times(text)
        negated, before = _denied_stems(text)
        own = _bounded_amounts(text)
        units = {stem(word) for each in own for word in _words_of(text, each.amount)}
        denied = negated | before
        return cls(
            text,
            tuple(own),
            times_of_day,
            frozenset(dates),
            frozenset(units),
            denied,
            directions,
        )

    @cached_property
    def direction(self) -> int:
        """Whether it holds up to its amount (1) or beyond it (-1); 0 if it does not say."""
        signs = [each.sign for each in directed(self.text, self.amounts)]
        return signs[0] if len(signs) == 1 else 0

    @cached_property
    def says_no(self) -> bool:
        """Whether it denies or forbids something."""
        return bool(self.denied) or is_negated(self.text) or forbids(self.text)

    @property
    def has_values(self) -> bool:
        """Whether it has quantities, times or dates."""
        return self.value_count > 0

    @property
    def value_count(self) -> int:
        """How many quantities, times and dates it has."""
        return len(self.amounts) + len(self.times) + len(self.dates)


@dataclass(frozen=True)
class AnswerContent:
    """An answer as policies are looked for in it.

    of_subject: the stems of the names of the subject. shared: those that both objects have, which
    tell neither.
    """

    text: str
    times: tuple[TimeOfDay, ...]
    dates: frozenset[str]
    question: str
    of_subject: frozenset[str]
    shared: frozenset[str]
    times_directed: frozenset[DirectedTime]

    @classmethod
    def of(
        cls, answer: str, question: str, about: Iterable[str], shared: frozenset[str] = frozenset()
    ) -> "AnswerContent":
        """Read an answer. What it says is read when it is first asked for."""
        text, dates = split_dates(spelled_in_digits(answer))
        directions = directed_times(text)
        text, times_of_day = split_times(text)
        of_subject = telling_stems(" ".join(about))
        return cls(text, times_of_day, frozenset(dates), question, of_subject, shared, directions)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of its telling words."""
        return telling_stems(self.text)

    @cached_property
    def asked(self) -> frozenset[str]:
        """The words of the question."""
        return frozenset(word.lower() for word in _WORD.findall(self.question))

    @cached_property
    def known(self) -> frozenset[str]:
        """The stems that the question and the names of the subject give."""
        return telling_stems(self.question) | self.of_subject

    @cached_property
    def _core(self) -> frozenset[str]:
        """The stems of the question alone."""
        return telling_stems(without_permission(self.question)) - self.of_subject

    @cached_property
    def _denied_and_before(self) -> tuple[frozenset[str], frozenset[str]]:
        return _denied_stems(self.text)

    @property
    def negated(self) -> frozenset[str]:
        """The stems behind a "not"."""
        return self._denied_and_before[0]

    @cached_property
    def denied(self) -> frozenset[str]:
        """The stems behind a "not", and those before an "isn't"."""
        behind, before = self._denied_and_before
        return behind | before

    @cached_property
    def amounts(self) -> tuple[BoundedAmount, ...]:
        """Its amounts, those of ranges with their bounds."""
        return tuple(split_bounds(self.text, _bounded_amounts(self.text)))

    @cached_property
    def sentences(self) -> tuple[Clause, ...]:
        """Its sentences."""
        return tuple(Clause(part, telling_stems(part)) for part in sentences(self.text))

    def share_of(self, conditions: Sequence[str]) -> PartsGiven:
        """How many of a policy's conditions it gives; none if it contradicts one."""
        every = [Condition.of(text) for text in conditions]
        read = [condition for condition in every if not self._is_known(condition)] or every
        others = self._others_than(read)
        shares = []
        for condition in read:
            if self._is_turned(condition):
                return PartsGiven.NONE
            missing = self._missing(condition)
            if any(self._contradicts(own, others.amounts) for own in missing.amounts):
                return PartsGiven.NONE
            if (missing.dates and others.dates) or (missing.times and others.times):
                return PartsGiven.NONE
            shares.append(self._share_of(condition, missing.total))
        if all(share is PartsGiven.ALL for share in shares):
            return PartsGiven.ALL
        return PartsGiven.SOME if any(shares) else PartsGiven.NONE

    def _is_known(self, condition: "Condition") -> bool:
        """Whether an answer may leave a condition unsaid, as the question has its words."""
        if condition.has_values or condition.says_no:
            return False
        return telling_stems(condition.text) <= self.known

    def _share_of(self, condition: "Condition", missing: int) -> PartsGiven:
        """How much of a condition it gives. missing: how many of its values are."""
        gives_value = missing < condition.value_count
        if condition.value_count and not gives_value:
            return PartsGiven.NONE
        if self._has_words(condition):
            return PartsGiven.SOME if missing else PartsGiven.ALL
        return PartsGiven.SOME if gives_value else PartsGiven.NONE

    def _missing(self, condition: "Condition") -> "Values":
        """The values of a condition that it does not give."""
        amounts_missing = [own for own in condition.amounts if not self._gives(own)]
        if self._has_direction(condition):
            amounts_missing = []
        times_missing = [own for own in condition.times if not _has_time(self.times, own)]
        return Values(amounts_missing, times_missing, condition.dates - self.dates)

    def _others_than(self, conditions: Sequence["Condition"]) -> "Values":
        """The values that it gives and that are none of a policy's."""
        own_times = [own for condition in conditions for own in condition.times]
        own_dates = frozenset(date for condition in conditions for date in condition.dates)
        has_amounts = any(condition.amounts for condition in conditions)
        others = self.amounts if has_amounts else ()
        return Values(
            [other for other in others if not self._is_one_of(other, conditions)],
            [other for other in self.times if not _has_time(own_times, other)],
            self.dates - own_dates,
        )

    def _gives(self, own: BoundedAmount) -> bool:
        return any(is_same_bounded(own, other, self.asked) for other in self.amounts)

    def _is_one_of(self, other: BoundedAmount, conditions: Sequence["Condition"]) -> bool:
        """Whether an amount of the answer is one of a policy's."""
        all_own = (own for condition in conditions for own in condition.amounts)
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

    def _has_words(self, condition: "Condition") -> bool:
        """Whether most telling words of a condition are there, denied if it denies them."""
        text = self._without_days(condition.text)
        rules = rules_on_permission(text)
        if rules:
            text = without_permission(text)
        own = telling_stems(text) - condition.units
        wanted = own - self.known - self.shared or own - self.known or own
        if rules and self._forbids(own) != forbids(condition.text):
            return False
        if not wanted:
            return condition.has_values or text != condition.text
        if self._has_direction(condition):
            return True
        if own <= self.known and (self.says or not own & self.stems):  # the question has its words
            is_said = bool(self.says) or condition.has_values
            return is_said and (self.says == "no") == condition.says_no
        return self._has_most(wanted, condition)

    @cached_property
    def says(self) -> str:
        """Yes or no, where it answers that to what was asked."""
        return says_of(self.question, self.text, self.permission)

    def _has_direction(self, condition: "Condition") -> bool:
        """Whether it says the same of a condition's amount, perhaps by a denial of the contrary.

        "Refunds within 14 days" says so of "no refunds after 14 days".
        """
        if not condition.direction:
            return False
        own_stems = telling_stems(condition.text) - condition.units
        has_words = not own_stems or 2 * len(own_stems & (self.stems | self.known)) >= len(
            own_stems
        )
        return has_words and condition.direction in self._signs(condition)

    def _signs(self, condition: "Condition") -> set[int]:
        """The directions in which it gives a condition's amount."""
        own = condition.amounts[0].amount
        given = (each for each in self._directed if is_same(own, each.bounded.amount, self.asked))
        return {each.sign for each in given if each.sign}

    def _has_most(self, wanted: frozenset[str], condition: "Condition") -> bool:
        """Whether most of some stems are there, of fewer words where quantities are there."""
        denied = condition.denied
        if any(word in self.stems and self._is_against(word, word in denied) for word in wanted):
            return False
        there = [word for word in wanted if self._has(word, word in denied)]
        if condition.has_values:
            return len(wanted) == 1 or len(there) >= _PRESENT_BY_VALUES * len(wanted)
        return len(there) >= _PRESENT * len(wanted)

    def _is_turned(self, condition: "Condition") -> bool:
        """Whether it says of a condition's amount the other way round, and nowhere as that does."""
        for own in condition.times_directed:
            given = {each.sign for each in self.times_directed if each.minutes == own.minutes}
            if given and own.sign not in given:
                return True
        if not condition.direction:
            return False
        signs = self._signs(condition)
        return bool(signs) and condition.direction not in signs

    def _without_days(self, text: str) -> str:
        """A condition without the days of the week that it names, if the answer gives the same."""
        own = days_in(text)
        given = {days.days for days in days_in(self.text)} if own else set()
        for days in reversed(own):
            if days.days in given:
                text = f"{text[: days.begin]} {text[days.end :]}"
        return text

    def _forbids(self, stems: frozenset[str]) -> bool | None:
        """Whether what it says of these stems forbids something; None if it does not say."""
        about = [sentence.text for sentence in self.sentences if stems & sentence.stems]
        if any(map(forbids, about)):
            return True
        return False if any(map(allows, about)) else None

    @cached_property
    def _directed(self) -> tuple[Directed, ...]:
        """Its amounts with their directions."""
        return directed(self.text, self.amounts)

    @property
    def permission(self) -> str:
        """Yes or no, where a sentence about what was asked allows or forbids it, or states it."""
        about = [sentence for sentence in self.sentences if self._is_about_question(sentence.stems)]
        for sentence in about:
            if is_open_question(sentence.text):
                return ""
            if forbids(sentence.text):
                return "no"
            if allows(sentence.text):
                return "yes"
        for clause in clauses_in(sentence.text for sentence in about):
            if says := self._says(clause):
                return says
        return ""

    def _is_about_question(self, stems: frozenset[str]) -> bool:
        if self.known and len(stems & self.known) >= _LEAST_ABOUT * len(self.known):
            return True
        return bool(self._core) and len(stems & self._core) >= _LEAST_OF_CORE * len(self._core)

    def _says(self, clause: Clause) -> str:
        """Yes or no, by a clause that states what was asked or denies it."""
        asked = self._core | self.known
        if _OF_ASSISTANT.search(clause.text):
            return ""
        if clause.is_negated or self._says_no(clause.text):
            return "no" if self._is_about_question(clause.stems) else ""
        is_stated = bool(asked) and len(clause.stems & asked) >= _LEAST_STATED * len(asked)
        return "yes" if is_stated else ""

    def _says_no(self, text: str) -> bool:
        """Whether a text has a word that denies, which the question has not."""
        return any(match.lower() not in self.asked for match in _SAYS_NO.findall(text))

    def _has(self, word: str, is_denied: bool) -> bool:
        if is_denied:
            return word in self.denied
        return word in self.stems and word not in self.negated

    def _is_against(self, word: str, is_denied: bool) -> bool:
        return word not in self.denied if is_denied else word in self.negated


def split_times(text: str) -> tuple[str, tuple[TimeOfDay, ...]]:
    """A text without its times of day, and these."""
    found = tuple(time for time in times(text) if time.is_marked)
    for time in reversed(found):
        text = f"{text[: time.begin]} {text[time.end :]}"
    return text, found


def _has_time(found: Iterable[TimeOfDay], own: TimeOfDay) -> bool:
    """Whether a time is among some."""
    return any(own.may_be(other.minutes) or other.may_be(own.minutes) for other in found)


def _bounded_amounts(text: str) -> list[BoundedAmount]:
    return [bounded(text, amount) for amount in amounts(text)]


def _words_of(text: str, amount: Amount) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[amount.begin : amount.end])]


def _denied_stems(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The stems that stand shortly behind a "not", and those shortly before one."""
    behind: set[str] = set()
    before: set[str] = set()
    last: list[str] = []
    left = 0
    for match in _TOKEN.finditer(with_words_for_phrases(without_idle_denials(text)).lower()):
        word = match[0]
        if word in _NOT or word.endswith(("'t", "’t")):
            before.update(last[-_NEAR_BEFORE:])
            left = _NEAR
        elif word in _DENIED_BEHIND:
            before.update(last[-_NEAR_BEFORE:])
        elif not word[0].isalpha():
            left = 0
            last = []
        elif word in _ENDS_DENIAL:
            left = 0
        elif is_telling(word):
            last.append(stem(word))
            if left:
                behind.add(stem(word))
                left -= 1
    return frozenset(behind), frozenset(before)
