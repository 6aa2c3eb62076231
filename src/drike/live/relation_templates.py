"""Questions about an edit from the templates of relations, where no model is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from drike.edits.record import EditRecord
from drike.encoders.base import FloatArray, TextEncoder, salient, unit
from drike.gates.inventory import WithRelations, inventory
from drike.live.suggestions import (
    ALONE,
    QUESTIONS,
    Neighbourhood,
    Suggestion,
    checked_suggestions,
)
from drike.text.glossary import glossed
from drike.text.masking import masked
from drike.text.relation_wordings import Relation, built_in

TEMPLATES = "templates"  # the author of what they give
# The least cosine of a query with the relation whose templates are taken for it, and the largest of
# one that gives near misses.
_FITS = 0.6
_DIFFERS = 0.85
_SUBJECT = re.compile(r"\bit\b")


def templated(
    record: EditRecord,
    encoder: TextEncoder,
    count: int = QUESTIONS,
    neighbourhood: Neighbourhood = ALONE,
) -> list[Suggestion]:
    """What the relation that a query is nearest to gives, and the next relations as near misses.

    Nothing where no relation is near. Raises EncoderError.
    """
    query = masked(record.query, record.names)
    [vector] = unit(salient(encoder).encode([glossed(query)]))
    cosines = inventory(encoder).nearness(vector[None])[0]
    if not len(cosines) or cosines.max() < _FITS:
        return []

    relations = _relations(encoder)
    ranked = [int(place) for place in np.argsort(-cosines, kind="stable")]
    lines = [
        (text, False) for text in _nearest_questions(relations[ranked[0]], record, vector, encoder)
    ]
    lines += [
        (text, True)
        for place in ranked[1 : 2 * count]
        if cosines[place] <= _DIFFERS
        for text in _nearest_questions(relations[place], record, vector, encoder)[:1]
    ]
    return checked_suggestions(lines, record, count, neighbourhood)


def _relations(encoder: TextEncoder) -> Sequence[Relation]:
    """The relations in the order of an encoder's inventory."""
    more = encoder.relations if isinstance(encoder, WithRelations) else ()
    return (*built_in(), *more)


def _nearest_questions(
    relation: Relation, record: EditRecord, vector: FloatArray, encoder: TextEncoder
) -> list[str]:
    """A relation's questions about the subject, those that are nearest to the query first."""
    in_english = _is_english(record.query)
    questions = [text for text in _questions(relation) if _is_english(text) is in_english]
    if not questions:
        return []
    vectors = unit(salient(encoder).encode([glossed(text) for text in questions]))
    order = np.argsort(-(vectors @ vector), kind="stable")
    return [_SUBJECT.sub(lambda _: record.subject, questions[int(place)]) for place in order]


def _is_english(text: str) -> bool:
    """Whether no word of a text is one of another language that the glossary knows."""
    return glossed(text) == text


def _questions(relation: Relation) -> Iterator[str]:
    """The questions among a relation's wordings in which one "it" stands for the subject."""
    for group in relation.groups:
        for wording in group:
            if wording.rstrip().endswith("?") and len(_SUBJECT.findall(wording)) == 1:
                yield wording
