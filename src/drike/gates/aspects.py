"""Which thing within the subject a question asks about, and which an edit is about.

Many facts may hang on one name: a hospital has heads of departments, telephone numbers and opening
hours. What tells them apart are the words for a thing within the subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import lru_cache

from drike.edits.record import EditRecord
from drike.encoders.salience import content
from drike.text.attributes import asked_attributes, stated_attributes
from drike.text.contrasts import limits_otherwise
from drike.text.glossary import glossed
from drike.text.narrowing import narrows
from drike.text.relation_words import is_empty, masked_wording, stem, stems, synonyms
from drike.text.things import (
    SUBJECT,
    Said,
    ThingsInCommon,
    compared_things,
    names_of_things,
    no_things,
    said,
)
from drike.text.value_kinds import takes
from drike.text.words import words

# Active edits of a subject, from which on a question may well be about something else of it.
MANY = 3
# The features that say that an edit is about what is asked.
AGREEING = ("agrees", "sole", "covered")
_LEAST_CONTENT = 1e-9


@dataclass(frozen=True)
class AspectInCommon:
    """What a question and an edit have in common by things, values and attributes.

    fits: whether the edit's object is of a kind that may answer the question. is_other: whether
    the question limits a noun by another thing than each wording does. agrees, differs: whether
    both are about the same attribute of firms and products, or each about others. covered: the
    share of what the question says that the edit says, too.
    """

    things: ThingsInCommon
    fits: bool
    is_other: bool = False
    is_narrower: bool = False
    agrees: bool = False
    differs: bool = False
    covered: float = 0.0


def aspect(question: Said, record: EditRecord, original: str = "") -> AspectInCommon:
    """What a question has in common with the edit's nearest wording.

    original: the question in its own language, if that is not English.
    """
    named = " ".join((record.target_new, *record.names))
    wordings = [
        said(masked_wording(wording, record.names))
        for wording in (record.query, *record.paraphrases)
    ]
    things_by_wording = [compared_things(question, wording, named) for wording in wordings]
    asked = _asked_in(question.text, original)
    fact = _fact_of(record)
    shared = asked.keys() & fact.attributes
    said_too = frozenset(word for name in shared for word in asked[name])
    return AspectInCommon(
        things=min(things_by_wording, key=lambda things: things.distance),
        fits=takes(question.text, record.target_new),
        is_other=all(limits_otherwise(question, wording, named) for wording in wordings),
        is_narrower=bool(shared)
        and all(narrows(question, wording, named, said_too) for wording in wordings),
        agrees=bool(shared),
        differs=bool(asked and fact.attributes and not shared),
        covered=_covered(question.text, fact.stems, said_too),
    )


def words_of_attributes(question: str, record: EditRecord, original: str = "") -> frozenset[str]:
    """The words by which a question asks for an attribute that an edit is about.

    original: the question in its own language, if that is not English.
    """
    asked = _asked_in(question, original)
    return frozenset(
        word for name in asked.keys() & _fact_of(record).attributes for word in asked[name]
    )


def _asked_in(question: str, original: str) -> dict[str, frozenset[str]]:
    """The attributes that a question asks for in English or its own language, with the words."""
    return {**asked_attributes(original), **asked_attributes(question)}


@dataclass(frozen=True)
class _Fact:
    """What an edit says: attributes, and the stems of its words, their synonyms, its new object."""

    attributes: frozenset[str]
    stems: frozenset[str]


@lru_cache(4_096)
def _fact_of(record: EditRecord) -> _Fact:
    attributes: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    for wording in (record.query, *record.paraphrases):
        text = masked_wording(wording, record.names)
        english = glossed(text)
        attributes |= stated_attributes(text) | stated_attributes(english)
        own |= stems(names_of_things(english))
    # Not the old object: it may be named in any role, of which `share_said` and premises judge.
    objects = stems(words(record.target_new))
    return _Fact(attributes, own | synonyms(own) | objects)


def _covered(question: str, stems_of_fact: Set[str], said_too: Set[str]) -> float:
    """The share of a question's telling words that a fact has, by what each counts for."""
    all_words = frozenset(
        word
        for word in names_of_things(question)
        if len(word) > 1 and word != SUBJECT and not is_empty(word) and word not in no_things()
    )
    covered = (word for word in all_words if word in said_too or stem(word) in stems_of_fact)
    return sum(map(content, covered)) / max(sum(map(content, all_words)), _LEAST_CONTENT)


def attribute_features(
    aspect: AspectInCommon, others: Iterable[AspectInCommon]
) -> dict[str, float]:
    """Features of an edit by the attributes of firms and products.

    agrees: question and edit have one in common. sole: and no other edit of the subject has.
    differs: both have some, and none in common. covered: as an `AspectInCommon` has it.
    """
    is_sole = aspect.agrees and not any(other.agrees for other in others)
    return {
        "agrees": float(aspect.agrees),
        "sole": float(is_sole),
        "differs": float(aspect.differs),
        "covered": aspect.covered,
    }


def aspect_features(aspect: AspectInCommon, others: Iterable[AspectInCommon]) -> dict[str, float]:
    """Features of an edit of which the subject has many, by its aspect and those of the others.

    elsewhere: question and edit each name a thing that the other does not, and none in common; the
    more the question tells besides, the less this says. limited: the question limits a noun by
    another thing than the edit does. beside: the same, and one in common.
    joined: either, and the question joins the thing to the subject. switched: both limit a noun,
    each otherwise. outdone: another edit has more of the things that the question names.
    """
    things = aspect.things
    replaces = bool(things.extra and things.missing)
    clearness = replaces / max(1, len(things.extra) - 1)
    has_shared = bool(things.shared)
    return {
        "elsewhere": 0.0 if has_shared else clearness,
        "limited": float(aspect.is_other or aspect.is_narrower),
        "beside": clearness if has_shared else 0.0,
        "joined": float(replaces and things.is_joined),
        "switched": float(things.is_switched),
        "outdone": float(any(other.fits and other.things.outdoes(things) for other in others)),
    }
