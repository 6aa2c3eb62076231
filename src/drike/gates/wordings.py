"""What a question and an edit have in common, by the wordings that are near to the question.

What a question asks for shows in the wordings near it, those of the inventory of relations and
those of the store's edits. Two of these ask for the same where their edits have the same answers:
"It was written in" and "The original language of it is" both have French, Latin and Russian.

Names of arrays end with their axes: q questions, e edits, o wordings of these edits (those of one
edit stand together), w common wordings of the store, r relations of the inventory, d numbers of a
vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray
from drike.gates.inventory import Inventory, Probabilities, probabilities

# Chosen on public data (benchmarks/notes/gate.md).
_SHARPNESS = 10.0  # what a cosine of wordings is multiplied by
_UNKNOWN = 0.5  # the cosine of a relation which no wording has
_CLAIM_WIDTH = 0.1  # how fast a wording's claim to a question falls with the distance
_FEW = 2.0  # how many edits show as much as the words do
# Probability of a relation of the inventory from which on a wording may be of it.
_LEAST_RELATION = 0.1

_DECIMALS = 6  # of what is returned, so that it does not depend on which other edits there are

Array = NDArray[np.float64]


class Agreement(NamedTuple):
    """What a question has in common with an edit, by the wordings near it; each 1 at most.

    near: the cosine of the edit's nearest wording, or another's times how probably it asks for the
    same. same: how probably question and edit ask for the same. relation: how far their relations
    of the inventory agree (the Bhattacharyya coefficient). other: how nearly the question is a
    wording, of other edits or of a relation, that asks for something else. known: the probability
    of the likeliest relation of the question.
    """

    near: float
    same: float
    relation: float
    other: float
    known: float


@dataclass(frozen=True, eq=False)
class Worded:
    """A wording, with the answers of the edits that have it.

    vector: salient, of unit length [d]. edits: how many these are.
    """

    vector: FloatArray
    answers: Counter[str]
    edits: int

    @property
    def shares(self) -> Array:
        """Which share of the answers each is."""
        return np.array(list(self.answers.values()), float) / self.answers.total()


@dataclass(frozen=True, eq=False)
class _Questions:
    """Questions: vectors, cosines with common wordings and relations, probable relations."""

    vectors_qd: FloatArray
    cosines_qw: FloatArray
    cosines_qr: FloatArray
    relations_qr: Probabilities


@dataclass(frozen=True, eq=False)
class _Edits:
    """Edits: their wordings, from which on those of each stand, and what is probable by these.

    vectors_od, relations_or: of the wordings. starts_e: the place of each edit's first wording.
    has_ew: whether a common wording is one of the edit's. same_ew: how probably it asks for the
    same. relations_er: how probably a relation is that of the edit.
    """

    vectors_od: FloatArray
    relations_or: Probabilities
    starts_e: NDArray[np.int64]
    has_ew: NDArray[np.bool_]
    same_ew: Array
    relations_er: Probabilities


class Wordings:
    """The commonest wordings of a store, with what they have in common."""

    def __init__(self, wordings: Mapping[str, Worded], inventory: Inventory) -> None:
        self._inventory = inventory
        self._place = {text: place for place, text in enumerate(wordings)}
        self._vectors_wd = _stacked(wordings.values(), inventory.prototypes.shape[1])
        self._relation_roots_wr = np.sqrt(probabilities(inventory.nearness(self._vectors_wd)))
        self._edits_w = np.array([worded.edits for worded in wordings.values()], np.float64)
        self._answers = _AnswerShares(list(wordings.values()))
        self._same_of_common: dict[str, Array] = {}  # what `_same_w` gives for these wordings
        self._likely_relations: dict[str, tuple[str, ...]] = {}  # of wordings, as they are asked

    def agreements(
        self, edits: Mapping[int, Mapping[str, Worded]], vectors_qd: FloatArray
    ) -> dict[int, list[Agreement]]:
        """What each of some questions has in common with edits, by their ids.

        edits: the wordings of each. vectors_qd: the questions' salient unit vectors.
        """
        questions = self._questions(vectors_qd)
        compared = self._compared(edits)
        nearest_qe = np.maximum.reduceat(
            questions.vectors_qd @ compared.vectors_od.T, compared.starts_e, axis=1
        )
        known_q = questions.relations_qr.max(axis=1, initial=0.0)

        fields_qef = np.stack(
            [
                _near_qe(questions, compared, nearest_qe),
                self._same_qe(questions, compared, nearest_qe),
                _relation_qe(questions, compared),
                self._other_qe(questions, compared),
                np.broadcast_to(known_q[:, None], nearest_qe.shape),
            ],
            axis=2,
        )
        fields_eqf = fields_qef.transpose(1, 0, 2).astype(np.float64)
        rounded = np.round(fields_eqf, _DECIMALS).tolist()
        return {
            edit_id: [Agreement(*fields) for fields in fields_of_questions]
            for edit_id, fields_of_questions in zip(edits, rounded, strict=True)
        }

    def likely_relations(self, vectors: Mapping[str, FloatArray]) -> set[str]:
        """The names of the relations that wordings may be of, given the vectors of these [d]."""
        unread = [text for text in vectors if text not in self._likely_relations]
        if unread:
            vectors_od = np.stack([vectors[text] for text in unread])
            relations_or = probabilities(self._inventory.nearness(vectors_od))
            self._keep_likely_relations(unread, relations_or)
        return {name for text in vectors for name in self._likely_relations[text]}

    def _keep_likely_relations(self, texts: Sequence[str], relations_or: Probabilities) -> None:
        of_each: list[list[str]] = [[] for _ in texts]
        for place, relation in np.argwhere(relations_or >= _LEAST_RELATION).tolist():
            of_each[place].append(self._inventory.names[relation])
        self._likely_relations.update(zip(texts, map(tuple, of_each), strict=True))

    def _questions(self, vectors_qd: FloatArray) -> _Questions:
        cosines_qr = self._inventory.nearness(vectors_qd)
        return _Questions(
            vectors_qd, vectors_qd @ self._vectors_wd.T, cosines_qr, probabilities(cosines_qr)
        )

    def _compared(self, edits: Mapping[int, Mapping[str, Worded]]) -> _Edits:
        texts = [text for wordings in edits.values() for text in wordings]
        worded = [one for wordings in edits.values() for one in wordings.values()]
        counts = [len(wordings) for wordings in edits.values()]
        starts_e = np.cumsum([0, *counts])[:-1]

        vectors_od = np.stack([one.vector for one in worded])
        relations_or = probabilities(self._inventory.nearness(vectors_od))
        self._keep_likely_relations(texts, relations_or)
        same_ow = [
            self._same_w(text, one, relations_r)
            for text, one, relations_r in zip(texts, worded, relations_or, strict=True)
        ]

        has_ew = np.zeros((len(edits), len(self._place)), np.bool_)
        for has_w, wordings in zip(has_ew, edits.values(), strict=True):
            has_w[[self._place[text] for text in wordings if text in self._place]] = True
        return _Edits(
            vectors_od,
            relations_or,
            starts_e,
            has_ew,
            same_ew=np.maximum.reduceat(same_ow, starts_e),
            relations_er=np.maximum.reduceat(relations_or, starts_e),
        )

    def _same_qe(self, questions: _Questions, edits: _Edits, nearest_qe: FloatArray) -> Array:
        """How probably question and edit ask for the same.

        It is a mean over wordings and relations, weighted by nearness. The edit's own wordings
        count once, by the nearest. A relation that no wording has counts, too, and asks for
        something else.
        """
        # Powers of cosines, so not too large.
        weights_qw = np.exp(_SHARPNESS * questions.cosines_qw)
        weights_qr = np.exp(_SHARPNESS * questions.cosines_qr)
        weight_of_unknown = np.exp(_SHARPNESS * _UNKNOWN)
        weights_qe = np.exp(_SHARPNESS * nearest_qe)

        same_of_others_ew = np.where(edits.has_ew, 0.0, edits.same_ew)
        same_qe: Array = (
            weights_qw @ same_of_others_ew.T + weights_qr @ edits.relations_er.T + weights_qe
        )
        total_q = weights_qw.sum(axis=1) + weights_qr.sum(axis=1) + weight_of_unknown
        same_qe /= total_q[:, None] + weights_qe - weights_qw @ edits.has_ew.T
        return same_qe

    def _other_qe(self, questions: _Questions, edits: _Edits) -> Array:
        """How nearly the question is a wording or relation that asks for something else.

        A wording that few edits have claims little.
        """
        shown_w = self._edits_w / (self._edits_w + _FEW)
        claims_qw = np.exp((questions.cosines_qw - 1) / _CLAIM_WIDTH) * shown_w
        claims_qr = np.exp((questions.cosines_qr - 1) / _CLAIM_WIDTH)
        other_ew = np.where(edits.has_ew, 0.0, 1 - edits.same_ew)
        other_er = 1 - edits.relations_er
        return np.maximum(
            _largest_products(claims_qw, other_ew, least=0.0),
            _largest_products(claims_qr, other_er, least=0.0),
        )

    def _same_w(self, text: str, worded: Worded, relations_r: Probabilities) -> Array:
        """How probably each common wording asks for what this one does.

        By its answers, where enough edits show them, else by its relations.
        """
        if text in self._same_of_common:
            return self._same_of_common[text]

        by_answers_w = self._answers.shared_w(worded)
        by_relations_w = self._relation_roots_wr @ np.sqrt(relations_r)
        fewer_edits_w = np.minimum(self._edits_w, worded.edits)
        shown_w = fewer_edits_w / (fewer_edits_w + _FEW)
        same_w: Array = shown_w * by_answers_w + (1 - shown_w) * by_relations_w
        if text in self._place:
            return self._same_of_common.setdefault(text, same_w)
        return same_w


class _AnswerShares:
    """Of the answers of common wordings, which have each, and which share of their answers it is.

    What belongs to one answer stands together in `places` and `shares`, from `starts` on.
    """

    def __init__(self, wordings: list[Worded]) -> None:
        self._wordings = len(wordings)
        self._number: dict[str, int] = {}  # of an answer
        numbers: list[int] = []
        places: list[int] = []
        shares: list[float] = []
        for place, worded in enumerate(wordings):
            for answer in worded.answers:
                numbers.append(self._number.setdefault(answer, len(self._number)))
            places += [place] * len(worded.answers)
            shares += worded.shares.tolist()

        order = np.argsort(numbers, kind="stable")
        self._starts = np.searchsorted(np.sort(numbers), np.arange(len(self._number) + 1))
        self._places = np.array(places, int)[order]
        self._shares = np.array(shares, float)[order]

    def shared_w(self, worded: Worded) -> Array:
        """Which share of its answers each common wording has in common with a wording."""
        numbers = np.array([self._number.get(answer, -1) for answer in worded.answers], int)
        is_common = numbers >= 0
        numbers = numbers[is_common]
        shares = worded.shares[is_common]

        # All places of all its answers, one answer after the other.
        starts = self._starts[numbers]
        stops = self._starts[numbers + 1]
        lengths = stops - starts
        lengths_before = np.cumsum(lengths) - lengths
        at = np.arange(lengths.sum()) + np.repeat(starts - lengths_before, lengths)

        shares_of_own = np.repeat(shares, lengths)
        shares_of_both = np.minimum(self._shares[at], shares_of_own)
        shared_w = np.bincount(self._places[at], shares_of_both, self._wordings)
        return shared_w.astype(np.float64, copy=False)


def _near_qe(questions: _Questions, edits: _Edits, nearest_qe: FloatArray) -> Array:
    """The cosine of the edit's nearest wording, or another's times how alike they are.

    Two wordings are alike if they probably ask for the same.
    """
    return np.maximum(nearest_qe, _largest_products(questions.cosines_qw, edits.same_ew, least=-1))


def _relation_qe(questions: _Questions, edits: _Edits) -> FloatArray:
    """The Bhattacharyya coefficient of the relations, by the edit's best wording."""
    coefficients_qo = np.sqrt(questions.relations_qr) @ np.sqrt(edits.relations_or).T
    largest: FloatArray = np.maximum.reduceat(coefficients_qo, edits.starts_e, axis=1)
    return largest


def _largest_products(
    questions_qx: NDArray[np.floating], edits_ex: NDArray[np.floating], *, least: float
) -> list[NDArray[np.floating]]:
    """For each question and edit [q, e] the largest product over an axis, and `least` at least.

    Question by question, as [q, e, x] numbers at once would take much memory.
    """
    return [(question_x * edits_ex).max(axis=1, initial=least) for question_x in questions_qx]


def _stacked(wordings: Iterable[Worded], dim: int) -> FloatArray:
    vectors = [worded.vector for worded in wordings]
    return np.stack(vectors) if vectors else np.zeros((0, dim), np.float32)
