"""The wordings of a store's edits, and which of them ask for the same thing: by their words and by their answers.

A question may be put as no edit's text is. What it asks for shows in the wordings near it, those that other edits have
and those of the inventory (`drike.gates.inventory`). Two wordings of a store ask for the same where their edits have
the same answers: "It was written in" and "The original language of it is" both have French, Latin and Russian.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray
from drike.gates.inventory import Inventory, Probabilities, probabilities

MOST = 512  # wordings that stand for a store: those that most of its edits have

# Chosen on public data (docs/results/gate.md): what a cosine is multiplied by; that of a relation which no wording has;
# how fast a wording's claim to a question falls with the distance; how many edits show as much as the words do.
_SHARPNESS, _UNKNOWN, _NEAR, _FEW = 10.0, 0.5, 0.1, 2.0


class Agreement(NamedTuple):
    """What a question has in common with an edit, by the wordings near it; each 1 at most.

    near: the cosine of the nearest wording of the edit, or that of another one times how probably it asks for the same.
    same: how probably question and edit do. relation: how far their relations of the inventory agree (the Bhattacharyya
    coefficient). other: how nearly the question is a wording, of other edits or of a relation, that asks for something
    else. known: the probability of the likeliest relation of the question.
    """

    near: float
    same: float
    relation: float
    other: float
    known: float


@dataclass(frozen=True, eq=False)
class Worded:
    """A wording: its salient unit vector [d], the answers of the edits that have it, and how many these are."""

    vector: FloatArray
    answers: Counter[str]
    edits: int


class Wordings:
    """The commonest wordings of a store, with what they have in common."""

    def __init__(self, wordings: Mapping[str, Worded], inventory: Inventory) -> None:
        self.inventory = inventory
        self._place = {text: i for i, text in enumerate(wordings)}
        rows = [worded.vector for worded in wordings.values()]
        self._vectors: FloatArray = np.stack(rows) if rows else np.zeros((0, inventory.prototypes.shape[1]), np.float32)
        self._relations = np.sqrt(probabilities(inventory.nearness(self._vectors)))
        self._edits = np.array([worded.edits for worded in wordings.values()], dtype=np.float64)
        shares: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for i, worded in enumerate(wordings.values()):
            for answer, share in _shares(worded.answers):
                shares[answer].append((i, share))
        self._answers = {answer: tuple(map(np.array, zip(*found, strict=True))) for answer, found in shares.items()}

    def agreements(self, edits: Mapping[int, Mapping[str, Worded]], vectors: FloatArray) -> dict[int, list[Agreement]]:
        """What questions with these salient unit vectors [n, d] have in common with edits that have these wordings."""
        near, prototypes = vectors @ self._vectors.T, self.inventory.nearness(vectors)
        asked = probabilities(prototypes)
        roots, known = np.sqrt(asked), asked.max(axis=1, initial=0.0)
        weights, further = np.exp(_SHARPNESS * near), np.exp(_SHARPNESS * prototypes)  # of cosines, so not too large
        total = weights.sum(axis=1) + further.sum(axis=1) + np.exp(_SHARPNESS * _UNKNOWN)
        shown = self._edits / (self._edits + _FEW)
        claims, further_claims = np.exp((near - 1) / _NEAR) * shown, np.exp((prototypes - 1) / _NEAR)
        found = {}
        for id, wordings in edits.items():
            own = np.stack([worded.vector for worded in wordings.values()])
            relations = probabilities(self.inventory.nearness(own))
            same = np.max([self._same(w, r) for w, r in zip(wordings.values(), relations, strict=True)], axis=0)
            likely, places = relations.max(axis=0), [self._place[text] for text in wordings if text in self._place]
            nearest = (vectors @ own.T).max(axis=1)
            itself, others = np.exp(_SHARPNESS * nearest), same.copy()
            others[places] = 0.0  # the edit's own wordings count once, by the nearest
            expected = weights @ others + further @ likely + itself
            expected /= total + itself - weights[:, places].sum(axis=1)
            others = 1 - same
            others[places] = 0.0
            taken = np.maximum((claims * others).max(axis=1, initial=0.0), _largest(further_claims * (1 - likely)))
            alike = np.maximum(nearest, (near * same).max(axis=1, initial=-1))
            columns = (alike, expected, _largest(roots @ np.sqrt(relations).T), taken, known)
            found[id] = [Agreement(*map(float, row)) for row in zip(*columns, strict=True)]
        return found

    def _same(self, worded: Worded, relations: Probabilities) -> NDArray[np.float64]:
        """How probably each common wording asks for what this one does: by answers, where enough edits show them."""
        shared = np.zeros(len(self._edits))
        for answer, share in _shares(worded.answers):
            places, shares = self._answers.get(answer, (np.zeros(0, int), np.zeros(0)))
            shared[places] += np.minimum(shares, share)
        fewer = np.minimum(self._edits, worded.edits)
        shown = fewer / (fewer + _FEW)
        same: NDArray[np.float64] = shown * shared + (1 - shown) * (self._relations @ np.sqrt(relations))
        return same


def _largest(rows: NDArray[Any]) -> NDArray[Any]:
    largest: NDArray[Any] = rows.max(axis=1, initial=0.0)
    return largest


def _shares(answers: Counter[str]) -> Sequence[tuple[str, float]]:
    total = answers.total()
    return [(answer, count / total) for answer, count in answers.items()]
