"""Names in a text that are spelled as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import NameIndex
from drike.gates.name_spans import NameSpans
from drike.text.fingerprints import NEXT
from drike.text.name_forms import WHOLE
from drike.text.words import MAX_NAME_PARTS, Places, Words

# Words of a text in which names are looked for one by one, which takes a fifth of the time there.
_SHORT = 200
_BLOCK = 1 << 14  # words at once, in a longer text

Span = tuple[int, int, int]  # the begin and end of a name, and its fingerprint


@dataclass(frozen=True, eq=False)
class SpelledNames:
    """The names, none inside another, and which words of the text are in none of them.

    Of very many in a long text, there are only the first and the last of each name.
    """

    spans: NameSpans
    is_free: Flags


def spelled_names(words: Words, may_be_known: Flags, index: NameIndex) -> SpelledNames:
    """The names in a text that are spelled as they are stored.

    may_be_known: which words may be in names.
    """
    if len(words) <= _SHORT:
        all_spans = [_one_by_one(words, may_be_known, index)]
        returned = all_spans
    else:
        all_spans = _block_by_block(words, may_be_known, index)
        returned = [spans.first_and_last() for spans in all_spans]

    depth_changes = np.zeros(len(words) + 1, np.int8)  # of how many names a word is in
    for spans in all_spans:
        depth_changes[spans.begins] += 1
        depth_changes[spans.ends] -= 1
    is_free = np.cumsum(depth_changes[:-1], dtype=np.int8) == 0
    return SpelledNames(NameSpans.concatenated(returned), is_free)


def outer_names(longest: Callable[[int], tuple[int, int]], begins: Iterable[int]) -> list[Span]:
    """The longest name from each of some words on, none inside another.

    longest: where that from a word on ends, and its fingerprint, 0 for none.
    """
    spans: list[Span] = []
    last_end = 0
    for begin in begins:
        end, name = longest(begin)
        if name and end > last_end:
            spans.append((begin, end, name))
            last_end = end
    return spans


def _one_by_one(words: Words, may_be_known: Flags, index: NameIndex) -> NameSpans:
    keys = words.keys.tolist()
    starts = np.flatnonzero(may_be_known).tolist()
    spans = outer_names(lambda begin: index.longest(words, keys, begin), starts)
    begins = [begin for begin, _, _ in spans]
    ends = [end for _, end, _ in spans]
    wholes = np.array([name ^ WHOLE for _, _, name in spans], np.uint64)
    places = np.searchsorted(index.known.sorted, wholes)
    return NameSpans(np.array(begins, np.int64), np.array(ends, np.int64), places)


def _block_by_block(words: Words, may_be_known: Flags, index: NameIndex) -> list[NameSpans]:
    all_spans = []
    reached = np.int64(0)  # the end of the names before
    for at in range(0, len(may_be_known), _BLOCK):
        block = may_be_known[at : at + _BLOCK]
        spans = _longest_from_each(words, at + np.flatnonzero(block), index)
        reached_ends = np.maximum.accumulate(np.append(reached, spans.ends))
        reached_before = reached_ends[:-1]
        all_spans.append(spans[spans.ends > reached_before])
        reached = reached_ends[-1]
    return all_spans


def _longest_from_each(words: Words, starts: Places, index: NameIndex) -> NameSpans:
    """The longest name from each of some words on, if there is one; all words at once."""
    sizes_by_start = np.zeros(len(starts), np.uint8)
    names_by_start = np.empty(len(starts), np.int64)

    # Of the starts that are left: their rows, words, and the fingerprints of the words from there
    # on.
    rows = np.arange(len(starts))
    begins = starts
    prefixes = words.keys[starts]
    for size in range(1, MAX_NAME_PARTS + 1):
        is_beginning = index.known.may_have(prefixes)
        if not is_beginning.all():
            rows = rows[is_beginning]
            begins = begins[is_beginning]
            prefixes = prefixes[is_beginning]
        if not len(rows):
            break

        whole, names = index.known.find(prefixes, WHOLE)
        long_enough = words.least[begins[whole]] <= size
        fits = long_enough & words.last[begins[whole] + (size - 1)]
        rows_named = rows[whole[fits]]
        sizes_by_start[rows_named] = size
        names_by_start[rows_named] = names[fits]

        # One word more, where the text goes on.
        going_on = np.searchsorted(begins, len(words) - size)
        rows = rows[:going_on]
        begins = begins[:going_on]
        prefixes = prefixes[:going_on] * NEXT + words.keys[begins + size]

    named = np.flatnonzero(sizes_by_start)
    return NameSpans(starts[named], starts[named] + sizes_by_start[named], names_by_start[named])
