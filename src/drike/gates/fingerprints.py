"""A set of fingerprints in which many are looked up at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drike.words import MODULUS, Fingerprints, Places, contains

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
        shift, is_taken = self._taken
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
        shift, firsts, values = self._firsts
        at = firsts[wanted >> shift]
        left = np.flatnonzero(values[at] < wanted)
        while len(left):
            at[left] += 1
            left = left[values[at[left]] < wanted[left]]
        is_here = values[at] == wanted
        return places[is_here], at[is_here]

    def distinct(self, places: Places) -> Places:
        """Places here, each once."""
        if len(places) < _MANY:
            return np.unique(places)
        is_among = np.zeros(len(self.sorted), np.bool_)
        is_among[places] = True
        return np.flatnonzero(is_among)

    @cached_property
    def _taken(self) -> tuple[np.uint64, Flags]:
        """Whether a fingerprint begins with some bits, and how many bits are not looked at."""
        shift, size = self._shift(4, 10, 24)
        table = np.zeros(size, np.bool_)
        table[self.sorted >> shift] = True
        return shift, table

    @cached_property
    def _firsts(self) -> tuple[np.uint64, Places, Fingerprints]:
        """Where the first one is that begins with some bits or more, for each; and all, with a last one behind them."""
        shift, size = self._shift(0, 10, 24)
        counts = np.bincount((self.sorted >> shift).astype(np.int64), minlength=size)
        return shift, np.cumsum(counts) - counts, np.append(self.sorted, np.uint64(MODULUS - 1))

    def _shift(self, more: int, least: int, most: int) -> tuple[np.uint64, int]:
        bits = min(most, max(least, len(self.sorted).bit_length() + more))
        return np.uint64(64 - bits), 1 << bits
