"""How a question holds the old object of an edit: as what the edit is about, or otherwise.

"Why is Lima the capital of Peru?" presupposes the fact that an edit changes, and so do "As support
closes at 5, whom do I call at 6?" and "My BeanPass is 19.90, right?": these need the fact. "Is the
bus from Lima to Cusco in Peru slow?" names subject and object, too, and needs none.
"""

from __future__ import annotations

from enum import Enum

import regex

from drike.answers.number_words import spelled_in_digits
from drike.answers.quantities import AnswerRead, reader_of
from drike.edits.record import EditRecord
from drike.text.relation_words import stems, synonyms, telling_words, word_weights_of
from drike.text.words import Words

_OBJECT = "\ufffc"  # a mark where the old object stands
_LONGEST = 1_000  # characters of a question that is read
_SHORTEST_STEM = 3  # letters
_NUMBER = regex.compile(r"\d+(?:[.,:]\d+)*")

_LINKS = [
    "still",
    "now",
    "only",
    "just",
    "really",
    "always",
    "currently",
    "as",
    "early",
    "much",
    "about",
    "up",
    "to",
    "until",
    "till",
    "at",
    "on",
    "in",
    "by",
    "for",
    "of",
    "a",
    "an",
    "the",
    "fine",
    "ok",
    "okay",
    "safe",
    "good",
    "available",
    "sold",
    "allowed",
    "priced",
]
_LINK = rf"(?:(?:{'|'.join(_LINKS)})\s+){{0,4}}"
_IS = r"(?:'s|\s+(?:is|are|was|were|costs?))\s+"
_END = r"(?=\s*(?:$|[,.;:?!)\"'-]|(?:an?|per|each|every|here|now|today|and|so|but|right|or)\b))"
_COUNTED = r"(?:\s+(?:hours?|days?|weeks?|months?|years?|minutes?|euros?|dollars?|pounds?))?"
# "It is 19.90, right?", and "Is it 19.90?"
_ALONE = regex.compile(
    rf"\bit{_IS}{_LINK}{_OBJECT}{_COUNTED}{_END}"
    rf"|\b(?:is|are|was|were)\s+it\s+{_LINK}{_OBJECT}{_COUNTED}{_END}",
    regex.IGNORECASE,
)
# "It runs Procurement, so ...", "the 55 °C of it", "the 4.50 that it takes" and "it reaches 30 of
# its 50 Mbit/s", but not "Our taxi to it comes at 11 am".
_SAID = regex.compile(
    rf"(?<!\b(?:to|at|of|in|from|by|near|for|with)\s+(?:the\s+)?)\bit\s+[a-z]+s\s+{_LINK}{_OBJECT}"
    rf"|\bit\s+[a-z]+s\s+(?:me|us|you|them|everybody|people)\s+(?:[a-z]+\s+)?{_LINK}{_OBJECT}"
    rf"|\bit\s+(?:should|must|can|will|may|would|ought\s+to)\s+[a-z]+\s+{_LINK}{_OBJECT}"
    rf"|\b(?:do|does|did|can|will|should)\s+(?:the\s+)?it\s+[a-z]+\s+(?:after|within)\s+{_LINK}{_OBJECT}"
    rf"|{_OBJECT}\s+(?:of|for)\s+(?:the\s+)?it\b"
    rf"|{_OBJECT}\s+(?:that|which)\s+it\s+[a-z]+s\b"
    rf"|\bit\b[^.;:?!]*\bits\s+{_OBJECT}",
    regex.IGNORECASE,
)
# "I bought it tickets on Monday.", which says what was done, and not what is so
_TOLD = regex.compile(
    r"^\W*(?:(?:yesterday|today|last\s+\w+|then|so|and),?\s+)?"
    r"(?:i|we|he|she|they|(?:my|our)\s+\w+)\s+(?:have\s+|had\s+|just\s+|'ve\s+)?"
    r"(?:\w+ed|bought|lost|left|met|saw|seen|got|took|taken|came|went|gone|sent|found|paid|had|ate"
    r"|read|put|made|gave|given|heard|spoke|wrote|flew|drove|sat|stood|forgot)\b",
    regex.IGNORECASE,
)
_IT = regex.compile(r"\bit\b", regex.IGNORECASE)
_DAYS = regex.compile(
    r"(?:(?:on|every)\s+)?(?:mon|tues|wednes|thurs|fri|satur|sun)days?", regex.IGNORECASE
)
# Where a quantity is surely something else's: "I won 249 euros", "a mug for 19.90", "2 years ago",
# "330 metres from it", "our taxi to it comes at 11 am".
_FIRST_PERSON = r"(?:i|i've|i'm|we|we've|he|she|they)"
_OF_ANOTHER = regex.compile(
    rf"\b{_FIRST_PERSON}\s+(?!only\b)(?:(?!\bit\b)[^,.;:?!])*(?<!\bthe\s){_OBJECT}"
    rf"(?!\s+(?:of|for)\s+(?:[\w-]+\s+)?(?:it\b|{_OBJECT}))"
    rf"|\b(?:my|our)\s+(?!it\b|{_OBJECT})[\w-]+\b[^,.;:?!]*{_OBJECT}"
    rf"|\ban?\s+(?!it\b)(?:[\w-]+\s+)(?:(?:for|of|at|with|worth)\s+)?{_OBJECT}"
    rf"|{_OBJECT}\s+an?\s+(?:good|bad|better|right|convenient|quiet|busy)\s+(?:day|time)\b"
    rf"|{_OBJECT}\s+(?:ago|old|late|early|from\s+(?:the\s+)?it)\b",
    regex.IGNORECASE,
)
# Where a name is surely no object: "the bus from Sucre to Potosí", "I live in Leeds", and "a shop
# in Leeds".
_ELSEWHERE = regex.compile(
    rf"\bfrom\s+{_OBJECT}\s+to\b|\bfrom\s+(?:[\w-]+\s+){{1,3}}to\s+{_OBJECT}"
    rf"|\b{_FIRST_PERSON}\s+(?:live|am|work|was|were)\s+(?:in|at|near|from)\s+{_OBJECT}"
    rf"|\b(?:an?|another)\s+[\w-]+\s+(?:in|at|of|into|near)\s+{_OBJECT}"
    rf"|{_OBJECT}'s\b",
    regex.IGNORECASE,
)
_NEXT_TO = regex.compile(
    rf"\b(?:next\s+to|near|beside|behind|opposite|outside|close\s+to)\s+{_OBJECT}", regex.IGNORECASE
)
# "Is there a bus near it at 21:30?" asks about what is there.
_NEAR_IT = regex.compile(
    r"\b(?:near|close\s+to|next\s+to|opposite|outside|around|behind|beside)\s+(?:the\s+)?it\b",
    regex.IGNORECASE,
)
# "Breakfast at it ends at 10 am": of what is said that it has the quantity.
_HAS_IT = regex.compile(
    rf"^\W*(?:so,?\s+)?(?:the\s+|your\s+|our\s+)?(?P<thing>[\w-]+(?:\s+[\w-]+)?)\s+"
    rf"(?:at|in|on|of|from|with)\s+(?:the\s+)?it\s+[a-z]+s\b[^,;:?!]*{_OBJECT}",
    regex.IGNORECASE,
)
# "Since it has a garden, may dogs come along?": the premise, and what is asked.
_PREMISE = regex.compile(
    r"^\W*(?:since|as|because|now\s+that|given\s+that|seeing\s+that|although|though)\s+"
    r"(?P<premise>[^,;:.?!]*\bit\b[^,;:.?!]*),\s*(?P<asked>[^?]+)\?",
    regex.IGNORECASE,
)
# A name or a number, which may be the old object in another spelling.
_VALUE = regex.compile(r"\d|(?<=\s)\p{Lu}(?!\b)")
# "Dana Moss as head of it", of an edit that asks who is at the top and not of a part.
_IN_CHARGE = regex.compile(
    rf"{_OBJECT}[^.;:?!]{{0,40}}\b(?:(?:as|is)\s+(?:the\s+)?(?:head|boss|chief|director|ceo)\s+(?:of|at)"
    r"|in\s+charge\s+of|run|runs|running|lead|leads|leading|heads|heading|manages|managing|at\s+the\s+top"
    r"\s+of|at\s+the\s+helm\s+of)\s+(?:the\s+)?it\b",
    regex.IGNORECASE,
)
_CHIEF = frozenset(
    ("ceo", "chief", "executive", "head", "heads", "boss", "director", "managing", "president",
     "leads", "lead", "runs", "run", "leader", "chair", "chairs", "manages", "manager")
)  # fmt: skip
# Words of queries that only say of what kind the object is: "On which day is it closed?"
_GENERAL = frozenset(
    ("day", "time", "date", "number", "year", "month", "hour", "name", "city", "country", "place",
     "town", "state", "kind", "version", "long", "many", "much")
)  # fmt: skip
_FEWEST_ASKED = 2  # telling words of what is asked; "where is it now?" asks about the premise


