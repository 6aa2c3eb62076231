"""Names of which a word is typed as two: "query stone" for Querystone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import Mention, NameIndex
from drike.text.name_forms import WORD
from drike.text.ordinary_words import is_ordinary, used_as_word
from drike.text.short_forms import NameMatch
from drike.text.words import MAX_NAME_PARTS, Words, word_key

_MOST_WORDS = 200  # of a text in which such names are looked for
_SHORTEST_PART = 2
_SHORTEST_WORD = 7  # letters of a word that may be split
_WHOLE_NAMES = (NameMatch.FULL, NameMatch.SHORT, NameMatch.PARTIAL)


def split_names(words: Words, is_free: Flags, index: NameIndex) -> list[Mention]:
    """The names that hold two free words of a text as one.

    is_free: which words are in no other name.
    """
    if len(words) > _MOST_WORDS:
        return []
    places = list(_places_of_pairs(words, is_free))
    keys = np.array([_joined_key(words, place) for place in places], np.uint64)
    known, _ = index.known.find(keys, WORD)
    return [mention for i in known for mention in _mentions_at(words, places[i], index)]


def _places_of_pairs(words: Words, is_free: Flags) -> Iterator[int]:
    """Where two words stand side by side that may be one of a name."""
    sizes = words.ends - words.begins
    gaps = words.begins[1:] - words.ends[:-1]
    may_be = (gaps == 1) & is_free[:-1] & is_free[1:]
    may_be &= (sizes[:-1] >= _SHORTEST_PART) & (sizes[1:] >= _SHORTEST_PART)
    may_be &= sizes[:-1] + sizes[1:] >= _SHORTEST_WORD
    for place in np.flatnonzero(may_be).tolist():
        if words.text[words.ends[place]] in " -":
            yield place


def _joined_key(words: Words, place: int) -> int:
    return word_key("".join(words.folded(place, place + 2)))


def _mentions_at(words: Words, place: int, index: NameIndex) -> Iterator[Mention]:
    """What is named by a text whose words at a place and behind it are one."""
    joined = words.joined(place)
    for begin in range(max(0, place - MAX_NAME_PARTS), place + 1):
        end, name = index.longest(joined, joined.keys, begin)
        if not name or end <= place:
            continue
        is_one_word = end - begin == 1
        are_ordinary = all(map(is_ordinary, words.folded(place, place + 2)))
        if is_one_word and are_ordinary and used_as_word(words, place, place + 2):
            return
        for mention in index.mentions(joined, name, begin, end, _WHOLE_NAMES):
            is_in_doubt = mention.ambiguous or (is_one_word and are_ordinary)
            yield replace(mention, kind=NameMatch.SHORT, end=end + 1, ambiguous=is_in_doubt)
        return
