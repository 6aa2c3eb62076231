"""What an index is made of: immutable collections of which a copy with a few changes is made in little time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drike.encoders.base import FloatArray
from drike.text.words import Fingerprints, Places, contains

Key = TypeVar("Key")
Value = TypeVar("Value")
Flags = NDArray[np.bool_]

_PART = 16  # changes are merged into a new base when they are more than this part of it
_ROUNDING = 1e-5  # more than what the order of sums changes in a cosine of single precision
_MANY = 4_096  # fingerprints for which tables pay
_BLOCK = 1 << 15  # fingerprints at once, so that the arrays stay in a processor's cache


class OverlayDict(Mapping[Key, Value]):
    """A dictionary without None among its values.

    base: shared by copies until much has changed. changes: the values that differ from it; None for a key that is gone.
    """

    def __init__(
        self,
        base: Mapping[Key, Value] | None = None,
        changes: Mapping[Key, Value | None] | None = None,
    ):
        self.base: Mapping[Key, Value] = {} if base is None else base
        self.changes: Mapping[Key, Value | None] = {} if changes is None else changes

    def changed(self, changes: Mapping[Key, Value | None]) -> OverlayDict[Key, Value]:
        """A copy with these values; None removes a key."""
        changes = {**self.changes, **changes}
        if len(changes) * _PART <= len(self.base):
            return OverlayDict(self.base, changes)
        return OverlayDict(
            {key: value for key, value in {**self.base, **changes}.items() if value is not None}
        )

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        value = self.changes[key] if key in self.changes else self.base.get(key)
        return default if value is None else value

    def __getitem__(self, key: Key) -> Value:
        if (value := self.get(key)) is None:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Key]:
        yield from (key for key in self.base if key not in self.changes)
        yield from (key for key, value in self.changes.items() if value is not None)

    def __len__(self) -> int:
        return len(self.base) + sum(
            (value is not None) - (key in self.base) for key, value in self.changes.items()
        )


def regrouped(
    groups: OverlayDict[Key, tuple[Any, ...]],
    gone: Collection[tuple[Any, Iterable[Key]]],
    new: Collection[tuple[Any, Iterable[Key]]],
) -> OverlayDict[Key, tuple[Any, ...]]:
    """Groups by key, without some members and with others, each given with its keys; members are sorted."""
    leaving, joining = _grouped(gone), _grouped(new)
    if not groups and not gone:
        return OverlayDict(joining)
    changes: dict[Key, tuple[Any, ...] | None] = {}
    for key in {**leaving, **joining}:
        members = {*groups.get(key, ())}.difference(leaving.get(key, ())).union(
            joining.get(key, ())
        )
        changes[key] = tuple(sorted(members)) or None
    return groups.changed(changes)


def _grouped(members: Iterable[tuple[Any, Iterable[Key]]]) -> dict[Key, tuple[Any, ...]]:
    """The members of each key, sorted. Most keys have one member, and share its tuple: there are many of them."""
    groups: dict[Key, tuple[Any, ...]] = {}
    further: dict[Key, list[Any]] = defaultdict(list)
    for member, keys in members:
        alone = (member,)
        for key in keys:
            if groups.setdefault(key, alone) is not alone:
                further[key].append(member)
    for key, others in further.items():
        groups[key] = tuple(sorted((*groups[key], *others)))
    return groups


@dataclass(frozen=True, eq=False)
class FingerprintSet:
    """Fingerprints, sorted. They are spread evenly, so that the first bits of one say about where it is."""

    sorted: Fingerprints = field(default_factory=lambda: np.zeros(0, np.uint64))

    def changed(self, lost: Iterable[int], won: Iterable[int]) -> FingerprintSet:
        """A copy without some, which are in it, and with others, which are not."""
        without = np.delete(
            self.sorted, np.searchsorted(self.sorted, np.array(sorted(lost), np.uint64))
        )
        more = np.array(sorted(won), np.uint64)
        return FingerprintSet(np.insert(without, np.searchsorted(without, more), more))

    def may_have(self, wanted: Fingerprints, kind: int = 0) -> Flags:
        """Which of the wanted ones are here, and a few others. kind: is combined with each, by exclusive or."""
        if len(wanted) < _MANY:
            return contains(self.sorted, wanted ^ np.uint64(kind))
        (shift, is_taken, _, _), of_kind = self._tables, np.uint64(kind)
        found = np.empty(len(wanted), np.bool_)
        for at in range(0, len(found), _BLOCK):
            found[at : at + _BLOCK] = is_taken.take(
                ((wanted[at : at + _BLOCK] ^ of_kind) >> shift).view(np.int64)
            )
        return found

    def find(self, wanted: Fingerprints, kind: int = 0) -> tuple[Places, Places]:
        """The places of those of the wanted ones that are here, and their places here. kind: as for `may_have`."""
        places = np.flatnonzero(self.may_have(wanted, kind))
        wanted = wanted[places] ^ np.uint64(kind)
        if len(wanted) < _MANY:
            is_here = contains(self.sorted, wanted)
            return places[is_here], np.searchsorted(self.sorted, wanted[is_here])
        _, _, shift, firsts = self._tables
        at, last = firsts.take((wanted >> shift).view(np.int64)), len(self.sorted) - 1
        left = np.flatnonzero((at < last) & (self.sorted.take(at) < wanted))
        while len(left):
            at[left] += 1
            left = left[(at[left] < last) & (self.sorted[at[left]] < wanted[left])]
        is_here = self.sorted.take(at) == wanted
        return places[is_here], at[is_here]

    @cached_property
    def _tables(self) -> tuple[np.uint64, Flags, np.uint64, Places]:
        """Whether one begins with some bits, for each; where the first begins so or is larger, for fewer bits.

        Before each table stands how many bits it does not look at. Signed places are found in half the time.
        """
        many, few = (min(24, max(10, len(self.sorted).bit_length() + more)) for more in (4, 0))
        unseen, unseen_here = np.uint64(64 - many), np.uint64(64 - few)
        is_taken = np.zeros(1 << many, np.bool_)
        is_taken[self.sorted >> unseen] = True
        counts = np.bincount((self.sorted >> unseen_here).astype(np.int64), minlength=1 << few)
        return unseen, is_taken, unseen_here, np.cumsum(counts) - counts


@dataclass(frozen=True, eq=False)
class TextVectors:
    """Texts by edit, with their edits and a unit vector [d] each. rows: those of `matrix` [n, d], in `vectors.base`."""

    texts: OverlayDict[int, tuple[str, ...]] = field(default_factory=OverlayDict)
    edits: OverlayDict[str, tuple[int, ...]] = field(default_factory=OverlayDict)
    vectors: OverlayDict[str, FloatArray] = field(default_factory=OverlayDict)
    rows: Sequence[str] = ()
    matrix: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def changed(
        self,
        gone: Collection[int],
        new: Mapping[int, tuple[str, ...]],
        known: Mapping[str, FloatArray],
    ) -> TextVectors:
        """A copy without the texts of some edits and with those of others, by id. known: vectors of these."""
        old = {id: self.texts[id] for id in gone}
        texts = self.texts.changed({**dict.fromkeys(gone), **new})
        edits = regrouped(self.edits, old.items(), new.items())
        dropped = {text: None for own in old.values() for text in own if text not in edits}
        added = {
            text: known[text] for own in new.values() for text in own if text not in self.vectors
        }
        vectors = self.vectors.changed({**dropped, **added})
        if vectors.base is self.vectors.base:
            return TextVectors(texts, edits, vectors, self.rows, self.matrix)
        rows = tuple(vectors.base)
        matrix = np.stack(list(vectors.base.values())) if rows else np.zeros((0, 0), np.float32)
        return TextVectors(
            texts, edits, OverlayDict(dict(zip(rows, matrix, strict=True))), rows, matrix
        )

    def closest(self, ids: Iterable[int], vector: FloatArray) -> dict[int, float]:
        """For each edit the largest cosine of a unit vector [d] and those of its texts."""
        texts = {id: self.texts[id] for id in ids}
        cosines = self._cosines(
            dict.fromkeys(text for own in texts.values() for text in own), vector
        )
        return {id: max(map(cosines.__getitem__, own)) for id, own in texts.items()}

    def nearest(self, vector: FloatArray, count: int) -> dict[str, float]:
        """The `count` texts with the largest cosines, and those that tie with the last of them, the largest first."""
        changes = self.vectors.changes
        rows: Iterable[int] = range(len(self.rows))
        if len(self.rows) > (enough := count + len(changes)):  # some of them may be gone
            near = self.matrix @ vector
            rows = np.flatnonzero(near >= np.partition(near, -enough)[-enough] - _ROUNDING)
        current = [text for row in rows if (text := self.rows[row]) not in changes]
        cosines = self._cosines(
            [*current, *(text for text, of in changes.items() if of is not None)], vector
        )
        ranked = sorted(cosines, key=lambda text: (-cosines[text], text))
        last = cosines[ranked[:count][-1]] if ranked else 0.0
        return {text: cosines[text] for text in ranked if cosines[text] >= last}

    def _cosines(self, texts: Iterable[str], vector: FloatArray) -> dict[str, float]:
        """Rounded to six decimals, so that they do not depend on which other texts there are."""
        if not (texts := list(texts)):
            return {}
        stacked = np.stack([self.vectors[text] for text in texts]).astype(np.float64)
        return dict(zip(texts, np.round(stacked @ vector, 6).tolist(), strict=True))
