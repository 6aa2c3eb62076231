"""Which thing within the subject a question asks about, and which a fact is about."""

from __future__ import annotations

from collections.abc import Mapping

from drike.edits.record import EditRecord
from drike.text.things import Said, ThingsInCommon, compared_things, said
from drike.text.values import takes
from drike.text.words import masked


def aspect_features(question: Said, record: EditRecord) -> Mapping[str, float]:
    """What a question and an edit have in common by the things that they name.

    elsewhere: each names a thing that the other does not, and none in common; beside: they also
    have one in common. more, less: only the question, only the edit names one that the other does
    not. misfit: the edit's object is of no kind that answers the question, as a name answers no
    question for a price.
    """
    in_common = min(
        (
            compared_things(question, said(masked(wording, record.names)), record.target_new)
            for wording in (record.query, *record.paraphrases)
        ),
        key=_distance,
    )
    extra, missing = bool(in_common.extra), bool(in_common.missing)
    shared = bool(in_common.shared)
    clear = 1 / max(1, len(in_common.extra) - 1)  # the less, the more a question tells besides
    return {
        "elsewhere": clear * (extra and missing and not shared),
        "beside": clear * (extra and missing and shared),
        "more": float(extra and not missing and not shared),
        "further": float(extra and not missing and shared),
        "less": float(missing and not extra and not shared),
        "narrower": float(missing and not extra and shared),
        "misfit": float(not takes(question.text, record.target_new)),
    }


def _distance(in_common: ThingsInCommon) -> tuple[int, int]:
    extra, missing = len(in_common.extra), len(in_common.missing)
    return min(extra, missing), extra + missing
