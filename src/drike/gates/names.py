"""Names of subjects in a query: whole words as `drike.text.words` reads them, short forms, names of people, typos.

A text is read in time linear in its length: all its words are compared at once, and of what may be found very often
only the first and the last places are looked at more closely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from drike.gates.overlay import FingerprintSet, Flags, OverlayDict, regrouped
from drike.text.capitals import cased, casual
from drike.text.name_forms import (
    LAST,
    LONG_WORD,
    LONGEST_WORD,
    OF_KIND,
    SHORTER,
    WHOLE,
    WORD,
    forms_of,
    key_of,
    pair,
)
from drike.text.short_forms import MOST_INITIALS, NameMatch, lists
from drike.text.surroundings import inside, other_place
from drike.text.typos import one_typo, shortened, sound
from drike.text.words import (
    MAX_NAME_PARTS,
    MAX_NAME_WORDS,
    NEXT,
    Fingerprints,
    Places,
    Words,
    composed,
    extended,
)

_MIDDLE_NAMES = 2  # at most, between the first and the last name
_MENTIONS = (
    128  # if there are more, only the first and the last of each name count, and of `_NAMES` names
)
_BLOCK = 1 << 14  # words at once
_SHORT = 200  # words of a text in which names are looked for one by one
_NAMES = 64  # those nearest to the beginning or the end of the text
_TYPOS = 64  # unknown words at the beginning of a text and at its end that are checked for typos
SHARING = 3  # edits with a new object; one that more edits have says too little of any
_SUBJECTS = 3  # a last name that more of them share names none
_WHOLE_NAMES = (NameMatch.FULL, NameMatch.SHORT, NameMatch.PARTIAL)

Reading = tuple[
    NameMatch, tuple[int, ...], bool
]  # of a name: its kind, the ids of its edits, whether others share it
Spans = tuple[Places, Places, Places]  # begins and ends of names in a text, and the names


@dataclass(frozen=True)
class Mention:
    """A stored name in a query: its words begin..end (excluded), and the ids of the edits that have it."""

    name: str
    kind: NameMatch
    begin: int
    end: int
    edits: tuple[int, ...]
    # It may mean something else: a common word, one of several well-known things, two letters, a shared short form.
    ambiguous: bool = False
    cased: bool = (
        True  # an ambiguous one is written as it is stored, and not only because a sentence begins
    )
    inside: bool = False  # it is part of another's name, as "Mercury" in "Freddie Mercury"

    @property
    def certain(self) -> bool:
        """Whether it names its subject without any evidence from the relation."""
        if self.inside or self.kind not in (NameMatch.FULL, NameMatch.SHORT):
            return False
        return not self.ambiguous or (self.cased and self.kind is NameMatch.FULL)


@dataclass(frozen=True)
class NameIndex:
    """A dictionary of the names of edits, by their fingerprints. Names of more than `MAX_NAME_PARTS` are left out."""

    # Ids of edits by name, combined with its kind; people also by first and last name, in any order.
    names: OverlayDict[int, tuple[int, ...]] = field(default_factory=OverlayDict)
    subjects: OverlayDict[int, int] = field(
        default_factory=OverlayDict
    )  # of each edit that of its subject
    # Of each beginning of a name, whole name, pair and word, the number of edits that have it.
    parts: OverlayDict[int, int] = field(default_factory=OverlayDict)
    # The keys of `parts`; names found in a text are places in it.
    known: FingerprintSet = field(default_factory=FingerprintSet, compare=False)
    # Names that may mean something else, as they are stored, with the ids of edits.
    written: OverlayDict[int, tuple[tuple[int, str], ...]] = field(default_factory=OverlayDict)
    # Words of `LONG_WORD` letters or more, by each way to leave out a letter.
    misspelt: OverlayDict[str, tuple[str, ...]] = field(default_factory=OverlayDict)
    _readings: dict[int, list[Reading]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def changed(
        self, gone: Mapping[int, Sequence[str]], new: Mapping[int, Sequence[str]]
    ) -> NameIndex:
        """A copy without the names of some edits and with those of others, both by id."""
        old, added = map(forms_of, (gone, new))
        counts = Counter(part for forms in added.values() for part in forms.parts)
        counts.subtract(part for forms in old.values() for part in forms.parts)
        were = (
            {part: self.parts.get(part, 0) for part, n in counts.items() if n} if self.parts else {}
        )
        parts = {part: were.get(part, 0) + n or None for part, n in counts.items() if n}
        lost = {part for part, n in parts.items() if n is None}
        won = {part for part, n in parts.items() if n is not None and not were.get(part)}
        long = {
            word: part
            for forms in (*old.values(), *added.values())
            for word, part in forms.long.items()
        }
        names, surfaces = list[Any](), list[Any]()
        for by in (old, added):
            names.append([(id, forms.names) for id, forms in by.items()])
            surfaces.append(
                [
                    ((id, text), [key])
                    for id, forms in by.items()
                    for text, key in forms.written.items()
                ]
            )
        typos = [
            [(word, shortened(word)) for word, part in long.items() if part in of]
            for of in (lost, won)
        ]
        return NameIndex(
            regrouped(self.names, *names),
            self.subjects.changed({**dict.fromkeys(old), **{id: forms.subject for id, forms in added.items()}}),
            self.parts.changed(parts), self.known.changed(lost, won),
            regrouped(self.written, *surfaces), regrouped(self.misspelt, *typos),
        )  # fmt: skip

    def find(self, words: Words) -> list[Mention]:
        """The names in a text, in their order; none in a longer one. Of very many, and of typos, those at the ends."""
        some = self.known.may_have(words.keys, WORD)
        spelled, free = self._spelled(words, some)
        begins, ends, names = _outermost(*spelled, len(words))
        wholes = self.known.sorted[names] ^ np.uint64(WHOLE)
        spans = zip(begins.tolist(), ends.tolist(), wholes.tolist(), strict=True)
        mentions = [
            mention for begin, end, name in spans for mention in self._read(words, name, begin, end)
        ]
        mentions += self._others(words, some, free)
        return sorted(mentions, key=lambda mention: (mention.begin, -mention.end))

    def exact(self, text: str) -> tuple[int, ...]:
        """The ids of the edits that have a text as a name, up to case and punctuation."""
        return tuple(self.names.get(key_of(text) ^ OF_KIND[NameMatch.FULL], ()))

    def ids(self, words: Words) -> set[int]:
        """The ids of all edits with a name in a text, however many; not by last names alone and demonyms."""
        some = self.known.may_have(words.keys, WORD)
        (_, _, names), free = self._spelled(words, some)
        wholes = self.known.sorted[np.unique(names)] ^ np.uint64(WHOLE)
        shorter = wholes[self.known.may_have(wholes, SHORTER)]
        found = {
            i
            for m in self._others(words, some, free)
            if m.kind is not NameMatch.LAST
            for i in m.edits
        }
        for kind in _WHOLE_NAMES:
            own = (wholes if kind is NameMatch.FULL else shorter) ^ np.uint64(OF_KIND[kind])
            found.update(*filter(None, map(self.names.get, own.tolist())))
        return found

    def _others(self, words: Words, some: Flags, free: Flags) -> list[Mention]:
        """The names that are not spelled as they are stored."""
        mentions = self._misspelt(words, free)
        if (known := some & free).any():
            mentions += self._people(words, known, some, free)
            mentions += self._last_names(
                words, known, {i for m in mentions for i in range(m.begin, m.end)}
            )
        return mentions

    def _spelled(self, words: Words, some: Flags) -> tuple[Spans, Flags]:
        """The names that are spelled as they are stored, none inside another, and which words are in none of them."""
        found, reached, inside = list[Spans](), np.int64(0), np.zeros(len(words) + 1, np.int8)
        if short := len(words) <= _SHORT:  # which takes a fifth of the time
            few = _outer(
                partial(self._longest, words, words.keys.tolist()), np.flatnonzero(some).tolist()
            )
            begins, ends = (np.array([span[i] for span in few], np.int64) for i in (0, 1))
            wholes = np.array([name ^ WHOLE for _, _, name in few], np.uint64)
            found.append((begins, ends, np.searchsorted(self.known.sorted, wholes)))
            inside[begins] += 1
            inside[ends] -= 1
        for at in range(0, 0 if short else len(some), _BLOCK):
            begins, ends, names = self._beginning(
                words, at + np.flatnonzero(some[at : at + _BLOCK])
            )
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

    def _longest(
        self, words: Words, keys: Sequence[int] | Fingerprints, begin: int
    ) -> tuple[int, int]:
        """Where the longest name that begins with a word ends, and its fingerprint. keys: those of the words."""
        prefix, found = 0, (begin, 0)
        for end in range(begin + 1, min(begin + MAX_NAME_PARTS, len(keys)) + 1):
            prefix = extended(prefix, int(keys[end - 1]))
            if prefix not in self.parts:
                break
            if (
                prefix ^ WHOLE in self.parts
                and words.least[begin] <= end - begin
                and words.last[end - 1]
            ):
                found = end, prefix
        return found

    def _beginning(self, words: Words, starts: Places) -> Spans:
        begins, prefixes = starts, words.keys[starts]
        rows, sizes, names = (
            np.arange(len(starts)),
            np.zeros(len(starts), np.uint8),
            np.empty(len(starts), np.int64),
        )
        for size in range(1, MAX_NAME_PARTS + 1):
            alive = self.known.may_have(prefixes)
            if not alive.all():
                rows, begins, prefixes = rows[alive], begins[alive], prefixes[alive]
            if not len(rows):
                break
            whole, places = self.known.find(prefixes, WHOLE)
            fits = (words.least[begins[whole]] <= size) & words.last[begins[whole] + (size - 1)]
            sizes[rows[whole[fits]]], names[rows[whole[fits]]] = size, places[fits]
            inside = np.searchsorted(begins, len(words) - size)
            rows, begins, prefixes = rows[:inside], begins[:inside], prefixes[:inside]
            prefixes = prefixes * NEXT + words.keys[begins + size]
        named = np.flatnonzero(sizes)
        return starts[named], starts[named] + sizes[named], names[named]

    def _read(
        self,
        words: Words,
        name: int,
        begin: int,
        end: int,
        kinds: Collection[NameMatch] = tuple(NameMatch),
    ) -> Iterator[Mention]:
        """What the words begin..end of a text mention: the edits with a name, by its kind."""
        stored, text = self.written.get(name), " ".join(words.folded(begin, end))
        ambiguous, is_cased = False, True
        if stored is not None:
            surfaces, several = {surface for _, surface in stored}, text in lists("homonyms")
            is_cased = (several and text not in lists("common words")) or cased(
                words, begin, end, surfaces
            )
            unsettled = (
                several
                or len(text) < 3
                or any(surface[1:].islower() for surface in surfaces if " " in surface)
            )
            ambiguous = not is_cased or unsettled or all(map(str.islower, surfaces))
        for kind, ids, shared in self._of_name(name):
            if kind in kinds:
                within = inside(words, begin, end, last=kind is NameMatch.LAST)
                another = within and (kind is NameMatch.LAST or other_place(words, begin, end))
                if not another:
                    yield Mention(
                        text, kind, begin, end, ids, ambiguous or shared, is_cased, within
                    )

    def _of_name(self, name: int) -> list[Reading]:
        if (readings := self._readings.get(name)) is None:
            known = [
                (kind, ids) for kind in NameMatch if (ids := self.names.get(name ^ OF_KIND[kind]))
            ]
            subjects = len({self.subjects[id] for _, ids in known for id in ids})
            known = [
                (kind, ids)
                for kind, ids in known
                if kind is not NameMatch.LAST or subjects <= _SUBJECTS
            ]
            readings = [
                (kind, ids, kind is not NameMatch.FULL and subjects > 1) for kind, ids in known
            ]
            if readings:  # any text has names that are none
                self._readings[name] = readings
        return readings

    def _misspelt(self, words: Words, free: Flags) -> list[Mention]:
        """The names that hold one of the words in its right spelling, or with an s at their end."""
        places = np.flatnonzero(free)
        sizes = words.ends[places] - words.begins[places]
        places = places[(sizes >= LONG_WORD - 1) & (sizes <= LONGEST_WORD)]
        places = np.delete(places, self.known.find(words.keys[places], WORD)[0])
        places = (
            places if len(places) <= 2 * _TYPOS else np.append(places[:_TYPOS], places[-_TYPOS:])
        )
        guesses = self._with_s(words, places)
        for place in sorted({*places.tolist()} - {place for place, _, _ in guesses}):
            [word] = words.folded(place, place + 1)
            near = {
                right for shorter in shortened(word) for right in self.misspelt.get(shorter, ())
            }
            near = {right for right in near if one_typo(word, right) or sound(word) == sound(right)}
            guesses += [(place, word, right) for right in sorted(near)]
        if not guesses:
            return []
        keys, counts = words.keys.copy(), Counter(place for place, _, _ in guesses)
        for place, _, right in (guess for guess in guesses if counts[guess[0]] == 1):
            keys[place] = key_of(right)
        longest, starts = (
            partial(self._longest, words, keys),
            np.flatnonzero(self.known.may_have(keys)),
        )
        known, held = cache(longest), list[tuple[int, str, str, int, int, int]]()
        for place, word, right in guesses:
            near = starts[slice(*np.searchsorted(starts, (place - MAX_NAME_PARTS, place)))].tolist()
            before, keys[place] = keys[place], key_of(right)
            spans = _outer(known if counts[place] == 1 else longest, [*near, place])
            held += [(place, word, right, *span) for span in spans if span[0] <= place < span[1]]
            keys[place] = before
        held = held if len(held) <= _MENTIONS else held[: _MENTIONS // 2] + held[-_MENTIONS // 2 :]
        mentions, right_of = (
            dict[tuple[int, int, tuple[int, ...]], Mention](),
            {i: right for i, _, right in guesses},
        )
        for place, word, right, begin, end, name in held:
            genitive = word == f"{right}s" and place == end - 1
            if genitive or not _another_word(words, word, right, begin, end):
                typed = enumerate(words.folded(begin, end), begin)
                named = " ".join(
                    right if i == place else right_of.get(i, other) for i, other in typed
                )
                kind = NameMatch.SHORT if genitive else NameMatch.TYPO
                for mention in self._read(words, name, begin, end, _WHOLE_NAMES):
                    mentions[begin, end, mention.edits] = replace(mention, name=named, kind=kind)
        return list(mentions.values())

    def _with_s(self, words: Words, places: Places) -> list[tuple[int, str, str]]:
        """Words that are known but for their last letter, an s: each with its place, and without this letter."""
        ending = [
            (i, word)
            for i in places.tolist()
            for word in words.folded(i, i + 1)
            if word.endswith("s")
        ]
        known, _ = self.known.find(
            np.array([key_of(word[:-1]) for _, word in ending], np.uint64), WORD
        )
        return [(i, word, word[:-1]) for i, word in map(ending.__getitem__, known)]

    def _people(self, words: Words, alive: Flags, some: Flags, free: Flags) -> list[Mention]:
        """People under their first and last name, with other middle names or none, or the last name first."""
        found = list[Spans]()
        for size in range(2, 3 + _MIDDLE_NAMES):
            alive = alive[:-1] & free[size - 1 :]  # known words with free ones behind them
            begins = np.flatnonzero(alive & some[size - 1 :])
            where, names = self.known.find(
                pair(words.keys.take(begins), words.keys[size - 1 :].take(begins))
            )
            found.append((begins[where], begins[where] + size, names))
        mentions = list[Mention]()
        begins, ends, names = map(np.concatenate, zip(*found, strict=True))
        begins, ends, names = _outermost(begins, ends, names, len(words))
        for begin, end, name in zip(
            begins.tolist(), ends.tolist(), self.known.sorted[names].tolist(), strict=True
        ):
            between = zip(
                words.folded(begin + 1, end - 1), words.begins[begin + 1 : end - 1], strict=True
            )
            middle = [words.text[at] for word, at in between if word not in lists("particles")]
            may_add = not middle or self.known.may_have(np.array([name], np.uint64), SHORTER)[0]
            if may_add and all(map(str.isupper, middle)):
                text = composed(words.between(begin, end))
                mentions += [
                    replace(m, name=text)
                    for m in self._read(words, name, begin, end, (NameMatch.PARTIAL,))
                ]
        return mentions

    def _last_names(self, words: Words, known: Flags, taken: Set[int]) -> list[Mention]:
        """People under their last name: alone, or behind particles or initials. taken: words of other mentions."""
        where, names = self.known.find(words.keys[outer := np.flatnonzero(known)], LAST)
        begins, _, _ = _outermost(outer[where], outer[where] + 1, names, len(words))
        mentions = list[Mention]()
        for place in begins.tolist():
            first, initials = _named_before(words, place)
            last = int(words.keys[place])
            full = (
                list(self._read(words, extended(key_of(initials), last), first, place + 1))
                if initials
                else []
            )
            mentions += [replace(mention, kind=NameMatch.SHORT) for mention in full]
            if (
                not full
                and place not in taken
                and (words.text[words.begins[place]].isupper() or casual(words, place))
            ):
                mentions += self._read(words, last, place, place + 1, (NameMatch.LAST,))
        return mentions


def objects_in(words: Words, ids_of: Mapping[int, Sequence[int]]) -> Iterator[Mention]:
    """The new objects of edits in a text, the longest at each place; no common words. ids_of: by fingerprint."""
    begin = 0
    while begin < len(words):
        whole, longest, ids = 0, begin + 1, tuple[int, ...]()
        for end, key in enumerate(words.keys[begin : begin + MAX_NAME_WORDS].tolist(), begin + 1):
            whole = extended(whole, key)
            if (
                words.least[begin] <= end - begin
                and words.last[end - 1]
                and (known := ids_of.get(whole))
            ):
                longest, ids = end, tuple(known)
        name = words.between(begin, longest)
        if ids and not name.isdigit() and name not in lists("common words"):
            yield Mention(
                name, NameMatch.FULL, begin, longest, ids, inside=inside(words, begin, longest)
            )
        begin = longest


def _outer(
    longest: Callable[[int], tuple[int, int]], begins: Iterable[int]
) -> list[tuple[int, int, int]]:
    """Where names begin and end, and these, none inside another."""
    found = list[tuple[int, int, int]]()
    for begin in begins:
        end, name = longest(begin)
        if name and end > (found[-1][1] if found else 0):
            found.append((begin, end, name))
    return found


def _outermost(begins: Places, ends: Places, names: Places, size: int) -> Spans:
    """Where names stand in a text of `size` words; of very many only some, as `NameIndex.find` says."""
    if len(names) <= _MENTIONS:
        return begins, ends, names
    first, last = _first_and_last(names)
    firsts = np.flatnonzero(first == np.arange(len(names)))
    outer = firsts[
        np.argsort(np.minimum(begins[firsts], size - ends[last[firsts]]), kind="stable")[:_NAMES]
    ]
    kept = np.union1d(outer, last[outer])
    return begins[kept], ends[kept], names[kept]


def _first_and_last(names: Places) -> tuple[Places, Places]:
    """For each of some names where the same one is for the first and for the last time."""
    first, last = np.empty((2, names.max() + 1), np.int64)
    places = np.arange(len(names))
    first[names[::-1]], last[names] = places[::-1], places
    return first[names], last[names]


def _named_before(words: Words, place: int) -> tuple[int, str]:
    """Where initials and particles before a last name begin, and these initials together: JRR, J.R.R. or J. R. R."""
    while place and words.folded(place - 1, place)[0] in lists("particles"):
        place -= 1
    initials = ""
    while (
        place
        and len(initials) < MOST_INITIALS
        and words.ends[place - 1] - words.begins[place - 1] == 1
    ):
        place -= 1
        initials = words.folded(place, place + 1)[0] + initials
    if (
        place
        and not initials
        and (joined := words.between(place - 1, place)).isupper()
        and len(joined) < MOST_INITIALS
    ):
        return place - 1, joined.lower()
    return place, initials if initials.isalpha() else ""


def _another_word(words: Words, typed: str, right: str, begin: int, end: int) -> bool:
    """Whether a word differs from a name of one word in its end only, or is short and no mere slip: no typo."""
    if end - begin > 1:
        return False
    size = min(len(typed), len(right)) - (len(typed) == len(right))
    if typed[:size] == right[:size]:
        return True
    if len(right) > LONG_WORD or (sound(typed) == right and typed not in lists("common words")):
        return False
    slipped = len(typed) < len(right) or sorted(typed) == sorted(right)
    return (
        not slipped
        or typed in lists("common words")
        or not words.text[words.begins[begin]].isupper()
    )
