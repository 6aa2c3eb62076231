"""`Calibrated`: the gate that decides by the probability that a query concerns an edit."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from heapq import nlargest
from math import exp, log

from drike.edits.record import EditVersion, Status
from drike.encoders.base import FloatArray
from drike.gates.chains import joined
from drike.gates.decision import EQUAL, Candidate, Decision, leading
from drike.gates.index import Characters, EditIndex, ParsedQuery, Span, affordable, agreements
from drike.gates.inventory import Agreement
from drike.gates.names import Mention
from drike.gates.relations import (
    about_another,
    asks_value,
    object_features,
    relation_features,
    share_said,
)
from drike.support.records import ADDED
from drike.text.glossary import own_name
from drike.text.relation_wordings import Relation
from drike.text.short_forms import NameMatch
from drike.text.surroundings import QUESTION_WORDS, continued
from drike.text.words import words

Features = Mapping[str, float]
Excerpts = tuple[tuple[Characters, str], ...]  # of a query: where each stands, and what to compare
Found = tuple[
    EditVersion, str | None, Features
]  # an edit, the name by which the query names its subject, features

_ANOTHER = "another"  # said of a question about another time, person or case, which does not concern the edit
_LEAST = 0.01  # of the probability that a question and an edit ask for the same, whose logarithm is a feature
_COMPARED = 64  # edits of one subject, those whose wordings are nearest: of thousands, all would take seconds
_KNOWN = (
    0.2  # probability of the likeliest relation, below which the relation of a question is unknown
)
_USUAL = {
    "whole": 0.65
}  # of a feature that heads fitted by earlier versions have: the cosine of the texts as they are
_BEFORE_NAMES = frozenset(("of", "in", "for", "at", "by", "from", "with"))
MIN_SEMANTIC_TEXTS = (
    1000  # below, the distance between the nearest edits does not say that one is meant
)


@dataclass(frozen=True)
class LogisticHead:
    """A logistic model: weights of features by name, and the logit where all are 0."""

    weights: Mapping[str, float]
    bias: float

    def logit(self, features: Features) -> float:
        """The logarithm of the odds that the query concerns the edit."""
        return self.bias + sum(
            w * features.get(name, _USUAL.get(name, 0.0)) for name, w in self.weights.items()
        )


@dataclass(frozen=True)
class Calibrated:
    """Matches the edits that a query concerns with a probability of `threshold` or more.

    A query that names no subject concerns an edit if it is one of its texts or, where the index has
    `MIN_SEMANTIC_TEXTS`, near one. Where it is a negative exemplar, no other edit of the subject answers instead.
    """

    encoder: str  # the name of that with which it was calibrated
    # The probability where the query names the subject, or where the head has a weight for "object" the new object.
    named: LogisticHead
    unnamed: LogisticHead  # that where it names neither
    threshold: float = 0.5
    # Probabilities [from, to) at which a language model may be asked, if the subject is named; where the relation that
    # a question asks for is unknown, also lower ones for the nearest edit of a subject.
    grey: tuple[float, float] = (0.25, 0.8)
    shifts: Mapping[str, float] = field(
        default_factory=dict
    )  # what is added to the logit of single edits, by id
    edits: int = 0  # how many the store had when it was calibrated; 0 for the default
    settings: Mapping[str, float] = field(
        default_factory=dict, metadata=ADDED
    )  # other thresholds, by name
    relations: tuple[Relation, ...] = field(
        default=(), metadata=ADDED
    )  # more that it compares texts through

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the edits that the query concerns, the most probable first. Raises ValueError for another encoder."""
        if not (candidates := self.candidates(query, index)):
            return Decision(query)
        grey = {c.edit.id for c in leading(candidates) if c.name is not None and self._uncertain(c)}
        candidates = [
            replace(candidate, uncertain=candidate.edit.id in grey) for candidate in candidates
        ]
        least = max(self.threshold, self.grey[1])  # without a name it must be beyond doubt
        matching = [
            c for c in candidates if c.probability >= (least if c.name is None else self.threshold)
        ]
        return joined(Decision.of(query, candidates, matching, "no edit is probable enough"), index)

    def _uncertain(self, candidate: Candidate) -> bool:
        """Whether a model may be asked. A negative exemplar, whose probability is 0, is never uncertain."""
        (low, high), features = self.grey, candidate.features
        unknown = (
            features.get("known", 1.0) < _KNOWN
            and not features.get("margin")
            and "object" not in features
        )
        return 0 < candidate.probability < high and (unknown or candidate.probability >= low)

    def candidates(self, query: str, index: EditIndex) -> list[Candidate]:
        """The edits that the query may concern with their probabilities, the most probable first."""
        if (encoder := index.require_encoder().name) != self.encoder:
            raise ValueError(f"calibrated for {self.encoder}, not for {encoder}: calibrate again")
        parsed = ParsedQuery.of(query, index)
        readings = [Reading(parsed)]
        if "object" in self.named.weights:
            readings.append(Reading(parsed.by_object(index), parsed.mentions))
        named = any(reading.parsed.mentions for reading in readings)
        unnamed = not named and len(index.texts.edits) >= MIN_SEMANTIC_TEXTS
        found = _unnamed(parsed, index) if unnamed else compared(readings, index)
        known = {
            e.id: Candidate(e, self._probability(e, name, of), name, of) for e, name, of in found
        }
        for id in parsed.equal:
            one = known.get(id) or Candidate(index.edits[id], 1.0)
            known[id] = replace(one, probability=1.0, features={**one.features, EQUAL: 1.0})
        candidates = _without_excluded([*known.values()], parsed.negatives)
        return sorted(
            candidates, key=lambda c: (-round(c.probability, 6), -c.edit.record.priority, c.edit.id)
        )

    def _probability(self, edit: EditVersion, name: str | None, features: Features) -> float:
        head = self.unnamed if name is None else self.named
        if features.get(_ANOTHER):
            return 0.0
        logit = head.logit(features) + self.shifts.get(str(edit.id), 0.0)
        return 1 / (1 + exp(-logit)) if logit > -700 else 0.0


