"""Questions of other languages, word by word in English (`glossary.txt`), so that they compare with wordings in any.

"Wie hoch ist it?" becomes "how high is it?". That is no translation: what is compared are the words, hardly their
order.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from drike.gates.phrases import SPACELESS

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_KANA = re.compile(r"[\u3040-\u309f]+")  # of inflections and particles
_LONGEST = 1_000  # characters of a text
_LEAST_STEM = 3  # letters
_MOST_WORDS = 3  # of a phrase
_ENGLISH, _JAPANESE = "en", "ja"


class _Language(NamedTuple):
    """English by phrase, as they are folded, and by the beginning of a word; the words of all phrases."""

    phrases: dict[str, str]
    stems: dict[str, str]
    words: frozenset[str]

    def english(self, phrase: str) -> str | None:
        """A phrase in English, if it is known."""
        known = self.phrases.get(phrase)
        if known is None and self.stems and " " not in phrase:
            sizes = range(len(phrase), _LEAST_STEM - 1, -1)
            known = next((self.stems[phrase[:size]] for size in sizes if phrase[:size] in self.stems), None)
        return known

    def knows(self, word: str) -> bool:
        """Whether a word is one of the language."""
        return word in self.words or self.english(word) is not None


def glossed(text: str) -> str:
    """A text with the words that are known in English, if most of its words are of one other language."""
    if len(text) > _LONGEST:
        return text
    if SPACELESS.search(text):
        known = _languages()[_JAPANESE].phrases
        return " ".join(_KANA.sub(" ", _signs().sub(lambda sign: f" {known[sign[0]]} ", text)).split())
    read = [(match.start(), match.end(), _folded(match[0])) for match in _WORD.finditer(text)]
    said = [word for _, _, word in read if word != "it"]
    counts = {name: sum(map(language.knows, said)) for name, language in _languages().items() if name != _JAPANESE}
    most = max(counts, key=lambda name: counts[name])  # English is the first
    if most == _ENGLISH or counts[most] < min(2, len(said)) or 2 * counts[most] < len(said):
        return text
    language, done, pieces, i = _languages()[most], 0, list[str](), 0
    while i < len(read):
        for size in range(_MOST_WORDS, 0, -1):
            some = read[i : i + size]
            english = language.english(" ".join(word for _, _, word in some)) if len(some) == size else None
            if english is not None and (size > 1 or some[0][2] != "it"):
                pieces += [text[done : some[0][0]], english]
                done, i = some[-1][1], i + size - 1
                break
        i += 1
    return "".join((*pieces, text[done:]))


def _folded(word: str) -> str:
    """A word in lower case without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))


@cache
def _signs() -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, _languages()[_JAPANESE].phrases), key=len, reverse=True)))


@cache
def _languages() -> dict[str, _Language]:
    """The languages of glossary.txt by their code, English first."""
    found = dict[str, _Language]()
    for line in files("drike.gates").joinpath("glossary.txt").read_text("utf-8").splitlines():
        code, colon, rest = line.partition(": ")
        if not colon or line.startswith("#"):
            continue
        phrases, stems = dict[str, str](), dict[str, str]()
        for entry in rest.split(", "):
            phrase, _, english = (part.strip() for part in entry.partition(" = "))
            own = phrase if code == _JAPANESE else " ".join(map(_folded, _WORD.findall(phrase)))
            (stems if phrase.endswith("*") else phrases)[own] = english or phrase
        found[code] = _Language(phrases, stems, frozenset(word for phrase in phrases for word in phrase.split()))
    return found
