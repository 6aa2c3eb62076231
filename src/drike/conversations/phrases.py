"""Whether a turn leans on those before it, or challenges the answer to them, by its words (`phrases.txt`).

Rules, not a model: they take microseconds, can be read, and err on the side of standing alone. What a turn leans on
only ever adds words for the gate to read, which then decides.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from drike.words import words

_SHORT, _FRAGMENT = 60, 3  # words: a turn that may lean or doubt, and a question that is no sentence of its own
_FIRST = 240  # characters in which a turn says what it is
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NAME = re.compile(r"(?<=[^\s.!?:\"“(])\s+[\"“'(]?(?!I\b)(?=[^\W\d_])(\w[\w'’-]*)")
_VERBS = frozenset(("is", "are", "was", "were", "do", "does", "did", "ist", "sind", "est", "es", "è", "são", "é"))
_TO_MODEL = frozenset(("you", "your", "i", "my", "me", "we", "du", "sie", "tu", "vous", "ich", "je", "yo", "usted"))


@cache
def _phrases(kind: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of all phrases of a kind: with spaces around words, and without."""
    lines = files("drike.conversations").joinpath("phrases.txt").read_text("utf-8").splitlines()
    split = [line.partition(": ") for line in lines if not line.startswith("#") and ": " in line]
    phrases = {p.strip() for head, _, rest in split if head.split()[-1] == kind for p in rest.split("|")}
    some = {True: r"(?!)", False: r"(?!)"}
    for spaceless in some:
        chosen = sorted((p for p in phrases if bool(_SPACELESS.search(p)) is spaceless), key=len, reverse=True)
        some[spaceless] = "|".join(re.escape(p).replace(r"\ ", r"\s+") for p in chosen)
    return re.compile(rf"(?:{some[False]})(?!\w)"), re.compile(f"(?:{some[True]})")


def _begins(text: str, kind: str) -> str | None:
    """The phrase with which a text begins."""
    for pattern in _phrases(kind):
        if match := pattern.match(text):
            return match[0]
    return None


def _holds(text: str, kind: str) -> bool:
    spaced, spaceless = _phrases(kind)
    return any(not match.start() or not text[match.start() - 1].isalnum() for match in spaced.finditer(text)) or (
        spaceless.search(text) is not None
    )


def _plain(text: str) -> str:
    """The beginning of a text in lower case, without what stands before its first word."""
    return re.sub(r"^[\W_]+", "", text[:_FIRST]).casefold().replace("’", "'")


def is_challenge(text: str) -> bool:
    """Whether a turn doubts the answer before it: "Are you sure?", "That is wrong", "My source says 1912"."""
    plain = _plain(text)
    if len(text) > 4 * _FIRST or _stands_alone(plain):
        return False
    if first := _begins(plain, "challenge"):
        rest, sentence = plain[len(first) :].lstrip(), " " in first or _SPACELESS.match(first)
        return bool(sentence) or rest[:1] in ("", *",.!?;:-–—…") or _holds(rest, "pronoun")
    return _holds(plain, "doubt")


def leans(text: str) -> bool:
    """Whether a turn names no subject of its own and leans on what was said before: "and its CEO?", "why?"."""
    plain = _plain(text)
    if not plain or _stands_alone(plain) or len(said := words(text[: 8 * _FIRST])) > _SHORT:
        return False
    if _begins(plain, "thanks") and len(said) <= _FRAGMENT and "?" not in text:
        return False
    if _begins(plain, "opener"):
        return True
    if _names(text):
        return False
    fragment = len(said) <= _FRAGMENT and text.rstrip().endswith(("?", "？"))  # "the population?"
    return _holds(plain, "pronoun") or (fragment and not (_TO_MODEL | _VERBS) & set(said))


def is_aside(text: str) -> bool:
    """Whether a turn only thanks or agrees, so that the matter stays what it was."""
    plain = _plain(text)
    return _begins(plain, "thanks") is not None and len(words(text[: 8 * _FIRST])) <= _FRAGMENT and "?" not in text


def _stands_alone(plain: str) -> bool:
    """Whether a turn begins a new matter: "ok, now write a haiku"."""
    while (first := _begins(plain, "thanks") or _begins(plain, "opener")) or plain.startswith(("now ", "please ")):
        rest = re.sub(r"^[\W_]+", "", plain[len(first or plain.split(" ", 1)[0]) :])
        if rest == plain or not rest:
            break
        plain = rest
    return _begins(plain, "task") is not None


def _names(text: str) -> bool:
    """Whether a text has a word in capitals behind its first one: where only names have them, a subject of its own."""
    return any(match[1][0].isupper() for match in _NAME.finditer(text[: 8 * _FIRST]))
