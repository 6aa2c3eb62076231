"""Edits that contradict one another in different words: of one subject or alias, and with the same relation.

Whether two wordings state the same relation is a logistic model of what gates compare them by, and
of their distance in a space in which published paraphrases are near one another. It was fitted on
public data (benchmarks/notes/conflicts.md).
"""

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
from drike.text.question_forms import trimmed
from drike.text.relation_words import OPPOSITES, contrary
from drike.text.words import masked

FILE = "contradictions.npz"
FEATURES = (  # the weights of the first two are given, not fitted
    *("distance", "opposite", "cosine", "same", "relation", "other", "less", "more"),
    *("same_kind", "other_kind", "contrary", "vague", "asks"),
)
_LEAST, _NEAR = 0.01, 0.1  # as in `calibrated` and `inventory`
_MOST = 64  # edits of a subject that are compared, those with the nearest wordings


@dataclass(frozen=True, eq=False)
class SameRelation:
    """The model, fitted with salient vectors of an encoder: weights of `FEATURES`, the space [d, k] of the distance."""

    head: LogisticHead
    space: FloatArray
    threshold: float
    encoder: TextEncoder

    def alike(self, record: EditRecord, others: Mapping[int, EditRecord]) -> list[int]:
        """The ids of those edits of the record's subject that state the same relation."""
        found = features(record, list(others.values()), self.encoder, self.space)
        return [
            list(others)[place]
            for place, row in found.items()
            if self.head.logit(row) >= self.threshold
        ]


@cache
def same_relation(encoder: TextEncoder) -> SameRelation | None:
    """The model that comes with drike; None for another encoder than it was fitted with."""
    with (
        resources.as_file(resources.files("drike.live").joinpath(FILE)) as path,
        np.load(path) as kept,
    ):
        if str(kept["encoder"]) != encoder.identity.get("sha256"):
            return None
        head = LogisticHead(
            dict(zip(FEATURES, kept["weights"].tolist(), strict=True)), float(kept["bias"])
        )
        return SameRelation(
            head, kept["space"].astype(np.float32), float(kept["threshold"]), encoder
        )


def features(
    record: EditRecord,
    others: Sequence[EditRecord],
    encoder: TextEncoder,
    space: FloatArray | None = None,
) -> dict[int, dict[str, float]]:
    """What a record's wordings share with those of others, by the places of the near ones.

    space: [d, k], if any.
    """
    texts = [wordings(each) for each in (record, *others)]
    place = {text: i for i, text in enumerate(dict.fromkeys(text for own in texts for text in own))}
    vectors = unit(salient(encoder).encode(list(place)))
    near = inventory(encoder).nearness(vectors)
    relations = probabilities(near)
    points = vectors if space is None else vectors @ space
    own, *theirs = ([place[text] for text in wordings] for wordings in texts)
    nearest = list[tuple[float, int, int, int]]()
    for i, there in enumerate(theirs):
        distances = ((points[own][:, None] - points[there][None]) ** 2).sum(axis=2)
        first, second = divmod(int(distances.argmin()), len(there))
        nearest.append((float(distances.min()), i, own[first], there[second]))
    said, found = list(place), {}
    for distance, i, a, b in sorted(nearest)[:_MOST]:
        one, other, p, q = said[a], said[b], relations[a], relations[b]
        shares = share_said(other, record), share_said(one, others[i])
        claims = np.exp((near[[a, b]] - 1) / _NEAR) * (1 - relations[[b, a]])
        found[i] = {
            "distance": distance, "opposite": float(contrary(one, other, OPPOSITES)),
            "cosine": float(vectors[a] @ vectors[b]), "same": log(_LEAST + float(p @ q)),
            "relation": float(np.sqrt(p) @ np.sqrt(q)), "other": float(claims.max(initial=0.0)),
            "less": min(shares), "more": max(shares), **relation_features(one, other),
            "asks": float(asks_relation(other, record) or asks_relation(one, others[i])),
        }  # fmt: skip
    return found


def wordings(record: EditRecord) -> list[str]:
    """The query and the paraphrases, with "it" for the subject."""
    return [trimmed(masked(text, record.names)) for text in (record.query, *record.paraphrases)]
