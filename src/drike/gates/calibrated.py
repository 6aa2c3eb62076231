"""`Calibrated`: the gate that decides by the probability that a query concerns an edit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from math import exp

from drike.gates.decision import MOST_FIRED, Candidate, Decision, _decision
from drike.gates.index import _NO_VECTORS, EditIndex, _Asked, _embedded, _masked, _nearest, _wordings
from drike.gates.names import (
    Mention,
    NameMatch,
    continued,
    masked,
    without,
    words,
)
from drike.gates.relations import answer_kind, contrary
from drike.stores.records import EditVersion

CROWD = 1000  # wordings in an index, from which the distance to the next says that one is meant


@dataclass(frozen=True)
class LogisticHead:
    """A logistic model: weights of features by name, and the logit where all are 0."""

    weights: Mapping[str, float]
    bias: float

    def logit(self, features: Mapping[str, float]) -> float:
        """The logarithm of the odds that the query concerns the edit."""
        return self.bias + sum(weight * features[name] for name, weight in self.weights.items())


@dataclass(frozen=True)
class Calibrated:
    """Fires on edits that a query concerns with a probability of `threshold` or more.

    Attributes:
        encoder: the name of the encoder that it was calibrated with.
        named, unnamed: the probability where the query names the subject, and where it does not.
        threshold: the least probability that fires.
        grey: probabilities in doubt [from, to), if the subject is named: a language model may be asked.
        semantic: look at the nearest edits also where no subject is named, given `CROWD` wordings.
        shifts: what is added to the logit of single edits, by id.
        edits: the number of edits in the store when it was calibrated; 0 for the default.
    """

    encoder: str
    named: LogisticHead
    unnamed: LogisticHead
    threshold: float = 0.5
    grey: tuple[float, float] = (0.25, 0.8)
    semantic: bool = False
    shifts: Mapping[str, float] = field(default_factory=dict)
    edits: int = 0

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the edits that the query concerns, the most probable first.

        Raises ValueError for an index without vectors, or with those of another encoder.
        """
        candidates = self.candidates(query, index)
        if not candidates:
            return Decision(query)
        candidates[:MOST_FIRED] = [replace(one, uncertain=self._in_doubt(one)) for one in candidates[:MOST_FIRED]]
        sure = [one for one in candidates if one.probability >= self.threshold]
        return _decision(query, candidates, sure, "no edit is probable enough")

    def candidates(self, query: str, index: EditIndex) -> list[Candidate]:
        """The edits that may be concerned with their probabilities, the most probable first."""
        if index.encoder is None:
            raise ValueError(_NO_VECTORS)
        if index.encoder.name != self.encoder:
            raise ValueError(f"calibrated for {self.encoder}, not for {index.encoder.name}: calibrate again")
        asked = _Asked.of(query, index)
        semantic = self.semantic and len(index.whole.edits) >= CROWD
        if not asked.mentions and not semantic:
            return []
        found = [
            self._candidate(index.edits[i], self.named, features, name) for i, name, features in _named(asked, index)
        ]
        if semantic:
            unnamed = _unnamed(asked, index, {one.edit.id for one in found})
            found += [self._candidate(index.edits[i], self.unnamed, features) for i, features in unnamed]
        return sorted(
            (replace(one, probability=0.0) if asked.excluded(one.edit) else one for one in found),
            key=lambda one: (-one.probability, -one.edit.record.priority, one.edit.id),
        )

    def _candidate(
        self, edit: EditVersion, head: LogisticHead, features: Mapping[str, float], name: str | None = None
    ) -> Candidate:
        logit = head.logit(features) + self.shifts.get(str(edit.id), 0.0)
        return Candidate(edit, 1 / (1 + exp(-logit)) if logit > -700 else 0.0, name, features)

    def _in_doubt(self, one: Candidate) -> bool:
        """Whether a language model may be asked; never about a negative exemplar, whose probability is 0."""
        return one.name is not None and one.probability > 0 and self.grey[0] <= one.probability < self.grey[1]


def _named(asked: _Asked, index: EditIndex) -> list[tuple[int, str, dict[str, float]]]:
    """The edits whose subject is named: their places, the names, and features for `Calibrated.named`."""
    by_edit: dict[int, list[Mention]] = defaultdict(list)
    for mention in asked.mentions:
        for i in mention.edits:
            by_edit[i].append(mention)
    if not by_edit:
        return []
    groups: dict[str, list[int]] = defaultdict(list)  # edits by the query without their name: those of one subject
    for i, mentions in by_edit.items():
        spans = {(mention.begin, mention.end) for mention in mentions}
        groups[without(asked.text, asked.spoken, spans)].append(i)
    texts = list(dict.fromkeys(part for text in groups for part in parts(text)))
    wholes = parts(asked.text)
    embedded = _embedded(index, [*wholes, *texts])
    vectors = dict(zip(texts, embedded[len(wholes) :], strict=True))
    found = []
    for text, group in groups.items():
        best: dict[int, tuple[float, float, str]] = {}
        for part in parts(text):
            near = {i: index.masked.closest(_masked(index.edits[i].record), vectors[part]) for i in group}
            nearest = max(near.values())
            for i in group:
                margin = near[i] - nearest
                best[i] = max(best.get(i, (-2.0, 0.0, "")), (near[i], margin, part), key=lambda one: one[0] + one[1])
        for i, (nearness, margin, part) in best.items():
            entry = index.edits[i].record
            stored = masked(entry.query, entry.names)
            kind, wanted = answer_kind(part), answer_kind(stored)
            mentions = by_edit[i]
            features = {
                "masked": nearness,
                "whole": max(index.whole.closest(_wordings(entry), vector) for vector in embedded[: len(wholes)]),
                "margin": margin,
                "same_kind": float(kind is not None and kind == wanted),
                "other_kind": float(kind is not None and wanted is not None and kind != wanted),
                "contrary": float(contrary(part, stored)),
                "continued": float(all(continued(asked.text, asked.spoken, mention) for mention in mentions)),
                "partial": float(all(mention.kind is NameMatch.PARTIAL for mention in mentions)),
                "typo": float(all(mention.kind is NameMatch.TYPO for mention in mentions)),
            }
            found.append((i, mentions[0].name, features))
    return found


_NEXT_QUESTION = re.compile(
    r"(?:[?!.;]|,? and\b|,)\s+(?=(?:and )?(?:who|whose|what|when|where|which|how)\b)", re.IGNORECASE
)


def parts(text: str) -> list[str]:
    """A text and, where it asks several questions, each of them."""
    return [text, *(found if len(found := _NEXT_QUESTION.split(text)) > 1 else [])]


def _unnamed(asked: _Asked, index: EditIndex, known: Set[int]) -> list[tuple[int, dict[str, float]]]:
    """The nearest edits whose subject is not named, with features for `Calibrated.unnamed`."""
    [vector] = _embedded(index, [asked.text])
    near = [(i, cosine) for i, cosine in _nearest(index, vector) if i not in known]
    said = {word.folded for word in asked.spoken}
    found = []
    for i, cosine in near:
        entry = index.edits[i].record
        rival = max((other for j, other in near if index.edits[j].record.subject != entry.subject), default=0.0)
        named = max(len(said.intersection(name)) / max(1, len(name)) for name in map(words, entry.names))
        found.append((i, {"whole": cosine, "margin": cosine - rival, "named": named}))
    return found
