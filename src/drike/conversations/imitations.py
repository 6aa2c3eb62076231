"""Texts that imitate the delimiters of a block of facts, which lose their bracket.

Texts are compared as a model may read them: without signs that have no form, in one form of each
letter, in letters that look like others, and joined as they stand in a message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from drike.conversations.turns import JsonPath

TAG = "corrected-facts"

_NEAR = 16  # characters between the words of a delimiter, and before them
_BETWEEN_LETTERS = 2  # characters, as of "c.o.r.r.e.c.t.e.d"
# Signs that look like letters of ours, and that no name of Unicode says to be these.
_LOOKING_ALIKE = {
    "c": "с\u03f2ⲥᏟꓚ",
    "o": "0о\u03bf\u03c3օⲟꓳ〇",
    "r": "гᴦꮁᎡꓣ\u0280",
    "e": "3еєε\u03f5ⲉᎬꓰҽ℮",
    "t": "7тτⲧᎢꓔ†",
    "d": "ԁᎠꓓժ",
    "f": "ғϝꓝք",
    "a": "4аα\u0251ⲁᎪꓮ",
    "s": "5ѕꓢᏚՏ$",
    "<": "≺ᐸ❮❰⟪⟨《〈〈«˂⋖≪﹤＜",
}
_LETTER_OF = {sign: letter for letter, signs in _LOOKING_ALIKE.items() for sign in signs}
_NAMED_LETTER = re.compile(
    r"(?:LATIN|MODIFIER|NEGATIVE|CROSSED|CIRCLED|SQUARED|REGIONAL|PARENTHESIZED)\b.*"
    r"\b([A-Z])(?: WITH .+)?"
)
_WITHOUT_FORM = ("Cc", "Cf", "Cs", "Mn", "Me")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u17b4\u17b5")  # letters without a form


class _Folds(dict[int, str]):
    """Characters as they are compared."""

    def __missing__(self, code: int) -> str:
        self[code] = _folded_sign(chr(code))
        return self[code]


def _folded_sign(sign: str) -> str:
    """A sign as it is compared; "" for one without a form."""
    if sign in "\n\t\r":
        return " "
    if sign in _LETTER_OF:
        return _LETTER_OF[sign]
    named = _NAMED_LETTER.fullmatch(unicodedata.name(sign, ""))
    if named:
        return named[1].lower()
    decomposed = unicodedata.normalize("NFKD", sign).casefold()
    plain = (one for one in decomposed if unicodedata.category(one) not in _WITHOUT_FORM)
    return "".join(_LETTER_OF.get(one, one) for one in plain if one not in _FILLERS)


_FOLDS = _Folds()


def _spaced(word: str) -> str:
    """A pattern for a word whose letters may stand apart."""
    return rf"[\W_]{{0,{_BETWEEN_LETTERS}}}+".join(word)


_FIRST, _SECOND = TAG.split("-")
_NAME = re.compile(rf"{_spaced(_FIRST)}[\W_]{{0,{_NEAR}}}+{_spaced(_SECOND)}")
# "<" as HTML, JSON and addresses write it, as it is compared: 0 as o, 3 as e.
_ESCAPED = r"&lt;?|&#o{0,4}6o;?|&#xo{0,4}ec;?|\\uooec|\\xec|%ec"
_BRACKET = re.compile(rf"(?:<|{_ESCAPED})(?=[\W_]*\Z)")
_MAY_BE_BRACKET = re.compile("[<&\\\\%\x80-\U0010ffff]")
_LONGEST_BRACKET = 10  # characters

# Keys of the texts of a message that are read one behind the other.
_SAID = frozenset({"content", "text", "refusal", "thinking", "reasoning", "output", "stdout"})
_MESSAGES = ("messages", "input")


def defused(text: str) -> str:
    """A text in which nothing reads as a delimiter of the block.

    However the delimiter is written, its bracket becomes a quotation mark: "‹corrected-facts".
    """
    places = _brackets(text)
    if not places:
        return text
    between_brackets = pairwise([-1, *places, len(text)])
    return "‹".join(text[bracket + 1 : next_bracket] for bracket, next_bracket in between_brackets)


def defused_together(texts: Sequence[str]) -> list[str]:
    """Texts that a model reads one behind the other, as `defused` would have them together."""
    joined = defused("".join(texts))
    together = []
    begin = 0
    for text in texts:
        together.append(defused(joined[begin : begin + len(text)]))
        begin += len(text)
    return together


def _brackets(text: str) -> list[int]:
    """Where the brackets of delimiters begin."""
    if not _MAY_BE_BRACKET.search(text):
        return []
    folded = text.translate(_FOLDS)
    names = [name.start() for name in _NAME.finditer(folded)]
    if not names:
        return []
    places = _places(text)
    found = set()
    for name in names:
        nearby = max(0, name - _NEAR - _LONGEST_BRACKET)
        for bracket in _BRACKET.finditer(folded, nearby, name):
            found.add(places[bracket.start()])
    return sorted(found)


def _places(text: str) -> Sequence[int]:
    """The place in a text of each sign of its folded one."""
    places: list[int] = []
    for place, sign in enumerate(text):
        places += [place] * len(_FOLDS[ord(sign)])
    return places


def texts_in(values: Mapping[str, Any]) -> dict[JsonPath, str]:
    """All texts of a request, whatever they are for, by their keys."""
    return dict(_texts_under(values, ()))


def _texts_under(value: object, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts_under(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts_under(inner, (*path, place))


def imitates_in_keys(value: object) -> bool:
    """Whether a key of an object, whose bracket cannot be taken, imitates a delimiter."""
    if isinstance(value, Mapping):
        if any(defused(str(key)) != key for key in value):
            return True
        return any(map(imitates_in_keys, value.values()))
    return isinstance(value, list | tuple) and any(map(imitates_in_keys, value))


def harmless(texts: Mapping[JsonPath, str]) -> dict[JsonPath, str]:
    """The texts of a request, by their keys, without imitations; those of a message are joined."""
    new_texts: dict[JsonPath, str] = {}
    for _, paths_of_message in groupby(texts, key=_message_of):
        paths = list(paths_of_message)
        said = [path for path in paths if path[-1] in _SAID or isinstance(path[-1], int)]
        together = defused_together([texts[path] for path in said])
        new_texts.update(zip(said, together, strict=True))
        for path in paths:
            if path not in new_texts:
                new_texts[path] = defused(texts[path])
    return {path: new_texts[path] for path in texts}


def _message_of(path: JsonPath) -> JsonPath:
    """What the texts of one message have in common; any other text stands alone."""
    return path[:2] if path[0] in _MESSAGES else path
