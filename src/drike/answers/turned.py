"""Rules that an answer turns round: "refunds only after 14 days" for "no refunds after 14 days".

What a rule says of an amount has a direction: it holds up to the amount, or beyond it; a denial
turns it. "No refunds after 14 days" and "refunds within 14 days" have the same.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from drike.answers.policy_words import telling_stems
from drike.answers.quantities import BoundedAmount
from drike.answers.times import times

_NEGATED = re.compile(
    r"\b(?:not|never|no|non|cannot|without|nicht|kein\w*|nie|pas|jamais|nunca)\b|n['’]t\b",
    re.IGNORECASE,
)
# "no later than" is a bound, "don't forget" a request: they deny nothing
_DENIES_NOTHING = re.compile(
    r"\b(?:no|not|never) (?:later|more|less|longer|earlier|sooner|fewer|older|younger) than\b"
    r"|\b(?:don['’]t|do not|never|please not|nicht) "
    r"(?:forget|lose|worry|hesitate|fail|miss|vergessen)\b(?: to\b)?"
    r"|\bvergessen sie (?:bitte )?nicht\b|\bn['’]oubliez pas\b|\bno olvide\w*\b",
    re.IGNORECASE,
)
# What ends a right, as "not" does.
_LAPSES = re.compile(
    r"\b(?:lapses?|expires?|void|forfeit\w*|excluded|impossible|unavailable|verfällt|erlischt"
    r"|ausgeschlossen)\b",
    re.IGNORECASE,
)
_BEYOND = re.compile(
    r"\b(?:after|beyond|past|later than|from|as of|starting at|nach|ab|après|después de|tras)"
    r"\s(?:the\s|den\s|les\s)?$",
    re.IGNORECASE,
)
_UP_TO = re.compile(
    r"\b(?:before|until|by|during the first|vor|bis|avant|antes de)\s$", re.IGNORECASE
)
_SIGN_OF_BOUND = {"most": 1, "under": 1, "over": -1}
_MOST_CLAUSE = 200  # characters before an amount in which its clause begins
_MOST_BEFORE = 20  # characters before an amount in which its direction stands
_END_OF_CLAUSE = re.compile(
    r"[.;:!?]\s|\n|,?\s(?:but|although|though|if|unless|provided|as long as|once|aber|wenn|sofern"
    r"|mais|pero|si)\s|\b[Nn](?:o|ein|on),\s"
)
_SPLIT = re.compile(r"[,;:–—]\s|\b(?:so|but|and|though|although)\b")


def without_idle_denials(text: str) -> str:
    """A text without the denials that deny nothing."""
    return _DENIES_NOTHING.sub(" ", text)


def is_negated(text: str) -> bool:
    """Whether a text denies something."""
    return _NEGATED.search(without_idle_denials(text)) is not None


@dataclass(frozen=True)
class Clause:
    """A sentence of an answer, or a part of one, with the stems of its telling words."""

    text: str
    stems: frozenset[str]

    @cached_property
    def is_negated(self) -> bool:
        """Whether it denies something."""
        return is_negated(self.text)


def clauses_in(texts: Iterable[str]) -> Iterator[Clause]:
    """The clauses of some sentences."""
    for text in texts:
        for part in _SPLIT.split(text):
            yield Clause(part, telling_stems(part))


class Directed(NamedTuple):
    """An amount with its direction: 1 up to it, -1 beyond it, 0 if it is not said."""

    bounded: BoundedAmount
    sign: int


def directed(text: str, amounts: Iterable[BoundedAmount]) -> tuple[Directed, ...]:
    """The amounts of a text with their directions."""
    return tuple(Directed(each, _sign(text, each)) for each in amounts)


def _sign(text: str, bounded: BoundedAmount) -> int:
    sign = _SIGN_OF_BOUND.get(bounded.bound, 0)
    if not bounded.bound:
        sign = _sign_before(text, bounded.begin)
    return -sign if sign and _is_denied(text, bounded.begin, bounded.end) else sign


def _sign_before(text: str, begin: int) -> int:
    before = text[max(0, begin - _MOST_BEFORE) : begin]
    if _BEYOND.search(before):
        return -1
    return 1 if _UP_TO.search(before) else 0


def _is_denied(text: str, begin: int, end: int) -> bool:
    clause = _clause_around(text, begin, end)
    return is_negated(clause) or _LAPSES.search(clause) is not None


class DirectedTime(NamedTuple):
    """A time of day with its direction: 1 up to it, -1 beyond it."""

    minutes: int
    sign: int


def directed_times(text: str) -> frozenset[DirectedTime]:
    """The times of a text that have a direction: "before 2 pm"."""
    found = [(time, _sign_before(text, time.begin)) for time in times(text) if time.is_marked]
    return frozenset(
        DirectedTime(time.minutes, -sign if _is_denied(text, time.begin, time.end) else sign)
        for time, sign in found
        if sign
    )


def _clause_around(text: str, begin: int, end: int) -> str:
    """The clause in which something stands, without it."""
    first = max(0, begin - _MOST_CLAUSE)
    ends = (each.end() for each in _END_OF_CLAUSE.finditer(text, first, begin))
    clause_begin = max(ends, default=first)
    end_of_clause = _END_OF_CLAUSE.search(text, end)
    clause_end = end_of_clause.start() if end_of_clause else len(text)
    return f"{text[clause_begin:begin]} {text[end:clause_end]}"
