"""Phrases of ten languages by kind (`phrases.txt`), where a text begins with one and whether it holds one."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NAME = re.compile(r"(?<=[^\s.!?:\"“(])\s+[\"“'(]?(?=[^\W\d_])(\w[\w'’-]*)")
_BEFORE_NOUN = re.compile(
    r"\b(?:de[rmns]|das|die|eine?[rmns]?|[ksm]?eine?[rmns]?|ihre?[rmns]?|diese?[rmns]?|welche?[rmns]?|viele|wieviele|[iz]m"
    r"|zu[mr]|vom|beim)$",
    re.IGNORECASE,
)


@cache
def patterns(kind: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of all phrases of a kind, in any case: with spaces around words, and without."""
    lines = files("drike.gates").joinpath("phrases.txt").read_text("utf-8").splitlines()
    split = [line.partition(": ") for line in lines if not line.startswith("#") and ": " in line]
    phrases = {p.strip() for head, _, rest in split if head.split()[-1] == kind for p in rest.split("|")}
    some: dict[bool, list[str]] = {False: [r"(?!)"], True: [r"(?!)"]}
    for phrase in sorted(phrases, key=len, reverse=True):
        some[SPACELESS.search(phrase) is not None].append(re.escape(phrase).replace(r"\ ", r"\s+"))
    spaced, spaceless = map("|".join, some.values())
    return re.compile(rf"(?:{spaced})(?!\w)", re.IGNORECASE), re.compile(f"(?:{spaceless})")


def begins(text: str, kind: str, at: int = 0) -> str | None:
    """The phrase with which a text begins, or goes on at a place."""
    for pattern in patterns(kind):
        if match := pattern.match(text, at):
            return match[0]
    return None


def held(text: str, kind: str) -> int | None:
    """Where a text holds a phrase for the first time."""
    spaced, spaceless = patterns(kind)
    first = (m.start() for m in spaced.finditer(text) if not m.start() or not text[m.start() - 1].isalnum())
    also = match.start() if (match := spaceless.search(text)) else None
    return next(first, also)


def own_name(text: str) -> int | None:
    """Where a text has a word in capitals behind its first one: where only names have them, a subject of its own."""
    for match in _NAME.finditer(text):
        noun = _BEFORE_NOUN.search(text, max(0, match.start() - 12), match.start())  # in German
        if match[1][0].isupper() and not noun and not begins(match[1], "common"):
            return match.start(1)
    return None
