"""Edits that contradict one another in different words: of one subject or alias, and with the same relation.

Whether two wordings state the same relation is a logistic model of what gates compare them by, and of their distance in
a space in which published paraphrases are near one another. It was fitted on public data (docs/results/conflicts.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp, log

import numpy as np

from drike.encoders.base import FloatArray, TextEncoder, salient, unit
from drike.encoders.salience import content
from drike.errors import EncoderError
from drike.gates.calibrated import LogisticHead
from drike.gates.inventory import inventory, probabilities
from drike.gates.relations import answer_kind, asks_relation, contrary, opposite, share_said, trimmed
from drike.gates.store_gate import encoder_of, open_gate
from drike.matching import normalise
from drike.stores.log import EditStore
from drike.stores.records import EditRecord, Status, StoreError, conflict_keys, overlap
from drike.words import masked, words

FILE = "conflicts.npz"
FEATURES = (  # the weights of the first two are given, not fitted
    *("distance", "opposite", "cosine", "same", "relation", "other", "less", "more"),
    *("same_kind", "other_kind", "contrary", "vague", "asks"),
)
_LITTLE, _LEAST, _NEAR = 0.5, 0.01, 0.1  # as in `calibrated` and `wordings`
_MOST = 64  # edits of a subject that are compared, those with the nearest wordings


@dataclass(frozen=True, eq=False)
class SameRelation:
    """The model: weights of `FEATURES`, the space [d, k] of the distance, the logit from which relations are the same.

    encoder: whose salient vectors it was fitted with.
    """

    head: LogisticHead
    space: FloatArray
    threshold: float
    encoder: TextEncoder

    def alike(self, record: EditRecord, others: Mapping[int, EditRecord]) -> list[int]:
        """The ids of those edits of the record's subject that state the same relation."""
        found = features(record, list(others.values()), self.encoder, self.space)
        return [list(others)[place] for place, row in found.items() if self.head.logit(row) >= self.threshold]


@cache
def same_relation(encoder: TextEncoder) -> SameRelation | None:
    """The model that comes with drike; None for another encoder than it was fitted with."""
    with resources.as_file(resources.files("drike.gates").joinpath(FILE)) as path, np.load(path) as kept:
        if str(kept["encoder"]) != encoder.identity.get("sha256"):
            return None
        head = LogisticHead(dict(zip(FEATURES, kept["weights"].tolist(), strict=True)), float(kept["bias"]))
        return SameRelation(head, kept["space"].astype(np.float32), float(kept["threshold"]), encoder)


def features(
    record: EditRecord, others: Sequence[EditRecord], encoder: TextEncoder, space: FloatArray | None = None
) -> dict[int, dict[str, float]]:
    """What the nearest wordings of a record and of others have in common, by the places of those that are near.

    space: [d, k], in which wordings are near; None for that of the encoder.
    """
    texts = [wordings(each) for each in (record, *others)]
    place = {text: i for i, text in enumerate(dict.fromkeys(text for own in texts for text in own))}
    vectors = unit(salient(encoder).encode(list(place)))
    near = inventory(encoder).nearness(vectors)
    relations = probabilities(near)
    points = vectors if space is None else vectors @ space
    own = [place[text] for text in texts[0]]
    nearest: dict[int, tuple[float, int, int]] = {}
    for i, known in enumerate(texts[1:]):
        there = [place[text] for text in known]
        distances = ((points[own][:, None] - points[there][None]) ** 2).sum(axis=2)
        first, second = divmod(int(distances.argmin()), len(there))
        nearest[i] = float(distances.min()), own[first], there[second]
    said, found = list(place), {}
    for i in sorted(nearest, key=lambda each: nearest[each][0])[:_MOST]:
        distance, a, b = nearest[i]
        one, other, p, q = said[a], said[b], relations[a], relations[b]
        kinds = answer_kind(one), answer_kind(other)
        shares = share_said(other, record), share_said(one, others[i])
        claims = np.exp((near[[a, b]] - 1) / _NEAR) * (1 - relations[[b, a]])
        found[i] = {
            "distance": distance,
            "opposite": float(opposite(one, other)),
            "cosine": float(vectors[a] @ vectors[b]),
            "same": log(_LEAST + float(p @ q)),
            "relation": float(np.sqrt(p) @ np.sqrt(q)),
            "other": float(claims.max(initial=0.0)),
            "less": min(shares),
            "more": max(shares),
            "same_kind": float(kinds[0] is not None and kinds[0] == kinds[1]),
            "other_kind": float(None not in kinds and kinds[0] != kinds[1]),
            "contrary": float(contrary(one, other)),
            "vague": exp(-min(content(one), content(other)) / _LITTLE),
            "asks": float(asks_relation(other, record) or asks_relation(one, others[i])),
        }
    return found


def wordings(record: EditRecord) -> list[str]:
    """The query and the paraphrases, with "it" for the subject."""
    return [trimmed(masked(text, record.names)) for text in (record.query, *record.paraphrases)]


class AlikeEdits:
    """The active edits of a store that say in other words what a record says, for `EditStore.alike`.

    Only edits that share a name with it are compared; none that claim the same words, as the store knows of these, and
    none of which either has a wording of the other as a negative exemplar. encoder: called once one is needed; None
    where words alone decide. It reads what is new in the store.
    """

    def __init__(self, encoder: Callable[[], TextEncoder | None]) -> None:
        self._encoder, self._number, self._head = encoder, 0, ""
        self._records: dict[int, EditRecord] = {}
        self._named: dict[str, set[int]] = defaultdict(set)

    def __call__(self, store: EditStore, record: EditRecord) -> Collection[int]:
        """Their ids, inside a transaction of the store. Raises StoreError."""
        self._read(store)
        ids = {id for name in record.names for id in self._named.get(_key(name), ())}
        keys, known = conflict_keys(record), {id: self._records[id] for id in sorted(ids)}
        known = {id: other for id, other in known.items() if keys.isdisjoint(conflict_keys(other))}
        others = {id: other for id, other in known.items() if _comparable(record, other)}
        encoder = self._encoder() if others else None
        rule = None if encoder is None else same_relation(encoder)
        return () if rule is None else rule.alike(record, others)

    def _read(self, store: EditStore) -> None:
        changes = store.changes(max(self._number - 1, 0))
        if self._number and (not changes or changes[0].checksum != self._head):  # another history, or a rolled back one
            self._number, self._records = 0, {}
            self._named.clear()
            changes = store.changes()
        for change in changes[1 if self._number else 0 :]:
            if change.record.replaces(self._records.get(change.id)):
                self._records[change.id] = change.record
                for name in change.record.names:
                    self._named[_key(name)].add(change.id)
        if changes:
            self._number, self._head = changes[-1].number, changes[-1].checksum


def watch_meaning(store: EditStore) -> EditStore:
    """Let a store refuse edits that contradict others in different words, if its gate's encoder is installed."""

    @cache
    def encoder() -> TextEncoder | None:
        try:
            return encoder_of(open_gate(store))
        except (EncoderError, StoreError):  # of a gate that is told about elsewhere
            return None

    store.alike = AlikeEdits(encoder)
    return store


def _comparable(record: EditRecord, other: EditRecord) -> bool:
    if other.status is not Status.ACTIVE or not overlap(record, other):
        return False
    texts = ((one.query, *one.paraphrases) for one in (record, other))
    for negatives, of_other in zip((other.negatives, record.negatives), texts, strict=True):
        if negatives and not {*map(normalise, negatives)}.isdisjoint(map(normalise, of_other)):
            return False
    return True


def _key(name: str) -> str:
    return " ".join(words(name)) or name
