"""Edits that contradict one another in different words: of one subject, and with the same relation.

Whether two wordings state the same relation is a logistic model of what gates compare them by, and
of their distance in a space in which published paraphrases are near one another. It was fitted on
public data (benchmarks/notes/conflicts.md).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import log

import numpy as np

from drike.edits.record import EditRecord
from drike.encoders.base import FloatArray, TextEncoder, salient, unit
from drike.gates.calibrated import LogisticHead
from drike.gates.inventory import inventory, probabilities
from drike.gates.relations import asks_relation, relation_features, share_said
from drike.text.attributes import stated_attributes
from drike.text.masking import masked
from drike.text.qualifiers import asks_for_other
from drike.text.question_forms import trimmed
from drike.text.relation_words import OPPOSITES, contrary

FILE = "contradictions.npz"
FEATURES = (
    "distance",  # the weights of the first two are given, not fitted
    "opposite",
    "cosine",
    "same",
    "relation",
    "other",
    "less",
    "more",
    "same_kind",
    "other_kind",
    "contrary",
    "vague",
    "asks",
)
# As in `gates.calibrated` and `gates.inventory`, with which the model was fitted.
_LEAST_PROBABILITY = 0.01
_NEAR = 0.1
_COUNTED = re.compile(r"\bhow many\b|\bwie viele\b|\bcombien de\b|\bcuánt[ao]s\b", re.IGNORECASE)
_MOST = 64  # edits of a subject that are compared, those with the nearest wordings


@dataclass(frozen=True, eq=False)
class SameRelation:
    """The model, fitted with the salient vectors of an encoder.

    head: weights of `FEATURES`. space: [d, k], in which the distance is measured.
    """

    head: LogisticHead
    space: FloatArray
    threshold: float
    encoder: TextEncoder

    def alike(self, record: EditRecord, others: Mapping[int, EditRecord]) -> list[int]:
        """The ids of those edits of the record's subject that state the same relation."""
        edit_ids = list(others)
        compared = _compared(record, list(others.values()), self.encoder, self.space)
        return [
            edit_ids[place]
            for place, pair in compared.items()
            if self.head.logit(pair.features) >= self.threshold
            and not asks_for_other(pair.own, pair.theirs, self._nearness)
            and not _have_other_attributes(pair.own, pair.theirs)
        ]

    def _nearness(self, first: str, second: str) -> float:
        one, other = unit(salient(self.encoder).encode([first, second]))
        return float(one @ other)


@cache
def same_relation(encoder: TextEncoder) -> SameRelation | None:
    """The model that comes with drike; None for another encoder than it was fitted with."""
    file = resources.files("drike.live").joinpath(FILE)
    with resources.as_file(file) as path, np.load(path) as fitted:
        if str(fitted["encoder"]) != encoder.identity.get("sha256"):
            return None
        weights = dict(zip(FEATURES, fitted["weights"].tolist(), strict=True))
        return SameRelation(
            head=LogisticHead(weights, float(fitted["bias"])),
            space=fitted["space"].astype(np.float32),
            threshold=float(fitted["threshold"]),
            encoder=encoder,
        )


def _have_other_attributes(own: str, theirs: str) -> bool:
    """Whether two wordings ask for attributes of firms and products, and for none in common.

    What a licence costs and how many seats it has are near in all other respects.
    """
    one = _attributes(own)
    other = _attributes(theirs)
    return bool(one and other) and one.isdisjoint(other)


def _attributes(wording: str) -> frozenset[str]:
    """The attributes of a wording, and whether it counts. "Free" more often names a plan."""
    counted = {"count"} if _COUNTED.search(wording) else set()
    return frozenset(stated_attributes(wording)).union(counted) - {"free"}


@dataclass(frozen=True, order=True)
class _NearestWordings:
    """The nearest wordings of a record and another one, by their places among all texts."""

    distance: float  # squared
    place: int  # of the other record
    own_text: int
    other_text: int


def features(
    record: EditRecord,
    others: Sequence[EditRecord],
    encoder: TextEncoder,
    space: FloatArray | None = None,
) -> dict[int, dict[str, float]]:
    """What a record's wordings share with those of others, by the places of the near ones.

    space: [d, k], if any.
    """
    compared = _compared(record, others, encoder, space)
    return {place: pair.features for place, pair in compared.items()}


@dataclass(frozen=True)
class _ComparedWordings:
    """The nearest wordings of a record and another one, and what they have in common."""

    own: str
    theirs: str
    features: dict[str, float]


def _compared(
    record: EditRecord,
    others: Sequence[EditRecord],
    encoder: TextEncoder,
    space: FloatArray | None,
) -> dict[int, _ComparedWordings]:
    """The nearest wordings of those others that are near to a record, by their places."""
    texts_by_record = [wordings(each) for each in (record, *others)]
    texts = list(dict.fromkeys(text for texts in texts_by_record for text in texts))
    vectors = unit(salient(encoder).encode(texts))
    nearness = inventory(encoder).nearness(vectors)  # [text, relation]
    relations = probabilities(nearness)  # [text, relation]

    points = vectors if space is None else vectors @ space
    nearest = _nearest_wordings(texts_by_record, texts, points)
    compared: dict[int, _ComparedWordings] = {}
    for pair in sorted(nearest)[:_MOST]:
        own = pair.own_text
        theirs = pair.other_text
        # How near each wording is to relations that the other is not about.
        claims = np.exp((nearness[[own, theirs]] - 1) / _NEAR) * (1 - relations[[theirs, own]])
        same = float(relations[own] @ relations[theirs])
        overlap = np.sqrt(relations[own]) @ np.sqrt(relations[theirs])
        shared = {
            "distance": pair.distance,
            "cosine": float(vectors[own] @ vectors[theirs]),
            "same": log(_LEAST_PROBABILITY + same),
            "relation": float(overlap),
            "other": float(claims.max(initial=0.0)),
            **_features_of_words(texts[own], texts[theirs], record, others[pair.place]),
        }
        compared[pair.place] = _ComparedWordings(texts[own], texts[theirs], shared)
    return compared


def _nearest_wordings(
    texts_by_record: Sequence[Sequence[str]], texts: Sequence[str], points: FloatArray
) -> list[_NearestWordings]:
    """For the first record and each other one the nearest pair of their wordings.

    points: [text, k], of all texts.
    """
    place_by_text = {text: place for place, text in enumerate(texts)}
    own, *others = ([place_by_text[text] for text in record] for record in texts_by_record)
    own_points = points[own]
    nearest: list[_NearestWordings] = []
    for place, theirs in enumerate(others):
        differences = own_points[:, None] - points[theirs][None]
        distances = (differences**2).sum(axis=2)  # [own wording, their wording]
        closest = int(distances.argmin())
        row, column = divmod(closest, len(theirs))
        distance = float(distances[row, column])
        nearest.append(_NearestWordings(distance, place, own[row], theirs[column]))
    return nearest


def _features_of_words(
    own: str, theirs: str, record: EditRecord, other: EditRecord
) -> dict[str, float]:
    """What the words of two records' nearest wordings say of their relations."""
    shares = (share_said(theirs, record), share_said(own, other))
    asks = asks_relation(theirs, record) or asks_relation(own, other)
    return {
        "opposite": float(contrary(own, theirs, OPPOSITES)),
        "less": min(shares),
        "more": max(shares),
        **relation_features(own, theirs),
        "asks": float(asks),
    }


def wordings(record: EditRecord) -> list[str]:
    """The query and the paraphrases, with "it" for the subject."""
    return [trimmed(masked(text, record.names)) for text in (record.query, *record.paraphrases)]
