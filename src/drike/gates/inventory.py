"""An inventory of relations: how people, questions and databases put them, and which of them a text may be about.

A text has a probability for each relation, by its cosine similarity to the *prototypes*: the mean salient vectors
(`drike.encoders.base`) of a relation's questions, of its statements, and of its wordings in each other language.

What a question asks for shows in the wordings near it, those of the inventory and those of the store's edits. Two of
these ask for the same where their edits have the same answers: "It was written in" and "The original language of it
is" both have French, Latin and Russian.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, TextEncoder, salience_version, salient, unit
from drike.text.relation_wordings import Relation, built_in

MOST = 512  # wordings that stand for a store: those that most of its edits have
# Chosen on public data (benchmarks/notes/gate.md): what a cosine is multiplied by, of relations and of wordings; the
# cosine of a relation which no wording has; how fast a wording's claim to a question falls with the distance; how many
# edits show as much as the words do.
_OF_RELATIONS, _OF_WORDINGS, _UNKNOWN, _NEAR, _FEW = 25.0, 10.0, 0.5, 0.1, 2.0

# Of the relations that come with drike, by the encoder that does.
_PROTOTYPES = resources.files("drike.gates") / "prototypes.npz"

Probabilities = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Inventory:
    """Relations with their prototypes: unit vectors [p, d] and, for each, the place of its relation [p]."""

    names: tuple[str, ...]
    prototypes: FloatArray
    of: NDArray[np.int64]

    @classmethod
    def encoded(cls, relations: Sequence[Relation], encoder: TextEncoder) -> Inventory:
        """The inventory of some relations, by an encoder."""
        groups = [
            (place, group) for place, relation in enumerate(relations) for group in relation.groups
        ]
        rows = iter(unit(salient(encoder).encode([text for _, group in groups for text in group])))
        means = np.stack([np.mean([next(rows) for _ in group], axis=0) for _, group in groups])
        return cls(
            tuple(r.name for r in relations), unit(means), np.array([place for place, _ in groups])
        )

    def nearness(self, vectors: FloatArray) -> FloatArray:
        """The largest cosines [n, relations] of texts with these salient unit vectors [n, d] and prototypes."""
        if not self.names:
            return np.zeros((len(vectors), 0), np.float32)
        nearest: FloatArray = np.maximum.reduceat(vectors @ self.prototypes.T, self._firsts, axis=1)
        return nearest

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.diff(self.of, prepend=-1))


def probabilities(nearness: FloatArray) -> Probabilities:
    """Of each of some relations, for texts that are so near to them [n, relations]."""
    powers = np.exp(_OF_RELATIONS * (nearness - nearness.max(axis=1, keepdims=True, initial=-1)))
    found: Probabilities = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-9)
    return found


@dataclass(frozen=True, eq=False)
class WithRelations:
    """A text encoder that knows more relations."""

    encoder: TextEncoder
    relations: tuple[Relation, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)


@cache
def inventory(encoder: TextEncoder) -> Inventory:
    """The relations by an encoder; none by one without salient vectors. Raises UsageError, EncoderError."""
    if isinstance(encoder, WithRelations):
        known, more = _of_built_in(encoder.encoder), Inventory.encoded(encoder.relations, encoder)
        prototypes = np.concatenate([known.prototypes, more.prototypes])
        places = np.concatenate([known.of, more.of + len(known.names)])
        return Inventory((*known.names, *more.names), prototypes, places)
    if salient(encoder) is encoder:
        return Inventory((), np.zeros((0, encoder.dim), np.float32), np.zeros(0, np.int64))
    return _of_built_in(encoder)


@cache
def _of_built_in(encoder: TextEncoder) -> Inventory:
    relations = built_in()
    with resources.as_file(_PROTOTYPES) as path, np.load(path, allow_pickle=False) as stored:
        if str(stored["key"]) == _key(relations, encoder):
            names = tuple(relation.name for relation in relations)
            return Inventory(names, stored["prototypes"].astype(np.float32), stored["of"])
    return Inventory.encoded(relations, encoder)


def _key(relations: Sequence[Relation], encoder: TextEncoder) -> str:
    return sha256(
        repr(([*relations], salience_version(), encoder.identity.get("sha256"))).encode()
    ).hexdigest()


class Agreement(NamedTuple):
    """What a question has in common with an edit, by the wordings near it; each 1 at most."""

    near: float  # the cosine of the edit's nearest wording, or another's times how probably it asks for the same
    same: float  # how probably question and edit ask for the same
    relation: (
        float  # how far their relations of the inventory agree (the Bhattacharyya coefficient)
    )
    other: float  # how nearly the question is a wording, of other edits or of a relation, that asks for something else
    known: float  # the probability of the likeliest relation of the question


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
        self._vectors: FloatArray = (
            np.stack(rows) if rows else np.zeros((0, inventory.prototypes.shape[1]), np.float32)
        )
        self._relations = np.sqrt(probabilities(inventory.nearness(self._vectors)))
        self._edits = np.array([worded.edits for worded in wordings.values()], dtype=np.float64)
        self._number: dict[str, int] = {}  # of each answer
        numbers = [
            self._number.setdefault(a, len(self._number))
            for w in wordings.values()
            for a in w.answers
        ]
        by_answer = np.argsort(
            numbers, kind="stable"
        )  # whose places and shares stand together, from _starts on
        self._starts = np.searchsorted(np.sort(numbers), np.arange(len(self._number) + 1))
        counts = np.array([len(worded.answers) for worded in wordings.values()], int)
        self._places = np.repeat(np.arange(len(wordings)), counts)[by_answer]
        self._shares = np.concatenate([np.zeros(0), *map(_shares, wordings.values())])[by_answer]
        self._same_as: dict[
            str, NDArray[np.float64]
        ] = {}  # what `_same` gives for these wordings, once asked

    def agreements(
        self, edits: Mapping[int, Mapping[str, Worded]], vectors: FloatArray
    ) -> dict[int, list[Agreement]]:
        """What questions with these salient unit vectors [n, d] have in common with edits that have these wordings."""
        near, prototypes = vectors @ self._vectors.T, self.inventory.nearness(vectors)
        asked = probabilities(prototypes)
        roots = np.sqrt(asked)
        # Powers of cosines, so not too large.
        weights, further = np.exp(_OF_WORDINGS * near), np.exp(_OF_WORDINGS * prototypes)
        total = weights.sum(axis=1) + further.sum(axis=1) + np.exp(_OF_WORDINGS * _UNKNOWN)
        shown = self._edits / (self._edits + _FEW)
        claims, further_claims = (
            np.exp((near - 1) / _NEAR) * shown,
            np.exp((prototypes - 1) / _NEAR),
        )
        texts, worded = zip(
            *chain.from_iterable(wordings.items() for wordings in edits.values()), strict=True
        )
        starts = np.cumsum([0, *map(len, edits.values())])[
            :-1
        ]  # where the wordings of each edit begin
        own, own_places = (
            np.stack([wording.vector for wording in worded]),
            np.zeros((len(edits), len(shown)), np.bool_),
        )
        for row, wordings in zip(own_places, edits.values(), strict=True):
            row[[self._place[text] for text in wordings if text in self._place]] = True
        relations = probabilities(self.inventory.nearness(own))
        likely = np.maximum.reduceat(relations, starts)
        same = np.maximum.reduceat([*map(self._same, texts, worded, relations)], starts)
        nearest = np.maximum.reduceat(
            vectors @ own.T, starts, axis=1
        )  # [questions, edits], as what follows
        itself = np.exp(_OF_WORDINGS * nearest)
        # The edit's own wordings count once, by the nearest.
        expected = weights @ np.where(own_places, 0.0, same).T + further @ likely.T + itself
        expected /= total[:, None] + itself - weights @ own_places.T
        alike = np.maximum(nearest, [(row * same).max(axis=1, initial=-1) for row in near])
        others, unlike = np.where(own_places, 0.0, 1 - same), 1 - likely
        claimed = [(row * others).max(axis=1, initial=0.0) for row in claims]
        taken = np.maximum(
            claimed, [(row * unlike).max(axis=1, initial=0.0) for row in further_claims]
        )
        overlap = np.maximum.reduceat(roots @ np.sqrt(relations).T, starts, axis=1)
        known = np.broadcast_to(asked.max(axis=1, initial=0.0)[:, None], nearest.shape)
        rows = np.stack([alike, expected, overlap, taken, known], axis=2).transpose(1, 0, 2)
        rounded = np.round(
            rows.astype(np.float64), 6
        ).tolist()  # so that they depend on no other edits
        return {
            id: [Agreement(*row) for row in of_edit]
            for id, of_edit in zip(edits, rounded, strict=True)
        }

    def _same(self, text: str, worded: Worded, relations: Probabilities) -> NDArray[np.float64]:
        """How probably each common wording asks for what this one does: by answers, where enough edits show them."""
        if text in self._same_as:
            return self._same_as[text]
        numbers = np.array([self._number.get(answer, -1) for answer in worded.answers], int)
        numbers, shares = numbers[numbers >= 0], _shares(worded)[numbers >= 0]
        lengths = self._starts[numbers + 1] - self._starts[numbers]
        ends = np.cumsum(lengths)
        at = np.arange(lengths.sum()) + np.repeat(self._starts[numbers] - ends + lengths, lengths)
        both = np.minimum(self._shares[at], np.repeat(shares, lengths))
        shared = np.bincount(self._places[at], both, len(self._edits))
        fewer = np.minimum(self._edits, worded.edits)
        shown = fewer / (fewer + _FEW)
        same: NDArray[np.float64] = shown * shared + (1 - shown) * (
            self._relations @ np.sqrt(relations)
        )
        return self._same_as.setdefault(text, same) if text in self._place else same


def _shares(worded: Worded) -> NDArray[np.float64]:
    """Which share of the answers each is."""
    return np.array(list(worded.answers.values()), float) / worded.answers.total()
