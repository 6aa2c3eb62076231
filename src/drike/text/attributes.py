"""Which attributes of firms and products a text asks for or states: a price, a deadline, a leader.

"What's the damage for a season?" and "The fee is" have no word in common, and ask for the same.
`attributes.txt` has phrases for each attribute, of several languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from drike.text.word_lists import data_sections

_LONGEST = 1_000  # characters of a text that is read
_WORD = re.compile(r"\w+")
_SIGNS = re.compile("[\u2e80-\uffdc]")  # of languages that write no spaces
_GAP, _ENDING = "*", "~"
_LONGEST_GAP = 4  # words
_SHORTEST_BEGINNING = 2  # letters
_ONLY_ASKED, _ONLY_STATED = "? ", ". "
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Phrases:
    """Phrases by their first words; each with its further words and its attribute.

    beginnings: of words with any ending. signs: phrases of languages that write no spaces.
    """

    words: dict[str, list[tuple[tuple[str, ...], str]]] = field(default_factory=dict)
    beginnings: dict[str, list[tuple[tuple[str, ...], str]]] = field(default_factory=dict)
    signs: dict[str, list[str]] = field(default_factory=dict)

    def add(self, phrase: str, attribute: str) -> None:
        """Add a phrase for an attribute."""
        if _SIGNS.search(phrase):
            self.signs.setdefault(phrase, []).append(attribute)
            return
        first, *further = _parts(phrase)
        beginnings = first.endswith(_ENDING)
        by_first = self.beginnings if beginnings else self.words
        by_first.setdefault(first.removesuffix(_ENDING), []).append((tuple(further), attribute))

    def found_in(self, text: str) -> Mapping[str, frozenset[str]]:
        """The attributes for which a text in small letters has phrases, with their words there."""
        found: dict[str, frozenset[str]] = {}
        said = _WORD.findall(text)
        for place in range(len(said)):
            for further, attribute in self._beginning_with(said[place]):
                rest = _rest_of_phrase(said, place + 1, further)
                if rest is not None:
                    found[attribute] = found.get(attribute, _NONE).union((said[place], *rest))
        if _SIGNS.search(text):
            for phrase, attributes in self.signs.items():
                if phrase in text:
                    found |= {attribute: found.get(attribute, _NONE) for attribute in attributes}
        return found

    def _beginning_with(self, word: str) -> Iterator[tuple[tuple[str, ...], str]]:
        yield from self.words.get(word, ())
        for size in range(_SHORTEST_BEGINNING, len(word) + 1):
            yield from self.beginnings.get(word[:size], ())


@lru_cache(4_096)
def asked_attributes(question: str) -> Mapping[str, frozenset[str]]:
    """The attributes that a question, with "it" for its subject, may ask for, by their names.

    Each comes with the words that say so.
    """
    return _phrases(is_asked=True).found_in(question[:_LONGEST].casefold())


@lru_cache(4_096)
def stated_attributes(wording: str) -> frozenset[str]:
    """The names of the attributes that an edit's wording, with "it", may be about."""
    is_asked = wording.rstrip().endswith(("?", "？"))
    return frozenset(_phrases(is_asked=is_asked).found_in(wording[:_LONGEST].casefold()))


@cache
def _phrases(*, is_asked: bool) -> _Phrases:
    """The phrases by which attributes are asked for, or stated."""
    other_way = _ONLY_STATED if is_asked else _ONLY_ASKED
    phrases = _Phrases()
    for attribute, lines in data_sections("text/attributes.txt").items():
        for line in lines:
            if line.startswith(other_way):
                continue
            for phrase in line.removeprefix(_ONLY_ASKED).removeprefix(_ONLY_STATED).split("|"):
                if phrase.strip():
                    phrases.add(phrase.strip().casefold(), attribute)
    return phrases


def _parts(phrase: str) -> list[str]:
    """The words of a phrase, with `_ENDING` behind those of any ending, and `_GAP`."""
    return re.findall(r"\w+~?|\*", phrase)


def _rest_of_phrase(
    said: Sequence[str], place: int, further: Sequence[str]
) -> tuple[str, ...] | None:
    """The words from a place on that are those of the rest of a phrase; None if they are not."""
    if not further:
        return ()
    part = further[0]
    if part == _GAP:
        last = min(place + _LONGEST_GAP, len(said))
        rests = (_rest_of_phrase(said, start, further[1:]) for start in range(place, last + 1))
        return next((rest for rest in rests if rest is not None), None)
    if place >= len(said) or not _is_part(said[place], part):
        return None
    rest = _rest_of_phrase(said, place + 1, further[1:])
    return None if rest is None else (said[place], *rest)


def _is_part(word: str, part: str) -> bool:
    if part.endswith(_ENDING):
        return word.startswith(part.removesuffix(_ENDING))
    return word == part
