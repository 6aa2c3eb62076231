"""The gate: which of the edits in force a query concerns, if any.

A gate is a pure function of the query and an `EditIndex`, which is made from a snapshot of a store. `Named` fires on
subjects that a query names, `Nearest` on wordings that are near to it, `Calibrated` on the probability that a query
concerns an edit, `EveryQuery` always. docs/scope.md has the figures of each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp
from typing import Protocol

import numpy as np

from drike.edits import Edit
from drike.encoders.base import BULK, FloatArray, TextEncoder, unit
from drike.gates.layered import Layered
from drike.gates.names import (
    Mention,
    NameIndex,
    NameMatch,
    QueryWord,
    composed,
    continued,
    masked,
    spoken,
    without,
    words,
)
from drike.gates.vectors import TextVectors
from drike.stores.store import Entry, Status, StoredEdit

MOST_FIRED = 3  # edits in one prompt
NEAREST = 16  # edits that are looked at where no subject is named
CROWD = 1000  # wordings in an index, from which the distance to the next says that one is meant

_NO_VECTORS = "this gate needs an index with an encoder: give EditIndex.of one, or use Named()"


class YesOrNo(StrEnum):
    """What a language model said to the question whether a query concerns an edit."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"  # it said neither, or nothing in time; counts as no


@dataclass(frozen=True, eq=False)
class EditIndex:
    """The edits in force, with a dictionary of their names and, given an encoder, vectors of their wordings.

    An index never changes. Making the next one from this one takes little time if few edits differ.

    Attributes:
        edits: by id, in any order, without drafts and retired ones.
        names: of their subjects, and the aliases.
        whole, masked: their queries and wordings, and the same with "it" for the subject; empty without an encoder.
    """

    edits: Layered[int, StoredEdit] = field(default_factory=Layered)
    encoder: TextEncoder | None = None
    names: NameIndex = field(default_factory=NameIndex)
    whole: TextVectors = field(default_factory=TextVectors)
    masked: TextVectors = field(default_factory=TextVectors)

    @classmethod
    def of(
        cls, edits: Iterable[StoredEdit], encoder: TextEncoder | None = None, previous: EditIndex | None = None
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`.

        previous: an index with the same encoder, of which everything is used again that both have.
        """
        kept = {one.id: one for one in edits if one.entry.status in (Status.ACTIVE, Status.SHADOW)}
        known = previous if previous is not None and previous.encoder is encoder else cls(encoder=encoder)
        gone = {id: one for id, one in known.edits.items() if kept.get(id) is not one}
        if len(gone) > len(kept):  # it takes less time to begin anew
            return cls(encoder=encoder)._changed({}, kept, known)
        new = {id: one for id, one in kept.items() if known.edits.get(id) is not one}
        return known._changed(gone, new, known)

    def changed(self, ids: Iterable[int], edits: Iterable[StoredEdit]) -> EditIndex:
        """An index without the edits with these ids, and with these edits."""
        new = {one.id: one for one in edits}
        gone = {id: self.edits[id] for id in {*ids, *new} if id in self.edits}
        return self._changed(gone, new, self)

    def _changed(self, gone: Mapping[int, StoredEdit], new: Mapping[int, StoredEdit], known: EditIndex) -> EditIndex:
        """A copy without some edits and with others. known: an index with the same encoder, for its vectors."""

        def both(texts: Callable[[Entry], Sequence[str]]) -> tuple[dict[int, Sequence[str]], dict[int, Sequence[str]]]:
            old, added = ({id: texts(one.entry) for id, one in some.items()} for some in (gone, new))
            return old, added

        edits = self.edits.changed({**dict.fromkeys(gone), **new})
        names = self.names.changed(*both(lambda entry: entry.names))
        if self.encoder is None:
            return EditIndex(edits, names=names)
        whole, masked = both(_wordings), both(_masked)
        needed = dict.fromkeys(text for _, added in (whole, masked) for texts in added.values() for text in texts)
        vectors = _vectors(needed, self.encoder, (known.whole.vectors, known.masked.vectors))
        return EditIndex(
            edits, self.encoder, names, self.whole.changed(*whole, vectors), self.masked.changed(*masked, vectors)
        )


@dataclass(frozen=True)
class Candidate:
    """An edit that a gate has considered.

    Attributes:
        probability: that the query concerns the edit.
        name: under which the query names its subject; None where it does not.
        features: what the probability was made from, by name.
        doubtful: whether the gate is in doubt, so that a language model may be asked (`drike.gates.asking`).
        answer: what that model said, if it was asked.
    """

    edit: StoredEdit
    probability: float
    name: str | None = None
    features: Mapping[str, float] = field(default_factory=dict)
    doubtful: bool = False
    answer: YesOrNo | None = None


@dataclass(frozen=True)
class Decision:
    """Which edits a query concerns.

    Attributes:
        fired: those to apply, `MOST_FIRED` at most, the best first; none leaves the query alone.
        considered: every edit that was looked at, the most probable first.
        reason: why, in a few words.
    """

    query: str
    fired: tuple[StoredEdit, ...] = ()
    considered: tuple[Candidate, ...] = ()
    reason: str = "no subject is named"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Those that fired, as editors take them."""
        return tuple(one.entry.edit_in(self.query) for one in self.fired)

    @property
    def doubtful(self) -> tuple[Candidate, ...]:
        """The candidates about which a language model may be asked."""
        return tuple(one for one in self.considered if one.doubtful)

    def settled(self, answers: Sequence[YesOrNo]) -> Decision:
        """The decision once a language model has answered about each of `doubtful`: only yes fires these."""
        said = {one.edit.id: answer for one, answer in zip(self.doubtful, answers, strict=True)}
        considered = [replace(one, answer=said.get(one.edit.id)) for one in self.considered]
        fired = {one.id for one in self.fired}
        sure = [one for one in considered if (one.answer is YesOrNo.YES if one.doubtful else one.edit.id in fired)]
        return _decision(self.query, considered, sure, "in doubt, and the model does not say yes")


class Scope(Protocol):
    """Decides which edits a query concerns."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edits of the index that a query concerns. The same query and edits get the same decision."""
        ...


@dataclass(frozen=True)
class Named:
    """Fires on named subjects: of each, the edit whose wording is nearest to the query.

    Nearest is by cosine similarity where the index has vectors, else by the share of common words; of equal ones the
    edit with the highest priority, then the oldest. Only whole names count, not partial ones and typos.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the nearest edit of every subject or alias that the query names as whole words."""
        asked = _Asked.of(query, index)
        mentions = [mention for mention in asked.mentions if mention.kind is NameMatch.FULL]
        if not mentions:
            return Decision(query)
        near = _nearness(asked, index, sorted({i for mention in mentions for i in mention.edits}))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].entry.priority, i))
        rank = {i: place for place, i in enumerate(order) if not asked.excluded(index.edits[i])}
        best = {min(found, key=rank.__getitem__) for m in mentions if (found := [i for i in m.edits if i in rank])}
        name = {i: mention.name for mention in reversed(mentions) for i in mention.edits}
        considered = [
            Candidate(index.edits[i], float(i in best), name[i], {"nearness": near[i]})
            for i in sorted(order, key=lambda i: i not in best)
        ]
        return _decision(query, considered, [one for one in considered if one.probability])


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: of those with a named subject, else of all, the nearest."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire one edit; none only where the index is empty."""
        asked = _Asked.of(query, index)
        named = {i: mention.name for mention in asked.mentions if mention.kind is NameMatch.FULL for i in mention.edits}
        near = _nearness(asked, index, sorted(named or index.edits))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].entry.priority, i))
        if not order:
            return Decision(query, reason="no edit is in force")
        considered = tuple(
            Candidate(index.edits[i], float(i == order[0]), named.get(i), {"nearness": near[i]}) for i in order
        )
        best = considered[0].edit
        return Decision(query, (best,), considered, f"every query is put under an edit: edit {best.id}")


@dataclass(frozen=True)
class Nearest:
    """Fires on the edit with the wording that is nearest to the query by cosine similarity, whatever it names.

    threshold: the least cosine at which it fires; it differs between encoders and kinds of texts. Needs an index with
    vectors.
    """

    threshold: float = 0.7

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the nearest edit, if it is near enough."""
        asked = _Asked.of(query, index)
        [vector] = _embedded(index, [query])
        near = dict(_nearest(index, vector))
        considered = [Candidate(index.edits[i], near[i], None, {"whole": near[i]}) for i in near]
        sure = [c for c in considered if c.probability >= self.threshold and not asked.excluded(c.edit)]
        return _decision(query, considered, sure[:1], "no wording is near enough")


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
        considered = self.considered(query, index)
        if not considered:
            return Decision(query)
        considered[:MOST_FIRED] = [replace(one, doubtful=self._in_doubt(one)) for one in considered[:MOST_FIRED]]
        sure = [one for one in considered if one.probability >= self.threshold]
        return _decision(query, considered, sure, "no edit is probable enough")

    def considered(self, query: str, index: EditIndex) -> list[Candidate]:
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
            key=lambda one: (-one.probability, -one.edit.entry.priority, one.edit.id),
        )

    def _candidate(
        self, edit: StoredEdit, head: LogisticHead, features: Mapping[str, float], name: str | None = None
    ) -> Candidate:
        logit = head.logit(features) + self.shifts.get(str(edit.id), 0.0)
        return Candidate(edit, 1 / (1 + exp(-logit)) if logit > -700 else 0.0, name, features)

    def _in_doubt(self, one: Candidate) -> bool:
        """Whether a language model may be asked; never about a negative exemplar, whose probability is 0."""
        return one.name is not None and one.probability > 0 and self.grey[0] <= one.probability < self.grey[1]


@dataclass(frozen=True)
class _Asked:
    """A query as gates read it: composed, in words, with the names in it."""

    text: str
    spoken: list[QueryWord]
    mentions: list[Mention]

    @classmethod
    def of(cls, query: str, index: EditIndex) -> _Asked:
        text = composed(query)
        asked = spoken(text)
        return cls(text, asked, index.names.find(text, asked))

    def excluded(self, edit: StoredEdit) -> bool:
        """Whether the query is a negative exemplar of the edit."""
        return bool(edit.entry.negatives) and any(
            words(text) == [word.folded for word in self.spoken] for text in edit.entry.negatives
        )


def _decision(
    query: str,
    considered: Sequence[Candidate],
    sure: Sequence[Candidate],
    otherwise: str = "a negative exemplar matches",
) -> Decision:
    """Fire the candidates of which the gate is sure: those with the highest priority first, then as they come."""
    fired = sorted(sure, key=lambda one: -one.edit.entry.priority)[:MOST_FIRED]
    reasons = [
        (f'"{one.name}" is named' if one.name else "a wording is near")
        + (", and the model says yes" if one.answer is YesOrNo.YES else "")
        + f": edit {one.edit.id}"
        for one in fired
    ]
    return Decision(query, tuple(one.edit for one in fired), tuple(considered), "; ".join(reasons) or otherwise)


def _embedded(index: EditIndex, texts: Sequence[str]) -> FloatArray:
    if index.encoder is None:
        raise ValueError(_NO_VECTORS)
    some = [texts[at : at + BULK - 1] for at in range(0, len(texts), BULK - 1)]
    return unit(np.concatenate([index.encoder.encode(part) for part in some]))


def _nearness(asked: _Asked, index: EditIndex, edits: Sequence[int]) -> dict[int, float]:
    """For each edit, how near its nearest wording is to the query."""
    if index.encoder is not None:
        [vector] = _embedded(index, [asked.text])
        return {i: index.whole.closest(_wordings(index.edits[i].entry), vector) for i in edits}
    said = {word.folded for word in asked.spoken}

    def shared(text: str) -> float:
        stored = set(words(text))
        return len(said & stored) / max(1, len(said | stored))

    return {i: max(map(shared, _wordings(index.edits[i].entry))) for i in edits}


def _nearest(index: EditIndex, vector: FloatArray) -> list[tuple[int, float]]:
    """The edits with the `NEAREST` whole wordings, and the cosine of each, the largest first."""
    found: dict[int, float] = {}
    for text, cosine in index.whole.nearest(vector, NEAREST).items():
        for i in index.whole.edits[text]:
            found.setdefault(i, cosine)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


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
            near = {i: index.masked.closest(_masked(index.edits[i].entry), vectors[part]) for i in group}
            nearest = max(near.values())
            for i in group:
                margin = near[i] - nearest
                best[i] = max(best.get(i, (-2.0, 0.0, "")), (near[i], margin, part), key=lambda one: one[0] + one[1])
        for i, (nearness, margin, part) in best.items():
            entry = index.edits[i].entry
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
        entry = index.edits[i].entry
        rival = max((other for j, other in near if index.edits[j].entry.subject != entry.subject), default=0.0)
        named = max(len(said.intersection(name)) / max(1, len(name)) for name in map(words, entry.names))
        found.append((i, {"whole": cosine, "margin": cosine - rival, "named": named}))
    return found


_KINDS = {
    "person": r"who|whom|whose",
    "time": r"when|year|date|day",
    "number": r"how (?:many|much|old|tall|long|far|large|big)|number|population|elevation|height",
    "place": r"where|city|town|country|place|location|located|continent|state|capital",
    "language": r"language|tongue",
}
_KIND = re.compile("|".join(rf"(?P<{kind}>\b(?:{pattern})\b)" for kind, pattern in _KINDS.items()), re.IGNORECASE)


def answer_kind(text: str) -> str | None:
    """What a text asks for: a person, time, number, place or language; None if it has no word that tells."""
    found = {match.lastgroup for match in _KIND.finditer(text)}
    return next((kind for kind in _KINDS if kind in found), None)


_CONTRARIES = [  # of each line, a fact is one of these
    [frozenset(words.split()) for words in line.split("|")]
    for line in (
        "father dad | mother mom | spouse wife husband married marry | child children son daughter"
        " | sibling siblings brother sister",
        "follows follow | followed",
        "predecessor | successor",
        "born birth birthplace | died die death dead | buried burial",
        "occupation profession job career | employer employs employed",
        "city town | country nation citizenship | continent | state province | capital",
        "author wrote written writer writes | publisher published | director directed | producer produced"
        " | composer | performer performed sang",
        "founded inception established started start begin began | dissolved abolished ended end closed",
        "chief ceo | chairperson chairman chair | founder",
    )
]


def contrary(one: str, other: str) -> bool:
    """Whether two texts ask for facts of one kind that exclude each other, as a father and a mother."""
    first, second = set(words(one)), set(words(other))
    for group in _CONTRARIES:
        asked, stored = ({i for i, some in enumerate(group) if some & said} for said in (first, second))
        if asked and stored and not asked & stored:
            return True
    return False


def _wordings(entry: Entry) -> tuple[str, ...]:
    return entry.query, *entry.wordings


def _masked(entry: Entry) -> tuple[str, ...]:
    return tuple(masked(text, entry.names) for text in _wordings(entry))


def _vectors(
    texts: Iterable[str], encoder: TextEncoder, known: Sequence[Mapping[str, FloatArray]]
) -> dict[str, FloatArray]:
    """A unit vector [d] for each text, taken from those that are known or encoded."""
    found = {text: some[text] for text in texts for some in known if text in some}
    missing = [text for text in texts if text not in found]
    return {**found, **dict(zip(missing, unit(encoder.encode(missing)), strict=True))} if missing else found
