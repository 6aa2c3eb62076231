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
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drike.gates.overlay import OverlayDict, regrouped
from drike.words import MAX_NAME_PARTS, Fingerprints, Places, Words, composed, contains, extended, extended_each

_TITLE = re.compile(r", | \(")  # behind it: a title, a place, what distinguishes one of several
_PARTICLES = frozenset(
    ("al", "bin", "da", "de", "del", "den", "der", "di", "do", "dos", "du", "el", "ibn", "la", "le", "van", "von", "y")
)
_LONG_WORD, _LONGEST_WORD = 6, 40  # letters; other words are not checked for typos
_MIDDLE_NAMES = 2  # at most, between the first and the last name
_MENTIONS = 128  # if there are more, only the first and the last of each name count, and of `_NAMES` names
_NAMES = 64  # those nearest to the beginning or the end of the text
_TYPOS = 256  # unknown words at the beginning of a text and at its end that are checked for typos
_MANY = 4_096  # fingerprints for which a table pays
_WHOLE, _WORD, _PERSON = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9  # what a fingerprint is of


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
        known: the keys of `parts`, sorted.
        misspelt: words of `_LONG_WORD` letters or more, by each way to leave out a letter.
    """

    full: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    short: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    people: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    parts: OverlayDict[int, int] = field(default_factory=OverlayDict)
    known: Fingerprints = field(default_factory=lambda: np.zeros(0, np.uint64), compare=False)
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
        known = np.delete(self.known, np.searchsorted(self.known, np.array(sorted(lost), np.uint64)))
        more = np.array(sorted(won), np.uint64)
        known = np.insert(known, np.searchsorted(known, more), more)
        misspelt = ([(word, _shortened(word)) for word, part in long.items() if part in of] for of in (lost, won))
        return NameIndex(full, short, people, parts, known, regrouped(self.misspelt, *misspelt))

    def find(self, words: Words) -> list[Mention]:
        """The names in a text, in their order; none that is part of a longer one.

        Where there are more than `_MENTIONS`, only the first and the last of each name, and of the `_NAMES` names that
        come first or last. Typos are looked for in the first and the last `_TYPOS` words that no name has.
        """
        begins, ends, names, free = self._spelled_and_free(words)
        mentions = self._mentions(words, *_outermost(begins, ends, names, len(words)))
        mentions += self._misspelt(words, free)
        mentions += self._people(words, free)
        return sorted(mentions, key=lambda mention: (mention.begin, -mention.end))

    def ids(self, words: Words) -> set[int]:
        """The ids of all edits with a name in a text, as `find` finds them, however many names there are."""
        _, _, names, free = self._spelled_and_free(words)
        found = {id for name in set(names.tolist()) for known in (self.full, self.short) for id in known.get(name, ())}
        return found.union(*(mention.edits for mention in (*self._misspelt(words, free), *self._people(words, free))))

    def _spelled_and_free(self, words: Words) -> tuple[Places, Places, Fingerprints, NDArray[np.bool_]]:
        """Begins, ends and fingerprints of the names as they are stored, and which words are in none of them."""
        begins, ends, names = self._spelled(words)
        inside = np.zeros(len(words) + 1, np.int8)
        inside[begins] += 1
        inside[ends] -= 1
        return begins, ends, names, np.cumsum(inside[:-1], dtype=np.int8) == 0

    def _has(self, fingerprints: Fingerprints) -> NDArray[np.bool_]:
        """Which fingerprints are in `known`."""
        some = np.flatnonzero(self._may_have(fingerprints))
        found = np.zeros(len(fingerprints), np.bool_)
        found[some] = contains(self.known, fingerprints[some])
        return found

    def _may_have(self, fingerprints: Fingerprints) -> NDArray[np.bool_]:
        """Which fingerprints are in `known`, and a few others: it takes less time if there are many."""
        if len(fingerprints) < _MANY:
            return contains(self.known, fingerprints)
        shift, table = self._table
        found: NDArray[np.bool_] = table[fingerprints >> shift]
        return found

    @cached_property
    def _table(self) -> tuple[np.uint64, NDArray[np.bool_]]:
        """Whether a fingerprint that begins with some bits is in `known`, and how many bits are not looked at."""
        bits = min(24, max(10, len(self.known).bit_length() + 4))
        table, shift = np.zeros(1 << bits, np.bool_), np.uint64(64 - bits)
        table[self.known >> shift] = True
        return shift, table

    def _spelled(self, words: Words) -> tuple[Places, Places, Fingerprints]:
        """Begins, ends and fingerprints of the names that are spelled as they are stored, none inside another."""
        begins, prefixes = np.arange(len(words)), words.keys
        ends_of, names_of = np.zeros(len(words), np.int64), np.zeros(len(words), np.uint64)
        for size in range(1, MAX_NAME_PARTS + 1):
            alive = np.flatnonzero(self._may_have(prefixes))
            begins, prefixes = begins[alive], prefixes[alive]
            if not len(begins):
                break
            whole = np.flatnonzero(self._has(prefixes ^ np.uint64(_WHOLE)))
            starts = begins[whole]
            fits = (words.least[starts] <= size) & words.last[starts + size - 1]
            ends_of[starts[fits]], names_of[starts[fits]] = starts[fits] + size, prefixes[whole[fits]]
            inside = np.searchsorted(begins, len(words) - size)
            begins, prefixes = begins[:inside], prefixes[:inside]
            prefixes = extended_each(prefixes, words.keys[begins + size])
        begins = np.flatnonzero(ends_of)
        ends = ends_of[begins]
        longest = np.ones(len(ends), np.bool_)
        longest[1:] = ends[1:] > np.maximum.accumulate(ends)[:-1]
        return begins[longest], ends[longest], names_of[begins[longest]]

    def _mentions(self, words: Words, begins: Places, ends: Places, names: Fingerprints) -> list[Mention]:
        return [
            Mention(" ".join(words.folded(begin, end)), kind, begin, end, edits)
            for begin, end, name in zip(begins.tolist(), ends.tolist(), names.tolist(), strict=True)
            for known, kind in ((self.full, NameMatch.FULL), (self.short, NameMatch.PARTIAL))
            if (edits := known.get(name))
        ]

    def _misspelt(self, words: Words, free: NDArray[np.bool_]) -> list[Mention]:
        """The names that hold one of the words in its right spelling."""
        if not self.misspelt:
            return []
        long = free & (words.ends - words.begins >= _LONG_WORD) & (words.ends - words.begins <= _LONGEST_WORD)
        places = np.flatnonzero(long)
        places = places[~self._has(words.keys[places] ^ np.uint64(_WORD))]
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
        for first, behind, name in zip(*(found.tolist() for found in self._spelled(windows)), strict=True):
            place, word, right = guesses[first // width]
            offset = first // width * width + MAX_NAME_PARTS - place
            begin, end = first - offset, behind - offset
            if begin <= place < end and not (end - begin == 1 and _same_stem(word, right)):
                spelled = " ".join([*words.folded(begin, place), right, *words.folded(place + 1, end)])
                known = filter(None, (self.full.get(name), self.short.get(name)))
                mentions += [Mention(spelled, NameMatch.TYPO, begin, end, edits) for edits in known]
        return mentions

    def _people(self, words: Words, free: NDArray[np.bool_]) -> list[Mention]:
        """People under their first and last name, with other middle names or none, or the last name first."""
        sizes = range(2, 3 + _MIDDLE_NAMES)
        pairs_of = {size: _pair(words.keys[: 1 - size], words.keys[size - 1 :]) for size in sizes}
        if not self.people or not self._may_have(np.concatenate(list(pairs_of.values()))).any():
            return []
        found = []
        for size, pairs in pairs_of.items():
            begins = np.flatnonzero(self._has(pairs))
            for inside in range(size):
                begins = begins[free[begins + inside]]
            found.append((begins, begins + size, pairs[begins]))
        mentions = []
        begins, ends, names = map(np.concatenate, zip(*found, strict=True))
        places = (some.tolist() for some in _outermost(begins, ends, names, len(words)))
        for begin, end, name in zip(*places, strict=True):
            middle = zip(words.folded(begin + 1, end - 1), words.begins[begin + 1 : end - 1], strict=True)
            if all(word in _PARTICLES or words.text[at].isupper() for word, at in middle) and name in self.people:
                text = composed(words.between(begin, end))
                mentions.append(Mention(text, NameMatch.PARTIAL, begin, end, self.people[name]))
        return mentions


def _forms(names_of: Mapping[int, Sequence[str]]) -> dict[int, _NameForms]:
    """The forms of the names of edits, by id."""
    read = iter(Words.of_each([name for names in names_of.values() for name in names]))
    return {id: _NameForms.of(list(islice(read, len(names)))) for id, names in names_of.items()}


def _outermost(begins: Places, ends: Places, names: Fingerprints, size: int) -> tuple[Places, Places, Fingerprints]:
    """Where names stand in a text of `size` words; of very many only some, as `NameIndex.find` says."""
    if len(names) > _MENTIONS:
        numbers = np.unique(names, return_inverse=True)[1]
        first, last = np.zeros((2, numbers.max() + 1), np.int64)
        places = np.arange(len(names))
        first[numbers[::-1]], last[numbers] = places[::-1], places
        depths = np.minimum(begins[first], size - ends[last])
        outer = np.argsort(depths, kind="stable")[:_NAMES]
        kept = np.union1d(first[outer], last[outer])
        begins, ends, names = begins[kept], ends[kept], names[kept]
    return begins, ends, names


def _corrected(words: Words, guesses: Sequence[tuple[int, str]]) -> tuple[Words, int]:
    """The surroundings of words, with these spelled otherwise, one behind the other, and the length of each."""
    reach = MAX_NAME_PARTS
    places = np.array([place for place, _ in guesses])[:, None] + np.arange(2 * reach + 2)
    padding = (reach, reach + 2)
    keys: Fingerprints = np.pad(words.keys, padding)[places]
    least: NDArray[np.uint8] = np.pad(words.least, padding)[places]
    last: NDArray[np.bool_] = np.pad(words.last, padding)[places]
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
