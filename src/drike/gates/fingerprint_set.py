"""A sorted set of fingerprints, in which those of a whole text are looked up at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drike.text.fingerprints import Fingerprints, contains
from drike.text.words import Places

Flags = NDArray[np.bool_]

_MANY = 4_096  # fingerprints for which tables pay
_BLOCK = 1 << 15  # fingerprints at once, so that the arrays stay in a processor's cache


@dataclass(frozen=True, eq=False)
class _PrefixTable:
    """Something about the fingerprints that begin with some bits, by the number that these make.

    Signed numbers, as which prefixes are taken, are looked up in half the time of unsigned ones.
    """

    unseen_bits: np.uint64  # of a fingerprint, behind its prefix
    values: NDArray[np.generic]

    def take(self, fingerprints: Fingerprints) -> NDArray[np.generic]:
        prefixes = (fingerprints >> self.unseen_bits).view(np.int64)
        return self.values.take(prefixes)


@dataclass(frozen=True, eq=False)
class FingerprintSet:
    """Fingerprints, sorted.

    They are spread evenly, so that a prefix says about where one stands.
    """

    sorted: Fingerprints = field(default_factory=lambda: np.zeros(0, np.uint64))

    def replace(self, *, gone: Iterable[int], new: Iterable[int]) -> FingerprintSet:
        """A copy without some, which are in it, and with others, which are not."""
        gone_sorted = np.array(sorted(gone), np.uint64)
        rest = np.delete(self.sorted, np.searchsorted(self.sorted, gone_sorted))
        new_sorted = np.array(sorted(new), np.uint64)
        return FingerprintSet(np.insert(rest, np.searchsorted(rest, new_sorted), new_sorted))

    def may_have(self, wanted: Fingerprints, kind: int = 0) -> Flags:
        """Which of the wanted ones are here, and a few others.

        kind: is combined with each, by exclusive or.
        """
        of_kind = np.uint64(kind)
        if len(wanted) < _MANY:
            return contains(self.sorted, wanted ^ of_kind)

        flags = np.empty(len(wanted), np.bool_)
        for start in range(0, len(wanted), _BLOCK):
            block = slice(start, start + _BLOCK)
            flags[block] = self._is_taken.take(wanted[block] ^ of_kind)
        return flags

    def find(self, wanted: Fingerprints, kind: int = 0) -> tuple[Places, Places]:
        """Which wanted fingerprints the set has: their places among the wanted, and in the set.

        kind: as for `may_have`.
        """
        wanted_places = np.flatnonzero(self.may_have(wanted, kind))
        wanted = wanted[wanted_places] ^ np.uint64(kind)
        if len(wanted) < _MANY:
            is_here = contains(self.sorted, wanted)
            return wanted_places[is_here], np.searchsorted(self.sorted, wanted[is_here])

        # From the first one with the same prefix on until none is smaller: two steps or so.
        places = self._first_places.take(wanted).astype(np.int64, copy=False)
        last = len(self.sorted) - 1
        is_smaller = self.sorted.take(places) < wanted
        smaller = np.flatnonzero(is_smaller & (places < last))
        while len(smaller):
            places[smaller] += 1
            next_places = places[smaller]
            is_smaller = self.sorted[next_places] < wanted[smaller]
            smaller = smaller[is_smaller & (next_places < last)]

        is_here = self.sorted.take(places) == wanted
        return wanted_places[is_here], places[is_here]

    @cached_property
    def _is_taken(self) -> _PrefixTable:
        """Whether a fingerprint begins so: of long prefixes, of which few are taken."""
        bits = self._prefix_bits(more=4)
        unseen_bits = np.uint64(64 - bits)
        is_taken = np.zeros(1 << bits, np.bool_)
        is_taken[self.sorted >> unseen_bits] = True
        return _PrefixTable(unseen_bits, is_taken)

    @cached_property
    def _first_places(self) -> _PrefixTable:
        """The place of the first fingerprint that begins so or is larger: of shorter prefixes."""
        bits = self._prefix_bits()
        unseen_bits = np.uint64(64 - bits)
        prefixes = (self.sorted >> unseen_bits).astype(np.int64)
        counts = np.bincount(prefixes, minlength=1 << bits)
        return _PrefixTable(unseen_bits, np.cumsum(counts) - counts)

    def _prefix_bits(self, more: int = 0) -> int:
        """How many bits give each fingerprint about one prefix. more: bits beyond that."""
        return min(24, max(10, len(self.sorted).bit_length() + more))