class Held(Enum):
    """How a question holds the old object of an edit."""

    NOT = "not at all"
    ALONE = "as all that it says of the subject"
    MEANT = "as what the edit is about"
    NAMED = "by a name that it hardly has by chance"
    IN_DOUBT = "with no other word of the edit"
    OTHERWISE = "as something else's"


# How a question holds what it takes for granted.
PRESUPPOSED = frozenset((Held.ALONE, Held.MEANT, Held.NAMED))


def held(question: str, record: EditRecord) -> Held:
    """How a question holds the old object. question: with "it" for the subject."""
    if len(question) > _LONGEST:
        return Held.NOT
    marked = _marked(question, record.target_true) if record.target_true else question
    if _OBJECT not in marked:
        return Held.OTHERWISE if _asks_aside(question, record) else Held.NOT
    if _ALONE.search(marked):
        return Held.ALONE
    old_object = record.target_true or ""
    return _held_name(marked, record) if _is_name(old_object) else _held_value(marked, record)


def presupposes(statement: str, record: EditRecord) -> bool:
    """Whether a statement before a question says of the subject that it has the old object.

    statement: with "it" for the subject: "It takes 80 cents per transfer." behind which "Why?" asks
    about that.
    """
    if not record.target_true or len(statement) > _LONGEST or "?" in statement:
        return False
    marked = _marked(statement, record.target_true)
    if _OBJECT not in marked or not _IT.search(marked):
        return False
    if _ALONE.search(marked):
        return True
    if _TOLD.match(marked):  # what somebody did there
        return False
    if _is_name(record.target_true):
        is_other = _NEXT_TO.search(marked) or _ELSEWHERE.search(marked)
    else:
        is_other = (
            _is_of_another_thing(marked, record)
            or _NEAR_IT.search(marked)
            or _OF_ANOTHER.search(marked)
        )
    return not is_other and _says(marked, record)


