"""The objects of an edit as a question asks for them.

What both objects and the question have in common need not be said: asked on which days a museum is
closed, "Mondays" is "closed on Mondays". Asked when, "9 to 17" are hours.
"""

import re
from collections.abc import Iterable, Sequence

from drike.answers.quantities import reader_of
from drike.answers.values import split_dates
from drike.text.word_lists import word_list
from drike.text.words import words

_BARE_HOURS = re.compile(r"(\d{1,2}) ?(?:-|–|to|until|till|bis|a|à) ?(\d{1,2})")
_ASKS_TIME = re.compile(
    r"\b(?:when|hours?|open(?:ing)?|what time|wann|uhr|geöffnet|öffnungszeiten|cuándo|horas?"
    r"|horario|abierto|quand|heures?|horaires?|ouvert)\b",
    re.IGNORECASE,
)
_LAST_HOUR = 24


def as_asked(
    names: Sequence[str], others: Sequence[str], question: str, about: Iterable[str]
) -> tuple[str, ...]:
    """The names of an object with those that the question makes of them. others: the rival's."""
    if not question:
        return tuple(names)
    known = {*words(question), *words(" ".join(about)), *word_list("small words")}
    parts = [_own_part(name, other, known) for name in names[:1] for other in others[:1]]
    if _ASKS_TIME.search(question):
        names = [_as_hours(name) for name in names]
    return (*names, *filter(None, parts))


def _as_hours(name: str) -> str:
    """A name of two numbers as hours."""
    hours = _BARE_HOURS.fullmatch(name.strip(" ."))
    if hours is None or max(map(int, hours.groups())) > _LAST_HOUR:
        return name
    return f"{hours[1]}:00 to {hours[2]}:00"


def _may_stand_alone(part: str) -> bool:
    """Whether a part of a name is one by itself, and not a number or half a date."""
    has_letters = any(map(str.isalpha, part))
    return has_letters and reader_of(part) is None and not split_dates(part)[1]


def _own_part(name: str, other: str, known: set[str]) -> str:
    """What a name has and the rival's has not, if the question has all that they share."""
    own = name.strip(" .").split()
    rival = other.strip(" .").split()
    begin = _count_shared(own, rival)
    end = len(own) - _count_shared(own[begin:][::-1], rival[begin:][::-1])
    part = " ".join(own[begin:end])
    shared = words(" ".join((*own[:begin], *own[end:])))
    if not shared or not known.issuperset(shared):
        return ""
    tells = not known.issuperset(words(part))
    return part if tells and _may_stand_alone(part) else ""


def _count_shared(own: Sequence[str], rival: Sequence[str]) -> int:
    """How many words two names begin with alike, of which each keeps one at least."""
    most = min(len(own), len(rival)) - 1
    pairs = list(zip(own, rival, strict=False))[:most]
    return next(
        (n for n, (word, word_of_rival) in enumerate(pairs) if word != word_of_rival), max(most, 0)
    )
