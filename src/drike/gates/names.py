"""Names of subjects in a query: whole words as `drike.words` reads them, partial names of people, typos.

A text is read in time linear in its length: all its words are compared at once, a name's first words before its others,
and of what may be found very often only the first and the last places are looked at more closely.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np

from drike.gates.fingerprints import FingerprintSet, Flags
from drike.gates.overlay import OverlayDict, regrouped
from drike.words import MAX_NAME_PARTS, Fingerprints, Kinds, Places, Words, composed, extended, extended_each

_TITLE = re.compile(r", | \(")  # behind it: a title, a place, what distinguishes one of several
_PARTICLES = frozenset(
    ("al", "bin", "da", "de", "del", "den", "der", "di", "do", "dos", "du", "el", "ibn", "la", "le", "van", "von", "y")
)
_LONG_WORD, _LONGEST_WORD = 6, 40  # letters; other words are not checked for typos
_MIDDLE_NAMES = 2  # at most, between the first and the last name
_MENTIONS = 128  # if there are more, only the first and the last of each name count, and of `_NAMES` names
_BLOCK = 1 << 14  # words at once
_NAMES = 64  # those nearest to the beginning or the end of the text
_TYPOS = 256  # unknown words at the beginning of a text and at its end that are checked for typos
_WHOLE, _WORD, _PERSON = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9  # what a fingerprint is of

Spans = tuple[Places, Places, Places]  # begins and ends of names in a text, and the names


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


def continued(words: Words, mention: Mention) -> bool:
    """Whether a mention seems part of a longer name: "Chile" in "University of Chile", "iPhone" in "iPhone X".

    True where a word in capitals, other than the first of the text, or a number adjoins it.
    """

    def capital(i: int) -> bool:
        first = words.text[words.begins[i]]
        return first.isupper() or first.isdigit()

    def adjoin(i: int) -> bool:
        return words.text[words.ends[i] : words.begins[i + 1]] in (" ", "-", "–")

    begin, end = mention.begin, mention.end
    if end < len(words) and adjoin(end - 1) and capital(end):
        return True
    if begin > 1 and words.folded(begin - 1, begin) == ["of"] and adjoin(begin - 2) and adjoin(begin - 1):
        begin -= 1
    return begin > 1 and adjoin(begin - 1) and capital(begin - 1)


class _NameForms(NamedTuple):
    """The names of an edit by fingerprint, as `NameIndex` has them, and the long words of the full ones."""

    full: set[int]
    short: set[int]
    people: set[int]
    parts: set[int]
    long: dict[str, int]

    @classmethod
    def of(cls, names: Iterable[Words]) -> _NameForms:
        forms = cls(set(), set(), set(), set(), {})
        for name in names:
            keys = name.keys.tolist()
            if not 0 < len(keys) <= MAX_NAME_PARTS:
                continue
            forms.full.add(forms._with_parts(keys))
            forms.parts.update(key ^ _WORD for key in keys)
            forms.long.update((word, key) for word, key in zip(name.folded(), keys, strict=True) if _is_long(word))
            plain = _TITLE.split(name.text)[0]
            size = int(np.searchsorted(name.ends, len(plain), side="right"))
            if len(plain) < len(name.text) and size > 1:
                forms.short.add(forms._with_parts(keys[:size]))
            if _is_person(plain, name.folded(0, size)):
                forms.people.add(int(_pair(name.keys[:1], name.keys[size - 1 : size])[0]))
        forms.parts.update(forms.people)
        return forms

    def _with_parts(self, keys: Sequence[int]) -> int:
        """The fingerprint of a name, whose beginnings become `parts`."""
        whole = 0
        for key in keys:
            whole = extended(whole, key)
            self.parts.add(whole)
        self.parts.add(whole ^ _WHOLE)
        return whole


@dataclass(frozen=True)
class NameIndex:
    """A dictionary of the names of edits, by their fingerprints. Names of more than `MAX_NAME_PARTS` are left out.

    Attributes:
        full, short: ids of edits by name; `short` are names without what is behind a comma or bracket.
        people: ids by first and last name, in any order.
        parts: of each beginning of a name, whole name, pair and word, the number of edits that have it.
        known: the keys of `parts`. Names found in a text are places in it.
        misspelt: words of `_LONG_WORD` letters or more, by each way to leave out a letter.
    """

    full: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    short: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    people: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    parts: OverlayDict[int, int] = field(default_factory=OverlayDict)
    known: FingerprintSet = field(default_factory=FingerprintSet, compare=False)
    misspelt: OverlayDict[str, tuple[str, ...]] = field(default_factory=OverlayDict)

    def changed(self, gone: Mapping[int, Sequence[str]], new: Mapping[int, Sequence[str]]) -> NameIndex:
        """A copy without the names of some edits and with those of others, both by id."""
        old, added = map(_forms, (gone, new))
        counts = Counter(part for forms in added.values() for part in forms.parts)
        counts.subtract(part for forms in old.values() for part in forms.parts)
        parts = self.parts.changed({part: self.parts.get(part, 0) + n or None for part, n in counts.items() if n})
        before, after = ({part for part, n in counts.items() if n and part in of} for of in (self.parts, parts))
        long = {word: key ^ _WORD for forms in (*old.values(), *added.values()) for word, key in forms.long.items()}
        full, short, people = (
            regrouped(getattr(self, kind), *([(id, getattr(f, kind)) for id, f in by.items()] for by in (old, added)))
            for kind in ("full", "short", "people")
        )
        lost, won = before - after, after - before
        misspelt = ([(word, _shortened(word)) for word, part in long.items() if part in of] for of in (lost, won))
        return NameIndex(full, short, people, parts, self.known.changed(lost, won), regrouped(self.misspelt, *misspelt))

    def find(self, words: Words) -> list[Mention]:
        """The names in a text, in their order; none that is part of a longer one.

        Where there are more than `_MENTIONS`, only the first and the last of each name, and of the `_NAMES` names that
        come first or last. Typos are looked for in the first and the last `_TYPOS` words that no name has.
        """
        some = self.known.may_have(words.keys, _WORD)
        spelled, free = self._spelled(words, some)
        mentions = self._mentions(words, *_outermost(*spelled, len(words)))
        mentions += self._misspelt(words, free)
        mentions += self._people(words, some, free)
        return sorted(mentions, key=lambda mention: (mention.begin, -mention.end))

    def ids(self, words: Words) -> set[int]:
        """The ids of all edits with a name in a text, as `find` finds them, however many names there are."""
        some = self.known.may_have(words.keys, _WORD)
        (_, _, names), free = self._spelled(words, some)
        wholes = self._wholes(np.unique(names))
        found = {id for names_of in (self.full, self.short) for ids in names_of.values_of(wholes) for id in ids}
        others = (*self._misspelt(words, free), *self._people(words, some, free))
        return found.union(*(mention.edits for mention in others))

    def _spelled(self, words: Words, some: Flags) -> tuple[Spans, Flags]:
        """The names that are spelled as they are stored, none inside another, and which words are in none of them.

        some: the words with which a name may begin. Of very many names the first and the last places are enough.
        """
        if not some.any():
            nothing = np.zeros(0, np.int64)
            return (nothing, nothing, nothing), ~some
        found, reached = list[Spans](), np.int64(0)
        inside = np.zeros(len(words) + 1, np.int8)
        for at in range(0, len(some), _BLOCK):
            begins, ends, names = self._beginning(words, at + np.flatnonzero(some[at : at + _BLOCK]))
            before = np.maximum.accumulate(np.append(reached, ends))
            longest = ends > before[:-1]
            reached, begins, ends = before[-1], begins[longest], ends[longest]
            inside[begins] += 1
            inside[ends] -= 1
            names = names[longest]
            if len(names) > _MENTIONS:
                first, last = _first_and_last(names)
                kept = (first == (places := np.arange(len(names)))) | (last == places)
                begins, ends, names = begins[kept], ends[kept], names[kept]
            found.append((begins, ends, names))
        begins, ends, names = map(np.concatenate, zip(*found, strict=True))
        return (begins, ends, names), np.cumsum(inside[:-1], dtype=np.int8) == 0

    def _beginning(self, words: Words, starts: Places) -> Spans:
        """The names that begin with some of the words, the longest with each."""
        begins, prefixes = starts, words.keys[starts]
        rows, sizes, names = np.arange(len(starts)), np.zeros(len(starts), np.uint8), np.empty(len(starts), np.int64)
        for size in range(1, MAX_NAME_PARTS + 1):
            alive = self.known.may_have(prefixes)
            if not alive.all():
                rows, begins, prefixes = rows[alive], begins[alive], prefixes[alive]
            if not len(rows):
                break
            whole, places = self.known.find(prefixes, _WHOLE)
            fits = (words.least[begins[whole]] <= size) & words.last[begins[whole] + (size - 1)]
            sizes[rows[whole[fits]]], names[rows[whole[fits]]] = size, places[fits]
            inside = np.searchsorted(begins, len(words) - size)
            rows, begins, prefixes = rows[:inside], begins[:inside], prefixes[:inside]
            prefixes = extended_each(prefixes, words.keys[begins + size])
        named = np.flatnonzero(sizes)
        return starts[named], starts[named] + sizes[named], names[named]

    def _wholes(self, names: Places) -> list[int]:
        """The fingerprints of names."""
        wholes: list[int] = (self.known.sorted[names] ^ np.uint64(_WHOLE)).tolist()
        return wholes

    def _mentions(self, words: Words, begins: Places, ends: Places, names: Places) -> list[Mention]:
        return [
            Mention(" ".join(words.folded(begin, end)), kind, begin, end, edits)
            for begin, end, name in zip(begins.tolist(), ends.tolist(), self._wholes(names), strict=True)
            for known, kind in ((self.full, NameMatch.FULL), (self.short, NameMatch.PARTIAL))
            if (edits := known.get(name))
        ]

    def _misspelt(self, words: Words, free: Flags) -> list[Mention]:
        """The names that hold one of the words in its right spelling."""
        if not self.misspelt:
            return []
        places = np.flatnonzero(free)
        sizes = words.ends[places] - words.begins[places]
        places = places[(sizes >= _LONG_WORD) & (sizes <= _LONGEST_WORD)]
        places = np.delete(places, self.known.find(words.keys[places], _WORD)[0])
        if len(places) > 2 * _TYPOS:
            places = np.concatenate([places[:_TYPOS], places[-_TYPOS:]])
        guesses = [
            (place, word, right)
            for place in places.tolist()
            for word in words.folded(place, place + 1)
            for right in sorted({right for shorter in _shortened(word) for right in self.misspelt.get(shorter, ())})
            if _is_long(word) and _one_typo(word, right)
        ]
        if not guesses:
            return []
        windows, width = _corrected(words, [(place, right) for place, _, right in guesses])
        mentions = []
        (begins, ends, names), _ = self._spelled(windows, self.known.may_have(windows.keys, _WORD))
        for first, behind, name in zip(begins.tolist(), ends.tolist(), self._wholes(names), strict=True):
            place, word, right = guesses[first // width]
            offset = first // width * width + MAX_NAME_PARTS - place
            begin, end = first - offset, behind - offset
            if begin <= place < end and not (end - begin == 1 and _same_stem(word, right)):
                spelled = " ".join([*words.folded(begin, place), right, *words.folded(place + 1, end)])
                known = filter(None, (self.full.get(name), self.short.get(name)))
                mentions += [Mention(spelled, NameMatch.TYPO, begin, end, edits) for edits in known]
        return mentions

    def _people(self, words: Words, some: Flags, free: Flags) -> list[Mention]:
        """People under their first and last name, with other middle names or none, or the last name first."""
        outer, found = np.flatnonzero(some & free), list[Spans]()
        if not self.people or len(outer) < 2:
            return []
        for size in range(2, 3 + _MIDDLE_NAMES):
            begins = outer[: np.searchsorted(outer, len(words) - size, side="right")]
            begins = begins[some[begins + (size - 1)]]
            for inside in range(1, size):
                begins = begins[free[begins + inside]]
            where, names = self.known.find(_pair(words.keys[begins], words.keys[begins + (size - 1)]))
            found.append((begins[where], begins[where] + size, names))
        mentions = []
        begins, ends, names = map(np.concatenate, zip(*found, strict=True))
        begins, ends, names = _outermost(begins, ends, names, len(words))
        pairs = self.known.sorted[names].tolist()
        for begin, end, name in zip(begins.tolist(), ends.tolist(), pairs, strict=True):
            middle = zip(words.folded(begin + 1, end - 1), words.begins[begin + 1 : end - 1], strict=True)
            if all(word in _PARTICLES or words.text[at].isupper() for word, at in middle) and name in self.people:
                text = composed(words.between(begin, end))
                mentions.append(Mention(text, NameMatch.PARTIAL, begin, end, self.people[name]))
        return mentions


def _forms(names_of: Mapping[int, Sequence[str]]) -> dict[int, _NameForms]:
    """The forms of the names of edits, by id."""
    read = iter(Words.of_each([name for names in names_of.values() for name in names]))
    return {id: _NameForms.of(list(islice(read, len(names)))) for id, names in names_of.items()}


def _outermost(begins: Places, ends: Places, names: Places, size: int) -> Spans:
    """Where names stand in a text of `size` words; of very many only some, as `NameIndex.find` says."""
    if len(names) <= _MENTIONS:
        return begins, ends, names
    first, last = _first_and_last(names)
    firsts = np.flatnonzero(first == np.arange(len(names)))
    lasts = last[firsts]
    outer = np.argsort(np.minimum(begins[firsts], size - ends[lasts]), kind="stable")[:_NAMES]
    kept = np.union1d(firsts[outer], lasts[outer])
    return begins[kept], ends[kept], names[kept]


def _first_and_last(names: Places) -> tuple[Places, Places]:
    """For each of some names where the same one is for the first and for the last time."""
    first, last = np.empty((2, names.max() + 1), np.int64)
    places = np.arange(len(names))
    first[names[::-1]], last[names] = places[::-1], places
    return first[names], last[names]


def _corrected(words: Words, guesses: Sequence[tuple[int, str]]) -> tuple[Words, int]:
    """The surroundings of words, with these spelled otherwise, one behind the other, and the length of each."""
    reach = MAX_NAME_PARTS
    places = np.array([place for place, _ in guesses])[:, None] + np.arange(2 * reach + 2)
    padding = (reach, reach + 2)
    keys: Fingerprints = np.pad(words.keys, padding)[places]
    least: Kinds = np.pad(words.least, padding)[places]
    last: Flags = np.pad(words.last, padding)[places]
    keys[:, reach] = [word.keys[0] for word in Words.of_each([right for _, right in guesses])]
    keys[:, -1] = 0  # no name goes on in the next
    return Words("", places[0], places[0], keys.ravel(), least.ravel(), last.ravel()), 2 * reach + 2


def _is_long(word: str) -> bool:
    return _LONG_WORD <= len(word) <= _LONGEST_WORD


def _is_person(name: str, folded: Sequence[str]) -> bool:
    """Whether a name may be a person's: two to five words in capitals, particles aside."""
    parts = re.split(r"[\s.]+", name.strip(" ."))
    return (
        2 <= len(parts) <= 5
        and len(folded) > 1
        and min(len(folded[0]), len(folded[-1])) > 1
        and all(part[:1].isupper() or part in _PARTICLES for part in parts)
    )


def _pair(first: Fingerprints, last: Fingerprints) -> Fingerprints:
    """The fingerprints of two names in any order."""
    return (first + last) * np.uint64(_PERSON) ^ np.uint64(_PERSON)


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
