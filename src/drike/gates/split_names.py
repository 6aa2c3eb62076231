"""Names of which a word is typed as two: "query stone" for Querystone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import Mention, NameIndex
from drike.text.name_forms import WORD
from drike.text.ordinary_words import is_ordinary, used_as_word
from drike.text.relation_words import is_empty
from drike.text.short_forms import NameMatch
from drike.text.words import MAX_NAME_PARTS, Words, word_key

_MOST_WORDS = 200  # of a text in which such names are looked for
_SHORTEST_PART = 3
_SHORTEST_WORD = 7  # letters of a word that may be split
_WHOLE_NAMES = (NameMatch.FULL, NameMatch.SHORT, NameMatch.PARTIAL)


def split_names(words: Words, is_free: Flags, index: NameIndex) -> list[Mention]:
    """The names that hold two free words of a text as one.

    is_free: which words are in no other name.
    """
    if len(words) > _MOST_WORDS:
        return []
    keys_by_place = _keys_of_pairs(words, is_free)
    if not keys_by_place:
        return []
    known, _ = index.known.find(np.array(list(keys_by_place.values()), np.uint64), WORD)
    places = list(keys_by_place)
    return [mention for i in known for mention in _mentions_at(words, places[i], index)]


def _keys_of_pairs(words: Words, is_free: Flags) -> dict[int, int]:
    """The fingerprints of two words side by side as one, by the place of the first."""
    said = words.folded()
    begins = words.begins.tolist()
    ends = words.ends.tolist()
    free = is_free.tolist()
    keys: dict[int, int] = {}
    for place, (first, second) in enumerate(pairwise(said)):
        are_long = len(first) >= _SHORTEST_PART and len(second) >= _SHORTEST_PART
        if not are_long or len(first) + len(second) < _SHORTEST_WORD:
            continue
        if not (free[place] and free[place + 1]) or is_empty(first) or is_empty(second):
            continue
        if words.text[ends[place] : begins[place + 1]] in (" ", "-"):
            keys[place] = word_key(first + second)
    return keys


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
