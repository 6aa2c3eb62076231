"""People in a text under other forms of their names than the stored ones."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import Mention, NameIndex
from drike.gates.name_spans import NameSpans
from drike.text.capitals import casual
from drike.text.fingerprints import extended
from drike.text.name_forms import LAST, SHORTER, key_of, pair
from drike.text.short_forms import MOST_INITIALS, NameMatch
from drike.text.word_lists import word_list
from drike.text.words import Words, composed

_MIDDLE_NAMES = 2  # at most, between the first and the last name


def people_by_pair(
    words: Words, may_be_known: Flags, is_free: Flags, index: NameIndex
) -> list[Mention]:
    """People under their first and last name, or the last name first.

    There may be other middle names than in the stored name, or none. may_be_known: which words may
    be in names. is_free: which are in no other name.
    """
    mentions: list[Mention] = []
    spans = _pairs(words, may_be_known, is_free, index).outermost(len(words))
    names = index.known.sorted[spans.names].tolist()
    for begin, end, name in zip(spans.begins.tolist(), spans.ends.tolist(), names, strict=True):
        initials = _initials_between(words, begin, end)
        if initials and not _may_have_more_names(name, index):
            continue
        if not all(map(str.isupper, initials)):
            continue
        text = composed(words.between(begin, end))
        mentions += [
            replace(mention, name=text)
            for mention in index.mentions(words, name, begin, end, (NameMatch.PARTIAL,))
        ]
    return mentions


def _may_have_more_names(name: int, index: NameIndex) -> bool:
    """Whether the stored name has no middle names but initials, so that a text may add some."""
    return bool(index.known.may_have(np.array([name], np.uint64), SHORTER)[0])


def _pairs(words: Words, may_be_known: Flags, is_free: Flags, index: NameIndex) -> NameSpans:
    """Where somebody's first and last name stand, with at most `_MIDDLE_NAMES` between.

    All these words are free.
    """
    found = []
    is_free_from = may_be_known & is_free  # known words, with free ones behind them
    for size in range(2, 3 + _MIDDLE_NAMES):
        last = size - 1  # words behind the first
        is_free_from = is_free_from[:-1] & is_free[last:]
        begins = np.flatnonzero(is_free_from & may_be_known[last:])
        first_keys = words.keys[begins]
        last_keys = words.keys[begins + last]
        places, names = index.known.find(pair(first_keys, last_keys))
        found.append(NameSpans(begins[places], begins[places] + size, names))
    return NameSpans.concatenated(found)


def _initials_between(words: Words, begin: int, end: int) -> list[str]:
    """The first letters of the words between two, without particles, as they are written."""
    middle_words = words.folded(begin + 1, end - 1)
    return [
        words.text[start]
        for word, start in zip(middle_words, words.begins[begin + 1 : end - 1], strict=True)
        if word not in word_list("particles")
    ]


def people_by_last_name(
    words: Words, may_be_known: Flags, taken: Set[int], index: NameIndex
) -> list[Mention]:
    """People under their last name: alone, or behind particles or initials.

    may_be_known: which words may be in names, and are in no other. taken: words of other mentions.
    """
    mentions: list[Mention] = []
    for place in _last_names(words, may_be_known, index):
        last_key = int(words.keys[place])
        with_initials: list[Mention] = []
        begin, initials = _initials_before(words, place)
        if initials:
            name = extended(key_of(initials), last_key)
            with_initials = list(index.mentions(words, name, begin, place + 1))
            mentions += [replace(mention, kind=NameMatch.SHORT) for mention in with_initials]

        is_name = words.text[words.begins[place]].isupper() or casual(words, place)
        if not with_initials and place not in taken and is_name:
            mentions += index.mentions(words, last_key, place, place + 1, (NameMatch.LAST,))
    return mentions


def _last_names(words: Words, may_be_known: Flags, index: NameIndex) -> list[int]:
    """The places of words that are somebody's last name; of very many only some."""
    candidates = np.flatnonzero(may_be_known)
    places, names = index.known.find(words.keys[candidates], LAST)
    begins = candidates[places]
    spans = NameSpans(begins, begins + 1, names).outermost(len(words))
    last_names: list[int] = spans.begins.tolist()
    return last_names


def _initials_before(words: Words, place: int) -> tuple[int, str]:
    """Where initials and particles before a last name begin, and these initials together.

    They may be written JRR, J.R.R. or J. R. R.
    """
    while place and words.folded(place - 1, place)[0] in word_list("particles"):
        place -= 1

    initials = ""
    while place and len(initials) < MOST_INITIALS and _size(words, place - 1) == 1:
        place -= 1
        initials = words.folded(place, place + 1)[0] + initials
    if initials or not place:
        return place, initials if initials.isalpha() else ""

    word_before = words.between(place - 1, place)
    if word_before.isupper() and len(word_before) < MOST_INITIALS:
        return place - 1, word_before.lower()
    return place, ""


def _size(words: Words, place: int) -> int:
    """The letters of a word."""
    return int(words.ends[place] - words.begins[place])