def _without_excluded(candidates: Sequence[Candidate], excluded: Set[int]) -> list[Candidate]:
    """The candidates with probability 0 for excluded edits, and for those of a subject that would answer instead."""
    instead: dict[str, float] = {}
    for candidate in candidates:
        if candidate.edit.id in excluded and candidate.edit.record.status is Status.ACTIVE:
            subject = candidate.name or candidate.edit.record.subject
            instead[subject] = max(candidate.probability, instead.get(subject, 0.0))
    hidden = {
        c.edit.id
        for c in candidates
        if c.probability < instead.get(c.name or c.edit.record.subject, 0.0)
    }
    return [
        replace(c, probability=0.0) if c.edit.id in hidden or c.edit.id in excluded else c
        for c in candidates
    ]


@dataclass(frozen=True)
class Reading:
    """A query as one about the names that it mentions: subjects, or objects, where it mentions these subjects, too."""

    parsed: ParsedQuery
    subjects: Sequence[Mention] | None = None

    def groups(self, index: EditIndex) -> Iterator[tuple[list[int], Excerpts]]:
        """The edits of each subject with what to compare, but for subjects that the query is surely not about."""
        by_places: dict[frozenset[Span], list[int]] = defaultdict(list)
        for id, mentions in self.parsed.by_edit.items():
            by_places[frozenset((mention.begin, mention.end) for mention in mentions)].append(id)
        for spans, ids in by_places.items():
            excerpts = self.parsed.excerpts(spans)
            if any(not self._another(index.edits[id], part) for id in ids for _, part in excerpts):
                yield ids, excerpts

    @cached_property
    def _of_name(self) -> Callable[[int], Features]:
        return cache(lambda id: _name_features(self.parsed, self.parsed.by_edit[id]))

    def _another(self, edit: EditVersion, part: str) -> bool:
        """Whether a part of the query is surely about a longer name, or another time, person or case."""
        of_name, mentions = self._of_name(edit.id), self.parsed.by_edit[edit.id]
        no_name = all(map(self._is_word, mentions)) and (
            own_name(part) or mentions[0].name in QUESTION_WORDS
        )
        if no_name or (of_name["inside"] and of_name["continued"]):
            return True
        return about_another(part, edit.record, reverse=self.subjects is not None)

    def _is_word(self, mention: Mention) -> bool:
        """Whether the mention of a name that is also a common word seems to be that word, as in "Tell us"."""
        before, behind = (
            self.parsed.words.folded(at, at + 1) for at in (mention.begin - 1, mention.end)
        )
        named = before[0] in _BEFORE_NAMES if before else mention.name not in QUESTION_WORDS
        return mention.ambiguous and not (mention.cased or named or behind == ["s"])

    def found(
        self, edit: EditVersion, masked: str, part: str, margin: float, agreement: Agreement
    ) -> Found:
        """An edit, whose query with "it" for the subject is `masked`, with its features by the nearest part of ours."""
        mentions, record = self.parsed.by_edit[edit.id], edit.record
        if valued := asks_value(part, record):
            agreement = Agreement(near=1.0, same=1.0, relation=1.0, other=0.0, known=1.0)
        features = {
            "masked": agreement.near, "margin": margin, "same": log(_LEAST + agreement.same),
            "relation": agreement.relation, "other": agreement.other, "known": agreement.known,
            "said": 1.0 if valued else share_said(part, record), _ANOTHER: float(self._another(edit, part)),
            **relation_features(part, masked), **self._of_name(edit.id),
            **({} if self.subjects is None else object_features(part, mentions, self.subjects)),
        }  # fmt: skip
        return edit, mentions[0].name, features


