"""The names of edits and their short forms by fingerprint, as a dictionary of names has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from drike.text.short_forms import (
    NameMatch,
    is_person,
    plain_size,
    short_forms,
)
from drike.text.word_lists import in_other_languages, word_list
from drike.text.words import MAX_NAME_PARTS, MODULUS, Fingerprints, Words, extended

LONG_WORD, LONGEST_WORD = 5, 40  # letters; other words of names are not checked for typos
WHOLE, WORD, LAST = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x27D4EB2F165667C5,
)  # what a fingerprint is of
_LONG = 0x9FB21C651E98DF25  # a word that may be misspelt
_PERSON, SHORTER = 0x165667B19E3779F9, 0x85EBCA6B27D4EB4F
OF_KIND = {kind: i * 0x85EBCA77C2B2AE63 % MODULUS for i, kind in enumerate(NameMatch)}


class NameForms(NamedTuple):
    """The names of an edit by fingerprint, as `NameIndex` has them."""

    subject: int
    names: set[int]  # each with its kind
    parts: set[int]  # beginnings of names, whole names, pairs and words
    written: dict[str, int]  # names that may mean something else, as they are written
    long: dict[str, int]  # words of full names that may be misspelt

    @classmethod
    def of(cls, names: Sequence[Words]) -> NameForms:
        """Those of the names of an edit, the subject first."""
        forms = cls(names[0].fingerprint, set(), set(), {}, {})
        for name in names:
            keys, folded = name.keys.tolist(), name.folded()
            if not 0 < len(keys) <= MAX_NAME_PARTS:
                continue
            forms._add(NameMatch.FULL, name.between(0, len(keys)), keys, folded)
            forms.parts.update([key ^ WORD for key in keys])
            long = {
                w: k ^ _LONG
                for w, k in zip(folded, keys, strict=True)
                if LONG_WORD <= len(w) <= LONGEST_WORD
            }
            forms.long.update(long)
            forms.parts.update(long.values())
            size = plain_size(name)
            at = next((i for i in range(size - 1) if folded[i] not in word_list("titles")), 0)
            paired = size > 1 and min(map(len, (folded[at], folded[size - 1]))) > 1
            paired = paired and folded[at] not in word_list("articles")
            if paired and is_person(name, folded, at, size):
                pair = (keys[at] + keys[size - 1]) * _PERSON % MODULUS ^ _PERSON
                forms.names.add(pair ^ OF_KIND[NameMatch.PARTIAL])
                forms.parts.add(pair)
                if all(
                    len(word) == 1 or word in word_list("particles")
                    for word in folded[at + 1 : size - 1]
                ):
                    forms.parts.add(pair ^ SHORTER)  # a text may add middle names
            for form in short_forms(name, folded):
                begin, end = form.begin, form.end
                if not form.prefix:
                    forms._add(
                        form.kind, name.between(begin, end), keys[begin:end], folded[begin:end]
                    )
                elif begin < end:  # initials are looked for where the last name is
                    forms.names.add(extended(key_of(form.prefix), keys[begin]) ^ OF_KIND[form.kind])
                else:
                    forms._add_other(form.kind, form.prefix)
            for other in in_other_languages().get(" ".join(folded), ()):
                forms._add_other(NameMatch.SHORT, other)
        return forms

    def _add_other(self, kind: NameMatch, text: str) -> None:
        """A name that has words which no stored name has."""
        own = Words.of(text)
        self._add(kind, text, own.keys.tolist(), own.folded())
        self.parts.update(key ^ WORD for key in own.keys.tolist())

    def _add(self, kind: NameMatch, text: str, keys: Sequence[int], folded: Sequence[str]) -> None:
        """A name, and its beginnings as `parts`; a single last name is looked for by itself."""
        whole = 0
        for key in keys:
            whole = extended(whole, key)
            self.parts.add(whole)
        self.parts.add(whole ^ (LAST if kind is NameMatch.LAST and len(keys) == 1 else WHOLE))
        if kind is not NameMatch.FULL:
            self.parts.add(whole ^ SHORTER)
        self.names.add(whole ^ OF_KIND[kind])
        common = folded[0] in word_list("common words") and all(
            word in word_list("common words") for word in folded
        )
        short = len(text) < 3 and text < "\u2e80"  # two signs of Han are a whole name
        if common or short or " ".join(folded) in word_list("homonyms"):
            self.written[text] = whole


def forms_of(names_of: Mapping[int, Sequence[str]]) -> dict[int, NameForms]:
    """The forms of the names of edits, by id."""
    read = iter(Words.of_each([name for names in names_of.values() for name in names]))
    return {id: NameForms.of(list(islice(read, len(names)))) for id, names in names_of.items()}


@lru_cache(maxsize=1 << 12)
def key_of(word: str) -> int:
    """The fingerprint of a word, or of some."""
    return Words.of(word).fingerprint


def pair(first: Fingerprints, last: Fingerprints) -> Fingerprints:
    """The fingerprints of two names in any order."""
    return (first + last) * np.uint64(_PERSON) ^ np.uint64(_PERSON)
