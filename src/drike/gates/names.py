"""Names of subjects in a query: whole words, short forms, names of people, typos.

Words are read as by `drike.text.words`. A text is read in time linear in its length: all its words
are compared at once, and of what may be found very often only the first and the last places are
looked at more closely.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.misspelt_names import misspelt_names
from drike.gates.name_index import Mention, NameIndex
from drike.gates.offered_names import offered_names
from drike.gates.people import people_by_last_name, people_by_pair
from drike.gates.spelled_names import spelled_names
from drike.gates.split_names import split_names
from drike.text.fingerprints import extended
from drike.text.name_forms import OF_KIND, SHORTER, WHOLE, WORD, key_of
from drike.text.short_forms import NameMatch
from drike.text.surroundings import inside
from drike.text.titled_names import key_of_titled
from drike.text.word_lists import word_list
from drike.text.words import MAX_NAME_WORDS, Words

# Names of these kinds are as good as a subject's own: no last name alone, and no demonym.
_OF_SUBJECT = (NameMatch.FULL, NameMatch.SHORT, NameMatch.PARTIAL, NameMatch.TYPO)
# Signs as HTML writes them: "&", quotation marks, spaces and dashes.
_ENTITIES = re.compile(
    r"&(?:amp|nbsp|quot|apos|lsquo|rsquo|ldquo|rdquo|ndash|mdash"
    r"|#0*(?:34|38|39|160|8211|8212|8216|8217|8220|8221)|#x0*(?:22|26|27|a0|201[34589cd]));",
    re.IGNORECASE,
)
_ITALICS = re.compile(r"(?<![^\W_])_+(?=[^\W_])|(?<=[^\W_])_+(?![^\W_])")  # the marks of "_Peru_"


def read_words(text: str) -> Words:
    """The words of a text in which names are looked for, whoever looks; all places stay.

    The marks of italics are none of them, nor are signs that HTML writes as "&amp;" and "&#39;".
    """
    if "&" in text:
        text = _ENTITIES.sub(lambda entity: " " * len(entity[0]), text)
    if "_" in text:
        text = _ITALICS.sub(lambda marks: " " * len(marks[0]), text)
    return Words.of(text)


def find_names(words: Words, index: NameIndex) -> list[Mention]:
    """The names in a text, in their order; none in a longer one.

    Of very many, and of typing errors, these are those at both ends of the text.
    """
    may_be_known = index.known.may_have(words.keys, WORD)
    spelled = spelled_names(words, may_be_known, index)
    spans = spelled.spans.outermost(len(words))

    begins = spans.begins.tolist()
    ends = spans.ends.tolist()
    keys = index.known.sorted[spans.names]
    names = (keys ^ np.uint64(WHOLE)).tolist()
    mentions: list[Mention] = []
    for begin, end, name in zip(begins, ends, names, strict=True):
        mentions += index.mentions(words, name, begin, end)

    mentions += _names_in_other_forms(words, may_be_known, spelled.is_free, index)
    return sorted(mentions, key=lambda mention: (mention.begin, -mention.end))


def edits_named(
    words: Words, index: NameIndex, kinds: Collection[NameMatch] = _OF_SUBJECT
) -> set[int]:
    """The ids of all edits with a name of some kinds in a text, however many."""
    may_be_known = index.known.may_have(words.keys, WORD)
    spelled = spelled_names(words, may_be_known, index)
    names = index.known.sorted[np.unique(spelled.spans.names)] ^ np.uint64(WHOLE)
    shorter_names = names[index.known.may_have(names, SHORTER)]

    edit_ids: set[int] = set()
    for kind in kinds:
        fingerprints = names if kind is NameMatch.FULL else shorter_names
        for key in (fingerprints ^ np.uint64(OF_KIND[kind])).tolist():
            edit_ids.update(index.by_name.get(key, ()))
    for mention in _names_in_other_forms(words, may_be_known, spelled.is_free, index):
        if mention.kind in kinds:
            edit_ids.update(mention.edits)
    return edit_ids


def _names_in_other_forms(
    words: Words, may_be_known: Flags, is_free: Flags, index: NameIndex
) -> list[Mention]:
    """The names that are not spelled as they are stored, among words that are free."""
    mentions = misspelt_names(words, is_free, index)
    mentions += split_names(words, is_free, index)
    known_and_free = may_be_known & is_free
    if known_and_free.any():
        mentions += offered_names(words, may_be_known, is_free, index)
        mentions += people_by_pair(words, may_be_known, is_free, index)
        taken = {place for m in mentions for place in range(m.begin, m.end)}
        mentions += people_by_last_name(words, known_and_free, taken, index)
    return mentions


@cache
def _keys_of_titles() -> frozenset[int]:
    """The fingerprints of titles before a last name: "Ms", "Herr", "Professor"."""
    return frozenset(key_of(title) for title in word_list("titles"))


def objects_in(words: Words, by_object: Mapping[int, Sequence[int]]) -> Iterator[Mention]:
    """The new objects of edits in a text, the longest at each place; no common words and numbers.

    by_object: ids of edits by the fingerprint of an object.
    """
    keys = words.keys.tolist()
    least = words.least.tolist()
    last = words.last.tolist()
    titles = _keys_of_titles()
    begin = 0
    while begin < len(words):
        longest_end = begin + 1
        edit_ids: tuple[int, ...] = ()
        prefix = 0
        if keys[begin] in titles:
            with_title = tuple(by_object.get(key_of_titled(keys[begin + 1 : begin + 2]), ()))
            if with_title:
                yield Mention(
                    words.between(begin, begin + 2), NameMatch.FULL, begin, begin + 2, with_title
                )
                begin += 2
                continue
        for end, key in enumerate(keys[begin : begin + MAX_NAME_WORDS], begin + 1):
            prefix = extended(prefix, key)
            if least[begin] <= end - begin and last[end - 1]:
                ids_of_longer = by_object.get(prefix)
                if ids_of_longer:
                    longest_end = end
                    edit_ids = tuple(ids_of_longer)

        if edit_ids:
            name = words.between(begin, longest_end)
            if not name.isdigit() and name not in word_list("common words"):
                is_inside = inside(words, begin, longest_end)
                yield Mention(name, NameMatch.FULL, begin, longest_end, edit_ids, inside=is_inside)
        begin = longest_end
