"""The names of edits and their short forms by fingerprint, as a dictionary of names has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from drike.text.fingerprints import MODULUS, Fingerprints, extended
from drike.text.ordinary_words import is_ordinary
from drike.text.short_forms import (
    NameMatch,
    ShortForm,
    is_person,
    offered_by,
    plain_size,
    short_forms,
)
from drike.text.typed_names import LONG_WORD, as_typed, joins
from drike.text.word_lists import in_other_languages, word_list
from drike.text.words import MAX_NAME_PARTS, Words, word_key, words

LONGEST_WORD = 40  # letters of the words of names that are checked for typing errors

# What a fingerprint is of: it is combined with one of these bit by bit (xor), so that a word, a
# name of one word and the beginning of a longer name have different ones.
WHOLE = 0x9E3779B97F4A7C15  # a whole name
WORD = 0xC2B2AE3D27D4EB4F  # a word of a name
LAST = 0x27D4EB2F165667C5  # a last name of one word
SHORTER = 0x85EBCA6B27D4EB4F  # a name that is not the full one
_LONG = 0x9FB21C651E98DF25  # a word that may be misspelt
_PERSON = 0x165667B19E3779F9  # a first and a last name
_OFFERED = 0xD6E8FEB86659FD93  # a firm and what it offers
OF_KIND = {kind: number * 0x85EBCA77C2B2AE63 % MODULUS for number, kind in enumerate(NameMatch)}

_SIGNS_FROM = "\u2e80"  # on: Han and kana, of which two signs are a whole name
_SHORTEST_NAME = 3  # letters; shorter ones may mean something else


@dataclass(frozen=True)
class SubjectNames:
    """The names of an edit, the subject first.

    struck: short forms by which it is not found, as words are compared. of_thing: whether what is
    said of it shows that it is no person.
    """

    names: Sequence[str]
    struck: frozenset[str] = frozenset()
    of_thing: bool = False


class NameForms(NamedTuple):
    """The names of an edit by fingerprint, as `NameIndex` has them."""

    subject: int
    names: set[int]  # each with its kind
    parts: set[int]  # beginnings of names, whole names, pairs and words
    written: dict[str, int]  # names that may mean something else, as they are written
    long: dict[str, int]  # words of full names that may be misspelt

    @classmethod
    def of(
        cls, names: Sequence[Words], struck: frozenset[str] = frozenset(), *, of_thing: bool = False
    ) -> NameForms:
        """The names of an edit, the subject first; names of too many words are left out.

        struck, of_thing: as in `SubjectNames`.
        """
        forms = cls(names[0].fingerprint, set(), set(), {}, {})
        for name in names:
            keys = name.keys.tolist()
            if not 0 < len(keys) <= MAX_NAME_PARTS:
                continue
            folded = name.folded()
            forms._add(NameMatch.FULL, name.between(0, len(keys)), keys, folded)
            forms._add_words(keys, folded)
            for typed in as_typed(name.text):
                forms._add_other(NameMatch.SHORT, typed, with_joins=True)
            for begin, end in joins(folded):
                forms._add_joined(begin, end, keys, folded)
            if not of_thing:
                forms._add_first_and_last_name(name, keys, folded)
            if apart := offered_by(name, folded, of_thing=of_thing):
                forms._add_offered(keys[apart[0]], keys[apart[1]])
            for form in short_forms(name, folded, of_thing=of_thing):
                text = form.text(name)
                if struck and as_compared(text) in struck:
                    continue
                forms._add_short_form(form, name, keys, folded)
                if form.kind is NameMatch.PARTIAL and "&" in text:
                    for typed in as_typed(text):
                        forms._add_other(NameMatch.PARTIAL, typed)
            for other_name in in_other_languages().get(" ".join(folded), ()):
                if as_compared(other_name) not in struck:
                    forms._add_other(NameMatch.SHORT, other_name)
        return forms

    def _add(self, kind: NameMatch, text: str, keys: Sequence[int], folded: Sequence[str]) -> None:
        """Add a name, and its beginnings as parts.

        text: as it is written; keys and folded: its words.
        """
        whole = 0
        for key in keys:
            whole = extended(whole, key)
            self.parts.add(whole)
        is_one_last_name = kind is NameMatch.LAST and len(keys) == 1  # is looked for by itself
        self.parts.add(whole ^ (LAST if is_one_last_name else WHOLE))
        if kind is not NameMatch.FULL:
            self.parts.add(whole ^ SHORTER)
        self.names.add(whole ^ OF_KIND[kind])
        if _may_mean_something_else(text, folded):
            self.written[text] = whole

    def _add_words(self, keys: Sequence[int], folded: Sequence[str]) -> None:
        """Add the words of a full name."""
        self.parts.update([key ^ WORD for key in keys])
        for word, key in zip(folded, keys, strict=True):
            if LONG_WORD <= len(word) <= LONGEST_WORD:
                self.long[word] = key ^ _LONG
                self.parts.add(key ^ _LONG)

    def _add_first_and_last_name(
        self, name: Words, keys: Sequence[int], folded: Sequence[str]
    ) -> None:
        """Add the first and last name of what may be a person, in any order."""
        size = plain_size(name)
        if size <= 1:
            return
        titles = word_list("titles")
        first = next((i for i in range(size - 1) if folded[i] not in titles), 0)
        last = size - 1
        has_initial = min(len(folded[first]), len(folded[last])) <= 1
        if has_initial or folded[first] in word_list("articles"):
            return
        if not is_person(name, folded, first, size):
            return

        both = (keys[first] + keys[last]) * _PERSON % MODULUS ^ _PERSON
        self.names.add(both ^ OF_KIND[NameMatch.PARTIAL])
        self.parts.add(both)
        particles = word_list("particles")
        if all(len(word) == 1 or word in particles for word in folded[first + 1 : last]):
            self.parts.add(both ^ SHORTER)  # a text may add middle names

    def _add_offered(self, firm: int, offered: int) -> None:
        """Add the words for a firm and for what it offers, which may stand apart."""
        both = firm_and_offered(np.array([firm], np.uint64), np.array([offered], np.uint64))
        self.parts.add(int(both[0]))
        self.names.add(int(both[0]) ^ OF_KIND[NameMatch.PARTIAL])

    def _add_short_form(
        self, form: ShortForm, name: Words, keys: Sequence[int], folded: Sequence[str]
    ) -> None:
        begin, end = form.begin, form.end
        if not form.prefix:
            text = name.between(begin, end)
            self._add(form.kind, text, keys[begin:end], folded[begin:end])
        elif begin < end:
            # Initials are looked for where the last name is, so these are no parts.
            whole = extended(key_of(form.prefix), keys[begin])
            self.names.add(whole ^ OF_KIND[form.kind])
        else:
            self._add_other(form.kind, form.prefix)

    def _add_joined(self, begin: int, end: int, keys: Sequence[int], folded: Sequence[str]) -> None:
        """Add a full name some of whose words are joined."""
        joined = word_key("".join(folded[begin:end]))
        whole = 0
        for key in (*keys[:begin], joined, *keys[end:]):
            whole = extended(whole, key)
            self.parts.add(whole)
        self.parts.update((whole ^ WHOLE, whole ^ SHORTER, joined ^ WORD))
        self.names.add(whole ^ OF_KIND[NameMatch.SHORT])

    def _add_other(self, kind: NameMatch, text: str, *, with_joins: bool = False) -> None:
        """Add a name that has words which the full names have not.

        with_joins: and the same with two words joined.
        """
        name = Words.of(text)
        keys = name.keys.tolist()
        folded = name.folded()
        self._add(kind, text, keys, folded)
        for begin, end in joins(folded) if with_joins else ():
            self._add_joined(begin, end, keys, folded)
        self.parts.update(key ^ WORD for key in keys)


def _may_mean_something_else(text: str, folded: Sequence[str]) -> bool:
    """Whether a name is of common words, very short, or one of several well-known things."""
    if len(folded) == 1 and is_ordinary(folded[0]):
        return True
    common_words = word_list("common words")
    if folded[0] in common_words and all(word in common_words for word in folded):
        return True
    if len(text) < _SHORTEST_NAME and text < _SIGNS_FROM:
        return True
    return " ".join(folded) in word_list("homonyms")


def forms_of(names_of: Mapping[int, SubjectNames]) -> dict[int, NameForms]:
    """The forms of the names of edits, by the edits' ids."""
    all_names = [name for subject in names_of.values() for name in subject.names]
    words_of_names = iter(Words.of_each(all_names))
    return {
        edit_id: NameForms.of(
            list(islice(words_of_names, len(subject.names))),
            subject.struck,
            of_thing=subject.of_thing,
        )
        for edit_id, subject in names_of.items()
    }


def as_compared(text: str) -> str:
    """A short form as it is compared with those that are struck out."""
    return " ".join(words(text))


@lru_cache(maxsize=1 << 12)
def key_of(text: str) -> int:
    """The fingerprint of a word, or of some."""
    return Words.of(text).fingerprint


def pair(first: Fingerprints, last: Fingerprints) -> Fingerprints:
    """The fingerprints of two names in any order."""
    person = np.uint64(_PERSON)
    return (first + last) * person ^ person


def firm_and_offered(firm: Fingerprints, offered: Fingerprints) -> Fingerprints:
    """The fingerprints of words for firms and for what they offer."""
    tag = np.uint64(_OFFERED)
    return (firm * np.uint64(3) + offered) * tag ^ tag
