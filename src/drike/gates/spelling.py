"""Typing errors in what a question asks: "captial" is read as "capital", which the wordings of relations have."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from importlib.resources import files

from drike.encoders.salience import content
from drike.gates.inventory import built_in
from drike.gates.names import one_typo, shortened
from drike.short_forms import lists

_WORD = re.compile(r"(?<!\w)[a-z]{5,20}(?!\w)")
_KNOWN = re.compile(r"[a-z]{5,}")
_LEAST = 5  # letters of the right word; in one of five, letters are only swapped
_LONGEST = 1_000  # characters of a text


def corrected(text: str) -> str:
    """A text with its longer words in lower case as the wordings of relations spell them.

    Only where letters are swapped, missing or too many in a word that neither they nor other lists of words have, and
    where one of their words has the same first and last letter.
    """
    return _WORD.sub(lambda word: _right(word[0]), text) if len(text) <= _LONGEST else text


def _right(word: str) -> str:
    known, by_part = _words()
    if word in known or content(word) < 1 or word in lists("common words"):
        return word
    near = {right for part in shortened(word) for right in by_part.get(part, ()) if one_typo(word, right)}
    near = {w for w in near if (w[0], w[-1]) == (word[0], word[-1])}
    near = {w for w in near if sorted(w) == sorted(word) or len(word) != len(w) > _LEAST}  # no exchanged letter
    return near.pop() if len(near) == 1 else word


@cache
def _words() -> tuple[frozenset[str], dict[str, list[str]]]:
    """The words of wordings and those of `spelling.txt`, and the longer of the former by each letter left out."""
    texts = (text for relation in built_in() for group in relation.groups for text in group)
    wordings = {word for text in texts for word in _KNOWN.findall(text.lower())}
    lines = files("drike.gates").joinpath("spelling.txt").read_text("utf-8").splitlines()
    others = {word for line in lines if not line.startswith("#") for word in line.split()}
    by_part = defaultdict[str, list[str]](list)
    for word in sorted(wordings):
        if len(word) >= _LEAST:
            for part in shortened(word):
                by_part[part].append(word)
    return frozenset(wordings | others), dict(by_part)
