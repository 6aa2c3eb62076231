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
from drike.answers.denials import agrees, behind_politeness, said_not
from drike.answers.hours import parts_of_hours
from drike.answers.number_words import spelled_in_digits
from drike.answers.places import place_and_country
from drike.answers.policies import Condition, PartsGiven
from drike.answers.policy_words import telling_stems
from drike.answers.quantities import is_code, reader_of

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
_YES_OR_NO = re.compile(r"\s*(?P<yes>yes|ja|sí|oui)\b|\s*(?P<no>no|nein|non)\b(?!\.\s*\d)", re.I)
# "They do.", "You can, if", "It isn't:", which repeats the verb of the question
_ECHO = re.compile(
    r"\W*(?:i|you|we|they|s?he|it|that|there|one)\s(?:do|does|can|may|is|are|will|did|have|has|would"
    r"|could|should|must)(?P<no>n['’]t| not)?\s*(?:[.:;!–—-]|$|,(?!\s*(?:however|i\.e\.))\s"
    r"|(?:as long|if|provided|indeed)\b)(?<!that is,\s)",
    re.IGNORECASE,
)
_NO_MATTER = re.compile(r"no (?:problem|worries|doubt|matter|one|longer)\b", re.IGNORECASE)
# "Thursdays from 17:00 to 20:30"
_TIME_ON_DAY = re.compile(
    r"(?:on |am )?(?P<day>[^\W\d_]*(?:day|tag|woch)s?),? (?:(?:from|at|von|um|ab) )?(?P<time>\d.*)",
    re.IGNORECASE,
)
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
    said = _YES_OR_NO.match(name)
    if said is None:
        return None
    rest = name[said.end() :].strip(" ,.;:–—-")
    conditions = _conditions(rest) if rest else ()
    return Content(conditions=conditions, says="yes" if said["yes"] else "no")


def _time_on_day(name: str) -> Content | None:
    on_day = _TIME_ON_DAY.fullmatch(name.strip(" ."))
    is_time = on_day is not None and reader_of(on_day["time"]) is not None
    return Content(items=(on_day["day"], on_day["time"])) if on_day and is_time else None


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
    if len(name.split()) < _LEAST_POLICY or len(telling_stems(name)) < 2:
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


def polarity(answer: str) -> str:
    """Whether an answer begins with yes or no; else ""."""
    said = behind_politeness(answer)
    if said_not(said):
        return "no"
    if echo := _ECHO.match(said):
        return "no" if echo["no"] else "yes"
    match = _YES_OR_NO.match(said)
    if match and not _NO_MATTER.match(said):
        return "yes" if match["yes"] else "no"
    return "yes" if agrees(said) else ""


def share_of_items(
    items: Sequence[str], share_of: Callable[[str], PartsGiven]
) -> tuple[PartsGiven, set[str]]:
    """How many of a list's items an answer states, and which, wholly or in part."""
    shares = {item: share_of(item) for item in items}
    stated = {item for item, share in shares.items() if share is not PartsGiven.NONE}
    if all(share is PartsGiven.ALL for share in shares.values()):
        return PartsGiven.ALL, stated
    return PartsGiven.SOME if stated else PartsGiven.NONE, stated
