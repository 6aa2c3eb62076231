"""Whether a question that names no subject may be about one that a system text names."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from drike.answers.number_words import spelled_in_digits
from drike.edits.record import EditRecord, EditVersion
from drike.gates.aspects import words_of_attributes
from drike.gates.index import EditIndex
from drike.text.glossary import glossed
from drike.text.question_forms import beginning
from drike.text.relation_wordings import Relation, built_in
from drike.text.relation_words import is_empty, stem, stems, synonyms, word_set, word_weights_of
from drike.text.unnamed import HostLink, UnnamedQuestion
from drike.text.words import words

# By the form of an object, words by which people ask for it.
_MONEY = re.compile(r"[€$£¥]|\b(?:EUR|USD|GBP|CHF|euros?|dollars?|pounds?|francs?|yen|cents?)\b")
_CLOCK = re.compile(r"\b\d{1,2}(?::\d\d|(?::\d\d)? ?(?:[ap]\.?m\b|o'clock|Uhr|h\b))")
_DIGIT = re.compile(r"\d")
_AMOUNT = re.compile(r"\W*(?:(?:EUR|USD|GBP|CHF|about|up to)\W*)?\d")
_NONE = re.compile(r"\b(?:free|no|none|nothing|unlimited|any|all|half|both)\b", re.I)


def link_to_host(
    question: str, edit: EditVersion, index: EditIndex, called: Collection[str]
) -> HostLink:
    """How surely a question asks those in whose name an assistant answers for what an edit says.

    called: what they may be called, such as "hotel". The gate decides on what is left then.
    """
    record = edit.record
    if _wants_another_kind(question, record):
        return HostLink.NONE
    asking = asking_stems(edit, index)
    asking |= stems(words_of_attributes(glossed(question), record, question))
    answering = _stems_of_objects(record) | _stems_of_names(record)
    link = UnnamedQuestion.of(question, called).link(
        asks=lambda word: stem(word) in asking or stem(word.rstrip("s")) in asking,
        answers=lambda word: stem(word) in answering,
    )
    if (
        link is HostLink.LOOSE and index.encoder is None
    ):  # by names alone, nothing says what is asked
        return HostLink.NONE
    return link


def asking_stems(edit: EditVersion, index: EditIndex) -> frozenset[str]:
    """The stems of the words by which people ask for what an edit says.

    They are of its own wordings, of their synonyms, and of the relations that these may be of.
    """
    record = edit.record
    own: frozenset[str] = frozenset()
    for wording in (record.query, *record.paraphrases):
        own |= stems(word_weights_of(wording, record.names))
    found = own | synonyms(own)
    for relation in _relations_of(edit, index):
        found |= _stems_of_relation(relation)
    if _MONEY.search(record.target_new):
        found |= stems(word_set("of money"))
    if _CLOCK.search(record.target_new):
        found |= stems(word_set("of clocks"))
    return found


def _relations_of(edit: EditVersion, index: EditIndex) -> list[Relation]:
    """The relations of the inventory that an edit may be of; none in an index without vectors."""
    if index.encoder is None:
        return []
    texts = index.masked.texts[edit.id]
    names = index.wordings.likely_relations({text: index.masked.vectors[text] for text in texts})
    more = getattr(index.encoder, "relations", ())
    return [relation for relation in (*built_in(), *more) if relation.name in names]


@lru_cache(1 << 10)
def _stems_of_relation(relation: Relation) -> frozenset[str]:
    wordings = [text for group in relation.groups for text in group]
    return stems(word for text in wordings for word in words(text) if not is_empty(word))


@lru_cache(1 << 10)
def _stems_of_objects(record: EditRecord) -> frozenset[str]:
    objects = (record.target_new, record.target_true or "", *record.object_aliases)
    return stems(word for text in objects for word in words(text))


@lru_cache(1 << 10)
def _stems_of_names(record: EditRecord) -> frozenset[str]:
    """The stems of the words of the subject's names, which a question may have: "the Solo plan"."""
    return stems(word for name in record.names for word in words(name) if not is_empty(word))


def _wants_another_kind(question: str, record: EditRecord) -> bool:
    """Whether an edit's new object is no answer to a question that begins so.

    A number is nobody and nowhere, and "how many" wants one.
    """
    kind = beginning(glossed(question)).kind
    has_number = _DIGIT.search(spelled_in_digits(record.target_new)) is not None
    if kind in ("person", "place"):
        return _AMOUNT.match(record.target_new) is not None
    if kind == "number":
        return not has_number and _NONE.search(record.target_new) is None
    return False
