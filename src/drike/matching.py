"""When a text is a right answer, and where scores end a word; `judging` applies both to rewards and metrics.

A text is right when its first line *starts with* the target at a word boundary after normalisation (case, articles,
punctuation, white space). Only what the model wrote after the prompt may be handed in, never the whole text: in 8 % of
CounterFact's rows the old object stands inside the subject.

For a model that scores, the same is read off the scored continuation: every target token is the model's first choice,
and the token it would write next does not go on with the same word.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_JOINERS = re.compile(r"[-‐-―_/]")
_POSSESSIVE = re.compile(r"['’]s\b")
_PUNCTUATION = re.compile(r"(?<!\d)[.](?=\d)|[.](?!\d)|[^\w\s.+#]")  # a point between digits, + and # are kept


def first_line(text: str) -> str:
    """The first line of a completion that is not blank, stripped; "" if there is none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


@lru_cache(maxsize=1 << 14)  # the objects of a data set, which are compared again and again
def normalise(text: str) -> str:
    """Fold case, drop articles and punctuation, collapse white space.

    Articles are kept where nothing else would be left ("The The"), and a text of bare signs ("+") is returned as it is.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = _PUNCTUATION.sub("", _JOINERS.sub(" ", _POSSESSIVE.sub(" s", folded)))
    without = " ".join(_ARTICLES.sub(" ", plain).split())
    return without or " ".join(plain.split()) or folded.strip()


def matches(text: str, target: str) -> bool:
    """Whether the first line of `text` starts with `target` at a word boundary, both normalised.

    Raises ValueError for an empty target, which every text would match.
    """
    wanted = normalise(target).split()
    if not wanted:
        raise ValueError("a target must hold at least one word: every answer would match an empty one")
    return normalise(first_line(text)).split()[: len(wanted)] == wanted


def equals(text: str, target: str) -> bool:
    """Strict form, recorded beside `matches`: the whole first line is the target after normalisation."""
    return normalise(first_line(text)) == normalise(target)


def ends_word(following: str) -> bool:
    """Whether text that starts with `following` has left the word before it ("" stands for the end of the text).

    Half a character (a byte-level token cut inside one) is taken for a letter.
    """
    return not (following[:1].isalnum() or following[:1] == "\N{REPLACEMENT CHARACTER}")


def ends_answer(following: str) -> bool:
    """Whether an answer is over where `following` comes next: the end, a line break, or a mark that ends a clause."""
    return following.strip(" ")[:1] in ("", "\n", "\r", ".", ",", ";", ":", "!", "?", ")", '"')
