"""Which thing within the subject a question asks about, and which an edit is about.

Many facts may hang on one name: a hospital has heads of departments, telephone numbers and opening
hours. What tells them apart are the words for a thing within the subject.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drike.edits.record import EditRecord
from drike.text.contrasts import limits_otherwise
from drike.text.relation_words import masked_wording
from drike.text.things import Said, ThingsInCommon, compared_things, said
from drike.text.value_kinds import takes

# Active edits of a subject, from which on a question may well be about something else of it.
MANY = 3


@dataclass(frozen=True)
class AspectInCommon:
    """What a question and an edit have in common by things and values.

    fits: whether the edit's object is of a kind that may answer the question. is_other: whether
    the question limits a noun by another thing than each wording does.
    """

    things: ThingsInCommon
    fits: bool
    is_other: bool = False


def aspect(question: Said, record: EditRecord) -> AspectInCommon:
    """What a question has in common with the edit's nearest wording."""
    named = " ".join((record.target_new, *record.names))
    wordings = [
        said(masked_wording(wording, record.names))
        for wording in (record.query, *record.paraphrases)
    ]
    things_by_wording = [compared_things(question, wording, named) for wording in wordings]
    nearest = min(things_by_wording, key=lambda things: things.distance)
    return AspectInCommon(
        nearest,
        fits=takes(question.text, record.target_new),
        is_other=all(limits_otherwise(question, wording, named) for wording in wordings),
    )


def aspect_features(aspect: AspectInCommon, others: Iterable[AspectInCommon]) -> dict[str, float]:
    """Features of an edit of which the subject has many, by its aspect and those of the others.

    elsewhere: question and edit each name a thing that the other does not, and none in common; the
    more the question tells besides, the less this says. Surely so where the question limits a noun
    by another thing than the edit does. beside: the same, and one in common.
    joined: either, and the question joins the thing to the subject. switched: both limit a noun,
    each otherwise. outdone: another edit has more of the things that the question names.
    """
    things = aspect.things
    replaces = bool(things.extra and things.missing)
    clearness = replaces / max(1, len(things.extra) - 1)
    has_shared = bool(things.shared)
    surely_elsewhere = 1.0 if aspect.is_other else 0.0
    return {
        "elsewhere": surely_elsewhere if has_shared else max(clearness, surely_elsewhere),
        "beside": clearness if has_shared else 0.0,
        "joined": float(replaces and things.is_joined),
        "switched": float(things.is_switched),
        "outdone": float(any(other.fits and other.things.outdoes(things) for other in others)),
    }
