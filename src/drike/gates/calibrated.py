"""`Calibrated`: the gate that decides by the probability that a query concerns an edit."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import exp

from drike.edits.record import EditVersion, Status
from drike.gates.chains import joined
from drike.gates.comparison import ANOTHER, CROWDED, ComparedEdit, Features, Reading, compared
from drike.gates.decision import EQUAL, Candidate, Decision, among_equals, leading
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery
from drike.gates.whole_subjects import whole_subjects
from drike.support.records import ADDED
from drike.text.relation_wordings import Relation
from drike.text.words import words

# Probability of the likeliest relation, below which the relation of a question is unknown.
_KNOWN_FROM = 0.2
# What stands in for a feature that only heads of earlier versions weigh: the cosine of whole texts.
_USUAL_VALUES = {"whole": 0.65}
# Edits of an index, below which the distances between the nearest do not say that one is meant.
MIN_SEMANTIC_TEXTS = 1000
_LEAST_LOGIT = -700  # below, the exponential overflows


@dataclass(frozen=True)
class LogisticHead:
    """A logistic model: weights of features by name, and the logit where all are 0."""

    weights: Mapping[str, float]
    bias: float

    def logit(self, features: Features) -> float:
        """The logarithm of the odds that the query concerns the edit."""
        return self.bias + sum(
            weight * features.get(name, _USUAL_VALUES.get(name, 0.0))
            for name, weight in self.weights.items()
        )


@dataclass(frozen=True)
class Calibrated:
    """Matches the edits that a query concerns with a probability of `threshold` or more.

    A query that names no subject may still concern an edit: if it equals one of the edit's texts
    or, in an index of `MIN_SEMANTIC_TEXTS` edits, if it is near one. A query that is a negative
    exemplar of an edit does not concern it, nor a less probable edit of the same subject.

    encoder: name of the encoder with which it was calibrated. named: head for a query that names
    the edit's subject or, if the head has a weight for "object", its new object. unnamed: head for
    a query that names neither. grey: probabilities [from, to) at which a language model may be
    asked, if the subject is named; where the relation that a question asks for is unknown, also
    lower ones for the nearest edit of a subject. shifts: what is added to the logit of single
    edits, by id. edits: how many the store had when it was calibrated; 0 for the default. settings:
    other thresholds, by name. relations: those through which it compares texts, beside the built-in
    ones. crowded: head for a query that names a subject with many edits; None for `named`.
    """

    encoder: str
    named: LogisticHead
    unnamed: LogisticHead
    threshold: float = 0.5
    grey: tuple[float, float] = (0.25, 0.8)
    shifts: Mapping[str, float] = field(default_factory=dict)
    edits: int = 0
    settings: Mapping[str, float] = field(default_factory=dict, metadata=ADDED)
    relations: tuple[Relation, ...] = field(default=(), metadata=ADDED)
    crowded: LogisticHead | None = field(default=None, metadata=ADDED)

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the edits that the query concerns, the most probable first.

        Raises ValueError for another encoder than that of the calibration.
        """
        self._require_encoder_of(index)
        parsed = ParsedQuery.of(query, index)
        candidates = self._candidates(parsed, index)
        if not candidates:
            return Decision(query)

        uncertain_ids = {c.edit.id for c in leading(candidates) if self._is_uncertain(c)}
        candidates = [replace(c, uncertain=c.edit.id in uncertain_ids) for c in candidates]
        matching = [c for c in candidates if c.probability >= self._threshold_for(c)]
        decision = Decision.of(query, candidates, matching, "no edit is probable enough")
        return whole_subjects(parsed, index, joined(decision, index, parsed=parsed))

    def candidates(self, query: str, index: EditIndex) -> list[Candidate]:
        """The edits that the query may concern with probabilities, the most probable first."""
        self._require_encoder_of(index)
        return self._candidates(ParsedQuery.of(query, index), index)

    def head_for(self, features: Features) -> LogisticHead:
        """The head by which a candidate with such features is judged."""
        if "masked" not in features:
            return self.unnamed
        if CROWDED in features and self.crowded is not None:
            return self.crowded
        return self.named

    def _require_encoder_of(self, index: EditIndex) -> None:
        encoder = index.require_encoder().name
        if encoder != self.encoder:
            raise ValueError(f"calibrated for {self.encoder}, not for {encoder}: calibrate again")

    def _threshold_for(self, candidate: Candidate) -> float:
        """Without a name it must be beyond doubt that the query concerns the edit."""
        if candidate.name is None:
            return max(self.threshold, self.grey[1])
        return self.threshold

    def _is_uncertain(self, candidate: Candidate) -> bool:
        """Whether a model may be asked; never about a negative exemplar, whose probability is 0."""
        low, high = self.grey
        if candidate.name is None or not 0 < candidate.probability < high:
            return False
        features = candidate.features
        relation_is_unknown = features.get("known", 1.0) < _KNOWN_FROM
        is_nearest = not features.get("margin") and "object" not in features
        return candidate.probability >= low or (relation_is_unknown and is_nearest)

    def _candidates(self, parsed: ParsedQuery, index: EditIndex) -> list[Candidate]:
        readings = [Reading(parsed)]
        if "object" in self.named.weights:
            readings.append(Reading(parsed.by_object(index), parsed.mentions))

        if any(reading.parsed.mentions for reading in readings):
            compared_edits = compared(readings, index)
        elif len(index.texts.edits) >= MIN_SEMANTIC_TEXTS:
            compared_edits = _nearest_unnamed(parsed, index)
        else:
            compared_edits = []
        candidates = {
            compared_edit.edit.id: self._candidate(compared_edit)
            for compared_edit in compared_edits
        }

        for edit_id in parsed.equal:
            candidate = candidates.get(edit_id, Candidate(index.edits[edit_id], 1.0))
            features = {**candidate.features, EQUAL: 1.0}
            candidates[edit_id] = replace(candidate, probability=1.0, features=features)

        return sorted(
            _with_excluded_at_zero(list(candidates.values()), parsed.negatives),
            key=_rank,
        )

    def _candidate(self, compared_edit: ComparedEdit) -> Candidate:
        return Candidate(
            compared_edit.edit,
            self._probability(compared_edit),
            compared_edit.name,
            compared_edit.features,
        )

    def _probability(self, compared_edit: ComparedEdit) -> float:
        if compared_edit.features.get(ANOTHER):
            return 0.0
        head = self.head_for(compared_edit.features)
        shift = self.shifts.get(str(compared_edit.edit.id), 0.0)
        logit = head.logit(compared_edit.features) + shift
        return 1 / (1 + exp(-logit)) if logit > _LEAST_LOGIT else 0.0


