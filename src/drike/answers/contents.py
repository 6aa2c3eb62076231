"""Objects of several parts: lists, policies and yes or no with conditions.

Which of the parts of an object does an answer give? A list has its items, in any order; a policy
has conditions, each present by its quantities and by most of its telling words. An answer that
gives all of them states the object, one that gives some states it partly.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from drike.answers.amounts import amounts
from drike.answers.bounds import bounds_of
from drike.answers.hours import parts_of_hours
from drike.answers.number_words import spelled_in_digits
from drike.answers.permissions import rules_on_permission
from drike.answers.places import place_and_country
from drike.answers.policies import Condition, PartsGiven
from drike.answers.policy_words import telling_stems
from drike.answers.quantities import is_code, reader_of
from drike.answers.yes_no import YES_OR_NO

_AND = r"(?:and|und|y|et|as well as|plus|or|oder|ou|o)"
_COMMA = r"(?:[;\n]|(?<!\d),|,(?!\d))"  # no "," of "10,000"
_SEPARATOR = re.compile(rf"\s*{_COMMA}\s*(?:{_AND}\s+)?|\s+{_AND}\s+")
_CONJUNCTION = re.compile(rf"\s{_AND}\s")
_MOST_ITEM_WORDS = 4
_CERTAIN = 3  # items that no single name has
_LEAST_POLICY = 4  # words
_CONDITION = re.compile(
    rf"\s*{_COMMA}\s*(?:(?:and|but)\s+)?|\s+(?=(?:if|unless|provided|when|while|except|only|with|without"
    r"|as long as|wenn|sofern|außer|mit|ohne)\b)|(?<=[.!?])\s+"
    r"|\s+(?:and|but)\s+(?=(?:in|with|on|by|at|only|if|not)\b)",
    re.IGNORECASE,
)
_JOINED_CONDITIONS = re.compile(r"(\S+\s.*\S)\s+(?:and|und)\s+(\S+\s.*)", re.IGNORECASE)
# What a policy has and a long name has not.
_CUE = re.compile(
    r"\b(?:no|not|never|always|only|if|unless|must|may|can|cannot|should|will|is|are|has|have|within"
    r"|when|except|before|after|at the|up to|at least|at most|required|allowed|permitted|free|wenn"
    r"|nur|nicht|kein\w*|muss|müssen|darf|dürfen|ist|sind)\b",
    re.IGNORECASE,
)
# Behind a "no" that is an answer, as that of "No refunds" is not.
_BEHIND_YES_OR_NO = re.compile(
    r"\s*(?:$|[,.;:!(–—-]|(?:if|unless|only|but|with|without|from|on|up to|within|as|provided|for"
    r"|at|until|before|after|when|except|in|by|wenn|nur|aber|mit|ohne|ab|bis|außer|sofern)\b)",
    re.IGNORECASE,
)
# "Thursdays from 17:00 to 20:30"
_TIME_ON_DAY = re.compile(
    r"(?:on |am |by |until |before |bis )?(?P<day>[^\W\d_]*(?:day|tag|woch)s?),? "
    r"(?:(?:from|at|von|um|ab) )?(?P<time>(?:\d|noon|midday|midnight|mittag).*)",
    re.IGNORECASE,
)
_HOUR_BY_NAME = {"noon": "12:00", "midday": "12:00", "mittag": "12:00", "midnight": "0:00"}
_ARTICLE = re.compile(r"(?:the|an?|der|die|das|la|le|les|el|los|las) (?=\w)", re.IGNORECASE)
_OF_CLAUSES = frozenset(
    ("no", "not", "only", "if", "unless", "must", "may", "can", "is", "are", "of", "for")
)


@dataclass(frozen=True)
class Content:
    """What an object of several parts says. says: yes or no, if it begins with that.

    is_place: whether the items are a place and where that is: "Bergen, Norway".
    """

    items: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    says: str = ""
    is_place: bool = False

    @property
    def is_certain_list(self) -> bool:
        """Whether its items are so many, or such, that it is not one name."""
        if len(self.conditions) > 1:
            return any(Condition.of(condition).has_values for condition in self.conditions)
        if self.conditions and Condition.of(self.conditions[0]).value_count > 1:
            return True  # "20 cents a day after 3 days", of which "20 cents a day" is a part
        return len(self.items) >= _CERTAIN or (
            len(self.items) > 1 and any(map(reader_of, self.items))
        )


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def content_of(name: str) -> Content | None:
    """What an object of this name says; None if it is one thing."""
    if hours := parts_of_hours(name):
        return Content(items=hours)
    if reader_of(name):
        return None
    makers = (_yes_or_no, _time_on_day, _between_bounds, _place, _list, _policy)
    return next((content for make in makers if (content := make(name))), None)


def _yes_or_no(name: str) -> Content | None:
    said = YES_OR_NO.match(name)
    if said is None or not _BEHIND_YES_OR_NO.match(name, said.end()):
        return None
    rest = name[said.end() :].strip(" ,.;:–—-")
    conditions = _conditions(rest) if rest else ()
    return Content(conditions=conditions, says="yes" if said["yes"] else "no")


def _time_on_day(name: str) -> Content | None:
    on_day = _TIME_ON_DAY.fullmatch(name.strip(" ."))
    if on_day is None:
        return None
    time = _HOUR_BY_NAME.get(on_day["time"].lower(), on_day["time"])
    return Content(items=(on_day["day"], time)) if reader_of(time) else None


def _between_bounds(name: str) -> Content | None:
    bounds = bounds_of(name)
    return Content(conditions=bounds) if bounds else None


def _place(name: str) -> Content | None:
    place = place_and_country(name)
    return Content(items=place, is_place=True) if place else None


def _list(name: str) -> Content | None:
    """A list; one with amounts beside other items is read as conditions."""
    items = tuple(item for item in _SEPARATOR.split(name.strip(" .")) if item)
    if not _are_items(items, is_joined=_CONJUNCTION.search(name) is not None):
        return None
    return Content(conditions=items) if _have_amounts(items) else Content(items=items)


def _policy(name: str) -> Content | None:
    return Content(conditions=_conditions(name)) if _is_policy(name) else None


def _is_policy(name: str) -> bool:
    """Whether a text is a sentence or so, and not a long name."""
    if len(telling_stems(name)) < 2:
        return False
    if rules_on_permission(name):
        return True
    if len(name.split()) < _LEAST_POLICY:
        return False
    if name[:1].islower() or name[1:].islower() or _CUE.search(name):
        return True
    return any(not amount.is_counted for amount in amounts(spelled_in_digits(name)))


def _are_items(items: Sequence[str], *, is_joined: bool) -> bool:
    """Whether the parts of a text are items of a list, and not of one name or a sentence.

    is_joined: whether a conjunction stands between them, as not in "Johann Bach, composer".
    """
    if len(items) < 2 or any(map(_is_clause, items)):
        return False
    is_short = all(len(item.split()) <= _MOST_ITEM_WORDS for item in items)
    named = [_ARTICLE.sub("", item) for item in items]
    has_capital = {item[0].isupper() for item in named if not item[0].isdigit()}
    return is_short and (is_joined or len(has_capital) <= 1)


def _have_amounts(items: Sequence[str]) -> bool:
    """Whether some of a list's items have amounts, and not all are such: "16 weeks, fully paid"."""
    if any(map(is_code, items)) or all(map(reader_of, items)):
        return False
    return any(amounts(spelled_in_digits(item)) for item in items)


