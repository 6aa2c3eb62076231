"""What a turn is in its conversation: a doubt, a question that leans on others, mere thanks.

Rules tell this, not a model: they take microseconds, and can be read. They look for the phrases of
a dozen languages in `text/phrases.txt`.
"""

import re

from drike.text.capitals import find_name
from drike.text.passed_on import only_wants_answer
from drike.text.phrases import SPACELESS, find_phrase, phrase_at
from drike.text.questions import parts_of
from drike.text.words import words

_BEGINNING = 240  # characters in which a turn says what it is
NAMES_READ = 8 * _BEGINNING  # characters in which a turn's own names are looked for
_LONGEST_CHALLENGE = 4 * _BEGINNING  # characters; a longer turn has a matter of its own
_MOST_WORDS = 60  # of a turn that may lean on others
_FRAGMENT = 3  # words of a question that is no sentence of its own: "the population?"
_VERBS = frozenset(
    ("is", "are", "was", "were", "do", "does", "did", "ist", "sind", "est", "es", "è", "são", "é")
)
_SPEAKERS = frozenset(  # words for whoever asks, or is asked
    ("you", "your", "i", "my", "me", "we", "du", "sie", "tu", "vous", "ich", "je", "yo", "usted")
)
_LEADING_MARKS = re.compile(r"^[\W_]+")


def is_challenge(text: str) -> bool:
    """Whether a turn doubts the answer before it: "Are you sure?", "My source says 1912"."""
    beginning = beginning_of(text)
    if len(text) > _LONGEST_CHALLENGE or _begins_a_task(beginning):
        return False

    challenge = phrase_at(beginning, "challenge")
    if not challenge:
        return find_phrase(beginning, "doubt") is not None
    rest = beginning[len(challenge) :].lstrip()
    is_sentence = " " in challenge or SPACELESS.match(challenge) is not None
    ends_there = rest == "" or rest[0] in ",.!?;:-–—…"
    # A single word only doubts at the end of a clause, or before a pronoun: "wrong, it is Oslo".
    return is_sentence or ends_there or find_phrase(rest, "pronoun") is not None


def leans(text: str) -> bool:
    """Whether a turn names no subject and leans on what was said before: "and its CEO?", "why?"."""
    beginning = beginning_of(text)
    said = words(text[:NAMES_READ])
    if not beginning or _begins_a_task(beginning) or len(said) > _MOST_WORDS or is_aside(text):
        return False
    if phrase_at(beginning, "opener") or only_wants_answer(text):
        return True
    if names_something(text) or not parts_of(text).questions:
        return False
    if has_pronoun(text):
        return True
    is_fragment = len(said) <= _FRAGMENT and text.rstrip().endswith(("?", "？"))
    return is_fragment and (_SPEAKERS | _VERBS).isdisjoint(said)


def is_aside(text: str) -> bool:
    """Whether a turn only thanks or agrees, so that the matter stays what it was."""
    if "?" in text or phrase_at(beginning_of(text), "thanks") is None:
        return False
    return len(words(text[:NAMES_READ])) <= _FRAGMENT


def names_something(text: str) -> bool:
    """Whether a turn has a name of its own."""
    return find_name(text[:NAMES_READ]) is not None


def has_pronoun(text: str) -> bool:
    """Whether a turn begins with a clause that has a pronoun for something said before."""
    return find_phrase(beginning_of(text), "pronoun") is not None


def beginning_of(text: str) -> str:
    """The beginning of a text in lower case, without the marks before its first word."""
    return _LEADING_MARKS.sub("", text[:_BEGINNING]).casefold().replace("’", "'")


def _begins_a_task(beginning: str) -> bool:
    """Whether a turn begins a new matter, behind thanks and openers: "ok, now write a haiku"."""
    while True:
        opening = phrase_at(beginning, "thanks") or phrase_at(beginning, "opener")
        if not opening and beginning.startswith(("now ", "please ")):
            opening = beginning.split(" ", 1)[0]
        if not opening:
            break
        rest = _LEADING_MARKS.sub("", beginning[len(opening) :])
        if rest in (beginning, ""):
            break
        beginning = rest
    return phrase_at(beginning, "task") is not None
