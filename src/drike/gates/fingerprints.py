"""A set of fingerprints in which many are looked up at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drike.words import Fingerprints, Places, contains

Flags = NDArray[np.bool_]

_MANY = 4_096  # fingerprints for which tables pay
_BLOCK = 1 << 15  # fingerprints at once, so that the arrays stay in a processor's cache


@dataclass(frozen=True, eq=False)
class FingerprintSet:
    """Fingerprints, sorted. They are spread evenly, so that the first bits of one say about where it is."""

    sorted: Fingerprints = field(default_factory=lambda: np.zeros(0, np.uint64))

    def changed(self, lost: Iterable[int], won: Iterable[int]) -> FingerprintSet:
        """A copy without some, which are in it, and with others, which are not."""
        without = np.delete(self.sorted, np.searchsorted(self.sorted, np.array(sorted(lost), np.uint64)))
        more = np.array(sorted(won), np.uint64)
        return FingerprintSet(np.insert(without, np.searchsorted(without, more), more))

    def may_have(self, wanted: Fingerprints, kind: int = 0) -> Flags:
        """Which of the wanted ones are here, and a few others. kind: is combined with each, by exclusive or."""
        if len(wanted) < _MANY:
            return contains(self.sorted, wanted ^ np.uint64(kind))
        shift, is_taken, _, _ = self._tables
        found = np.empty(len(wanted), np.bool_)
        for at in range(0, len(found), _BLOCK):
            found[at : at + _BLOCK] = is_taken[(wanted[at : at + _BLOCK] ^ np.uint64(kind)) >> shift]
        return found

    def find(self, wanted: Fingerprints, kind: int = 0) -> tuple[Places, Places]:
        """The places of those of the wanted ones that are here, and their places here. kind: as for `may_have`."""
        places = np.flatnonzero(self.may_have(wanted, kind))
        wanted = wanted[places] ^ np.uint64(kind)
        if len(wanted) < _MANY:
            is_here = contains(self.sorted, wanted)
            return places[is_here], np.searchsorted(self.sorted, wanted[is_here])
        _, _, shift, firsts = self._tables
        at, last = firsts[wanted >> shift], len(self.sorted) - 1
        left = np.flatnonzero((at < last) & (self.sorted[at] < wanted))
        while len(left):
            at[left] += 1
            left = left[(at[left] < last) & (self.sorted[at[left]] < wanted[left])]
        is_here = self.sorted[at] == wanted
        return places[is_here], at[is_here]

    @cached_property
    def _tables(self) -> tuple[np.uint64, Flags, np.uint64, Places]:
        """Whether one begins with some bits, for each; where the first begins so or is larger, for fewer bits.

        Before each table stands how many bits it does not look at.
        """
        size = len(self.sorted).bit_length()
        many, few = (min(24, max(10, size + more)) for more in (4, 0))
        unseen, unseen_here = np.uint64(64 - many), np.uint64(64 - few)
        is_taken = np.zeros(1 << many, np.bool_)
        is_taken[self.sorted >> unseen] = True
        counts = np.bincount((self.sorted >> unseen_here).astype(np.int64), minlength=1 << few)
        return unseen, is_taken, unseen_here, np.cumsum(counts) - counts