def _rank(candidate: Candidate) -> tuple[float, int, str, int]:
    return -round(candidate.probability, 6), *among_equals(candidate.edit)


def _with_excluded_at_zero(candidates: Sequence[Candidate], excluded: Set[int]) -> list[Candidate]:
    """The candidates, of which excluded edits have probability 0.

    Less probable edits of the same subject have it, too: they would only answer in their place.
    """
    excluded_probability: dict[str, float] = {}  # the largest, by subject
    for candidate in candidates:
        if candidate.edit.id in excluded and candidate.edit.record.status is Status.ACTIVE:
            subject = _subject(candidate)
            excluded_probability[subject] = max(
                candidate.probability, excluded_probability.get(subject, 0.0)
            )

    adjusted = []
    for candidate in candidates:
        in_place = candidate.probability < excluded_probability.get(_subject(candidate), 0.0)
        if in_place or candidate.edit.id in excluded:
            adjusted.append(replace(candidate, probability=0.0))
        else:
            adjusted.append(candidate)
    return adjusted


def _subject(candidate: Candidate) -> str:
    """The name by which the query names the subject, or else the subject's own."""
    return candidate.name or candidate.edit.record.subject


def _nearest_unnamed(parsed: ParsedQuery, index: EditIndex) -> list[ComparedEdit]:
    """The nearest edits whose subject is not named, with features for `Calibrated.unnamed`."""
    text = parsed.wholes(())[0]
    sharing = index.sharing(text)
    if not sharing:  # as of most questions that concern no edit, which then need no vector
        return []

    [vector] = index.embed([text])
    cosines_by_edit = index.nearest(vector)  # the largest first
    words_of_query = set(words(text))
    compared_edits = []
    for edit_id, cosine in cosines_by_edit.items():
        if edit_id not in sharing:
            continue
        edit = index.edits[edit_id]
        rivals = (
            rival_cosine
            for rival_id, rival_cosine in cosines_by_edit.items()
            if index.edits[rival_id].record.subject != edit.record.subject
        )
        features = {
            "whole": cosine,
            "margin": cosine - next(rivals, 0.0),
            "named": _share_of_name(edit, words_of_query),
        }
        compared_edits.append(ComparedEdit(edit, None, features))
    return compared_edits


def _share_of_name(edit: EditVersion, words_of_query: set[str]) -> float:
    """The largest share of the words of one of an edit's names that a query has."""
    shares = []
    for name in edit.record.names:
        words_of_name = words(name)
        shares.append(len(words_of_query.intersection(words_of_name)) / max(1, len(words_of_name)))
    return max(shares)
