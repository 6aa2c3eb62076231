"""An inventory of relations, and which of them a text may be about.

It says how people, questions and databases put each relation. A text has a probability for each
relation, by its cosine similarity to the *prototypes*: the mean salient vectors
(`drike.encoders.base`) of a relation's questions, of its statements, and of its wordings in each
other language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray, TextEncoder, salient, unit
from drike.encoders.salience import salience_version
from drike.text.relation_wordings import Relation, built_in

# What a cosine is multiplied by; chosen on public data (benchmarks/notes/gate.md).
_SHARPNESS = 25.0

# Of the relations that come with drike, by the encoder that does.
_PROTOTYPES = resources.files("drike.gates") / "prototypes.npz"

Probabilities = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Inventory:
    """Relations with their prototypes.

    prototypes: unit vectors [p, d]. of: the place of the relation of each [p].
    """

    names: tuple[str, ...]
    prototypes: FloatArray
    of: NDArray[np.int64]

    @classmethod
    def encoded(cls, relations: Sequence[Relation], encoder: TextEncoder) -> Inventory:
        """The inventory of some relations, by an encoder."""
        places = []
        groups = []
        for place, relation in enumerate(relations):
            for group in relation.groups:
                places.append(place)
                groups.append(group)

        vectors = unit(salient(encoder).encode([text for group in groups for text in group]))
        means = []
        start = 0
        for group in groups:
            means.append(np.mean(list(vectors[start : start + len(group)]), axis=0))
            start += len(group)
        names = tuple(relation.name for relation in relations)
        return cls(names, unit(np.stack(means)), np.array(places))

    def nearness(self, vectors: FloatArray) -> FloatArray:
        """The largest cosines [n, relations] of texts and prototypes.

        vectors: of the texts, salient and of unit length [n, d].
        """
        if not self.names:
            return np.zeros((len(vectors), 0), np.float32)
        cosines = vectors @ self.prototypes.T
        largest: FloatArray = np.maximum.reduceat(cosines, self._first_prototypes, axis=1)
        return largest

    @cached_property
    def _first_prototypes(self) -> NDArray[np.int64]:
        """The place of the first prototype of each relation."""
        return np.flatnonzero(np.diff(self.of, prepend=-1))


def probabilities(nearness: FloatArray) -> Probabilities:
    """Of each of some relations, for texts that are so near to them [n, relations]."""
    largest = nearness.max(axis=1, keepdims=True, initial=-1)
    powers = np.exp(_SHARPNESS * (nearness - largest))
    total = np.maximum(powers.sum(axis=1, keepdims=True), 1e-9)
    probabilities_by_relation: Probabilities = powers / total
    return probabilities_by_relation


@dataclass(frozen=True, eq=False)
class WithRelations:
    """A text encoder that knows more relations."""

    encoder: TextEncoder
    relations: tuple[Relation, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)


@cache
def inventory(encoder: TextEncoder) -> Inventory:
    """The relations by an encoder; none by one without salient vectors.

    Raises UsageError, EncoderError.
    """
    if isinstance(encoder, WithRelations):
        built_in_ones = _of_built_in(encoder.encoder)
        more = Inventory.encoded(encoder.relations, encoder)
        return Inventory(
            names=(*built_in_ones.names, *more.names),
            prototypes=np.concatenate([built_in_ones.prototypes, more.prototypes]),
            of=np.concatenate([built_in_ones.of, more.of + len(built_in_ones.names)]),
        )
    if salient(encoder) is encoder:
        return Inventory((), np.zeros((0, encoder.dim), np.float32), np.zeros(0, np.int64))
    return _of_built_in(encoder)


@cache
def _of_built_in(encoder: TextEncoder) -> Inventory:
    """The relations that come with drike; read from a file for the encoder that does."""
    relations = built_in()
    with resources.as_file(_PROTOTYPES) as path, np.load(path, allow_pickle=False) as stored:
        if str(stored["key"]) == _key(relations, encoder):
            names = tuple(relation.name for relation in relations)
            return Inventory(names, stored["prototypes"].astype(np.float32), stored["of"])
    return Inventory.encoded(relations, encoder)


def _key(relations: Sequence[Relation], encoder: TextEncoder) -> str:
    """What the stored prototypes were made of: they are encoded again if any of it differs."""
    made_of = ([*relations], salience_version(), encoder.identity.get("sha256"))
    return sha256(repr(made_of).encode()).hexdigest()