def _is_clause(item: str) -> bool:
    """Whether an item is a part of a sentence or of a name, or a mere number."""
    return item.isdigit() or not _OF_CLAUSES.isdisjoint(item.lower().split())


def _conditions(text: str) -> tuple[str, ...]:
    """The conditions of a policy: its clauses, and what a conjunction joins within them."""
    clauses = [part.strip(" .") for part in _CONDITION.split(text)]
    return tuple(part for clause in clauses for part in _joined(clause) if _tells(part))


def _joined(clause: str) -> tuple[str, ...]:
    """The two parts that "and" joins, where both tell something in some words."""
    match = _JOINED_CONDITIONS.fullmatch(clause)
    if match and all(telling_stems(part) for part in match.groups()):
        return match[1], match[2]
    return (clause,)


def _tells(text: str) -> bool:
    return bool(telling_stems(text) or amounts(spelled_in_digits(text)))


def share_of_items(
    items: Sequence[str], share_of: Callable[[str], PartsGiven]
) -> tuple[PartsGiven, set[str]]:
    """How many of a list's items an answer states, and which, wholly or in part."""
    shares = {item: share_of(item) for item in items}
    stated = {item for item, share in shares.items() if share is not PartsGiven.NONE}
    if all(share is PartsGiven.ALL for share in shares.values()):
        return PartsGiven.ALL, stated
    return PartsGiven.SOME if stated else PartsGiven.NONE, stated