def compared(readings: Sequence[Reading], index: EditIndex) -> list[Found]:
    """The edits whose subject, or whose object, is named, with features for `Calibrated.named`, by one pass."""
    found = (
        (n, ids, excerpts)
        for n, reading in enumerate(readings)
        for ids, excerpts in reading.groups(index)
    )
    kept, texts = affordable((group, [text for _, text in group[2]]) for group in found)
    if not kept:
        return []
    vectors, place = index.embed(texts, masked=True), {text: i for i, text in enumerate(texts)}
    groups: dict[tuple[int, Excerpts], list[int]] = defaultdict(
        list
    )  # by what to compare, which is of one subject
    for number, ids, excerpts in kept:
        groups[number, excerpts] += ids
    nearest: list[tuple[int, int, float, str]] = []
    for (number, excerpts), ids in groups.items():
        parts = _nearest_parts(index, ids, {part: vectors[place[part]] for _, part in excerpts})
        nearest += (
            (number, id, *parts[id])
            for id in nlargest(_COMPARED, parts, key=lambda id: (parts[id][0], -id))
        )
    agreeing = agreements(index, [id for _, id, _, _ in nearest], vectors)
    return [
        readings[number].found(
            index.edits[id], index.masked.texts[id][0], part, margin, agreeing[id][place[part]]
        )
        for number, id, margin, part in nearest
    ]


def _nearest_parts(
    index: EditIndex, ids: list[int], vectors: dict[str, FloatArray]
) -> dict[int, tuple[float, str]]:
    """For each edit of a subject: the margin of the nearest part of a query to the other edits, and the part.

    The margin is 0 for the nearest edit, else negative. Shadow edits do not count for that of an active one.
    """
    active = {id for id in ids if index.edits[id].record.status is Status.ACTIVE}
    best: dict[int, tuple[float, float, str]] = {}
    for part, vector in vectors.items():
        near = index.masked.closest(ids, vector)
        nearest, nearest_active = max(near.values()), max((near[id] for id in active), default=0.0)
        for id in ids:
            margin = near[id] - (nearest_active if id in active else nearest)
            best[id] = max(
                best.get(id, (-2.0, 0.0, "")),
                (near[id], margin, part),
                key=lambda row: row[0] + row[1],
            )
    return {id: (margin, part) for id, (_, margin, part) in best.items()}


def _name_features(parsed: ParsedQuery, mentions: Sequence[Mention]) -> dict[str, float]:
    """How doubtful it is that a query names the subject of an edit: what holds of all its mentions."""
    kinds = {mention.kind for mention in mentions}
    return {
        "continued": float(all(continued(parsed.words, mention.begin, mention.end) for mention in mentions)),
        "inside": float(all(m.inside for m in mentions)), "ambiguous": float(all(m.ambiguous for m in mentions)),
        "uncased": float(not any(m.cased for m in mentions)), "typo": float(kinds == {NameMatch.TYPO}),
        "partial": float(kinds <= {NameMatch.PARTIAL, NameMatch.LAST}), "last": float(kinds == {NameMatch.LAST}),
    }  # fmt: skip


def _unnamed(parsed: ParsedQuery, index: EditIndex) -> list[Found]:
    """The nearest edits whose subject is not named, with features for `Calibrated.unnamed`."""
    text = parsed.wholes(())[0]
    if not (
        sharing := index.sharing(text)
    ):  # as of most questions that concern no edit, which then need no vector
        return []
    [vector] = index.embed([text])
    asked, near, rows = set(words(text)), index.nearest(vector), list[Found]()
    for id in filter(sharing.__contains__, near):
        edit, record, cosine = index.edits[id], index.edits[id].record, near[id]
        rival = next(
            (near[other] for other in near if index.edits[other].record.subject != record.subject),
            0.0,
        )
        named = max(
            len(asked.intersection(name)) / max(1, len(name)) for name in map(words, record.names)
        )
        rows.append((edit, None, {"whole": cosine, "margin": cosine - rival, "named": named}))
    return rows
