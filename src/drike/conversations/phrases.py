"""Whether a turn leans on those before it, or challenges the answer to them, by its words (`drike.gates.glossary`).

Rules, not a model: they take microseconds, can be read, and err on the side of standing alone.
"""

from __future__ import annotations

import re

from drike.gates.asked import read
from drike.gates.glossary import SPACELESS, begins, held, own_name
from drike.words import words

_SHORT, _FRAGMENT = 60, 3  # words: a turn that may lean or doubt, and a question that is no sentence of its own
_FIRST = 240  # characters in which a turn says what it is
_VERBS = frozenset(("is", "are", "was", "were", "do", "does", "did", "ist", "sind", "est", "es", "è", "são", "é"))
_TO_MODEL = frozenset(("you", "your", "i", "my", "me", "we", "du", "sie", "tu", "vous", "ich", "je", "yo", "usted"))


def _plain(text: str) -> str:
    """The beginning of a text in lower case, without what stands before its first word."""
    return re.sub(r"^[\W_]+", "", text[:_FIRST]).casefold().replace("’", "'")


def is_challenge(text: str) -> bool:
    """Whether a turn doubts the answer before it: "Are you sure?", "That is wrong", "My source says 1912"."""
    plain = _plain(text)
    if len(text) > 4 * _FIRST or _stands_alone(plain):
        return False
    if first := begins(plain, "challenge"):
        rest, sentence = plain[len(first) :].lstrip(), " " in first or SPACELESS.match(first)
        return bool(sentence) or rest[:1] in ("", *",.!?;:-–—…") or held(rest, "pronoun") is not None
    return held(plain, "doubt") is not None


def leans(text: str) -> bool:
    """Whether a turn names no subject of its own and leans on what was said before: "and its CEO?", "why?"."""
    plain = _plain(text)
    if not plain or _stands_alone(plain) or len(said := words(text[: 8 * _FIRST])) > _SHORT:
        return False
    if is_aside(text):
        return False
    if begins(plain, "opener"):
        return True
    if own_name(text[: 8 * _FIRST]) is not None or not read(text).parts:
        return False
    fragment = len(said) <= _FRAGMENT and text.rstrip().endswith(("?", "？"))  # "the population?"
    return held(plain, "pronoun") is not None or (fragment and not (_TO_MODEL | _VERBS) & set(said))


def is_aside(text: str) -> bool:
    """Whether a turn only thanks or agrees, so that the matter stays what it was."""
    plain = _plain(text)
    return begins(plain, "thanks") is not None and len(words(text[: 8 * _FIRST])) <= _FRAGMENT and "?" not in text


def _stands_alone(plain: str) -> bool:
    """Whether a turn begins a new matter: "ok, now write a haiku"."""
    while (first := begins(plain, "thanks") or begins(plain, "opener")) or plain.startswith(("now ", "please ")):
        rest = re.sub(r"^[\W_]+", "", plain[len(first or plain.split(" ", 1)[0]) :])
        if rest == plain or not rest:
            break
        plain = rest
    return begins(plain, "task") is not None