def _held_name(marked: str, record: EditRecord) -> Held:
    if _says(marked, record):
        return Held.MEANT
    if _NEXT_TO.search(marked):
        return Held.OTHERWISE
    if _says_of_edit(frozenset(telling_words(record.target_true or "")), record):
        return Held.MEANT  # "4th floor" says of what it is the number
    return Held.OTHERWISE if _ELSEWHERE.search(marked) else Held.NAMED


def _held_value(marked: str, record: EditRecord) -> Held:
    if _is_of_another_thing(marked, record) or _NEAR_IT.search(marked):
        return Held.OTHERWISE
    if _says(marked, record):
        return Held.MEANT
    return Held.OTHERWISE if _OF_ANOTHER.search(marked) else Held.IN_DOUBT


def _says(marked: str, record: EditRecord) -> bool:
    """Whether a question says more of the edit than its subject and its old object."""
    is_said = _SAID.search(marked) is not None
    if not is_said and _IN_CHARGE.search(marked):
        asked = frozenset(word_weights_of(record.query, record.names))
        is_said = bool(asked) and asked <= _CHIEF
    return is_said or _says_of_edit(frozenset(telling_words(marked)), record)


def _asks_aside(question: str, record: EditRecord) -> bool:
    """Whether a question names the subject in a premise alone, and asks about something else."""
    parts = _PREMISE.match(question)
    if parts is None or _VALUE.search(parts["premise"]):
        return False
    words = frozenset(telling_words(parts["asked"]))
    if len(words) < _FEWEST_ASKED or _says_of_edit(words, record):
        return False
    objects = f"{record.target_true or ''} {record.target_new}"
    of_objects = stems(frozenset(telling_words(objects)))
    return of_objects.isdisjoint(stems(frozenset(telling_words(parts["premise"]))))


def _is_of_another_thing(marked: str, record: EditRecord) -> bool:
    """Whether the quantity is said of a thing of the subject that the edit has no word for."""
    found = _HAS_IT.match(marked)
    return found is not None and not _says_of_edit(frozenset(telling_words(found["thing"])), record)


def _is_name(text: str) -> bool:
    """Whether an object is a name, which hardly anything has by chance."""
    return reader_of(text) is None and not text.isdigit() and not _DAYS.fullmatch(text)


def _marked(question: str, old_object: str) -> str:
    """A question with a mark at each place where the old object stands."""
    reader = reader_of(old_object)
    if reader is None:
        return _with_marks_for_name(question, old_object)
    reading = AnswerRead(question)
    text = reading.text
    for place in sorted(reader(reading), reverse=True):
        if place.is_object:
            text = f"{text[: place.begin]}{_OBJECT}{text[place.end :]}"

    # "It closes at 5" says "5 pm", and "it is 19.90" says "19.90 euros".
    number = _NUMBER.match(spelled_in_digits(old_object))
    if number is None:
        return text
    bare = rf"(?<![\w.,:]){regex.escape(number[0])}(?![\w:%]|[.,]\d|\s?[ap]\.?m\b)"
    return str(regex.sub(bare, _OBJECT, text))


def _with_marks_for_name(question: str, name: str) -> str:
    read_name = Words.of(name)
    if not len(read_name):
        return question
    text = Words.of(question)
    return text.replaced(dict.fromkeys(text.spans(read_name), _OBJECT))


def _says_of_edit(said: frozenset[str], record: EditRecord) -> bool:
    """Whether one of these words is of the edit, or one for its relation."""
    own = frozenset[str]()
    for wording in (record.query, *record.paraphrases):
        own |= frozenset(word_weights_of(wording, record.names))
    own = own - _GENERAL or own
    known = stems(own) | synonyms(stems(own))
    if not known.isdisjoint(stems(said)):
        return True
    return any(_is_form_of(word, own_word) for word in said for own_word in own)


def _is_form_of(word: str, other: str) -> bool:
    """Whether two words begin so alike that they may be forms of one: vote and voting."""
    shorter, longer = sorted((word, other), key=len)
    beginning = shorter[:-1] if len(shorter) > _SHORTEST_STEM else shorter
    return len(beginning) >= _SHORTEST_STEM and longer.startswith(beginning)
