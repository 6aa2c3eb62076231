"""The words by which texts say what they ask, and relations that exclude each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby

from drike.encoders.salience import content
from drike.text.glossary import glossed
from drike.text.masking import masked
from drike.text.word_lists import data_sections
from drike.text.words import words

_STEM = 5  # letters by which forms of a word are told from other words
_STORED = 1 << 15  # wordings of a store of which what was read is kept

_LISTS = data_sections("text/relation_words.txt")


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of a list of `relation_words.txt`."""
    return frozenset(words(" ".join(_LISTS[name])))


FAMILY = word_set("family")
_EMPTY = word_set("empty")  # they say nothing about what is asked
_ANY_MEASURE = word_set("any measure")
# The words that say how much of something which has such a measure.
MEASURES = [_ANY_MEASURE.union(line.split()) for line in _LISTS["measures"]]


@dataclass(frozen=True)
class ExclusiveRelations:
    """Groups of relations of which a fact has one, by the words for them.

    relations_by_word: the numbers of a group and of a relation in it.
    """

    relations_by_word: Mapping[str, Sequence[tuple[int, int]]]

    @classmethod
    def read(cls, name: str) -> ExclusiveRelations:
        """A list of `relation_words.txt`."""
        return cls.of_lines(_LISTS[name])

    @classmethod
    def of_lines(cls, lines: Sequence[str]) -> ExclusiveRelations:
        """A list of groups, one a line, of relations with "|" between them."""
        relations_by_word = defaultdict[str, list[tuple[int, int]]](list)
        for group, line in enumerate(lines):
            for relation, text in enumerate(line.split("|")):
                for word in set(text.split()):
                    relations_by_word[word].append((group, relation))
        return cls(dict(relations_by_word))

    def exclude(self, first: Iterable[str], second: Iterable[str]) -> bool:
        """Whether words of two texts are of different relations of a group, none of the same."""
        relations_of_first = self._relations_by_group(first)
        if not relations_of_first:
            return False
        relations_of_second = self._relations_by_group(second)
        return any(
            relations.isdisjoint(relations_of_second[group])
            for group, relations in relations_of_first.items()
            if group in relations_of_second
        )

    def _relations_by_group(self, said_words: Iterable[str]) -> dict[int, set[int]]:
        relations_by_group = defaultdict[int, set[int]](set)
        for word in self.relations_by_word.keys() & said_words:
            for group, relation in self.relations_by_word[word]:
                relations_by_group[group].add(relation)
        return dict(relations_by_group)


CONTRARIES = ExclusiveRelations.read("contraries")  # of a text and what an edit is about
OPPOSITES = ExclusiveRelations.read("opposites")  # of two wordings of stored edits: these, too
OPPOSED_QUALIFIERS = ExclusiveRelations.read("opposed qualifiers")  # of one attribute
CASES = ExclusiveRelations.read("cases")  # other cases than the edit's, or other attributes


def contrary(first: str, second: str, relations: ExclusiveRelations = CONTRARIES) -> bool:
    """Whether two texts ask for different relations of a kind, as the father and the mother.

    relations: or `OPPOSITES`, or `OPPOSED_QUALIFIERS`.
    """
    return relations.exclude(words(first), words(second))


def telling_words(text: str) -> list[str]:
    """The words of a text that say something about what is asked, in their order."""
    return [word for word in words(text) if len(word) > 1 and word not in _EMPTY]


def stems(said_words: Iterable[str]) -> frozenset[str]:
    """The stems of the words that say something about what is asked."""
    return frozenset(word[:_STEM] for word in said_words if word not in _EMPTY)


def is_empty(word: str) -> bool:
    """Whether a word says nothing about what is asked."""
    return word in _EMPTY


def stem(word: str) -> str:
    """The letters by which forms of a word are told from other words."""
    return word[:_STEM]


_VAGUE = stems(("located", "situated", "associated", "belongs"))  # of many relations
_RELATIONS = [relation.split() for line in _LISTS["contraries"] for relation in line.split("|")]
_SYNONYMS = [stems(relation) for relation in _RELATIONS if len(relation) > 1]


def synonyms(stems_of_text: frozenset[str]) -> frozenset[str]:
    """The stems of all words for a relation for which a text has one."""
    return frozenset().union(*(stems for stems in _SYNONYMS if stems & stems_of_text))


@lru_cache(_STORED)
def masked_wording(wording: str, names: tuple[str, ...]) -> str:
    """A stored wording with "it" for its subject; it is kept, as every question needs it."""
    return masked(wording, names)


@lru_cache(_STORED)
def word_weights_of(wording: str, names: tuple[str, ...]) -> dict[str, float]:
    """What each word of a wording counts for that says what is asked about its subject."""
    english = glossed(masked_wording(wording, names))
    return {word: content(word) for word in words(english) if word not in _EMPTY}


def asked_parts(text: str) -> list[tuple[str, frozenset[str]]]:
    """The parts of a text between words that say nothing about what is asked.

    Each comes with the stems of its words.
    """
    parts = []
    for is_telling, run in groupby(words(text), key=_is_part_of_request):
        if is_telling:
            run_words = list(run)
            parts.append((" ".join(run_words), stems(run_words)))
    return parts


def _is_part_of_request(word: str) -> bool:
    return len(word) > 1 and word not in _EMPTY and stem(word) not in _VAGUE
