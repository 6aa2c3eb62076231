"""Whether texts allow what they speak of, or forbid it, in English and German."""

import re

_FORBIDS = re.compile(
    r"\b(?:forbidden|prohibited|banned|disallowed|impermissible|off[- ]limits|against the rules"
    r"|unsafe|not welcome|verboten|untersagt"
    r"|(?:not|n['’]t|nicht|kein\w*|no|cannot|never)\b(?:\W+\w+){0,3}?\W+"
    r"(?:allowed|permitted|possible|okay|ok|safe|fine|allow|permit|use|accept(?:ed)?|welcome|supported"
    r"|available|offered|erlaubt|gestattet|möglich)"
    r"|(?:may|can|must|should|darf|dürfen|kann) ?(?:not|nicht)|cannot|can['’]t|mustn['’]t|mayn['’]t"
    r"|isn['’]t|aren['’]t|unfortunately not|reserved for|only (?:staff|employees|members))\b",
    re.IGNORECASE,
)
_ALLOWS = re.compile(
    r"\b(?:allowed|permitted|may|can|welcome|fine|okay|ok|free to|entitled to|possible|safe"
    r"|acceptable|allows?|permits?|erlaubt|gestattet|darf|dürfen|möglich|kann|können)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\?|\b(?:whether|depends?|depending|not sure|varies|vary|used to|ob|kommt darauf an)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORDS_OF_PERMISSION = re.compile(
    r"\b(?:forbidden|prohibited|banned|disallowed|allowed|permitted|verboten|untersagt|erlaubt"
    r"|gestattet)\b",
    re.IGNORECASE,
)


def forbids(text: str) -> bool:
    """Whether a text forbids something."""
    return _FORBIDS.search(text) is not None


def allows(text: str) -> bool:
    """Whether a text allows something, and forbids nothing."""
    return not forbids(text) and _ALLOWS.search(text) is not None


def is_open_question(text: str) -> bool:
    """Whether a text leaves open what it speaks of, or asks it."""
    return _OPEN.search(text) is not None


def rules_on_permission(text: str) -> bool:
    """Whether a text says in these words that something is allowed or forbidden."""
    return _WORDS_OF_PERMISSION.search(text) is not None


def without_permission(text: str) -> str:
    """A text without the words that allow or forbid."""
    return _WORDS_OF_PERMISSION.sub(" ", text)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]
