"""Names of subjects in a query: whole words whatever their case and diacritics, partial names of people, typos.

Every look-up is by words or pairs of words in a dictionary, so that its time does not grow with the number of names.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from drike.gates.overlay import OverlayDict, regrouped

_HAN = r"\u3040-\u30ff\u3400-\u9fff"  # Han and kana are written without spaces: each sign is a word
_WORD = re.compile(rf"[{_HAN}]|(?:[^\W{_HAN}]|[\u0300-\u036f])+[+#]*")
_DIACRITICS = re.compile(r"[\u0300-\u036f]")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})
_TITLE = re.compile(r", | \(")  # behind it: a title, a place, what distinguishes one of several
_PARTICLES = frozenset(
    ("al", "bin", "da", "de", "del", "den", "der", "di", "do", "dos", "du", "el", "ibn", "la", "le", "van", "von", "y")
)
_LONG_WORD = 6  # letters; shorter words are not checked for typos
_MIDDLE_NAMES = 2  # at most, between the first and the last name


class QueryWord(NamedTuple):
    """A word as it is compared, and where it stands in the composed text."""

    folded: str
    begin: int
    end: int


class NameMatch(StrEnum):
    """How a query names a subject."""

    FULL = "full"
    PARTIAL = "partial"  # a person's first and last name, or a name without what is behind its comma
    TYPO = "typo"


@dataclass(frozen=True)
class Mention:
    """A stored name in a query: its words begin..end (excluded), and the ids of the edits that have it."""

    name: str
    kind: NameMatch
    begin: int
    end: int
    edits: tuple[int, ...]


def composed(text: str) -> str:
    """The text in the form (NFKC) to which the places of `tokenize` refer."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def tokenize(text: str) -> list[QueryWord]:
    """The words of a composed text: case folded, without diacritics and punctuation."""
    return [QueryWord(_folded(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]


def words(text: str) -> list[str]:
    """The words of any text as they are compared."""
    return [_folded(word) for word in _WORD.findall(composed(text))]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    return _DIACRITICS.sub("", unicodedata.normalize("NFD", word.casefold())).translate(_LETTERS)


def masked(text: str, names: Iterable[str]) -> str:
    """A text with "it" for the first of the names that it mentions."""
    text = composed(text)
    tokens = tokenize(text)
    folded = [word.folded for word in tokens]
    for name in map(words, names):
        size = len(name)
        spans = [(i, i + size) for i in range(len(tokens) - size + 1) if size and folded[i : i + size] == name]
        if spans:
            return with_pronoun(text, tokens, spans)
    return text


def with_pronoun(text: str, tokens: Sequence[QueryWord], spans: Iterable[tuple[int, int]]) -> str:
    """A composed text with "it" for spans of its words."""
    for begin, end in sorted(spans, reverse=True):
        text = text[: tokens[begin].begin] + "it" + text[tokens[end - 1].end :]
    return text


def continued(text: str, tokens: Sequence[QueryWord], mention: Mention) -> bool:
    """Whether a mention seems part of a longer name: "Chile" in "University of Chile", "iPhone" in "iPhone X".

    True where a word in capitals, other than the first of the text, or a number adjoins it.
    """

    def capital(i: int) -> bool:
        return text[tokens[i].begin].isupper() or text[tokens[i].begin].isdigit()

    def adjoin(i: int) -> bool:
        return text[tokens[i].end : tokens[i + 1].begin] in (" ", "-", "–")

    begin, end = mention.begin, mention.end
    if end < len(tokens) and adjoin(end - 1) and capital(end):
        return True
    if begin > 1 and tokens[begin - 1].folded == "of" and adjoin(begin - 2) and adjoin(begin - 1):
        begin -= 1
    return begin > 1 and adjoin(begin - 1) and capital(begin - 1)


class _NameForms(NamedTuple):
    """The names of an edit as `NameIndex` has them, and the words of the full ones."""

    full: set[str]
    short: set[str]
    people: set[tuple[str, str]]
    words: set[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> _NameForms:
        full, short, people = set(), set(), set()
        for name in names:
            full.add(" ".join(words(name)))
            plain = _TITLE.split(composed(name))[0]
            folded = words(plain)
            if len(plain) < len(name) and len(folded) > 1:
                short.add(" ".join(folded))
            if _is_person(plain, folded):
                people.add(_pair(folded[0], folded[-1]))
        full.discard("")
        return cls(full, short, people, {word for name in full for word in name.split()})


@dataclass(frozen=True)
class NameIndex:
    """A dictionary of the names of edits.

    Attributes:
        full, short: ids of edits by the words of a name; `short` are names without what is behind a comma or bracket.
        longest: the number of words of the longest name in either that begins with a word, or more.
        people: ids by first and last name, in alphabetical order.
        vocabulary: of each word in the names, the number of edits that have it.
        misspelt: words of `_LONG_WORD` letters or more, by each way to leave out a letter.
    """

    full: OverlayDict[str, tuple[int, ...]] = field(default_factory=OverlayDict)
    short: OverlayDict[str, tuple[int, ...]] = field(default_factory=OverlayDict)
    longest: OverlayDict[str, int] = field(default_factory=OverlayDict)
    people: OverlayDict[tuple[str, str], tuple[int, ...]] = field(default_factory=OverlayDict)
    vocabulary: OverlayDict[str, int] = field(default_factory=OverlayDict)
    misspelt: OverlayDict[str, tuple[str, ...]] = field(default_factory=OverlayDict)

    def changed(self, gone: Mapping[int, Sequence[str]], new: Mapping[int, Sequence[str]]) -> NameIndex:
        """A copy without the names of some edits and with those of others, both by id."""
        old, added = ({id: _NameForms.of(names) for id, names in names_of.items()} for names_of in (gone, new))
        counts = Counter(word for spelled in added.values() for word in spelled.words)
        counts.subtract(word for spelled in old.values() for word in spelled.words)
        vocabulary = self.vocabulary.changed({w: self.vocabulary.get(w, 0) + n or None for w, n in counts.items() if n})
        long = [word for word, n in counts.items() if n and len(word) >= _LONG_WORD]
        longest: dict[str, int | None] = {word: None for word in counts if word not in vocabulary}
        for name in (name.split() for spelled in added.values() for name in (*spelled.full, *spelled.short)):
            known = longest.get(name[0]) or self.longest.get(name[0], 0)
            longest[name[0]] = max(known, len(name))
        full, short, people = (
            regrouped(
                getattr(self, kind),
                ((id, getattr(spelled, kind)) for id, spelled in old.items()),
                ((id, getattr(spelled, kind)) for id, spelled in added.items()),
            )
            for kind in ("full", "short", "people")
        )
        return NameIndex(
            full,
            short,
            self.longest.changed(longest),
            people,
            vocabulary,
            regrouped(
                self.misspelt,
                ((word, _shortened(word)) for word in long if word not in vocabulary),
                ((word, _shortened(word)) for word in long if word not in self.vocabulary),
            ),
        )

    def find(self, text: str, tokens: Sequence[QueryWord]) -> list[Mention]:
        """The names among the words of a composed text, in their order; none that is part of a longer one."""
        folded = [word.folded for word in tokens]
        mentions = self._spelled(folded)
        free = [True] * len(tokens)
        for mention in mentions:
            free[mention.begin : mention.end] = [False] * (mention.end - mention.begin)
        for i, word in enumerate(folded):
            if free[i] and len(word) >= _LONG_WORD and word not in self.vocabulary:
                mentions += self._misspelt(folded, i)
        mentions += self._people(text, tokens, free)
        return sorted(mentions, key=lambda mention: (mention.begin, -mention.end))

    def _spelled(self, folded: Sequence[str]) -> list[Mention]:
        mentions: list[Mention] = []
        last = 0
        for begin, word in enumerate(folded):
            for end in range(min(begin + self.longest.get(word, 0), len(folded)), max(begin, last), -1):
                name = " ".join(folded[begin:end])
                for names, kind in ((self.full, NameMatch.FULL), (self.short, NameMatch.PARTIAL)):
                    if name in names:
                        mentions.append(Mention(name, kind, begin, end, names[name]))
                        last = end
                if last == end:
                    break
        return mentions

    def _misspelt(self, folded: Sequence[str], i: int) -> list[Mention]:
        """The names that hold the word at `i` in its right spelling."""
        word = folded[i]
        near = {right for shorter in _shortened(word) for right in self.misspelt.get(shorter, ())}
        mentions = []
        for right in sorted(known for known in near if _one_typo(word, known)):
            for mention in self._spelled([*folded[:i], right, *folded[i + 1 :]]):
                alone = mention.end - mention.begin == 1
                if mention.begin <= i < mention.end and not (alone and _same_stem(word, right)):
                    mentions.append(Mention(mention.name, NameMatch.TYPO, mention.begin, mention.end, mention.edits))
        return mentions

    def _people(self, text: str, tokens: Sequence[QueryWord], free: Sequence[bool]) -> list[Mention]:
        """People under their first and last name, with other middle names or none, or the last name first."""
        mentions = []
        for begin, first in enumerate(tokens):
            for end in range(begin + 1, min(begin + 2 + _MIDDLE_NAMES, len(tokens))):
                if not free[begin] or not free[end]:
                    break
                edits = self.people.get(_pair(first.folded, tokens[end].folded))
                if edits is not None:
                    name = text[first.begin : tokens[end].end]
                    mentions.append(Mention(name, NameMatch.PARTIAL, begin, end + 1, edits))
                if not (text[tokens[end].begin].isupper() or tokens[end].folded in _PARTICLES):
                    break
        return mentions


def _is_person(name: str, folded: Sequence[str]) -> bool:
    """Whether a name may be a person's: two to five words in capitals, particles aside."""
    parts = re.split(r"[\s.]+", name.strip(" ."))
    return (
        2 <= len(parts) <= 5
        and len(folded) > 1
        and min(len(folded[0]), len(folded[-1])) > 1
        and all(part[:1].isupper() or part in _PARTICLES for part in parts)
    )


def _pair(first: str, last: str) -> tuple[str, str]:
    return (first, last) if first <= last else (last, first)


def _shortened(word: str) -> set[str]:
    """The word, and with any one letter left out: words within a typo of each other share one of these."""
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _one_typo(first: str, second: str) -> bool:
    """Whether one letter was added, left out or exchanged, or two neighbours were swapped."""
    i = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    a, b = first[i:], second[i:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _same_stem(first: str, second: str) -> bool:
    """Whether two words differ in their end only: "Albania" and "Albanian" are different words, not a typo."""
    size = min(len(first), len(second)) - (len(first) == len(second))
    return first[:size] == second[:size]
